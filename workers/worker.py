"""The worker with Kafka: poll, start, run, settle, commit offsets; leases; and the drain.

Each step is a service of its own, so that a running statement never delays the decoding of the
next records: poll → partition queues → run starter → handler pools → settler → offsets.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.kafka.batch_consumer import TOGETHER_BYTES_MAX
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, Stop, Tick, crash_point, run_service
from dueledger.ledger.runtime.waiting import forward_stop, run_unless_stopped, wait_for_event
from dueledger.workers.claim_slices import ClaimSlicer
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.handlers import UNKNOWN_KIND_HANDLER
from dueledger.workers.poll.credit_grants import CreditGrants, initial_credits
from dueledger.workers.poll.partition_queue import PartitionQueue, TopicPartitionKey
from dueledger.workers.poll.work_consumer import WorkConsumer
from dueledger.workers.run.draining import release_unfinished, wait_for_items
from dueledger.workers.run.handler_pool import HandlerPool
from dueledger.workers.run.handler_pools import HandlerPools
from dueledger.workers.run.leases import Leases
from dueledger.workers.run.stuck_pools import StuckPoolCheck
from dueledger.workers.settle.settler import Settler
from dueledger.workers.start.run_starter import RunStarter

if TYPE_CHECKING:
    from collections.abc import Collection

    from dueledger.ledger.states import TransitionEvent
    from dueledger.ledger.store import Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.run.open_run import OpenRun
    from dueledger.workers.settings import WorkerSettings
    from dueledger.workers.single_pass import SinglePass

POLL_SECONDS: Final = 0.25
FULL_SECONDS: Final = 0.02
COMMIT_SECONDS: Final = 0.25
REVOKE_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 5.0
ONCE_LOOK_SECONDS: Final = 0.1
STUCK_LOOK_SECONDS: Final = 1.0
BUFFER_BYTES_MAX: Final = TOGETHER_BYTES_MAX
IN_FLIGHT_FACTOR: Final = 2  # as many items as its buffer holds may be in flight to it

log = get_logger("worker")


@final
class Worker:
    """The steps of a worker. Its ticks may be called one by one, or run by `run_worker`."""

    def __init__(
        self,
        settings: WorkerSettings,
        handlers: Handlers,
        pool: Pool,
        *,
        worker_no: int,
        name: str,
        transactions: Pool | None = None,
    ) -> None:
        self.counts = WorkerCounts()
        self.signals = Signals()
        self.runs: dict[int, OpenRun] = {}
        self._settings = settings
        self._queues: dict[TopicPartitionKey, PartitionQueue] = {}
        self._offsets_moved = asyncio.Event()
        self._call_ended = asyncio.Event()
        self._pools = HandlerPools(handlers, self, worker_no=worker_no, pool=transactions)
        self._unknown_kind_pool = HandlerPool(UNKNOWN_KIND_HANDLER, self, worker_no=worker_no)
        self._topics = settings.worker_topics or [work_topic(handler.kind) for handler in handlers]
        self._has_joined = False
        self._consumer = WorkConsumer(settings, self._topics, name=name, revoked=self.revoked)
        self._credits = CreditGrants(
            pool,
            worker_no=worker_no,
            window_seconds=settings.worker_credit_window_seconds,
            items_max=settings.worker_buffer_items_max * IN_FLIGHT_FACTOR,
            floors=lambda: initial_credits(self.topics(), self._pools, self._unknown_kind_pool),
        )
        self._settler = Settler(
            pool,
            self.counts,
            worker_no=worker_no,
            items_max=settings.worker_settle_items_max,
            batch_wait_seconds=settings.worker_batch_wait_seconds,
            on_finished=self._finished,
        )
        self._starter = RunStarter(
            pool,
            self._queues,
            self.runs,
            self.counts,
            listener=self,
            find_pool=self.pool_for,
            worker_no=worker_no,
            lease_seconds=settings.worker_lease_seconds,
            batch_wait_seconds=settings.worker_batch_wait_seconds,
        )
        self._leases = Leases(
            pool,
            self.runs,
            self.counts,
            worker_no=worker_no,
            lease_seconds=settings.worker_lease_seconds,
            abandon=self._abandon_run,
        )

    # Called by the handler pools and the source of runs.

    def pool_for(self, kind: str, topic: str) -> HandlerPool:
        """Return the handler pool of a kind's items from a topic."""
        return self._pools.find(kind, topic) or self._unknown_kind_pool

    def on_run_opened(self, run: OpenRun, handler_pool: HandlerPool) -> None:
        """Keep the run's lease and call its handlers."""
        self.runs[run.run_no] = run
        run.park_unreadable()
        handler_pool.start_run(run)
        if run.unsent_count:
            self.on_items_ended(run)
        if run.is_settled:
            self._finished(run)
        self.signals.emit("run.opened", run.run_no)

    def on_items_ended(self, run: OpenRun) -> None:
        """Settle the outcomes of the run."""
        self._credits.add_ended(run.topic, run.take_ended())
        if run.unsent_count:
            self._settler.add(run)

    def on_item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        """Count an item that was settled in its own transaction."""
        self.counts.settled += 1
        self._credits.add_ended(run.topic, run.take_ended())
        crash_point("worker.settled")
        self.signals.emit("item.settled", event)
        self._offsets_moved.set()
        if run.is_settled:
            self._finished(run)

    def on_call_ended(self) -> None:
        """Start more items: a handler pool has capacity."""
        self._starter.wake()
        self._call_ended.set()

    def _finished(self, run: OpenRun) -> None:
        self.runs.pop(run.run_no, None)
        self._starter.wake()
        self._offsets_moved.set()
        self.signals.emit("run.finished", run.run_no)

    def _abandon_run(self, run: OpenRun) -> None:
        """Stop a run's handlers. Outcomes from before are still sent: the ledger decides."""
        run.abandon()
        self._finished(run)

    # Ticks of the services.

    async def poll(self) -> dict[str, int]:
        """Poll Kafka, cut the records into slices, and send unreadable ones to `due-rejected`."""
        full = self._full()
        polled = await self._consumer.poll(
            full, timeout_seconds=FULL_SECONDS if full else POLL_SECONDS
        )
        count = 0
        for partition, batches in polled.items():
            slicer = ClaimSlicer()
            for batch in batches:
                slicer.cut(batch)
            for rejected in slicer.rejected:
                await self._consumer.reject(partition, rejected)
                self.counts.rejected += 1
                log.warning(
                    LogEvent.RECORD_REJECTED,
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=rejected.record.offset,
                    reason=str(rejected.error),
                )
            if partition not in self._consumer.assigned():
                continue  # revoked while rejects were sent; the next member polls all of it
            queue = self._queues.setdefault(partition, PartitionQueue())
            size_bytes = sum(len(batch.body) for batch in batches)
            queue.add(slicer.slices, batches[-1].next_offset, size_bytes)
            count += sum(batch.size for batch in batches)
        if count:
            self.counts.polled += count
            crash_point("worker.polled")
            self._starter.wake()
            self._offsets_moved.set()
        return {"polled": count}

    async def start(self) -> dict[str, int]:
        """Start as many items as the handler pools have capacity for."""
        return await self._starter.tick()

    async def settle(self) -> dict[str, int]:
        """Settle items that have ended."""
        counts = await self._settler.tick()
        if counts["settled"]:
            self._offsets_moved.set()
        return counts

    async def commit(self) -> dict[str, int]:
        """Commit the offsets below the lowest that is not settled."""
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
        if not offsets or not await self._consumer.commit(offsets):
            return {"committed": 0}
        for partition, offset in offsets.items():
            if partition in self._queues:
                self._queues[partition].committed_offset = offset
        crash_point("worker.committed")
        self.signals.emit("offsets.committed", offsets)
        return {"committed": len(offsets)}

    async def revoked(self, partitions: Collection[TopicPartitionKey]) -> None:
        """Commit settled offsets, and drop the items that were polled and not started."""
        if partitions:  # at the first join there are none
            with suppress(TimeoutError):
                async with asyncio.timeout(REVOKE_SECONDS):
                    await self._commit_now()
        for partition in partitions:
            self._queues.pop(partition, None)
        self._credits.wake()

    def topics(self) -> set[str]:
        """Return the topics of its partitions; until it has joined, those that it subscribes."""
        if self._has_joined:
            return {partition.topic for partition in self._consumer.assigned()}
        return set(self._topics)

    def is_busy(self) -> bool:
        """Return whether it has queued or running items, or has not joined the group yet."""
        queued = any(queue.queued for queue in self._queues.values())
        return queued or bool(self.runs) or not self._has_joined

    def _full(self) -> set[TopicPartitionKey]:
        queues = max(1, len(self._queues))
        share = self._settings.worker_buffer_items_max // queues
        share_bytes = BUFFER_BYTES_MAX // queues
        return {
            partition
            for partition, queue in self._queues.items()
            if queue.is_full(share, share_bytes)
        }

    # Start and end.

    async def run(self, stop: Stop, once: SinglePass | None = None) -> None:
        """Work until a stop is requested, then drain.

        Raises Unavailable if Kafka cannot be reached, and WorkerStuck if handlers never end.
        """
        work_stop, services_stop = Stop(), Stop()
        stuck = StuckPoolCheck(
            self._pools, work_stop, stuck_seconds=self._settings.worker_stuck_seconds
        )
        services: list[tuple[str, Tick, float]] = [
            ("worker.credit", self._credits.tick, 0.0),
            ("worker.check_pools", stuck.tick, STUCK_LOOK_SECONDS),
        ]
        if once is not None:
            services.append(("worker.once", once.tick, ONCE_LOOK_SECONDS))
        side_tasks = [
            asyncio.create_task(run_service(name, tick, stop=services_stop, idle_seconds=seconds))
            for name, tick, seconds in services
        ]
        side_tasks.append(asyncio.create_task(forward_stop(stop, work_stop)))
        try:
            if await run_unless_stopped(self._consumer.start(), work_stop):
                self._has_joined = True
                self._credits.wake()
                await self._work(work_stop)
            else:
                await self._consumer.stop()
        finally:
            await self._credits.withdraw()
            services_stop.request()
            for task in side_tasks:
                task.cancel()
            await asyncio.gather(*side_tasks, return_exceptions=True)
        stuck.raise_if_stuck()

    async def _work(self, stop: Stop) -> None:
        services_stop = Stop()
        input_tasks = [
            asyncio.create_task(run_service("worker.poll", self.poll, stop=stop, idle_seconds=0)),
            asyncio.create_task(run_service("worker.start", self.start, stop=stop, idle_seconds=0)),
        ]
        work_tasks = [
            asyncio.create_task(
                run_service(name, tick, stop=services_stop, idle_seconds=seconds), name=name
            )
            for name, tick, seconds in (
                ("worker.settle", self.settle, 0.0),
                ("worker.commit", self.commit, 0.0),
                ("worker.extend_leases", self._leases.extend, self._leases.extend_seconds),
                (
                    "worker.stop_expiring",
                    self._leases.stop_expiring,
                    self._leases.check_delay_seconds,
                ),
            )
        ]
        try:
            await stop.wait()
            await self._drain(input_tasks)
        finally:
            services_stop.request()
            for run in self.runs.values():
                run.cancel_handlers()
            for task in input_tasks:
                task.cancel()
            await asyncio.wait([*input_tasks, *work_tasks], timeout=CLOSE_SECONDS)
            for task in work_tasks:
                task.cancel()
            await asyncio.gather(*input_tasks, *work_tasks, return_exceptions=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._consumer.stop()

    async def _drain(self, input_tasks: list[asyncio.Task[None]]) -> None:
        """Wait for running items for a bounded time, release the others, settle and commit."""
        input_tasks[0].cancel()  # the poll: what it may still bring stays in Kafka
        self._starter.stop_starting()
        self._starter.wake()
        await self._credits.withdraw()
        await asyncio.wait(input_tasks, timeout=CLOSE_SECONDS)
        await wait_for_items(self.runs, self._call_ended, self._settings.worker_drain_seconds)
        await release_unfinished(
            self.runs, lambda run: self.pool_for(run.kind, run.topic), self.on_items_ended
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._settler.is_idle:
                    self._offsets_moved.clear()
                    await wait_for_event(self._offsets_moved, POLL_SECONDS)
                await self._commit_now()
