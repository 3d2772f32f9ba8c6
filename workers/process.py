"""A running worker, with Kafka or in direct mode, in a process of its own or within a program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.runtime.service import run_to_stop
from dueledger.workers.connections import log_lifecycle, open_connections
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.direct.source import DirectSource
from dueledger.workers.kafka_source import KafkaSource
from dueledger.workers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dueledger.ledger.runtime.service import Stop
    from dueledger.workers.direct.flow_selection import FlowSelection
    from dueledger.workers.direct.settings import DirectSettings
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.settings import WorkerSettings
    from dueledger.workers.work_source import WorkSource

WORKER_ROLES: Final = ("worker",)
DIRECT_WORKER_ROLES: Final = ("allocator", "upkeep", "worker")


async def run_worker(
    settings: WorkerSettings,
    handlers: Handlers,
    stop: Stop,
    *,
    once: bool = False,
    may_exit: bool = True,
) -> WorkerCounts:
    """Work the handlers' kinds until a stop is requested; return the counts.

    It waits for Postgres and Kafka if they are away. With `once` it raises Unavailable then, and
    stops as soon as nothing is due. An event loop that is blocked for `worker_stuck_seconds` ends
    the process, unless it `may_exit` not. Raises InvalidSetting without handlers and topics, and
    WorkerStuck, after a drain, if the calls of a handler never end.
    """
    if not (len(handlers) or settings.worker_topics or settings.worker_all_topics):
        raise InvalidSetting("there is nothing to work: no handler, no topic, and not all topics")
    run = _Run(settings, handlers, partial(KafkaSource, settings), WORKER_ROLES, may_exit)
    return await run.to_stop(stop, once=once)


async def run_direct_worker(
    settings: DirectSettings,
    handlers: Handlers,
    stop: Stop,
    *,
    once: bool = False,
    may_exit: bool = True,
    selection: FlowSelection | None = None,
) -> WorkerCounts:
    """Claim and work the handlers' kinds until a stop is requested; return the counts.

    `selection` chooses among the flows of kinds that several tenants have. It waits for Postgres if
    that is away. With `once` it raises Unavailable then, and stops as soon as nothing can be
    claimed. `may_exit` and the errors are those of `run_worker`.
    """
    if not len(handlers):
        raise InvalidSetting("there is nothing to work: no handler")
    make_source = partial(DirectSource, settings, selection=selection)
    run = _Run(settings, handlers, make_source, DIRECT_WORKER_ROLES, may_exit)
    return await run.to_stop(stop, once=once)


@final
@dataclass(frozen=True, slots=True)
class _Run:
    """A worker that was not started yet."""

    settings: WorkerSettings
    handlers: Handlers
    make_source: Callable[[Worker], WorkSource]
    roles: Sequence[str]
    may_exit: bool

    async def to_stop(self, stop: Stop, *, once: bool) -> WorkerCounts:
        """Connect, and work until a stop is requested."""
        counts = await run_to_stop(
            partial(self._work, stop, once=once),
            stop,
            drain_seconds=self.settings.worker_drain_seconds,
            waits=not once,
        )
        return counts or WorkerCounts()

    async def _work(self, stop: Stop, *, once: bool) -> WorkerCounts:
        asked = stop if self.may_exit else None  # a program decides itself about what it embeds
        async with open_connections(self.settings, self.handlers, self.roles, asked) as connections:
            stop.mark_started()
            worker = Worker(self.settings, self.handlers, connections, self.make_source)
            name, counts = connections.name, worker.counts
            with log_lifecycle(name, self.handlers, counts, self.settings, may_exit=self.may_exit):
                await worker.run(stop, once=once)
            return counts
