"""Calendars as versions in the ledger, and the definitions that name them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from dueledger.calendars.importing import Imported
from dueledger.defining import DefinedDocument, put_in_force
from ledger.definitions import parse_definition
from ledger.errors import InvalidDefinition
from ledger.materialise import Materialiser, MaterialiserSettings
from ledger.store import Connection, PlanProfile, Pool, clock, open_pool
from ledger.store.actors import ActorKind, register_actor
from ledger.store.calendars import find_calendar_version, list_calendar_uses, put_calendar
from ledger.store.partitions import make_partitions
from reconciler import Limits, Reconciler, Sources
from reconciler.vocabulary import FindingType

NOON = datetime(2027, 12, 22, 12, tzinfo=UTC)
"""A Wednesday."""

DAY = timedelta(days=1)
DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}
Put = Callable[..., Awaitable[Imported]]


@pytest.fixture
async def frozen(connection: Connection) -> Connection:
    await clock.set_clock(connection, NOON, 0, database=True)
    await make_partitions(connection)
    return connection


@pytest.fixture
async def site(frozen: Connection, database: str) -> Any:  # noqa: ANN401 - the class below
    """A materialiser and a reconciler that see a day ahead, on a clock that stands still."""
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
            Reconciler(pool, Sources(), actor_no, limits=Limits(stuck_seconds=0)),
        )


class Site:
    """What a test does: define, let time pass, materialise, reconcile, look."""

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
        self, name: str, when: Mapping[str, object], roll: str = "following", **more: object
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
        (defined,) = await put_in_force(self.connection, [definition], actor_no=actor_no)
        return defined

    async def at(self, now: datetime) -> None:
        """Let it be `now`, and materialise all there is."""
        await clock.set_clock(self.connection, now, 0, database=True)
        await self.pool.expire_connections()
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
        result = await self.reconciler.pass_()
        types = {type_ for type_, count in result.found.items() if count}
        return types - {FindingType.OVERDUE, FindingType.LATE}


async def test_the_same_days_again_are_no_new_version(put: Put, connection: Connection) -> None:
    first, again = await put("2027-12-24"), await put("2027-12-24")
    other = await put("2027-12-24", "2027-12-27")
    assert [(one.version, one.applied) for one in (first, again, other)] == [
        (1, True),
        (1, False),
        (2, True),
    ]
    assert other.difference is not None
    assert [one.day for one in other.difference.added] == [date(2027, 12, 27)]
    old = await find_calendar_version(connection, "acme", "us", 1)
    assert old is not None
    assert old.document["holidays"] == ["2027-12-24"]
    assert old.valid_to == date(2027, 12, 31)


async def test_two_who_import_at_once_make_one_version_after_the_other(
    pool: Pool, connection: Connection, actor_no: int
) -> None:
    async def one(number: int) -> bool:
        async with pool.acquire() as own:
            put = await put_calendar(
                own,
                {"number": number % 2},
                tenant="acme",
                name="us",
                valid_to=date(2027, 12, 31),
                source=None,
                actor_no=actor_no,
            )
            return put.changed

    changed = await asyncio.gather(*(one(number) for number in (0, 1, 0, 1, 0, 1)))
    rows = await connection.fetch("select version from ledger.calendar order by version")
    assert [row["version"] for row in rows] == list(range(1, sum(changed) + 1))


async def test_a_name_that_is_not_there_is_refused_with_those_that_are(
    put: Put, site: Site
) -> None:
    with pytest.raises(InvalidDefinition, match="dueledger calendar import"):
        await site.define("n", DAILY)
    await put("2027-12-24", name="us-settlement")
    await put("2027-12-24", name="eu")
    with pytest.raises(InvalidDefinition, match=r"\(n\)\.calendar\.name.*us-settlement or eu"):
        await site.define("n", DAILY, calendar={"name": "us-setlement", "roll": "skip"})


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (DAILY | {"end": "2028-06-01T00:00"}, "until then it can owe"),
        ({"cron": "0 9 1 2 *", "timezone": "UTC"}, "its first occurrence needs another day"),
        ({"at": "2028-02-01T09:00", "timezone": "UTC"}, "its first occurrence"),
        (
            {"business": "last", "at": "09:00", "timezone": "UTC", "start": "2028-01-01T00:00"},
            "2027-12-31",
        ),
    ],
)
async def test_what_needs_a_day_beyond_the_last_is_refused_when_it_is_defined(
    put: Put, site: Site, when: Mapping[str, object], said: str
) -> None:
    await put("2027-12-24")
    with pytest.raises(InvalidDefinition, match=said) as refused:
        await site.define("n", when)
    assert "us ends on 2027-12-31" in str(refused.value)
    assert not await site.connection.fetchval("select count(*) from ledger.definition")


async def test_where_a_calendar_ends_its_definition_fails_alone_after_the_last_day_it_knows(
    put: Put, site: Site
) -> None:
    await put("2027-12-24")
    await site.define("n", DAILY | {"cron": "0 */6 * * *"})
    await site.define("free", DAILY, calendar={"weekend": [], "roll": "skip"})
    await site.at(datetime(2027, 12, 31, 12, tzinfo=UTC))
    assert max((await site.due("n")).values()) == "12-31 18:00", "all that it knows"
    assert "2028-01-01T09:00" in await site.due("free")
    (row,) = await site.connection.fetch(
        "select failure from ledger.materialised where failure is not null"
    )
    assert "calendar us ends on 2027-12-31" in row["failure"]
    assert await site.found() == {FindingType.DEFINITION_FAILED}

    await put("2027-12-24", last="2028-12-31")
    await site.at(datetime(2028, 1, 2, 12, tzinfo=UTC))
    assert await site.found() == set()
    assert (await site.due("n"))["2028-01-03T00:00"] == "01-03 00:00"


async def test_g13_a_new_version_moves_what_is_not_materialised_and_nothing_else(
    put: Put, site: Site
) -> None:
    await put()
    await site.define("n", DAILY | {"cron": "0 9 * * tue,thu"})
    await site.at(NOON)
    assert await site.due("n") == {"2027-12-23T09:00": "12-23 09:00"}
    imported = await put("2027-12-23", "2027-12-28")
    assert [(one.definition.name, one.standing) for one in imported.concerned] == [("n", 1)]
    await site.at(NOON + 6 * DAY)
    due = await site.due("n")
    assert due["2027-12-23T09:00"] == "12-23 09:00", "it stays"
    assert due["2027-12-28T09:00"] == "12-29 09:00"
    uses = (await list_calendar_uses(site.connection)).values()
    assert [[use.calendar_no for use in each] for each in uses] == [[1, 2]]
    assert await site.found() == set()


async def test_g1_a_day_that_becomes_a_business_day_again_loses_nothing_on_the_way(
    put: Put, site: Site
) -> None:
    """Friday was to be owed on Monday; it counts after all, and lies before the watermark."""
    await put("2027-12-24")
    await site.define("n", DAILY | {"cron": "30 12 * * fri"})
    await site.at(NOON + DAY)  # materialised to Friday 13:00: the 24th rolls to Monday the 27th
    assert "2027-12-24T12:30" not in await site.due("n")
    await put()
    await site.at(NOON + DAY + timedelta(hours=2))
    assert (await site.due("n"))["2027-12-24T12:30"] == "12-24 12:30"
    assert await site.found() == set()
    await site.at(NOON + 6 * DAY)
    assert await site.found() == set()
    rows = await site.connection.fetch(
        "select nominal from ledger.due_item group by nominal having count(*) > 1"
    )
    assert rows == []


async def test_g1_the_last_business_day_of_a_month_is_not_lost_where_it_moves_back(
    put: Put, site: Site
) -> None:
    await put()
    last = {"business": "last", "at": "09:00", "timezone": "UTC"}
    await site.define("n", last, calendar={"name": "us"})
    await site.at(datetime(2027, 12, 29, 12, tzinfo=UTC))  # to Thursday 13:00; the last is Friday
    assert await site.due("n") == {}
    await put("2027-12-31", last="2028-12-31")
    await site.at(datetime(2027, 12, 29, 14, tzinfo=UTC))
    assert await site.due("n") == {"2027-12-30T09:00": "12-30 09:00"}
    assert await site.found() == set()
