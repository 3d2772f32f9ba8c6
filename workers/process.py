"""The worker's process: with Kafka, or in direct mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.runtime.service import run_to_stop
from dueledger.workers.connections import log_lifecycle, open_connections
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.direct.worker import DirectWorker
from dueledger.workers.single_pass import SinglePass
from dueledger.workers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from dueledger.ledger.runtime.service import Stop
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.workers.direct.settings import DirectSettings
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.settings import WorkerSettings


async def run_worker(
    settings: WorkerSettings, handlers: Handlers, stop: Stop, *, once: bool = False
) -> WorkerCounts:
    """Work the handlers' kinds until a stop is requested; return the counts.

    With `once` it stops as soon as nothing is due. Raises Unavailable if Postgres or Kafka cannot
    be reached at the start, InvalidSetting without handlers and topics, and WorkerStuck, after a
    drain, if the calls of a handler never end.
    """
    if not (len(handlers) or settings.worker_topics or settings.worker_all_topics):
        raise InvalidSetting("there is nothing to work: no handler, no topic, and not all topics")
    work = _run(settings, handlers, stop, once=once)
    counts = await run_to_stop(work, stop, drain_seconds=settings.worker_drain_seconds)
    return counts or WorkerCounts()


async def _run(
    settings: WorkerSettings, handlers: Handlers, stop: Stop, *, once: bool
) -> WorkerCounts:
    async with open_connections(settings, handlers) as (name, worker_no, pool, transactions):
        stop.mark_started()
        worker = Worker(
            settings, handlers, pool, worker_no=worker_no, name=name, transactions=transactions
        )
        with log_lifecycle(name, handlers, worker.counts, settings):
            await worker.run(stop, SinglePass(pool, worker, settings, stop) if once else None)
        return worker.counts


async def run_direct_worker(
    settings: DirectSettings,
    handlers: Handlers,
    stop: Stop,
    *,
    once: bool = False,
    admits: Callable[[DueFlow], bool] | None = None,
) -> WorkerCounts:
    """Claim and work the handlers' kinds until a stop is requested; return the counts.

    `admits` selects flows, for kinds that several tenants have. With `once` it stops as soon as
    nothing can be claimed. Raises Unavailable if Postgres cannot be reached at the start,
    InvalidSetting without handlers, and WorkerStuck, after a drain, if the calls of a handler
    never end.
    """
    if not len(handlers):
        raise InvalidSetting("there is nothing to work: no handler")
    work = _run_direct(settings, handlers, stop, once=once, admits=admits)
    counts = await run_to_stop(work, stop, drain_seconds=settings.worker_drain_seconds)
    return counts or WorkerCounts()


async def _run_direct(
    settings: DirectSettings,
    handlers: Handlers,
    stop: Stop,
    *,
    once: bool,
    admits: Callable[[DueFlow], bool] | None,
) -> WorkerCounts:
    async with open_connections(settings, handlers) as (name, worker_no, pool, transactions):
        stop.mark_started()
        worker = DirectWorker(
            settings,
            handlers,
            pool,
            worker_no=worker_no,
            transactions=transactions,
            admits=admits,
        )
        with log_lifecycle(name, handlers, worker.counts, settings):
            await worker.run(stop, once=once)
        return worker.counts
