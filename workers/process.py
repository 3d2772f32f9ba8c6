"""The worker's process: with Kafka, or in direct mode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.runtime.service import run_to_stop
from dueledger.workers.connections import log_lifecycle, open_connections
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.direct.source import DirectSource
from dueledger.workers.kafka_source import KafkaSource
from dueledger.workers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from dueledger.ledger.runtime.service import Stop
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.workers.direct.settings import DirectSettings
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.settings import WorkerSettings
    from dueledger.workers.work_source import WorkSource

WORKER_ROLES: Final = ("worker",)
DIRECT_WORKER_ROLES: Final = ("allocator", "upkeep", "worker")


async def run_worker(
    settings: WorkerSettings, handlers: Handlers, stop: Stop, *, once: bool = False
) -> WorkerCounts:
    """Work the handlers' kinds until a stop is requested; return the counts.

    It waits for Postgres and Kafka if they are away. With `once` it raises Unavailable then, and
    stops as soon as nothing is due. Raises InvalidSetting without handlers and topics, and
    WorkerStuck, after a drain, if the calls of a handler never end.
    """
    if not (len(handlers) or settings.worker_topics or settings.worker_all_topics):
        raise InvalidSetting("there is nothing to work: no handler, no topic, and not all topics")
    make_source = partial(KafkaSource, settings)
    work = partial(_run, settings, handlers, stop, make_source, roles=WORKER_ROLES, once=once)
    return await _run_to_stop(work, settings, stop, once=once)


async def run_direct_worker(
    settings: DirectSettings,
    handlers: Handlers,
    stop: Stop,
    *,
    once: bool = False,
    admits: Callable[[DueFlow], bool] | None = None,
) -> WorkerCounts:
    """Claim and work the handlers' kinds until a stop is requested; return the counts.

    `admits` selects flows, for kinds that several tenants have. It waits for Postgres if that is
    away. With `once` it raises Unavailable then, and stops as soon as nothing can be claimed.
    Raises InvalidSetting without handlers, and WorkerStuck, after a drain, if the calls of a
    handler never end.
    """
    if not len(handlers):
        raise InvalidSetting("there is nothing to work: no handler")
    make_source = partial(DirectSource, settings, admits=admits)
    work = partial(
        _run, settings, handlers, stop, make_source, roles=DIRECT_WORKER_ROLES, once=once
    )
    return await _run_to_stop(work, settings, stop, once=once)


async def _run_to_stop(
    work: Callable[[], Coroutine[object, object, WorkerCounts]],
    settings: WorkerSettings,
    stop: Stop,
    *,
    once: bool,
) -> WorkerCounts:
    counts = await run_to_stop(
        work, stop, drain_seconds=settings.worker_drain_seconds, waits=not once
    )
    return counts or WorkerCounts()


async def _run(
    settings: WorkerSettings,
    handlers: Handlers,
    stop: Stop,
    make_source: Callable[[Worker], WorkSource],
    *,
    roles: Sequence[str],
    once: bool,
) -> WorkerCounts:
    async with open_connections(settings, handlers, roles) as connections:
        stop.mark_started()
        worker = Worker(settings, handlers, connections, make_source)
        with log_lifecycle(connections.name, handlers, worker.counts, settings):
            await worker.run(stop, once=once)
        return worker.counts
