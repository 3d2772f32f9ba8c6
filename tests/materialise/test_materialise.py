"""Schedules become items: complete, once, in bounded passes, despite crashes and failures."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.model import LABELS_BYTES_MAX
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.definitions import take_materialisable
from dueledger.ledger.store.items import read_accounting
from tests.forks import ForkedProcess

from .conftest import DAY, NOON, SetSchedule, SetTime, due_times, tick_until_idle, watermark

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


def every(seconds: int) -> dict[str, str]:
    return {"every": f"PT{seconds}S", "anchor": "2027-01-01T00:00:00Z"}


def cron(expression: str, timezone: str = "UTC", **policies: str) -> dict[str, str]:
    return {"cron": expression, "timezone": timezone} | policies


def expected(seconds: int, start: datetime, end: datetime) -> list[datetime]:
    """Count the instants of `every`, without asking the schedule."""
    anchor = datetime(2027, 1, 1, tzinfo=UTC)
    first = -(-int((start - anchor).total_seconds()) // seconds)
    last = -(-int((end - anchor).total_seconds()) // seconds)
    return [anchor + timedelta(seconds=seconds * number) for number in range(first, last)]


async def test_g1_every_occurrence_up_to_the_horizon_is_one_row(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("often", every(420))
    await set_schedule("daily", cron("0 9 * * *", "America/New_York"))
    await tick_until_idle(materialiser)
    until = NOON + timedelta(seconds=DAY + 3_600)
    assert await due_times(connection, "often") == expected(420, NOON, until)
    assert await due_times(connection, "daily") == [datetime(2027, 3, 1, 14, tzinfo=UTC)]


async def test_materialising_again_changes_nothing(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    definition_no = await set_schedule("often", every(420))
    await tick_until_idle(materialiser)
    before = await due_times(connection, "often")
    await connection.execute(
        "update ledger.materialised set materialised_until = $2 where definition_no = $1",
        definition_no,
        NOON,
    )
    await tick_until_idle(materialiser)
    assert await due_times(connection, "often") == before


async def test_windows_compose_as_time_goes_by(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    await set_schedule("often", every(1_009))
    for minutes in (0, 7, 61, 200, 1_500):
        await set_time(NOON + timedelta(minutes=minutes))
        await tick_until_idle(materialiser)
    until = NOON + timedelta(minutes=1_500, seconds=DAY + 3_600)
    assert await due_times(connection, "often") == expected(1_009, NOON, until)


async def test_a_definition_is_touched_once_a_stride_and_not_on_every_pass(
    materialiser: Materialiser, set_schedule: SetSchedule, set_time: SetTime
) -> None:
    await set_schedule("often", every(420))
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(minutes=59))
    assert not any((await materialiser.tick()).values())
    await set_time(NOON + timedelta(minutes=61))
    assert (await materialiser.tick())["definitions"] == 1


async def test_a_pass_is_bounded_and_the_next_goes_on_where_it_ended(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("dense", cron("* 3 * * *"), effective_from=NOON - timedelta(days=10))
    await set_schedule("denser", every(60), effective_from=NOON - timedelta(days=1))
    counts = await materialiser.tick()
    assert 0 < counts["emitted"] <= 200
    assert await tick_until_idle(materialiser) > 10
    until = await watermark(connection, "denser")
    assert await due_times(connection, "denser") == expected(60, NOON - timedelta(days=1), until)
    assert len(await due_times(connection, "dense")) == 60 * 11


async def test_g2_a_local_time_that_never_was_is_recorded_as_skipped(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """New York's clocks jump from 02:00 to 03:00 on 14 March 2027."""
    eve = datetime(2027, 3, 13, 12, tzinfo=UTC)
    await set_time(eve)
    await set_schedule(
        "gap", cron("30 2 * * *", "America/New_York", gap="skip"), effective_from=eve
    )
    await tick_until_idle(materialiser)
    (row,) = await connection.fetch(
        """
        select i.cycle, e.name, t.detail
        from ledger.due_item i
        join ledger.transition t using (effective_date, item_no)
        join ledger.transition_event e on e.event = t.event
        """
    )
    assert (row["cycle"], row["name"], row["detail"]) == (
        "2027-03-14T02:30",
        "skipped",
        {"reason": "gap"},
    )
    (accounting,) = await read_accounting(connection)
    assert (accounting.items, accounting.skipped, accounting.difference) == (1, 1, 0)


ROLLED = {"weekend": ["sat", "sun"], "roll": "following"}


