"""Drops queued slices of closed claims in bulk: no call slot and no start for each of them.

A claim that is closed stays closed: its items were started, or released and handed out again under
a higher fence. So its records change nothing, and dropping them loses nothing. The ledger says
which claims are closed; no clock decides. A claim that it does not know is left to the start, which
records it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store.topic_partitions import list_closed_claims

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dueledger.ledger.store import Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.start.partition_queue import PartitionQueue, TopicPartitionKey

CLAIMS_MAX: Final = 5_000  # of one statement

log = get_logger("worker")


async def drop_closed_claims(
    pool: Pool, queues: Mapping[TopicPartitionKey, PartitionQueue], counts: WorkerCounts
) -> None:
    """Drop what is closed from the queues that are behind, with one statement for all of them.

    A queue is behind after a start out of it was refused, until a slice of an open claim is first.
    """
    behind = {key: queue for key, queue in queues.items() if queue.is_behind and queue.has_queued}
    if not behind:
        return
    claim_ids = {each.claim_id: None for queue in behind.values() for each in queue.queued_slices()}
    asked = list(claim_ids)[:CLAIMS_MAX]
    async with pool.acquire() as connection:
        closed = await list_closed_claims(connection, asked)
    for key, queue in behind.items():
        first_offset = queue.first_queued_offset()
        dropped = queue.drop_closed(closed)
        counts.skipped += dropped.skipped
        counts.stale += dropped.stale
        if dropped.stale:
            log.info(
                LogEvent.RECORDS_DROPPED,
                topic=key.topic,
                partition=key.partition,
                offset=first_offset,
                items=dropped.stale,
            )
