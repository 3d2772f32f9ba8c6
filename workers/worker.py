"""One worker: poll, start, work, settle, commit offsets; leases beside it, and how it ends.

Each step is a tick of a service of its own, so that a statement under way never keeps the next
records from being decoded: poll → feeds → starter → crews → settler → offsets.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, final

from ledger.envelope import work_topic
from ledger.errors import InvalidSetting
from ledger.log import LogEvent, get_logger
from ledger.service import Signals, Stop, crash_point, run_service
from ledger.store import open_pool
from ledger.store.actors import ActorKind, incarnation, register_actor
from workers.consumer import WorkConsumer
from workers.counts import WorkerCounts
from workers.crew import Crew
from workers.feed import Feed, Partition
from workers.handlers import Form, Handler, HandlerOptions, Handlers
from workers.leases import Leases
from workers.outcomes import returned_unworked
from workers.settler import Settler
from workers.starter import Starter
from workers.stretch import Cutter
from workers.verdicts import Park
from workers.waiting import wait_at_most

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine

    from ledger.states import TransitionEvent
    from ledger.store import Pool
    from workers.item import DueItem
    from workers.run import OpenRun
    from workers.settings import WorkerSettings
    from workers.verdicts import Verdict

POLL_SECONDS: Final = 0.25
FULL_SECONDS: Final = 0.02
COMMIT_SECONDS: Final = 0.02
REVOKE_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 5.0
LEDGER_CONNECTIONS: Final = 4  # start, settle, heartbeat, and one to spare
TRANSACTIONS_MAX: Final = 32

log = get_logger("worker")


async def park_unknown(items: list[DueItem]) -> list[Verdict]:
    """Park what nobody registered a handler for; the payload stays with the item."""
    return [Park(f"unknown_kind: no handler here for {item.kind}") for item in items]


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
        self._feeds: dict[Partition, Feed] = {}
        self._offsets_moved = asyncio.Event()
        self._call_ended = asyncio.Event()
        self._crews = {
            handler.kind: Crew(handler, self, worker_no=worker_no, pool=transactions)
            for handler in handlers
        }
        unknown = Handler(
            "", Form.BATCH, park_unknown, HandlerOptions(concurrency=4, batch_max=1000)
        )
        self._unknown = Crew(unknown, self, worker_no=worker_no)
        topics = settings.worker_topics or [work_topic(handler.kind) for handler in handlers]
        self._consumer = WorkConsumer(settings, topics, name=name, revoked=self.revoked)
        self._settler = Settler(
            pool,
            self.counts,
            worker_no=worker_no,
            items_max=settings.worker_settle_items_max,
            gather_seconds=settings.worker_gather_seconds,
            finished=self._finished,
        )
        self._starter = Starter(
            pool,
            self._feeds,
            self.runs,
            self.counts,
            opened=self,
            worker_no=worker_no,
            lease_seconds=settings.worker_lease_seconds,
            gather_seconds=settings.worker_gather_seconds,
        )
        self._leases = Leases(
            pool,
            self.runs,
            self.counts,
            worker_no=worker_no,
            lease_seconds=settings.worker_lease_seconds,
            let_go=self._let_go,
        )

    # What the crews and the starter tell.

    def crew_of(self, kind: str) -> Crew:
        """Return who works a kind."""
        return self._crews.get(kind, self._unknown)

    def run_opened(self, run: OpenRun, crew: Crew) -> None:
        """Keep a run's lease and work it."""
        self.runs[run.run_no] = run
        run.park_unreadable()
        crew.launch(run)
        if run.fresh_count:
            self.items_ended(run)
        if run.is_settled:
            self._finished(run)
        self.signals.emit("run.opened", run.run_no)

    def items_ended(self, run: OpenRun) -> None:
        """Have the outcomes of a run settled."""
        if run.fresh_count:
            self._settler.add(run)

    def item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        """Count an item that its own transaction settled."""
        self.counts.settled += 1
        crash_point("worker.settled")
        self.signals.emit("item.settled", event)
        self._offsets_moved.set()
        if run.is_settled:
            self._finished(run)

    def call_ended(self) -> None:
        """Start more: a crew has room."""
        self._starter.wake()
        self._call_ended.set()

    def _finished(self, run: OpenRun) -> None:
        self.runs.pop(run.run_no, None)
        self._starter.wake()
        self._offsets_moved.set()
        self.signals.emit("run.finished", run.run_no)

    def _let_go(self, run: OpenRun) -> None:
        """Stop a run's handlers. What had ended is still sent: the ledger decides about it."""
        run.forget()
        self._finished(run)

    # The ticks.

    async def poll(self) -> dict[str, int]:
        """Take what arrived, cut it into stretches, send away what cannot be read."""
        full = self._full()
        polled = await self._consumer.poll(
            full, timeout_seconds=FULL_SECONDS if full else POLL_SECONDS
        )
        count = 0
        for partition, records in polled.items():
            cutter = Cutter()
            cutter.cut(records)
            for rejected in cutter.rejected:
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
                continue  # it moved while rejects were sent; the next member gets it all
            feed = self._feeds.setdefault(partition, Feed())
            feed.add(cutter.stretches, records[-1].offset + 1)
            count += len(records)
        if count:
            self.counts.polled += count
            crash_point("worker.polled")
            self._starter.wake()
            self._offsets_moved.set()
        return {"polled": count}

    async def start(self) -> dict[str, int]:
        """Start what the crews have room for."""
        return await self._starter.tick()

    async def settle(self) -> dict[str, int]:
        """Settle what ended."""
        counts = await self._settler.tick()
        if counts["settled"]:
            self._offsets_moved.set()
        return counts

    async def commit(self) -> dict[str, int]:
        """Commit the offsets up to the lowest that is not settled."""
        if not self._offsets_moved.is_set():
            await wait_at_most(self._offsets_moved, POLL_SECONDS)
        await asyncio.sleep(COMMIT_SECONDS)
        self._offsets_moved.clear()
        offsets = {
            partition: offset
            for partition, feed in self._feeds.items()
            if (offset := feed.offset()) > feed.committed_offset
        }
        if not offsets or not await self._consumer.commit(offsets):
            return {"committed": 0}
        for partition, offset in offsets.items():
            if partition in self._feeds:
                self._feeds[partition].committed_offset = offset
        crash_point("worker.committed")
        self.signals.emit("offsets.committed", offsets)
        return {"committed": len(offsets)}

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """Commit what may be, and let go of what was polled and not started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REVOKE_SECONDS):
                await self.commit()
        for partition in partitions:
            self._feeds.pop(partition, None)

    def _full(self) -> set[Partition]:
        share = self._settings.worker_buffer_items_max // max(1, len(self._feeds))
        return {partition for partition, feed in self._feeds.items() if feed.buffered() >= share}

    # The life.

    async def run(self, stop: Stop) -> None:
        """Work until asked to stop, then drain. Raises Unavailable where Kafka cannot be had."""
        if not await _unless_stopped(self._consumer.start(), stop):
            await self._consumer.stop()
            return
        ended = Stop()
        front = [
            asyncio.create_task(run_service("worker.poll", self.poll, stop=stop, idle_seconds=0)),
            asyncio.create_task(run_service("worker.start", self.start, stop=stop, idle_seconds=0)),
        ]
        back = [
            asyncio.create_task(
                run_service(name, tick, stop=ended, idle_seconds=seconds), name=name
            )
            for name, tick, seconds in (
                ("worker.settle", self.settle, 0.0),
                ("worker.commit", self.commit, 0.0),
                ("worker.extend", self._leases.extend, self._leases.beat_seconds),
                ("worker.look", self._leases.look, self._leases.look_seconds),
            )
        ]
        try:
            await stop.wait()
            await self._drain(front)
        finally:
            ended.ask()
            for run in self.runs.values():
                run.cancel_handlers()
            for task in front:
                task.cancel()
            await asyncio.wait([*front, *back], timeout=CLOSE_SECONDS)
            for task in back:
                task.cancel()
            await asyncio.gather(*front, *back, return_exceptions=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._consumer.stop()

    async def _drain(self, front: list[asyncio.Task[None]]) -> None:
        """Finish what runs, for a while; give back the rest; settle and commit."""
        front[0].cancel()  # the poll: what it may still bring stays in Kafka
        self._starter.close()
        self._starter.wake()
        await asyncio.wait(front, timeout=CLOSE_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.worker_drain_seconds):
                while any(run.open_count for run in self.runs.values()):
                    self._call_ended.clear()
                    await wait_at_most(self._call_ended, POLL_SECONDS)
        await self._give_back()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._settler.is_idle:
                    self._offsets_moved.clear()
                    await wait_at_most(self._offsets_moved, POLL_SECONDS)
                await self.commit()

    async def _give_back(self) -> None:
        """Stop handlers that outlast the drain; their items wait again, no attempt counted."""
        for run in self.runs.values():
            run.cancel_handlers()
        tasks = [task for run in self.runs.values() for task in run.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for run in list(self.runs.values()):
            if run.tasks or not self.crew_of(run.kind).handler.is_async:
                continue  # a thread may still be at it: the lease decides
            for index, _ in run.workable():
                run.end(index, returned_unworked("the worker drained"))
            self.items_ended(run)


async def _unless_stopped(work: Coroutine[None, None, None], stop: Stop) -> bool:
    """Finish the work, or give it up when asked to stop; tell whether it finished."""
    task = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)
    if task.cancelled() or not task.done():
        return False
    task.result()
    return True


async def run_worker(settings: WorkerSettings, handlers: Handlers, stop: Stop) -> WorkerCounts:
    """Work the handlers' kinds until asked to stop; return what was done.

    Raises Unavailable where Postgres or Kafka cannot be had at the start, and InvalidSetting
    where there is nothing to work.
    """
    if not (len(handlers) or settings.worker_topics or settings.worker_all_topics):
        raise InvalidSetting("there is nothing to work: no handler, no topic, and not all topics")
    name = incarnation(ActorKind.WORKER)
    dsn = settings.dsn.get_secret_value()
    transactional = sum(
        handler.options.concurrency for handler in handlers if handler.form is Form.TRANSACTION
    )
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            open_pool(dsn, application_name=name, size_max=LEDGER_CONNECTIONS)
        )
        transactions = None
        if transactional:
            transactions = await stack.enter_async_context(
                open_pool(dsn, application_name=name, size_max=min(TRANSACTIONS_MAX, transactional))
            )
        async with pool.acquire() as connection:
            worker_no = await register_actor(connection, name, ActorKind.WORKER)
        worker = Worker(
            settings, handlers, pool, worker_no=worker_no, name=name, transactions=transactions
        )
        log.info(LogEvent.PROCESS_STARTED, name=name, kinds=[each.kind for each in handlers])
        try:
            await worker.run(stop)
        finally:
            log.info(LogEvent.PROCESS_STOPPED, name=name, **worker.counts.snapshot())
        return worker.counts
