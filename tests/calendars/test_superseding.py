"""Versions of definitions over versions of calendars: each takes over by what counts then."""

from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.store import clock
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.calendars import list_calendar_uses
from tests.seals import seal_again

from .conftest import DAILY, DAY, NOON, Put, Site

HOUR = timedelta(hours=1)
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}
HALF_PAST = {"cron": "30 * * * *", "timezone": "UTC"}
THURSDAYS = {"cron": "0 9 * * thu", "timezone": "UTC"}
FRIDAYS = {"cron": "30 12 * * fri", "timezone": "UTC"}
LABELS = {"a": "b"}

WAITING = """
select i.cycle, i.due_at, d.version
from ledger.due_item i
join ledger.definition d using (definition_no)
join ledger.pending p using (item_no)
where d.name = 'n'
order by i.due_at, i.cycle
"""


async def waiting(site: Site) -> list[tuple[str, str, int]]:
    """Return the pending items of `n`: occurrence, due time, version."""
    rows = await site.connection.fetch(WAITING)
    return [(row["cycle"], f"{row['due_at']:%m-%d %H:%M}", row["version"]) for row in rows]


async def uses(site: Site) -> dict[int, list[tuple[Any, int]]]:
    found = await list_calendar_uses(site.connection)
    return {number: [(one.from_at, one.calendar_no) for one in found[number]] for number in found}


async def test_g13_a_newer_version_takes_over_by_the_calendar_that_counts_then(
    put: Put, site: Site
) -> None:
    """The 23rd becomes a holiday: what waited for it is owed on the 24th, as its next issue."""
    await put()
    await site.define("n", THURSDAYS)
    await site.at(NOON)
    assert await waiting(site) == [("2027-12-23T09:00", "12-23 09:00", 1)]
    await put("2027-12-23")
    await site.define("n", THURSDAYS, labels=LABELS)
    await site.at(NOON)
    assert await waiting(site) == []
    await site.at(NOON + DAY)
    assert await waiting(site) == [("2027-12-23T09:00~2", "12-24 09:00", 2)]
    assert await uses(site) == {1: [(NOON, 1)], 2: [(NOON, 2)]}
    assert await site.found() == set()


async def test_g13_what_a_version_emitted_stays_where_its_calendar_put_it_after_a_take_over(
    put: Put, site: Site
) -> None:
    await put()
    await site.define("n", DAILY)
    await site.at(NOON)
    await site.define("n", DAILY, labels=LABELS)
    await site.at(NOON)
    assert await waiting(site) == [("2027-12-23T09:00", "12-23 09:00", 2)]
    await put("2027-12-23")
    await site.at(NOON + DAY)
    assert await waiting(site) == [
        ("2027-12-23T09:00", "12-23 09:00", 2),
        ("2027-12-24T09:00", "12-24 09:00", 2),
    ]
    assert await site.found() == set()


async def test_g1_what_a_calendar_overtakes_is_owed_by_the_newer_version_too(
    put: Put, site: Site
) -> None:
    """Friday was to be owed on Monday; it counts after all, and lies before the watermark."""
    await put("2027-12-24")
    await site.define("n", FRIDAYS)
    await site.at(NOON)
    await site.define("n", FRIDAYS, labels=LABELS)
    await site.at(NOON + DAY)
    assert await waiting(site) == []
    await put()
    await site.at(NOON + DAY + 2 * HOUR)
    assert await waiting(site) == [("2027-12-24T12:30", "12-24 12:30", 2)]
    assert await site.found() == set()


async def test_g11_what_a_calendar_overtook_is_expected_though_a_version_took_over_before_it(
    put: Put, site: Site
) -> None:
    await put("2027-12-24")
    await site.define("n", FRIDAYS)
    await site.at(NOON + DAY)
    await put()
    await site.at(NOON + DAY + 2 * HOUR)
    await site.define("n", HOURLY, since=NOON + 2 * DAY + timedelta(minutes=45))
    await site.at(NOON + DAY + 2 * HOUR)
    assert (await waiting(site))[0] == ("2027-12-24T12:30", "12-24 12:30", 1)
    assert await site.found() == set()


async def test_g13_a_version_whose_calendar_cannot_be_had_takes_over_nothing(
    put: Put, site: Site
) -> None:
    await put()
    await put(name="broken")
    await site.define("n", DAILY)
    await site.define("other", DAILY)
    await site.at(NOON)
    before = await waiting(site)
    await site.define("n", DAILY, calendar={"name": "broken", "roll": "following"})
    await site.connection.execute(
        "update ledger.calendar set document = '{}' where name = 'broken'"
    )
    await seal_again(site.connection, "calendar")
    await site.at(NOON + DAY)
    assert await waiting(site) == before
    assert "2027-12-24T09:00" in await site.due("other")
    assert await site.found() == {FindingType.DEFINITION_FAILED}


async def test_g11_a_calendar_changed_in_place_is_one_finding_and_blocks_repairs(
    put: Put, site: Site
) -> None:
    await put("2027-12-24")
    for name in ("n", "other"):
        await site.define(name, DAILY)
    await site.at(NOON)
    assert await site.found() == set()
    change = "update ledger.calendar set document = jsonb_set(document, '{holidays}', $1)"
    await site.connection.execute("delete from ledger.pending; delete from ledger.due_item")
    assert await site.found() == {FindingType.MISSING}
    await site.connection.execute(change, [])

    result = await site.reconciler.run_pass()

    assert result.found == {FindingType.TAMPERED: 1}
    assert {mark.complete_before for mark in result.watermarks} == {None}
    assert await site.reconciler.plan() == []
    await site.connection.execute(change, ["2027-12-24"])
    assert await site.found() == {FindingType.MISSING}


async def test_g13_a_window_that_one_calendar_began_is_finished_by_it(
    put: Put, site: Site, database: str
) -> None:
    """Too many pending items to end at once; meanwhile a new calendar moves others there."""
    await put()
    await site.define("n", HOURLY)
    await site.at(NOON)
    await site.define("n", HALF_PAST)
    settings = MaterialiserSettings(dsn=SecretStr(database), materialise_pass_items_max=5)
    actor_no = await register_actor(site.connection, "materialiser:5", ActorKind.MATERIALISER)
    small = Materialiser(site.pool, settings, actor_no=actor_no)
    counts = await small.tick()
    assert (counts["emitted"], counts["superseded"]) == (25, 5)
    await put("2027-12-22")
    await site.at(NOON)
    assert [due for _, due, _ in await waiting(site)] == [
        f"{NOON + n * HOUR + HOUR / 2:%m-%d %H:%M}" for n in range(25)
    ]
    await site.at(NOON + HOUR * 2)
    assert (await uses(site))[2] == [(NOON, 1), (NOON + 25 * HOUR, 2)]
    assert await site.found() == set()


async def test_of_latest_the_newest_version_owes_it_by_its_calendar(put: Put, site: Site) -> None:
    await put()
    latest = {"policy": "latest"}
    await site.define("n", HOURLY, catch_up=latest)
    await clock.set_clock(site.connection, NOON + 10 * HOUR, 0, database=True)
    await site.define("n", HALF_PAST, since=NOON + 5 * HOUR, catch_up=latest)
    await site.at(NOON + 10 * HOUR)
    assert (await waiting(site))[:2] == [
        ("2027-12-22T21:30", "12-22 21:30", 2),
        ("2027-12-22T22:30", "12-22 22:30", 2),
    ]
