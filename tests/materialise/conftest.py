"""A materialiser on a ledger of the test's own, where time is fixed until the test advances it."""

import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
import tzdata
from pydantic import SecretStr

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent as Event
from dueledger.ledger.store import Connection, PlanProfile, Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claimed_rows import ClaimedRow
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    claim_serial_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from dueledger.reconciler import PassLimits, Reconciler, ReconcilerSources
from tests.claim_ids import claim_ids, run_ids
from tests.databases import DatabasePool, MakeDatabase
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAY = 86_400
SERVE = Path(__file__).with_name("serve.py")

NEWER = "2099z"
"""The IANA version that a newer tz database says it has."""

Check = Callable[..., list[dict[str, Any]]]
SetSchedule = Callable[..., Awaitable[int]]
SetTime = Callable[[datetime], Awaitable[None]]


@pytest.fixture(scope="session")
def make_database(march_database_pool: DatabasePool) -> MakeDatabase:
    return march_database_pool.lease


@pytest.fixture
def settings(database: str) -> MaterialiserSettings:
    return MaterialiserSettings(
        dsn=SecretStr(with_login(database, "materialiser")),
        materialise_horizon_seconds=DAY,
        materialise_stride_seconds=3_600,
        materialise_items_max=100,
        materialise_pass_items_max=1_000,
    )


@pytest.fixture
async def set_time(connection: Connection, pool: Pool) -> SetTime:
    """Fix business time at an instant, for all sessions of the test."""

    async def stand(instant: datetime) -> None:
        await set_clock(connection, instant, 0, database=True)
        await pool.connections.expire_connections()

    return stand


@pytest.fixture
async def materialiser(
    pool: Pool, settings: MaterialiserSettings, set_time: SetTime, connection: Connection
) -> Materialiser:
    """A materialiser at noon of the first of March 2027."""
    await set_time(NOON)
    actor_no = await register_actor(connection, "materialiser:test", ActorKind.MATERIALISER)
    return Materialiser(pool, settings, actor_no=actor_no)


@pytest.fixture
async def set_schedule(connection: Connection, kind: str) -> SetSchedule:
    """Bring a schedule into force: `when`, and from which instant on; None declares the kind."""

    async def bring(
        name: str,
        when: Mapping[str, Any] | None,
        *,
        effective_from: datetime = NOON,
        **changed: object,
    ) -> int:
        document: dict[str, object] = {"definition": name, "tenant": "acme", "kind": kind}
        document |= {} if when is None else {"business_key": name, "when": when}
        document |= changed
        definition = parse_definition(document, calendars=None)
        defined = await define(
            connection,
            definition.normalised(),
            tenant="acme",
            name=name,
            kind=definition.kind,
            event_type=definition.event,
            effective_from=effective_from,
            actor_no=await register_actor(connection, "author", ActorKind.PERSON),
        )
        return defined.definition_no

    return bring


