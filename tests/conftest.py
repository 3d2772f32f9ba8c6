"""Real servers for every test: a database from a template, a kind and topic of its own."""

import asyncio
import atexit
import fcntl
import gc
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import settings as hypothesis_settings

from dueledger.ledger import sleep
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.migrations import migrate
from dueledger.ledger.store.partitions import make_item_months, make_partitions
from dueledger.stack import TEST_STACK_VARIABLE, Endpoints, Provider, open_stack
from tests.databases import (
    DatabasePool,
    MakeDatabase,
    Template,
    lent_session,
    named_database,
)
from tests.forks import ForkServer, open_fork_server
from tests.logins import make_logins

T = TypeVar("T")
_FORK_SERVER = pytest.StashKey[ForkServer]()

hypothesis_settings.register_profile("default", deadline=None)  # no timed assertions
hypothesis_settings.load_profile("default")

EVENTUALLY_SECONDS = 180.0
POLL_SECONDS = 0.04
POLL_SECONDS_MAX = 0.4
POLL_SHARE = 0.2
"""Part of the time waited so far: longer waits poll less often, with the same relative delay.

A question takes some 10 ms of the cores that it waits for.
"""
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def _turn_to_collect(config: pytest.Config) -> Generator[None]:
    """Wait while another process of a run collects, for each two: one reads what one compiled."""
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if not given:
        yield
        return
    turn = int(given["workerid"].removeprefix("gw")) % max(1, given["workercount"] // 2)
    with Path(given["fork_server"]).with_name(f"collecting-{turn}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """Collect without the garbage collector, and leave what was collected out of its passes.

    Nothing of it is garbage before the end, and each process has many objects for each test. After
    that its passes are as rare as in a process of the product: they took a twelfth of the time.
    """
    gc.disable()
    try:
        with _turn_to_collect(session.config):
            return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 20)
        gc.enable()


@atexit.register
def _let_all_be_freed() -> None:
    """Let the interpreter find everything at its end, or DuckDB reports its own as leaked.

    The collector does not see what the errors of pydantic hold: an error of a validator, whose
    traceback has the frames of the test that caught it.
    """
    for each in gc.get_objects():
        if issubclass(type(each), BaseException):
            each.__traceback__ = None
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests of the browser out of a run without them: what they import takes long."""
    left_out = "not browser" in config.option.markexpr
    return True if left_out and collection_path.name == "browser" else None


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: beside it the other processes can run all the rest."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - xdist has no types
    """Let the processes of a run share what starts programs: each would import for two seconds."""
    if _FORK_SERVER not in node.config.stash:
        opened = ExitStack()
        node.config.add_cleanup(opened.close)
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="forks-")))
        node.config.stash[_FORK_SERVER] = opened.enter_context(open_fork_server(folder))
    node.workerinput["fork_server"] = node.config.stash[_FORK_SERVER].address


@pytest.fixture(scope="session")
def fork_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ForkServer]:
    """Starts programs of this environment without the time that imports take."""
    given: dict[str, str] = getattr(request.config, "workerinput", {})
    if "fork_server" in given:
        yield ForkServer(given["fork_server"])
        return
    with open_fork_server(tmp_path_factory.mktemp("forks")) as server:
        yield server


@pytest.fixture(scope="session")
def stack() -> Generator[Endpoints]:
    """PostgreSQL and Kafka, embedded unless the environment chooses otherwise."""
    provider = Provider(os.environ.get(TEST_STACK_VARIABLE, Provider.EMBEDDED))
    with open_stack(provider, durable=False) as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def bootstrap_servers(stack: Endpoints) -> str:
    return stack.bootstrap_servers


MARCH = datetime(2027, 3, 1, 12, tzinfo=UTC)
Prepare = Callable[[Connection], Awaitable[object]]


@asynccontextmanager
async def open_database_pool(
    stack: Endpoints, prepare: Prepare, *, migrated: str
) -> AsyncGenerator[DatabasePool]:
    """Copies of a prepared database that no session changes, itself a copy of `migrated`."""
    name = f"template_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name} template {migrated} strategy file_copy")
    connection = await connect(named_database(stack.dsn, name), application_name="test")
    await prepare(connection)
    template = await Template.read(connection, name)
    await connection.close()
    await admin.execute(f"alter database {name} allow_connections false")
    pool = DatabasePool(admin, stack.dsn, template)
    yield pool
    await pool.close()
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


@pytest.fixture(scope="session")
async def migrated(stack: Endpoints) -> AsyncGenerator[str]:
    """The name of a migrated database of the server, to be copied."""
    name = f"migrated_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name}")
    connection = await connect(named_database(stack.dsn, name), application_name="test")
    await migrate(connection, ahead=timedelta(0))  # fewer files to copy
    await make_logins(connection)
    await connection.execute(
        "alter default privileges in schema public grant all on tables to public"
    )  # handlers of tests leave rows there
    await connection.close()
    yield name
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


