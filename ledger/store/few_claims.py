"""Claims of a few items, made and recorded by one statement."""

from collections.abc import Mapping, Sequence

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.store.claimed_rows import ClaimedRows
from dueledger.ledger.store.claims import DueFlow, PendingFloor
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def claim_few_items(
    connection: Connection,
    flows: Sequence[DueFlow],
    quotas: Sequence[int],
    floors: Sequence[PendingFloor],
    partitions: Mapping[str, int],
    *,
    allocator_no: int,
    items_max: int,
    bytes_max: int,
    key_bytes_max: int,
    secret: str,
    lag_flow_nos: Sequence[int] = (),
) -> ClaimedRows | None:
    """Claim due rows as `claim_items` does, and record the claims: one a partition of a topic.

    Call it outside a transaction: it commits. `partitions` are the numbers of them by topic. Flows
    that are limited, settled by topic, or have another topic now are skipped. Rows are in the order
    of their claims and of their positions. `secret` is of this call alone: if its answer is lost,
    `find_unanswered_claims` finds its claims by it. Of `lag_flow_nos` each claim has the flow that
    is the first to be later than its lag target, and since when its first item could be claimed.

    None if more than `items_max` are due, suspects among them, several that have more than
    `bytes_max` bytes of payload, keys of more than `key_bytes_max` bytes together, or rows without
    an item: nothing is claimed then.
    """
    rows = await connection.fetch(
        statement("claim_few_items"),
        [flow.flow_no for flow in flows],
        quotas,
        [floor.at for floor in floors],
        [floor.block for floor in floors],
        [floor.retry_at for floor in floors],
        [flow.topic for flow in flows],
        [partitions[flow.topic] for flow in flows],
        allocator_no,
        items_max,
        bytes_max,
        key_bytes_max,
        secret,
        lag_flow_nos,
    )
    return None if rows[-1]["attempt"] is not None else ClaimedRows.before_count(rows)


async def find_unanswered_claims(connection: Connection, secrets: Sequence[str]) -> list[ClaimId]:
    """Find the claims that calls with these secrets made, among the latest of the ledger."""
    rows = await connection.fetch(statement("find_unanswered_claims"), secrets)
    return [ClaimId(*row) for row in rows]
