"""What the ledger knows of topics and their partitions: what lies there, deadlines, stalls."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dueledger.ledger.claim_id import ClaimId, first_and_last
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class StalledPartition(NamedTuple):
    """A partition with which a worker has got no further for `stalled_seconds`.

    `next_offset` is the offset that it begins or reads next; None if it does not know yet.
    """

    topic: str
    partition: int
    next_offset: int | None
    waits_for_handlers: bool
    stalled_seconds: float


async def list_topics(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """List the topics of kinds that are not direct, those with the most items first.

    `items` lie in it and were not started; `workers` read it and want `granted` items;
    `unavailable`: why nothing can be published to it.
    """
    return [dict(row) for row in await connection.fetch(statement("list_topics"), limit)]


async def list_topic_partitions(
    connection: Connection, topic: str, limit: int
) -> list[dict[str, Any]]:
    """List the partitions of a topic that have items which were not started, or do not get further.

    Of the first of these items `next_offset` is the offset, and `end_offset` follows the last.
    """
    rows = await connection.fetch(statement("list_topic_partitions"), topic, limit)
    return [dict(row) for row in rows]


async def list_queue_deadlines(connection: Connection, topics: Sequence[str]) -> dict[str, int]:
    """Return the shortest queue deadline of the kinds of each topic, in seconds."""
    rows = await connection.fetch(statement("list_queue_deadlines"), topics)
    return {row["topic"]: row["queue_seconds"] for row in rows}


async def record_stalled_partitions(
    connection: Connection, worker_no: int, stalled: Sequence[StalledPartition]
) -> None:
    """Record all partitions in which a worker is stalled now. Those already recorded stay."""
    await connection.execute(
        statement("record_stalled_partitions"),
        worker_no,
        [each.topic for each in stalled],
        [each.partition for each in stalled],
        [each.next_offset for each in stalled],
        [each.waits_for_handlers for each in stalled],
        [each.stalled_seconds for each in stalled],
    )


async def list_stalled_partitions(connection: Connection) -> list[dict[str, Any]]:
    """List the partitions in which live workers are stalled, a thousand at most, longest first."""
    return [dict(row) for row in await connection.fetch(statement("list_stalled_partitions"))]


async def list_closed_claims(
    connection: Connection, claim_ids: Sequence[ClaimId]
) -> dict[ClaimId, int]:
    """Return the closed ones of these claims, with how far each was started. Unknown ones are not.

    The result holds for ever: no statement opens a claim again.
    """
    claimed_ats = [claim_id.claimed_at for claim_id in claim_ids]
    rows = await connection.fetch(
        statement("list_closed_claims"),
        [claim_id.fence for claim_id in claim_ids],
        claimed_ats,
        [claim_id.token for claim_id in claim_ids],
        *first_and_last(claimed_ats),
    )
    return {claim_ids[row["ord"] - 1]: row["started"] for row in rows}