@pytest.mark.parametrize(
    ("expression", "calendar", "owed", "merged"),
    [
        ("30 2,3 * * *", None, "2027-03-14T03:30", ["2027-03-14T02:30"]),
        ("30 9 * * *", ROLLED, "2027-03-15T09:30", ["2027-03-13T09:30", "2027-03-14T09:30"]),
    ],
)
async def test_g2_occurrences_at_one_instant_have_a_row_each_that_names_the_one_owed(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    expression: str,
    calendar: dict[str, object] | None,
    owed: str,
    merged: list[str],
) -> None:
    """Clocks go forward on Sunday, 14 March 2027, from 02:00 to 03:00."""
    eve = datetime(2027, 3, 13, 12, tzinfo=UTC)
    beside = {} if calendar is None else {"calendar": calendar}
    await set_time(eve + timedelta(days=1, hours=20))
    when = cron(expression, "America/New_York")
    await set_schedule("d", when, effective_from=eve, catch_up={"policy": "all"}, **beside)
    await tick_until_idle(materialiser)
    rows = await connection.fetch(
        """
        select i.cycle, i.due_at, t.detail from ledger.due_item i
        left join ledger.transition t using (effective_date, item_no)
        where i.due_at = (select due_at from ledger.due_item where cycle = $1) order by 1
        """,
        owed,
    )
    detail = {"reason": "merged", "into": owed}
    assert {row["cycle"]: row["detail"] for row in rows} == {
        owed: None,
        **dict.fromkeys(merged, detail),
    }
    (accounting,) = await read_accounting(connection)
    assert (accounting.skipped, accounting.difference) == (len(merged), 0)


