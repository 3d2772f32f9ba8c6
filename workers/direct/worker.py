"""The worker without Kafka: claim, run, settle; leases and upkeep; and the drain.

Each step is a service of its own, so that items are claimed, worked and settled at the same time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.item_check import ItemCheck
from dueledger.ledger.runtime.service import Signals, Stop, crash_point, run_service
from dueledger.ledger.runtime.waiting import forward_stop, wait_for_event
from dueledger.ledger.store import CONNECTION_LOST
from dueledger.ledger.upkeep import Upkeep
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.direct.claims import DirectClaims
from dueledger.workers.direct.source import DirectSource
from dueledger.workers.run.draining import release_unfinished, wait_for_items
from dueledger.workers.run.handler_pools import HandlerPools
from dueledger.workers.run.leases import Leases
from dueledger.workers.run.stuck_pools import StuckPoolCheck
from dueledger.workers.settle.settler import Settler

if TYPE_CHECKING:
    from collections.abc import Callable

    from dueledger.ledger.states import TransitionEvent
    from dueledger.ledger.store import Pool
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.workers.direct.settings import DirectSettings
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.run.handler_pool import HandlerPool
    from dueledger.workers.run.open_run import OpenRun

CHECK_SECONDS: Final = 0.25
CLOSE_SECONDS: Final = 5.0
STUCK_CHECK_SECONDS: Final = 1.0
QUIET_DOUBLINGS_MAX: Final = 2


@final
class DirectWorker:
    """The steps of a worker. Its ticks may be called one by one, or run by `run_direct_worker`."""

    def __init__(
        self,
        settings: DirectSettings,
        handlers: Handlers,
        pool: Pool,
        *,
        worker_no: int,
        transactions: Pool | None = None,
        admits: Callable[[DueFlow], bool] | None = None,
    ) -> None:
        self.counts = WorkerCounts()
        self.signals = Signals()
        self.runs: dict[int, OpenRun] = {}
        self._settings = settings
        self._progress = asyncio.Event()
        lease_seconds = settings.worker_lease_seconds
        self._handler_pools = HandlerPools(handlers, self, worker_no=worker_no, pool=transactions)
        self._settler = Settler(
            pool,
            self.counts,
            worker_no=worker_no,
            items_max=settings.worker_settle_items_max,
            batch_wait_seconds=settings.worker_batch_wait_seconds,
            on_finished=self._finished,
        )
        self._source = DirectSource(
            pool,
            DirectClaims(
                pool, self._handler_pools, worker_no=worker_no, lease_seconds=lease_seconds
            ),
            self._handler_pools,
            self.runs,
            self.counts,
            listener=self,
            unsettled_count=self.unsettled_count,
            settings=settings,
            worker_no=worker_no,
            admits=admits,
        )
        self._leases = Leases(
            pool,
            self.runs,
            self.counts,
            worker_no=worker_no,
            lease_seconds=lease_seconds,
            abandon=self._abandon_run,
        )
        self._item_check = ItemCheck(pool, actor_no=worker_no, role="worker")
        self._upkeep = Upkeep(
            pool,
            actor_no=worker_no,
            seconds=settings.direct_upkeep_seconds,
            role="worker",
            quiet_doublings_max=QUIET_DOUBLINGS_MAX,
        )

    # Called by the handler pools and the source of runs.

    def on_run_opened(self, run: OpenRun, handler_pool: HandlerPool) -> None:
        """Keep the run's lease and call its handlers."""
        self.runs[run.run_no] = run
        handler_pool.start_run(run)
        if run.is_settled:  # each of its items was withdrawn
            self._finished(run)
        self.signals.emit("run.opened", run.run_no)

    def on_items_ended(self, run: OpenRun) -> None:
        """Settle the outcomes of the run."""
        if run.unsent_count:
            self._settler.add(run)

    def on_item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        """Count an item that was settled in its own transaction."""
        self.counts.settled += 1
        crash_point("worker.settled")
        self.signals.emit("item.settled", event)
        if run.is_settled:
            self._finished(run)

    def on_call_ended(self) -> None:
        """Claim more items: a handler pool has capacity."""
        self._source.wake()
        self._progress.set()

    def unsettled_count(self) -> int:
        """Return the number of outcomes that wait to be settled."""
        return sum(run.unsent_count for run in self.runs.values())

    def _finished(self, run: OpenRun) -> None:
        self.runs.pop(run.run_no, None)
        self._source.run_finished(run)
        self._progress.set()
        self.signals.emit("run.finished", run.run_no)

    def _abandon_run(self, run: OpenRun) -> None:
        """Stop a run's handlers. Outcomes from before are still sent: the ledger decides."""
        run.abandon()
        self._finished(run)

    # Ticks of the services.

    async def claim(self) -> dict[str, int]:
        """Claim due items, up to the capacity of the handler pools."""
        return await self._source.tick()

    async def settle(self) -> dict[str, int]:
        """Settle items that have ended."""
        return await self._settler.tick()

    async def run_upkeep(self) -> dict[str, int]:
        """Run the upkeep once."""
        return dict(await self._upkeep.tick())

    async def _until_upkeep(self) -> float:
        return self._upkeep.pause_seconds()

    # Start and end.

    async def run(self, stop: Stop, *, once: bool = False) -> None:
        """Work until a stop is requested, or with `once` until nothing can be claimed; then drain.

        Raises WorkerStuck if the calls of a handler never end.
        """
        work_stop, services_stop = Stop(), Stop()
        stuck = StuckPoolCheck(
            self._handler_pools, work_stop, stuck_seconds=self._settings.worker_stuck_seconds
        )
        stop_task = asyncio.create_task(forward_stop(stop, work_stop))
        claim_task = asyncio.create_task(
            run_service("worker.claim", self.claim, stop=work_stop, idle_seconds=0.0)
        )
        services = [
            asyncio.create_task(
                run_service(name, tick, stop=services_stop, idle_seconds=seconds), name=name
            )
            for name, tick, seconds in (
                ("worker.settle", self.settle, 0.0),
                ("worker.extend_leases", self._leases.extend, self._leases.extend_seconds),
                (
                    "worker.stop_expiring",
                    self._leases.stop_expiring,
                    self._leases.check_delay_seconds,
                ),
                ("worker.upkeep", self.run_upkeep, self._until_upkeep),
                ("worker.check_items", self._item_check.tick, self._item_check.pause_seconds),
                ("worker.check_pools", stuck.tick, STUCK_CHECK_SECONDS),
            )
        ]
        try:
            await (self._wait_until_idle(work_stop) if once else work_stop.wait())
            work_stop.request()
            await self._drain(claim_task)
        finally:
            services_stop.request()
            for run in self.runs.values():
                run.cancel_handlers()
            stop_task.cancel()
            claim_task.cancel()
            await asyncio.wait([stop_task, claim_task, *services], timeout=CLOSE_SECONDS)
            for service in services:
                service.cancel()
            await asyncio.gather(stop_task, claim_task, *services, return_exceptions=True)
        stuck.raise_if_stuck()

    async def _wait_until_idle(self, stop: Stop) -> None:
        """Wait until nothing can be claimed and nothing runs, or for the time of a pass."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.worker_once_timeout_seconds):
                while self.runs or not (self._settler.is_idle and self._source.is_idle):
                    if await stop.wait(CHECK_SECONDS):
                        return

    async def _drain(self, claim_task: asyncio.Task[None]) -> None:
        """Release claims that are not started, wait for running items for a while, settle."""
        self._source.close()
        await asyncio.wait([claim_task], timeout=CLOSE_SECONDS)
        with suppress(TimeoutError, *CONNECTION_LOST):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._source.drain()
        await wait_for_items(self.runs, self._progress, self._settings.worker_drain_seconds)
        await release_unfinished(self.runs, self._handler_pools.pool_of, self.on_items_ended)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._settler.is_idle:
                    self._progress.clear()
                    await wait_for_event(self._progress, CHECK_SECONDS)
