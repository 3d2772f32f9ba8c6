"""Workers without Kafka: in this process, tick by tick, and as processes that may be killed.

Whatever asks for Kafka finds nobody: the address that they are given is of a port where nobody
listens, or none at all.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import pytest
from pydantic import SecretStr

from dueledger import Handlers
from dueledger.ledger.presence import Presence
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import CRASH_VARIABLE, Stop
from dueledger.ledger.store import Connection, Pool, Record
from dueledger.ledger.store.actors import ActorKind, incarnation, register_actor
from dueledger.ledger.store.claims import ReapedRuns, reap_claims, reap_runs
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.ledger.store.processes import ProcessRole
from dueledger.workers.connections import WorkerConnections
from dueledger.workers.direct import DirectSettings
from dueledger.workers.direct.source import DirectSource
from dueledger.workers.process import run_direct_worker
from dueledger.workers.worker import Worker
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login

T = TypeVar("T")

HERE = Path(__file__).parent
NOBODY = "127.0.0.1:1"


class Eventually(Protocol):
    """The fixture that polls until something is true."""

    async def __call__(self, question: Callable[[], Awaitable[T | None]], /) -> T: ...


@dataclass(frozen=True)
class WorkerProcess:
    """`dueledger work --direct` that may be stopped and killed."""

    process: ForkedProcess

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        return await self.process.wait()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class DirectWorker:
    """A worker in direct mode, tick by tick."""

    def __init__(
        self, settings: DirectSettings, handlers: Handlers, connections: WorkerConnections
    ) -> None:
        sources: list[DirectSource] = []

        def make_source(worker: Worker) -> DirectSource:
            sources.append(DirectSource(settings, worker))
            return sources[0]

        worker = Worker(settings, handlers, connections, make_source)
        self.runs, self.counts, self.settle = worker.runs, worker.counts, worker.settle
        self.claim, self.run_upkeep = sources[0].claim, sources[0].upkeep.tick
        self.presence = connections.presence


@dataclass
class Estate:
    """A ledger and workers around one kind, and the states of its items."""

    dsn: str
    connection: Connection
    pool: Pool
    eventually: Eventually
    kind: str
    actor_no: int
    running: AsyncExitStack
    forks: ForkServer
    settings: DirectSettings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = DirectSettings(
            dsn=SecretStr(with_login(self.dsn, "direct_worker")),
            bootstrap_servers=NOBODY,
            worker_batch_wait_seconds=0,
            direct_batch_wait_seconds=0,
            direct_idle_seconds=0.01,
        )

    async def emit(self, drafts: Sequence[ItemDraft]) -> None:
        await emit_items(self.connection, drafts, actor_no=self.actor_no)

    async def employ(
        self,
        handlers: Handlers,
        *,
        pool: "Pool | None" = None,
        yields: bool = False,
        **changed: object,
    ) -> DirectWorker:
        """Return a worker whose ticks the test calls; keywords change its settings."""
        name = incarnation(ActorKind.WORKER)
        worker_no = await register_actor(self.connection, name, ActorKind.WORKER)
        return DirectWorker(
            self.settings.model_copy(update=changed),
            handlers,
            WorkerConnections(
                name,
                worker_no,
                pool or self.pool,
                None,
                Presence(self.dsn, name, ProcessRole.DIRECT_WORKER, yields=yields),
            ),
        )

    async def work(self, handlers: Handlers, **changed: object) -> Stop:
        """Run a worker in this process until the test ends; keywords change its settings."""
        settings = self.settings.model_copy(update=changed)
        return await self.running.enter_async_context(_working(settings, handlers))

    async def start_process(
        self,
        handlers: str,
        *options: str,
        crash_at: str = "",
        module: str = "handlers",
        **variables: str,
    ) -> WorkerProcess:
        """Start `dueledger work --direct` without any address of Kafka; it dies with the test."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("DUELEDGER_")
        }
        environment |= {
            "DUELEDGER_DSN": self.settings.dsn.get_secret_value(),
            "TEST_KIND": self.kind,
            CRASH_VARIABLE: crash_at,
            **variables,
        }
        command = ("-m", "dueledger", "work", "--direct", f"{module}:{handlers}", *options)
        process = await self.forks.start(*command, env=environment, cwd=HERE, pipe="stdout")
        worker = WorkerProcess(process)
        self.running.push_async_callback(worker.kill)
        return worker

    async def reap(self) -> ReapedRuns:
        """Reap as this session's machine clock has it."""
        await reap_claims(self.connection, 100, self.actor_no)
        return await reap_runs(self.connection, 100, self.actor_no)

    async def reap_dead(self) -> ReapedRuns:
        """Reap once no backend of a worker is left: what one has locked would be passed by."""

        async def gone() -> bool:
            return not await self.count(
                "pg_stat_activity s join ledger.actor a on s.application_name = left(a.name, 63)"
                " where s.datname = current_database() and a.name like 'worker:%'"
            )

        await self.eventually(gone)
        return await self.reap()

    async def advance_machine(self, by: timedelta) -> None:
        """Let this session's reaper believe that so much time has passed."""
        now = await self.connection.fetchval("select clock_timestamp()")
        await set_machine_clock(self.connection, now + by, 1.0)

    async def completed(self) -> int:
        """Count what is completed, and hold the accounting identity on the way."""
        accounts = await read_accounting(self.connection)
        for account in accounts:
            assert account.difference == 0, account
        return sum(account.completed for account in accounts)

    async def until_completed(self, count: int) -> None:
        async def done() -> bool:
            return await self.completed() == count

        await self.eventually(done)

    async def count(self, table: str) -> int:
        return await self.connection.fetchval(f"select count(*) from {table}")  # noqa: S608

    async def open_runs(self) -> int:
        return await self.count("ledger.run where closed_at is null")

    async def events(self) -> dict[str, list[str]]:
        """Return the journal's events of each item, oldest first."""
        rows = await self.connection.fetch(
            """
            select i.business_key, array_agg(e.name order by t.at, t.run_no) as events
            from ledger.due_item i
            join ledger.transition t using (effective_date, item_no)
            join ledger.transition_event e on e.event = t.event
            group by i.business_key
            """
        )
        return {row["business_key"]: row["events"] for row in rows}

    async def pending(self) -> dict[str, Record]:
        """Return the pending items."""
        rows = await self.connection.fetch(
            """
            select i.business_key, p.state, p.attempt, p.starts, p.batch_max
            from ledger.pending p join ledger.due_item i using (effective_date, item_no)
            """
        )
        return {row["business_key"]: row for row in rows}

    async def reviews(self) -> dict[str, str]:
        """Return the reasons of what is parked."""
        rows = await self.connection.fetch(
            """
            select i.business_key, r.reason
            from ledger.review r join ledger.due_item i using (effective_date, item_no)
            """
        )
        return {row["business_key"]: row["reason"] for row in rows}

    async def set_flow(self, **limits: object) -> None:
        """Set columns of every flow."""
        for name, value in limits.items():
            await self.connection.execute(f"update ledger.flow set {name} = $1", value)  # noqa: S608

    async def set_kind(self, **policy: object) -> None:
        """Set columns of every kind."""
        for name, value in policy.items():
            await self.connection.execute(f"update ledger.kind set {name} = $1", value)  # noqa: S608


@asynccontextmanager
async def _working(settings: DirectSettings, handlers: Handlers) -> AsyncGenerator[Stop]:
    stop = Stop()
    task = asyncio.create_task(run_direct_worker(settings, handlers, stop))
    try:
        yield stop
    finally:
        stop.request()
        await task


@pytest.fixture
async def estate(
    database: str,
    connection: Connection,
    pool: Pool,
    actor_no: int,
    kind: str,
    eventually: Eventually,
    fork_server: ForkServer,
) -> AsyncGenerator[Estate]:
    async with AsyncExitStack() as running:
        yield Estate(database, connection, pool, eventually, kind, actor_no, running, fork_server)
