"""Claims of a few items, made and recorded by one statement."""

from collections.abc import Mapping, Sequence

from dueledger.ledger.store.claimed_rows import ClaimedRows, RecordedRow
from dueledger.ledger.store.claims import DueFlow, PendingFloor
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
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
) -> ClaimedRows[RecordedRow] | None:
    """Claim due rows as `claim_items` does, and record the claims: one a partition of a topic.

    Call it outside a transaction: it commits. `partitions` are the numbers of them by topic. Flows
    that are limited, settled by topic, or have another topic now are skipped. Rows are in the order
    of their claims and of their positions. None if more than `items_max` are due: nothing is
    claimed then.

    Raises UnseenPartition as `claim_items` does, and also if suspects are due, or several items
    that have more than `bytes_max` bytes of payload: nothing is claimed then.
    """
    with mapped_unseen_partition():
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
            record_class=RecordedRow,
        )
    return None if rows[-1].attempt > items_max else ClaimedRows.before_count(rows)
