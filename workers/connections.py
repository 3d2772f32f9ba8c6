"""A worker's connections to Postgres, and the log lines of its start and end."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.cells import lift_sequences
from dueledger.ledger.store.processes import ProcessRole
from dueledger.workers.run.event_loop_watchdog import EventLoopWatchdog
from dueledger.workers.run.own_transaction import open_transactions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from dueledger.ledger.presence import Presence
    from dueledger.ledger.runtime.service import Stop
    from dueledger.ledger.store import Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.settings import WorkerSettings

# Start, settle, heartbeat and credits; or claim, settle, heartbeat, upkeep and the check of items.
# Where the ledger is measured, one more for that.
LEDGER_CONNECTIONS: Final = 5

log = get_logger("worker")


class WorkerConnections(NamedTuple):
    """A worker's actor name and number, its connection pools, and its presence."""

    name: str
    worker_no: int
    pool: Pool
    transactions: Pool | None
    presence: Presence


@asynccontextmanager
async def open_connections(
    settings: WorkerSettings,
    handlers: Handlers,
    roles: Sequence[str],
    stop: Stop | None = None,
) -> AsyncGenerator[WorkerConnections]:
    """Open a worker's connections and register its actor. Somebody may ask it for the `stop`.

    Raises Unavailable without Postgres, NotPermitted if its login lacks one of `roles`.
    """
    name = incarnation(ActorKind.WORKER)
    dsn = settings.dsn.get_secret_value()
    measures = "upkeep" in roles and settings.metrics_port is not None
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            open_pool(
                dsn,
                application_name=name,
                size_max=LEDGER_CONNECTIONS + measures,
                roles=roles,
                before_use=lift_sequences,
            )
        )
        transactions = await stack.enter_async_context(open_transactions(dsn, handlers, name))
        role = ProcessRole.DIRECT_WORKER if "upkeep" in roles else ProcessRole.WORKER
        presence = await stack.enter_async_context(
            open_presence(
                dsn,
                name,
                role,
                yields=handlers.are_async,
                kinds=sorted({each.kind for each in handlers}),
                does_upkeep="upkeep" in roles,
                stop=stop,
            )
        )
        yield WorkerConnections(name, presence.process_no, pool, transactions, presence)


@contextmanager
def log_lifecycle(
    name: str,
    handlers: Handlers,
    counts: WorkerCounts,
    settings: WorkerSettings,
    *,
    may_exit: bool,
) -> Generator[None]:
    """Log the worker's start and end, and run the event loop watchdog in between.

    Only where the worker `may_exit` does a loop that is blocked for too long end the process.
    """
    log.info(LogEvent.PROCESS_STARTED, name=name, kinds=[each.kind for each in handlers])
    watchdog = EventLoopWatchdog(
        counts,
        block_seconds=settings.worker_loop_block_seconds,
        stuck_seconds=settings.worker_stuck_seconds if may_exit else 0.0,
    )
    try:
        with watchdog:
            yield
    finally:
        log.info(LogEvent.PROCESS_STOPPED, name=name, **counts.snapshot())