@pytest.fixture
async def run_process(
    settings: MaterialiserSettings, fork_server: ForkServer
) -> AsyncGenerator[Callable[..., Awaitable[ForkedProcess]]]:
    """Start a materialiser process; what still runs dies with the test."""
    started: list[ForkedProcess] = []

    async def start(*, crash_at: str = "", tzdata_folder: Path | None = None) -> ForkedProcess:
        environment = os.environ | {
            "DUELEDGER_DSN": settings.dsn.get_secret_value(),
            "DUELEDGER_MATERIALISE_HORIZON_SECONDS": str(DAY),
            "DUELEDGER_MATERIALISE_ITEMS_MAX": "100",
            "DUELEDGER_MATERIALISE_PASS_ITEMS_MAX": "300",
            "DUELEDGER_MATERIALISE_IDLE_SECONDS": "0.05",
            "PYTHONPATH": "" if tzdata_folder is None else str(tzdata_folder),
            CRASH_VARIABLE: crash_at,
        }
        process = await fork_server.start(str(SERVE), env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def newer_tzdata(tmp_path: Path) -> Path:
    """A copy of the package, newer by its word, in which New York keeps the time of Halifax."""
    copy = tmp_path / "tzdata"
    shutil.copytree(Path(tzdata.__file__).parent, copy)
    zones = copy / "zoneinfo" / "America"
    shutil.copyfile(zones / "Halifax", zones / "New_York")
    module = copy / "__init__.py"
    module.write_text(module.read_text().replace(tzdata_version(), NEWER))
    return tmp_path


@pytest.fixture
def run_newer(database: str, newer_tzdata: Path, fork_server: ForkServer) -> Check:
    """Run `dueledger materialise` by the newer database, as a process of its own."""
    out, err = newer_tzdata / "out", newer_tzdata / "err"

    def run(
        *arguments: str, code: int | tuple[int, ...] = 0, crash_at: str = ""
    ) -> list[dict[str, Any]]:
        ended = fork_server.run(
            *("-m", "dueledger", "materialise", "--json", *arguments),
            env=os.environ
            | {
                "DUELEDGER_DSN": database,
                "DUELEDGER_ACTOR": "ada",
                "DUELEDGER_MATERIALISE_HORIZON_SECONDS": str(DAY),
                "PYTHONPATH": str(newer_tzdata),
                CRASH_VARIABLE: crash_at,
            },
            cwd=newer_tzdata,
            out=out,
            err=err,
        )
        assert ended in (code if isinstance(code, tuple) else (code,)), err.read_text()
        return [orjson.loads(line) for line in out.read_text().splitlines()]

    return run


@pytest.fixture
def check_tz(run_newer: Check) -> Check:
    """Run `dueledger materialise --check-tz` by the newer database, as a process of its own."""

    def run(
        *arguments: str, code: int | tuple[int, ...] = 0, crash_at: str = ""
    ) -> list[dict[str, Any]]:
        return run_newer("--check-tz", *arguments, code=code, crash_at=crash_at)

    return run


@pytest.fixture
def apply_tz(check_tz: Check) -> Check:
    """Review what there is to change, and apply it."""

    def run(*, code: int = 0) -> list[dict[str, Any]]:
        return check_tz("--apply", check_tz(code=code)[0]["digest"], code=code)

    return run


@pytest.fixture
async def reconciler(database: str, connection: Connection) -> AsyncGenerator[Reconciler]:
    dsn = with_login(database, "reconciler")
    number = await register_actor(connection, "reconciler", ActorKind.RECONCILER)
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as analytic:
        limits = PassLimits(stuck_seconds=86_400)
        yield Reconciler(analytic, ReconcilerSources(), number, limits=limits)


async def tick_until_idle(materialiser: Materialiser, passes_max: int = 500) -> int:
    """Tick until nothing is left; return how many passes it took."""
    for passes in range(passes_max):
        if not any((await materialiser.tick()).values()):
            return passes
    pytest.fail(f"not idle after {passes_max} passes")


async def due_times(connection: Connection, name: str) -> list[datetime]:
    rows = await connection.fetch(
        "select due_at from ledger.due_item where business_key = $1 order by due_at", name
    )
    return [row["due_at"] for row in rows]


async def claim_next(connection: Connection, actor_no: int, count: int) -> tuple[int, list[UUID]]:
    """Claim up to so many items that are due, of one flow; return the fence and their ids."""
    (flow, *_) = await list_due_flows(connection, 10)
    async with connection.transaction():
        rows = await claim_items(connection, [flow.flow_no], [count])
        (fence,) = await next_fences(connection, 1)
        item_nos = [row.item_no for row in rows.items()]
        claim = Claim(
            new_claim_id(fence, rows.claimed_at),
            actor_no,
            flow.topic,
            0,
            item_nos,
            [row.effective_date for row in rows.items()],
            [1] * len(rows),
            [1] * len(rows),
            60,
            30,
        )
        await record_claims(connection, [claim])
    ids = await connection.fetch(
        "select id from ledger.due_item where item_no = any ($1::bigint[])", item_nos
    )
    return fence, [row["id"] for row in ids]


async def claim_due(
    connection: Connection, actor_no: int, *, serial: bool
) -> tuple[int, list[ClaimedRow]] | None:
    """Claim some of what is due, of all flows; return the fence and the rows, None if nothing."""
    due = await list_due_flows(connection, 100)
    flows = [flow.flow_no for flow in due if flow.has_serial or not serial]
    async with connection.transaction():
        if serial:
            rows = await claim_serial_items(connection, flows, [9] * len(flows), actor_no)
        else:
            rows = await claim_items(connection, flows, [9] * len(flows))
        if not rows:
            return None
        (fence,) = await next_fences(connection, 1)
        claim = Claim(
            new_claim_id(fence, rows.claimed_at),
            actor_no,
            "due.test",
            0,
            [row.item_no for row in rows.items()],
            [row.effective_date for row in rows.items()],
            [row.attempt + 1 for row in rows.items()],
            [row.starts + 1 for row in rows.items()],
            60,
            30,
        )
        await record_claims(connection, [claim])
    return fence, rows.items()


async def start(connection: Connection, actor_no: int, fence: int, count: int) -> int:
    """Start the items that were handed out; return their run."""
    (started,) = await start_runs(
        connection,
        await claim_ids(connection, [fence]),
        [1],
        [count],
        worker_no=actor_no,
        lease_seconds=60,
    )
    assert started.run_no is not None
    return started.run_no


async def end(connection: Connection, actor_no: int, run_no: int, events: list[Event]) -> None:
    """End the items of a run."""
    outcomes = [Outcome(event, '{"reason":"test"}') for event in events]
    (run,) = await run_ids(connection, [run_no])
    assert await settle_runs(connection, [Settlement(run, outcomes)], actor_no) == []


async def watermark(connection: Connection, name: str) -> datetime:
    """Return how far it is materialised: a window that was cut ends before a stride."""
    until = await connection.fetchval(
        "select materialised_until from ledger.materialised join ledger.definition"
        " using (definition_no) where name = $1",
        name,
    )
    assert until >= NOON + timedelta(seconds=DAY), name
    return until
