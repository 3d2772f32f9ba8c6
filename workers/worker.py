"""The worker: works the runs that its source opens, settles them, extends their leases, drains.

Each step is a service of its own, so that items are started, worked and settled at the same time:
source → handler pools → settler.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.metrics import METRICS
from dueledger.ledger.runtime.service import (
    Signals,
    Stop,
    crash_point,
    run_service,
    until_available,
)
from dueledger.ledger.runtime.waiting import forward_stop, run_unless_stopped, wait_for_event
from dueledger.workers.counts import CountsReport, WorkerCounts
from dueledger.workers.item_metrics import ItemMetrics
from dueledger.workers.run.draining import release_unfinished, wait_for_items
from dueledger.workers.run.handler_pools import HandlerPools
from dueledger.workers.run.isolated_messages import Program
from dueledger.workers.run.isolated_pool import IsolatedCalls
from dueledger.workers.run.leases import Leases
from dueledger.workers.run.stuck_pools import StuckPoolCheck
from dueledger.workers.settle.settler import Settler
from dueledger.workers.work_source import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dueledger.ledger.runtime.service import Tick
    from dueledger.workers.connections import WorkerConnections
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.listener import RunPool
    from dueledger.workers.settings import WorkerSettings
    from dueledger.workers.work_source import WorkSource

CHECK_SECONDS: Final = 0.25
CLOSE_SECONDS: Final = 5.0
PASS_CHECK_SECONDS: Final = 0.1
STUCK_CHECK_SECONDS: Final = 1.0
REPORT_SECONDS: Final = 60.0


@final
class Worker:
    """The steps of a worker. Its ticks may be called one by one, or run by its process."""

    def __init__(
        self,
        settings: WorkerSettings,
        handlers: Handlers,
        connections: WorkerConnections,
        make_source: Callable[[Worker], WorkSource],
    ) -> None:
        pool, worker_no = connections.pool, connections.worker_no
        self.connections = connections
        self.counts = WorkerCounts()
        self.signals = Signals()
        self.runs: dict[int, OpenRun] = {}
        self._isolated = None
        if handlers.places and handlers.may_end_process:
            dsn = settings.dsn.get_secret_value()
            self._isolated = IsolatedCalls(
                Program(handlers.places, tuple(sys.path), dsn, connections.name, worker_no), self
            )
        self.handler_pools = HandlerPools(
            handlers,
            self,
            worker_no=worker_no,
            pool=connections.transactions,
            isolated=self._isolated,
        )
        self._item_metrics = ItemMetrics(connections.presence)
        self._settings = settings
        self._progress = asyncio.Event()
        self._settler = Settler(
            pool,
            self.counts,
            worker_no=worker_no,
            items_max=settings.worker_settle_items_max,
            batch_wait_seconds=settings.worker_batch_wait_seconds,
            on_finished=self._finished,
            on_settled=self._item_metrics.count_outcomes,
        )
        self._leases = Leases(
            pool,
            self.runs,
            self.counts,
            worker_no=worker_no,
            lease_seconds=settings.worker_lease_seconds,
            presence=connections.presence,
            abandon=self._abandon_run,
            release_unbegun=self._release_unbegun,
        )
        self._source = make_source(self)

    # Called by the handler pools and the source.

    def on_run_opened(self, run: OpenRun, handler_pool: RunPool) -> None:
        """Extend the run's lease and call its handlers."""
        self.runs[run.run_no] = run
        self._item_metrics.count_start(run)
        handler_pool.start_run(run)
        if run.unsent_count:
            self.on_items_ended(run)
        if run.is_settled:  # each of its items was withdrawn
            self._finished(run)
        self.signals.emit("run.opened", run.run_no)

    def on_items_ended(self, run: OpenRun) -> None:
        """Settle the outcomes of the run."""
        self._source.on_items_ended(run)
        if run.unsent_count:
            self._settler.add(run)

    def on_items_completed(self, run: OpenRun, indexes: Sequence[int]) -> None:
        """Count items that completed in the transaction of their handler."""
        self.counts.settled += len(indexes)
        self._item_metrics.count_completed(run, len(indexes))
        self._source.on_items_ended(run)
        crash_point("worker.settled")
        self._source.on_items_settled()
        if run.is_settled:
            self._finished(run)

    def on_call_ended(self) -> None:
        """Start more items: a handler pool has capacity."""
        self._source.on_call_ended()
        self._progress.set()

    def _finished(self, run: OpenRun) -> None:
        self.runs.pop(run.run_no, None)
        self._source.on_run_finished(run)
        self._progress.set()
        self.signals.emit("run.finished", run.run_no)

    def _abandon_run(self, run: OpenRun) -> None:
        """Stop a run's handlers. Outcomes from before are still sent: the ledger decides."""
        run.abandon()
        self._finished(run)

    def _release_unbegun(self, run: OpenRun) -> None:
        """Release the items of a run that no handler was given."""
        run.release_unbegun()
        self.on_items_ended(run)

    def when_confirmed(self, tick: Tick) -> Tick:
        """Return a tick that waits while runs that it started could be started by others, too."""

        async def confirmed_tick() -> Mapping[str, int]:
            await self.connections.presence.until_confirmed()
            return await tick()

        return confirmed_tick

    async def settle(self) -> dict[str, int]:
        """Settle items that have ended."""
        counts = await self._settler.tick()
        if counts["settled"]:
            self._source.on_items_settled()
            self._progress.set()
        return counts

    # Start and drain.

    async def run(self, stop: Stop, *, once: bool = False) -> None:
        """Work until a stop is requested, then drain; with `once`, request it after one pass.

        It waits for its source; with `once` it raises Unavailable if that cannot be reached, or
        error of its last claim, poll or start. Raises WorkerStuck if handlers never end.
        """
        work_stop, services_stop = Stop(), Stop()
        last_errors: dict[str, Exception] = {}
        stuck = StuckPoolCheck(
            self.handler_pools.in_this_process(),
            work_stop,
            stuck_seconds=self._settings.worker_stuck_seconds,
        )
        services = [
            Service("worker.settle", self.settle),
            Service("worker.extend_leases", self._leases.extend, self._leases.extend_seconds),
            Service(
                "worker.stop_expiring",
                self._leases.stop_expiring,
                self._leases.check_delay_seconds,
            ),
            Service("worker.report_overruns", self._leases.report_overruns),
            Service("worker.check_pools", stuck.tick, STUCK_CHECK_SECONDS),
            Service("worker.report_counts", CountsReport(self.counts).tick, REPORT_SECONDS),
            *self._source.background_services(),
        ]
        if self._isolated is not None:
            services += [Service("worker.isolate", each.tick) for each in self._isolated.processes]
        if once:
            services.append(self._single_pass(stop))
        service_tasks = _start(services, services_stop)
        other_tasks = [asyncio.create_task(forward_stop(stop, work_stop), name="worker.stop")]
        async with AsyncExitStack() as closing:  # from the last on; one that fails skips no other
            closing.enter_context(METRICS.source(self.counts.samples))
            closing.enter_context(METRICS.source(self._source.samples))
            closing.push_async_callback(self._close_source)
            closing.push_async_callback(_cancel, service_tasks)
            closing.push_async_callback(asyncio.wait, service_tasks, timeout=CLOSE_SECONDS)
            if self._isolated is not None:
                closing.callback(self._isolated.close)
            closing.callback(services_stop.request)
            closing.push_async_callback(_cancel, other_tasks)
            closing.push_async_callback(self._source.stop_taking)
            closing.callback(self._cancel_handlers)
            open_source = self.connections.presence.reporting(self._source.open)
            opening = open_source() if once else until_available(open_source)
            if await run_unless_stopped(opening, work_stop):
                inputs = self._source.input_services()
                input_tasks = _start(inputs, work_stop, last_errors)
                other_tasks += input_tasks
                await work_stop.wait()
                for service, task in zip(inputs, input_tasks, strict=True):
                    if service.is_cancelled_by_drain:
                        task.cancel()
                await self._drain(input_tasks)
        stuck.raise_if_stuck()
        if once and last_errors:
            raise next(iter(last_errors.values()))

    def _cancel_handlers(self) -> None:
        for run in self.runs.values():
            run.cancel_handlers()

    async def _close_source(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._source.close()

    def _single_pass(self, stop: Stop) -> Service:
        """Return the service that requests the stop when nothing is due, or after the set time."""
        ends_at = monotonic() + self._settings.worker_once_timeout_seconds

        async def end_pass() -> dict[str, int]:
            # While the source is asked, items may arrive.
            if monotonic() >= ends_at or (
                self._has_settled() and await self._source.is_idle() and self._has_settled()
            ):
                stop.request()
            return {}

        return Service("worker.once", end_pass, PASS_CHECK_SECONDS)

    def _has_settled(self) -> bool:
        return not self.runs and self._settler.is_idle

    async def _drain(self, input_tasks: Iterable[asyncio.Task[None]]) -> None:
        """Wait for running items for a bounded time, release the others, settle and commit."""
        await self._source.stop_taking()
        await asyncio.wait(input_tasks, timeout=CLOSE_SECONDS)
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._source.release_unstarted()
        await wait_for_items(self.runs, self._progress, self._settings.worker_drain_seconds)
        await release_unfinished(
            self.runs,
            lambda run: self.handler_pools.find(run.kind, run.topic),
            self.on_items_ended,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._settler.is_idle:
                    self._progress.clear()
                    await wait_for_event(self._progress, CHECK_SECONDS)
                await self._source.commit()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=CLOSE_SECONDS)


def _start(
    services: Iterable[Service], stop: Stop, last_errors: dict[str, Exception] | None = None
) -> list[asyncio.Task[None]]:
    return [
        asyncio.create_task(
            run_service(
                service.name,
                service.tick,
                stop=stop,
                idle_seconds=service.idle_seconds,
                last_errors=last_errors,
            ),
            name=service.name,
        )
        for service in services
    ]
