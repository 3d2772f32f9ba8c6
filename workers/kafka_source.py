"""The source with Kafka: poll, start, commit offsets, grant credit.

Each step is a service of its own, so that a running statement never delays the decoding of the
next records: poll → partition queues → run starter → handler pools → settler → offsets.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.kafka.fetcher import TOGETHER_BYTES_MAX
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.credits import read_credits
from dueledger.workers.claim_slices import ClaimSlicer
from dueledger.workers.poll.credit_grants import CreditGrants, initial_credits
from dueledger.workers.poll.gone_members import CHECK_SECONDS as MEMBERS_SECONDS
from dueledger.workers.poll.gone_members import GoneMembers
from dueledger.workers.poll.partition_progress import CHECK_SECONDS, PartitionProgress
from dueledger.workers.poll.work_consumer import WorkConsumer
from dueledger.workers.start.partition_queue import PartitionQueue, TopicPartitionKey
from dueledger.workers.start.run_starter import RunStarter
from dueledger.workers.work_source import Service, WorkSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.metrics import Sample
    from dueledger.workers.claim_slices import RejectedWorkRecord
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.settings import WorkerSettings
    from dueledger.workers.worker import Worker

POLL_SECONDS: Final = 0.25
FULL_SECONDS: Final = 0.02
COMMIT_SECONDS: Final = 0.25
REVOKE_SECONDS: Final = 2.0
BUFFER_BYTES_MAX: Final = TOGETHER_BYTES_MAX
IN_FLIGHT_FACTOR: Final = 2  # as many items as its buffer holds may be in flight to it
QUIET_SECONDS: Final = 5.0
FLOWS_MAX: Final = 20_000

log = get_logger("worker")


@final
class KafkaSource(WorkSource):
    """Polls claims from Kafka and opens runs for as many items as the handler pools can run."""

    def __init__(self, settings: WorkerSettings, worker: Worker) -> None:
        connections, pools = worker.connections, worker.handler_pools
        self._settings = settings
        self._worker = worker
        self._pool = connections.pool
        self._queues: dict[TopicPartitionKey, PartitionQueue] = {}
        self._offsets_moved = asyncio.Event()
        topics = settings.worker_topics or [work_topic(pool.handler.kind) for pool in pools]
        self._has_joined = False
        self._counts_seen: dict[str, int] = {}
        self._changed_at = monotonic()
        self._consumer = WorkConsumer(settings, topics, name=connections.name, revoked=self._revoke)
        self._progress = PartitionProgress(
            connections.pool,
            self._consumer,
            self._queues,
            worker.counts,
            worker_no=connections.worker_no,
            full=self._full,
        )
        self._gone = GoneMembers(connections.pool, settings, name=connections.name)
        self._credits = CreditGrants(
            connections.pool,
            worker_no=connections.worker_no,
            window_seconds=settings.worker_credit_window_seconds,
            items_max=settings.worker_buffer_items_max * IN_FLIGHT_FACTOR,
            floors=lambda: initial_credits(self._topics_read(), pools),
            backlogs=lambda: self._progress.backlogs,
        )
        self._starter = RunStarter(
            connections.pool,
            self._queues,
            worker.counts,
            listener=worker,
            pools=pools,
            worker_no=connections.worker_no,
            lease_seconds=settings.worker_lease_seconds,
            batch_wait_seconds=settings.worker_batch_wait_seconds,
        )

    def input_services(self) -> list[Service]:
        """Poll and start. Records of a cancelled poll stay in Kafka."""
        return [
            Service("worker.poll", self._poll, is_cancelled_by_drain=True),
            Service("worker.start", self._worker.when_confirmed(self._starter.tick)),
        ]

    def background_services(self) -> list[Service]:
        """Commit offsets, grant credit, and let killed workers leave the group."""
        return [
            Service("worker.commit", self._commit_soon),
            Service("worker.credit", self._credits.tick),
            Service("worker.check_partitions", self._progress.tick, CHECK_SECONDS),
            Service("worker.end_members", self._gone.tick, MEMBERS_SECONDS),
        ]

    def samples(self) -> list[Sample]:
        """Return the metrics of its partitions."""
        return self._progress.samples()

    async def open(self) -> None:
        """Join the group. Raises Unavailable if Kafka cannot be reached."""
        await self._consumer.start()
        self._has_joined = True
        self._credits.wake()

    def on_call_ended(self) -> None:
        """Start more items: a handler pool has capacity."""
        self._starter.wake_if_queued()

    def on_items_ended(self, run: OpenRun) -> None:
        """Count ended items, for the credit of their topic."""
        self._credits.add_ended(run.topic, run.take_ended())

    def on_items_settled(self) -> None:
        """Commit offsets soon."""
        self._offsets_moved.set()

    def on_run_finished(self, run: OpenRun) -> None:
        """Start more items and commit offsets: a run ended."""
        del run
        self._starter.wake_if_queued()
        self._offsets_moved.set()

    async def is_idle(self) -> bool:
        """Return whether its topics have no due rows and no claimed items.

        It is also idle if nothing arrived for QUIET_SECONDS, because no allocator runs or limits
        allow no items.
        """
        now = monotonic()
        counts = self._worker.counts.snapshot()
        if self._has_queued() or not self._has_joined or counts != self._counts_seen:
            self._counts_seen, self._changed_at = counts, now
            return False
        return now - self._changed_at >= QUIET_SECONDS or not await self._has_due_work()

    async def stop_taking(self) -> None:
        """Start no more slices and withdraw the credit."""
        self._starter.stop_starting()
        self._progress.stop_checking()
        self._starter.wake()
        await self._credits.withdraw()

    async def release_unstarted(self) -> None:
        """Release runs whose start's response was lost. Slices not started stay in Kafka."""
        await self._starter.release_lost()

    async def commit(self) -> None:
        """Commit the offsets below the lowest that is not settled."""
        await self._commit_now()

    async def close(self) -> None:
        """Leave the group."""
        await self._consumer.stop()

    async def _poll(self) -> dict[str, int]:
        """Poll Kafka, cut the records into slices, and send unreadable ones to `due-rejected`."""
        full = self._full()
        polled = await self._consumer.poll(
            full, timeout_seconds=FULL_SECONDS if full else POLL_SECONDS
        )
        # At each await below partitions may be revoked. Their queues are then dropped, these too,
        # and the next member polls the records again.
        queues = {each: self._queues.setdefault(each, PartitionQueue()) for each in polled}
        count = 0
        for partition, batches in polled.items():
            slicer = ClaimSlicer()
            for batch in batches:
                for _ in slicer.cut(batch):
                    await self._reject(partition, slicer.take_rejected())
                    await asyncio.sleep(0)  # heartbeats and leases are kept in between
            await self._reject(partition, slicer.take_rejected())
            size_bytes = sum(len(batch.body) for batch in batches)
            queues[partition].add(slicer.slices, batches[-1].next_offset, size_bytes)
            count += sum(batch.size for batch in batches)
        if count:
            self._worker.counts.polled += count
            crash_point("worker.polled")
            self._starter.wake()
            self._offsets_moved.set()
        return {"polled": count}

    async def _reject(
        self, partition: TopicPartitionKey, rejected: Sequence[RejectedWorkRecord]
    ) -> None:
        if not rejected:
            return
        await self._consumer.reject(partition, rejected)
        self._worker.counts.rejected += len(rejected)
        log.warning(
            LogEvent.RECORD_REJECTED,
            topic=partition.topic,
            partition=partition.partition,
            count=len(rejected),
            offset=rejected[0].record.offset,
            reason=str(rejected[0].error),
        )

    async def _commit_soon(self) -> dict[str, int]:
        if not self._offsets_moved.is_set():
            await wait_for_event(self._offsets_moved, POLL_SECONDS)
        await asyncio.sleep(COMMIT_SECONDS)
        return await self._commit_now()

    async def _commit_now(self) -> dict[str, int]:
        self._offsets_moved.clear()
        offsets = {
            partition: offset
            for partition, queue in self._queues.items()
            if (offset := queue.committable_offset()) > queue.committed_offset
        }
        committed = await self._consumer.commit(offsets)
        if not committed:
            return {"committed": 0}
        for partition, offset in committed.items():
            if partition in self._queues:
                self._queues[partition].committed_offset = offset
        crash_point("worker.committed")
        self._worker.signals.emit("offsets.committed", committed)
        return {"committed": len(committed)}

    async def _revoke(self) -> None:
        """Commit settled offsets, and drop the items that were polled and not started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REVOKE_SECONDS):
                await self._commit_now()
        self._queues.clear()
        self._credits.wake()

    def _topics_read(self) -> set[str]:
        """Return the topics of its partitions; it has none before it has joined the group."""
        return {partition.topic for partition in self._consumer.assigned()}

    def _has_queued(self) -> bool:
        return any(queue.has_queued for queue in self._queues.values())

    async def _has_due_work(self) -> bool:
        topics = sorted(self._topics_read())
        async with self._pool.acquire() as connection:
            # Due rows first: a row that is claimed in between is then counted as outstanding.
            flows = await list_due_flows(connection, FLOWS_MAX)
            if any(flow.topic in topics and not flow.settled_by_topic for flow in flows):
                return True
            credits_ = await read_credits(connection, topics)
        outstanding = any(credit.outstanding or credit.suspects for credit in credits_)
        return outstanding or self._has_queued()

    def _full(self) -> set[TopicPartitionKey]:
        queues = max(1, len(self._queues))
        share = self._settings.worker_buffer_items_max // queues
        share_bytes = BUFFER_BYTES_MAX // queues
        return {
            partition
            for partition, queue in self._queues.items()
            if queue.has_queued and queue.is_full(share, share_bytes)
        }
