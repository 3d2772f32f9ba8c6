"""Reads of claims that were published: which topics, which offsets, which items."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dueledger.ledger.claim_id import first_and_last
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


class PublishedClaim(NamedTuple):
    """A claim that was made for Kafka. Without `base_offset` its acknowledgement was not marked."""

    fence: int
    claimed_at: datetime
    topic: str
    partition: int
    size: int
    base_offset: int | None
    published_at: datetime | None


async def list_work_topics(connection: Connection, claimed_since: datetime) -> list[Record]:
    """List topic, tenant and kind of each kind; topics of claims made since then have neither."""
    return await connection.fetch(statement("list_work_topics"), claimed_since)


async def list_published_claims(
    connection: Connection,
    after_fence: int,
    claimed_since: datetime,
    closed_until: datetime,
    page_size: int,
) -> list[PublishedClaim]:
    """List claims whose records Kafka must have had, made since an instant, by ascending fence.

    Those that Kafka acknowledged, and those that workers started and that were over at an instant.
    """
    rows = await connection.fetch(
        statement("list_published_claims"), after_fence, claimed_since, closed_until, page_size
    )
    return [PublishedClaim(*row) for row in rows]


async def find_published_claims(
    connection: Connection, named: Sequence[tuple[int, datetime]]
) -> dict[int, PublishedClaim]:
    """Return the claims of fences that were made between the least and the greatest time given."""
    bounds = first_and_last(claimed_at for _, claimed_at in named)
    rows = await connection.fetch(
        statement("find_published_claims"), sorted({fence for fence, _ in named}), *bounds
    )
    return {row["fence"]: PublishedClaim(*row) for row in rows}


class ClaimDigest(NamedTuple):
    """How many items of a claim exist, and the SHA-256 of their ids in order.

    `has_token`: the token that was given is the claim's own.
    """

    item_count: int = 0
    digest: bytes = b""
    has_token: bool = True


async def digest_claims(
    connection: Connection, claims: Sequence[PublishedClaim], tokens: Sequence[str]
) -> dict[int, ClaimDigest]:
    """Return the digests of claims by fence; each token is that of a claim's records."""
    rows = await connection.fetch(
        statement("digest_claims"),
        [claim.fence for claim in claims],
        [claim.claimed_at for claim in claims],
        *first_and_last(claim.claimed_at for claim in claims),
        tokens,
    )
    return {
        row["fence"]: ClaimDigest(row["item_count"], row["digest"] or b"", row["has_token"])
        for row in rows
    }


async def list_claim_items(connection: Connection, claim: PublishedClaim) -> list[Record]:
    """List position, item_no, effective_date and id of a claim's items; None: no such item."""
    return await connection.fetch(statement("list_claim_items"), claim.fence, claim.claimed_at)
