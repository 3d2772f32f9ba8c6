"""Workers in this process and in ones that may be killed, fed by a real allocator."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
import pytest
from pydantic import SecretStr

from dueledger import Handlers
from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import CRASH_VARIABLE, Stop
from dueledger.ledger.store import Connection, Record
from dueledger.ledger.store.claims import ReapedRuns, reap_runs
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.ledger.store.partitions import make_partitions
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings
from tests.conftest import prepared_database_pool
from tests.databases import DatabasePool, MakeDatabase
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login
from tests.wire import Wire, wire_to

T = TypeVar("T")


class Eventually(Protocol):
    """The fixture that polls until something is true."""

    async def __call__(self, question: Callable[[], Awaitable[T | None]], /) -> T: ...


SERVE = Path(__file__).with_name("serve.py")
EVIDENCE = """
create table public.seen (
  item uuid not null, pid int not null, at timestamptz not null default clock_timestamp());
create table public.effect (item uuid primary key)
"""
"""Each time an item was worked, and an effect that must happen once."""
SESSION_SECONDS = 6.0  # the least that brokers allow as they are shipped


async def _make_evidence(connection: Connection) -> None:
    """Prepare a database as a process finds it that starts again, and tables of the domain."""
    await make_partitions(connection)
    await connection.execute(EVIDENCE)


evidence_database_pool = prepared_database_pool(_make_evidence)


@pytest.fixture(scope="session")
def make_database(evidence_database_pool: DatabasePool) -> MakeDatabase:
    return evidence_database_pool.lease


@pytest.fixture
def settings(database: str, bootstrap_servers: str, kind: str) -> WorkerSettings:
    """A group of the test's own."""
    return WorkerSettings(
        dsn=SecretStr(with_login(database, "worker")),
        bootstrap_servers=bootstrap_servers,
        worker_group_id=f"group-{kind}",
        worker_session_timeout_seconds=SESSION_SECONDS,
    )


@asynccontextmanager
async def _working(settings: WorkerSettings, handlers: Handlers) -> AsyncGenerator[Stop]:
    stop = Stop()
    task = asyncio.create_task(run_worker(settings, handlers, stop))
    try:
        yield stop
    finally:
        stop.request()
        await task


