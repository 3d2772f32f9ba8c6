"""Calendars as versions in the ledger, and the definitions that name them."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pytest

from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.calendars import find_calendar_version, list_calendar_uses, put_calendar

from .conftest import DAILY, DAY, NOON, Put, Site


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


async def test_a_calendar_that_cannot_be_read_is_named_with_the_reason_until_its_next_version(
    put: Put, site: Site, actor_no: int
) -> None:
    await put("2027-12-24")
    await site.define("n", DAILY)
    row = await find_calendar_version(site.connection, "acme", "us")
    assert row is not None
    await put_calendar(
        site.connection,
        {key: value for key, value in row.document.items() if key != "last_day"},
        tenant="acme",
        name="us",
        valid_to=row.valid_to,
        source=None,
        actor_no=actor_no,
    )
    await site.at(NOON + DAY)
    assert await site.found() == {FindingType.DEFINITION_FAILED}
    failure = await site.connection.fetchval("select failure from ledger.materialised")
    assert "unknown calendar, or its document cannot be read (got 'us')" in failure
    said = r"version 2 in the ledger cannot be read: last_day: Field required.* calendar import"
    with pytest.raises(InvalidDefinition, match=said):
        await site.define("m", DAILY)

    assert (await put("2027-12-24")).version == 3
    await site.define("m", DAILY)
    await site.at(NOON + DAY)
    assert await site.found() == set()


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (DAILY | {"end": "2028-06-01T00:00"}, "until then it can owe"),
        ({"cron": "0 9 1 2 *", "timezone": "UTC"}, "its first occurrence needs a day outside"),
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
    assert [(one.definition.name, one.items_on_changed_days) for one in imported.concerned] == [
        ("n", 1)
    ]
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