async def test_a_definition_that_fails_is_recorded_and_stops_no_other(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    broken = await set_schedule("broken", every(600))
    refused = await set_schedule("refused", every(600))
    await connection.execute(
        """update ledger.definition set document = document || '{"when":{"cron":"a b"}}'
        where definition_no = $1""",
        broken,
    )
    await connection.execute(  # readable, but no row can be made of it
        """update ledger.definition set document = jsonb_set(document, '{tenant}', '"."')
        where definition_no = $1""",
        refused,
    )
    await connection.execute(
        "alter table ledger.kind add constraint kind_name_shape_tested check (tenant <> '.')"
    )
    await set_schedule("sound", every(600))
    counts = await materialiser.tick()
    assert (counts["definitions"], counts["failed"]) == (1, 2)
    await tick_until_idle(materialiser)
    until = NOON + timedelta(seconds=DAY + 3_600)
    assert await due_times(connection, "sound") == expected(600, NOON, until)
    rows = await connection.fetch(
        "select definition_no, materialised_until, failure from ledger.materialised"
        " where failed_at is not null order by 1"
    )
    assert [(row["definition_no"], row["materialised_until"]) for row in rows] == [
        (broken, NOON),
        (refused, NOON),
    ]
    assert "InvalidDefinition" in rows[0]["failure"]
    await set_time(NOON + timedelta(seconds=61))
    assert (await materialiser.tick())["failed"] == 2, "tried again after a while"


async def test_a_new_version_takes_over_at_its_time_and_leaves_no_gap(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    change = NOON + timedelta(hours=6)
    await set_schedule("changing", every(600))
    await set_schedule("changing", every(900), effective_from=change)
    await tick_until_idle(materialiser)
    until = NOON + timedelta(seconds=DAY + 3_600)
    assert await due_times(connection, "changing") == [
        *expected(600, NOON, change),
        *expected(900, change, until),
    ]


async def test_an_outage_is_caught_up_completely(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    await set_schedule("often", every(3_600))
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(days=40))
    await tick_until_idle(materialiser)
    until = NOON + timedelta(days=41, seconds=3_600)
    assert await due_times(connection, "often") == expected(3_600, NOON, until)


async def test_two_materialisers_at_once_divide_the_definitions(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    for number in range(20):
        await set_schedule(f"often-{number:02}", every(600))
    while any(
        any(counts.values())
        for counts in await asyncio.gather(materialiser.tick(), materialiser.tick())
    ):
        pass
    until = NOON + timedelta(seconds=DAY + 3_600)
    for number in range(20):
        assert await due_times(connection, f"often-{number:02}") == expected(600, NOON, until)


async def test_a_materialiser_passes_by_what_another_holds(
    set_schedule: SetSchedule, set_time: SetTime, connection: Connection, pool: Pool
) -> None:
    await set_time(NOON)
    for number in range(4):
        await set_schedule(f"often-{number}", every(600))
    await connection.execute("set lock_timeout = '5s'")
    async with pool.acquire() as other, other.transaction():
        held = await take_materialisable(other, DAY, 2)
        async with connection.transaction():
            taken = await take_materialisable(connection, DAY, 4)
    names = [{each.name for each in rows} for rows in (held, taken)]
    assert [len(each) for each in names] == [2, 2]
    assert not names[0] & names[1]


async def test_g1_materialisers_killed_at_random_leave_no_gap_and_no_double(
    set_schedule: SetSchedule,
    set_time: SetTime,
    run_process: Callable[..., Awaitable[ForkedProcess]],
    eventually: Eventually,
    connection: Connection,
) -> None:
    await set_time(NOON)
    names = [f"often-{number:02}" for number in range(30)]
    for number, name in enumerate(names):
        await set_schedule(name, every(900 + number), effective_from=NOON - timedelta(days=2))
    choice = random.Random(7)  # noqa: S311 - which step dies, the same in every run
    for _ in range(3):
        doomed = await asyncio.gather(
            *(run_process(crash_at=f"materialise.emitted:{choice.randint(1, 4)}") for _ in "ab")
        )
        assert [await process.wait() for process in doomed] == [-signal.SIGKILL] * 2
    await asyncio.gather(run_process(), run_process())

    async def all_done() -> bool:
        return await connection.fetchval(
            "select min(materialised_until) >= $1 from ledger.materialised",
            NOON + timedelta(seconds=DAY),
        )

    await eventually(all_done)
    for number, name in enumerate(names):
        until = await watermark(connection, name)
        assert await due_times(connection, name) == expected(
            900 + number, NOON - timedelta(days=2), until
        ), name


async def test_labels_as_large_as_the_door_lets_in_become_an_item(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    labels = {f"label-{number:02}": "\U0001f4c5" * 100 for number in range(19)}
    labels |= {"rest-a": "x" * 100, "rest-b": "\n" * 50, "rest-c": '"' * 23}
    await set_schedule("labelled", cron("0 9 * * *"), labels=labels)
    assert (await materialiser.tick())["emitted"] == 1
    size = await connection.fetchval("select octet_length(labels::text) from ledger.due_item")
    assert size == LABELS_BYTES_MAX
    with pytest.raises(InvalidDefinition, match="labels: larger than 8 KiB"):
        await set_schedule("beyond", cron("0 9 * * *"), labels=labels | {"rest-d": "x"})


async def test_a_schedule_that_its_calendar_heaps_up_beyond_bounds_fails_alone(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """A gap skips an hour of seconds of each of 300 days rolled onto it, each to be recorded."""
    change = datetime(2027, 3, 14, 7, tzinfo=UTC)
    closed = [(change.date() - timedelta(days=n)).isoformat() for n in range(1, 301)]
    await set_time(change)
    heaped = await set_schedule(
        "heaped",
        cron("* * * * * *", "America/New_York"),
        effective_from=change,
        calendar={"weekend": [], "holidays": closed, "roll": "following"},
    )
    await set_schedule("often", every(420), effective_from=change)
    counts = await materialiser.tick()
    assert (counts["definitions"], counts["failed"]) == (1, 1)
    row = await connection.fetchrow(
        "select definition_no, failure from ledger.materialised where failed_at is not null"
    )
    assert row is not None
    assert row["definition_no"] == heaped
    assert "WindowTooLarge" in row["failure"]


async def test_what_a_calendar_heaps_up_is_materialised_in_shorter_windows(
    pool: Pool,
    settings: MaterialiserSettings,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
) -> None:
    """Of each second of sixty days one is owed: a window of 5,000 seconds would be 305,000 rows."""
    await set_time(NOON)
    closed = [(NOON.date() - timedelta(days=n)).isoformat() for n in range(1, 61)]
    calendar = {"weekend": [], "holidays": closed, "roll": "following"}
    await set_schedule("heaped", cron("* * * * * *"), calendar=calendar)
    larger = settings.model_copy(update={"materialise_items_max": 5_000})
    materialiser = Materialiser(pool, larger, actor_no=actor_no)
    for _ in range(2):
        counts = await materialiser.tick()
        assert counts["failed"] == 0
        assert 4_800 < counts["emitted"] + counts["skipped"] <= 5_000
    rows = await connection.fetch(
        "select due_at, count(*) as rows from ledger.due_item group by 1 order by 1"
    )
    seconds = [NOON + timedelta(seconds=n) for n in range(len(rows))]
    assert [(row["due_at"], row["rows"]) for row in rows] == [(each, 61) for each in seconds]


async def test_a_schedule_whose_calendar_rolls_too_much_onto_a_day_is_refused(
    connection: Connection, actor_no: int, kind: str
) -> None:
    closed = [(NOON.date() + timedelta(days=n)).isoformat() for n in range(12)]
    calendar = {"weekend": [], "holidays": closed, "roll": "following"}
    document = {
        "definition": "heaped",
        "tenant": "acme",
        "kind": kind,
        "business_key": "heaped",
        "when": cron("* * * * * *"),
    }
    heaped = parse_definition(document | {"calendar": calendar})
    reason = r"calendar\.roll: rolls about 1,123,200 occurrences onto one day"
    with pytest.raises(InvalidDefinition, match=reason):
        await put_in_force(connection, [heaped], actor_no=actor_no)
    skipping = parse_definition(document | {"calendar": calendar | {"roll": "skip"}})
    await put_in_force(connection, [skipping], actor_no=actor_no)