def prepared_database_pool(prepare: Prepare):  # noqa: ANN201 - pytest does not publish the type
    """Make a fixture of a session: a pool of migrated databases that are prepared so."""

    @pytest.fixture(scope="session")
    async def databases(stack: Endpoints, migrated: str) -> AsyncGenerator[DatabasePool]:
        async with open_database_pool(stack, prepare, migrated=migrated) as pool:
            yield pool

    return databases


def make_partitions_at(noon: datetime, days: int, tables: str = "") -> Prepare:
    """Prepare databases for tests at that time: with table partitions, and the domain's tables."""

    async def prepare(connection: Connection) -> None:
        await set_clock(connection, noon, 0)
        await make_partitions(connection, ahead=timedelta(days=days))
        if tables:
            await connection.execute(tables)

    return prepare


async def _make_march(connection: Connection) -> None:
    """Make the month in which `make_drafts` lets items be effective."""
    await make_item_months(connection, [MARCH.date()])


database_pool = prepared_database_pool(_make_march)
served_database_pool = prepared_database_pool(make_partitions)
"""Databases with the table partitions that a process makes when it starts."""
march_database_pool = prepared_database_pool(make_partitions_at(MARCH, 62))


@pytest.fixture(scope="session")
def make_database(database_pool: DatabasePool) -> MakeDatabase:
    """Lease migrated, empty databases; each gives its DSN.

    At the end each item must have exactly one state, unless the test has set `damages`.
    """
    return database_pool.lease


@pytest.fixture
async def database(
    make_database: MakeDatabase, request: pytest.FixtureRequest
) -> AsyncGenerator[str]:
    """The DSN of a migrated, empty database of the test's own."""
    damaged = request.node.get_closest_marker("damages") is not None
    async with make_database(damaged=damaged) as dsn:
        yield dsn


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    async with open_pool(database, application_name="test", size_max=8) as pool:
        yield pool


@pytest.fixture
async def connection(database: str) -> AsyncGenerator[Connection]:
    """A session to the database that tests before it may have had; nothing of theirs is left."""
    async with lent_session(database) as connection:
        yield connection


@pytest.fixture
async def actor_no(connection: Connection) -> int:
    """Someone to act: a worker by kind, since most tests write as one."""
    return await register_actor(connection, "test", ActorKind.WORKER)


@pytest.fixture
def kind() -> str:
    """A kind of the test's own, so that its topic `due.<kind>` is too."""
    return f"Kind{secrets.token_hex(6)}"


@pytest.fixture
def make_drafts(kind: str) -> Callable[..., list[ItemDraft]]:
    """Make drafts `key-000000…` that have long been due, unless `due_at` says otherwise."""

    def make(
        count: int = 1,
        *,
        tenant: str = "acme",
        kind: str = kind,
        due_at: datetime | None = None,
        effective_date: date = date(2027, 3, 1),
        prefix: str = "key",
        lane: str = "",
        payload: str = '{"premium":"123.45"}',
        partition_key: str | None = None,
        labels: str | None = None,
    ) -> list[ItemDraft]:
        due = due_at or LONG_AGO
        return [
            ItemDraft(
                tenant=tenant,
                kind=kind,
                lane=lane,
                business_key=f"{prefix}-{number:06}",
                cycle="2027",
                effective_date=effective_date,
                due_at=due,
                payload=payload,
                partition_key=partition_key,
                labels=labels,
            )
            for number in range(count)
        ]

    return make


@pytest.fixture
def endless_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process that sleeps poll only after it was woken."""
    monkeypatch.setattr(sleep, "SLEEP_SECONDS", 1e6)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[T]]], Awaitable[T]]:
    """Poll until a question returns something true; fail after three minutes.

    No other code of the tests polls. It is for other processes, whose signals cannot be awaited.
    """

    async def poll(question: Callable[[], Awaitable[T]]) -> T:
        began = monotonic()
        waiting = asyncio.Event()
        while not (answer := await question()):
            waited = monotonic() - began
            if waited > EVENTUALLY_SECONDS:
                pytest.fail(f"it never happened: last answer {answer!r}")
            pause = min(max(waited * POLL_SHARE, POLL_SECONDS), POLL_SECONDS_MAX)
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting.wait(), pause)
        return answer

    return poll


EXPLAIN = """
create schema ledger_test;
create function ledger_test.explain(query text) returns setof text language plpgsql as $$
declare
  plan json;
begin
  for plan in execute 'explain (generic_plan, format json) ' || query loop
    return next plan::text;
  end loop;
end $$;
"""


@pytest.fixture(scope="module")
async def populated_database(make_database: MakeDatabase) -> AsyncGenerator[str]:
    """A database for tests of plans, that a module fills once; it can explain statements."""
    async with make_database(damaged=True) as dsn:
        owner = await asyncpg.connect(dsn)
        await owner.execute(EXPLAIN)
        await owner.close()
        yield dsn