@dataclass(frozen=True)
class WorkerProcess:
    """A worker that may be stopped and killed, and its log."""

    process: ForkedProcess
    lines: list[dict[str, Any]]

    async def read(self) -> None:
        """Read its log until it ends."""
        assert self.process.piped is not None
        async for line in self.process.piped:
            sys.stderr.write(line.decode())
            if line.startswith(b"{"):
                self.lines.append(orjson.loads(line))

    def logged(self, event: LogEvent) -> list[dict[str, Any]]:
        """Return its lines of an event."""
        return [line for line in self.lines if line["event"] == event]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        return await self.process.wait()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Site:
    """A ledger, an allocator and workers around one kind, and the states of its items."""

    def __init__(
        self,
        connection: Connection,
        settings: WorkerSettings,
        allocator: Allocator,
        eventually: Eventually,
        *,
        kind: str,
        actor_no: int,
        running: AsyncExitStack,
        forks: ForkServer,
    ) -> None:
        self.connection = connection
        self.settings = settings
        self.eventually = eventually
        self.kind = kind
        self.actor_no = actor_no
        self._allocator = allocator
        self._running = running
        self._forks = forks

    async def emit(self, drafts: Sequence[ItemDraft]) -> None:
        await emit_items(self.connection, drafts, actor_no=self.actor_no)

    async def allocate(self) -> int:
        """Reap, then claim and publish due items; return how many were claimed."""
        return (await self._allocator.tick())["claimed"]

    async def set_kind(self, **policy: object) -> None:
        """Change the kind's policy by column."""
        columns = ", ".join(f"{name} = ${place}" for place, name in enumerate(policy, 2))
        await self.connection.execute(
            f"update ledger.kind set {columns} where name = $1",  # noqa: S608  # a test's own names
            self.kind,
            *policy.values(),
        )

    async def grant(self, items: int) -> None:
        """Grant credit for so many items of the kind, without a worker; 0 ends it."""
        topics = [work_topic(self.kind)] if items else []
        await grant_credits(self.connection, self.actor_no, topics, [items][: len(topics)], 3600)

    async def credits(self) -> dict[int, int]:
        """Return how many items each worker wants waiting now, by its number."""
        rows = await self.connection.fetch(
            """
            select worker_no, items from ledger.credit
            where topic = $1 and worker_no <> $2 and granted_until > ledger.machine_now()
            """,
            work_topic(self.kind),
            self.actor_no,
        )
        return {row["worker_no"]: row["items"] for row in rows}

    async def work(self, handlers: Handlers, **changed: object) -> Stop:
        """Run a worker in this process until the test ends; keywords change its settings."""
        settings = self.settings.model_copy(update=changed)
        return await self._running.enter_async_context(_working(settings, handlers))

    async def work_once(self, handlers: Handlers) -> dict[str, int]:
        """Let a worker make one pass."""
        counts = await run_worker(self.settings, handlers, Stop(), once=True)
        return counts.snapshot()

    async def lay_wire(self) -> tuple[Wire, str]:
        """Lay a wire to Postgres that can be cut, until the test ends; give its near end's DSN."""
        return await self._running.enter_async_context(
            wire_to(self.settings.dsn.get_secret_value())
        )

    async def start_process(
        self, handler: str, *, crash_at: str = "", group: str = "", **changed: object
    ) -> WorkerProcess:
        """Start `serve.py` with a handler of its own by name; it dies with the test.

        Keywords change its settings.
        """
        environment = os.environ | {
            "DUELEDGER_DSN": self.settings.dsn.get_secret_value(),
            "DUELEDGER_BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
            "DUELEDGER_WORKER_GROUP_ID": self.settings.worker_group_id + group,
            "DUELEDGER_WORKER_SESSION_TIMEOUT_SECONDS": str(SESSION_SECONDS),
            "TEST_KIND": self.kind,
            CRASH_VARIABLE: crash_at,
            **{f"DUELEDGER_{name.upper()}": str(value) for name, value in changed.items()},
        }
        process = await self._forks.start(
            str(SERVE), self.kind, handler, env=environment, pipe="stderr"
        )
        worker = WorkerProcess(process, [])
        reading = asyncio.create_task(worker.read())
        self._running.push_async_callback(asyncio.wait, {reading})
        self._running.push_async_callback(worker.kill)
        return worker

    async def reap(self) -> ReapedRuns:
        """Reap runs as this session's machine clock has it."""
        return await reap_runs(self.connection, 100, self.actor_no)

    async def open_runs(self) -> int:
        return await self.connection.fetchval(
            "select count(*) from ledger.run where closed_at is null"
        )

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

    async def details(self) -> dict[str, Any]:
        """Return the detail of the last thing that happened to each item."""
        rows = await self.connection.fetch(
            """
            select distinct on (i.business_key) i.business_key, t.detail
            from ledger.due_item i join ledger.transition t using (effective_date, item_no)
            order by i.business_key, t.at desc
            """
        )
        return {row["business_key"]: row["detail"] for row in rows}

    async def pending(self) -> dict[str, Record]:
        """Return the pending items: state, attempt, and seconds until they are available."""
        rows = await self.connection.fetch(
            """
            select i.business_key, p.state, p.attempt, p.starts, p.batch_max,
              extract(epoch from p.available_at - ledger.now())::float as wait_seconds
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

    async def completed(self) -> int:
        """Count what is completed, and hold the accounting identity on the way."""
        accounts = await read_accounting(self.connection)
        for account in accounts:
            assert account.difference == 0, account
        return sum(account.completed for account in accounts)

    async def rejected_writes(self) -> list[Record]:
        """Return what stale writes tried."""
        return await self.connection.fetch(
            "select verb, reason, fence, run_no, detail from ledger.rejected_write order by 1, 2"
        )

    async def advance_machine(self, by: timedelta) -> None:
        """Let this session's reaper believe that so much time has passed."""
        now = await self.connection.fetchval("select clock_timestamp()")
        await set_machine_clock(self.connection, now + by, 1.0)


@pytest.fixture
async def site(
    connection: Connection,
    settings: WorkerSettings,
    actor_no: int,
    kind: str,
    eventually: Eventually,
    fork_server: ForkServer,
) -> AsyncGenerator[Site]:
    allocating = AllocatorSettings(
        dsn=SecretStr(with_login(settings.dsn.get_secret_value(), "allocator")),
        bootstrap_servers=settings.bootstrap_servers,
        allocator_reap_seconds=1e-6,
    )
    async with AsyncExitStack() as running:
        allocator = await running.enter_async_context(open_allocator(allocating, stop=Stop()))
        site = Site(
            connection,
            settings,
            allocator,
            eventually,
            kind=kind,
            actor_no=actor_no,
            running=running,
            forks=fork_server,
        )
        await site.grant(1_000_000)  # so that items lie in Kafka before anybody works
        yield site
