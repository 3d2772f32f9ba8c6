"""Calendars in files, and definitions that name them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from dueledger.calendars.import_calendar import CalendarImport, import_calendar
from dueledger.calendars.source_calendar import DayRange, SourceCalendar, make_document
from dueledger.definitions.put_in_force import DefinedDocument, put_in_force
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.store import Connection, PlanProfile, Pool, clock, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import PassLimits, Reconciler, ReconcilerSources
from tests.conftest import make_partitions_at, prepared_database_pool
from tests.databases import DatabasePool, MakeDatabase

WEEKEND = ("sat", "sun")

NOON = datetime(2027, 12, 22, 12, tzinfo=UTC)
"""A Wednesday."""

DAY = timedelta(days=1)
DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}
Put = Callable[..., Awaitable[CalendarImport]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file byte by byte as given, line ends included."""

    def text(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return text


@pytest.fixture
def put(connection: Connection) -> Callable[..., Awaitable[CalendarImport]]:
    """Put a calendar `us` of 2027, or as far as `last` says, with these holidays."""

    async def put_us(
        *holidays: str, last: str = "2027-12-31", workdays: tuple[str, ...] = (), name: str = "us"
    ) -> CalendarImport:
        days = {date.fromisoformat(day): "" for day in holidays}
        span = DayRange(date(2026, 1, 1), date.fromisoformat(last))
        worked = [date.fromisoformat(day) for day in workdays]
        document = make_document(span, WEEKEND, days, worked, source="test")
        actor_no = await register_actor(connection, "person:test", ActorKind.PERSON)
        return await import_calendar(
            connection,
            SourceCalendar(document, "test"),
            tenant="acme",
            name=name,
            actor_no=actor_no,
        )

    return put_us


class Site:
    """The steps of a test: define, advance time, materialise, reconcile, read."""

    def __init__(
        self,
        connection: Connection,
        pool: Pool,
        materialiser: Materialiser,
        reconciler: Reconciler,
    ) -> None:
        self.connection = connection
        self.pool = pool
        self.materialiser = materialiser
        self.reconciler = reconciler

    async def define(
        self,
        name: str,
        when: Mapping[str, object],
        roll: str = "following",
        *,
        since: datetime | None = None,
        **more: object,
    ) -> DefinedDocument:
        document = {
            "definition": name,
            "tenant": "acme",
            "kind": f"Kind{name}",
            "business_key": name,
            "when": when,
            "calendar": {"name": "us", "roll": roll},
        } | more
        actor_no = await register_actor(self.connection, "person:test", ActorKind.PERSON)
        definition = parse_definition(document, calendars=None)
        (defined,) = await put_in_force(
            self.connection, [definition], actor_no=actor_no, effective_from=since
        )
        return defined

    async def at(self, now: datetime) -> None:
        """Let it be `now`, and materialise all there is."""
        await clock.set_clock(self.connection, now, 0, database=True)
        await self.pool.connections.expire_connections()
        for _ in range(100):
            if not (await self.materialiser.tick()).get("definitions"):
                return
        pytest.fail("the materialiser never comes to rest")

    async def due(self, name: str) -> dict[str, str]:
        """Return when each nominal time falls due, in UTC."""
        rows = await self.connection.fetch(
            "select nominal, due_at from ledger.due_item where business_key = $1 order by due_at",
            name,
        )
        return {row["nominal"]: f"{row['due_at']:%m-%d %H:%M}" for row in rows}

    async def found(self) -> set[FindingType]:
        result = await self.reconciler.run_pass()
        types = {type_ for type_, count in result.found.items() if count}
        return types - {FindingType.OVERDUE, FindingType.LATE}


december_database_pool = prepared_database_pool(make_partitions_at(NOON, 31))


@pytest.fixture(scope="session")
def make_database(december_database_pool: DatabasePool) -> MakeDatabase:
    return december_database_pool.lease


@pytest.fixture
async def frozen(connection: Connection) -> Connection:
    await clock.set_clock(connection, NOON, 0, database=True)
    return connection


@pytest.fixture
async def site(frozen: Connection, database: str) -> AsyncGenerator[Site]:
    """A materialiser and a reconciler with a horizon of a day, on a fixed clock."""
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        settings = MaterialiserSettings(
            dsn=SecretStr(database),
            materialise_horizon_seconds=DAY.total_seconds(),
            materialise_stride_seconds=3_600,
            materialise_retry_seconds=0,
        )
        actor_no = await register_actor(frozen, "materialiser:test", ActorKind.MATERIALISER)
        yield Site(
            frozen,
            pool,
            Materialiser(pool, settings, actor_no=actor_no),
            Reconciler(pool, ReconcilerSources(), actor_no, limits=PassLimits(stuck_seconds=0)),
        )
