"""A newer version takes over pending items; items that were handed out do not change."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dueledger.ledger.errors import Conflict
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.schedule.smear import smear_seconds
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import find_definition, take_materialisable
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import item_timeline, read_accounting

from .conftest import (
    DAY,
    NOON,
    SetSchedule,
    SetTime,
    claim_next,
    end,
    start,
    tick_until_idle,
)

HOUR = timedelta(hours=1)
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}
HALF_PAST = {"cron": "30 * * * *", "timezone": "UTC"}
EVERY_THIRD = {"cron": "0 */3 * * *", "timezone": "UTC"}
END = NOON + timedelta(seconds=DAY) + HOUR

ROWS = """
select i.id, i.cycle, i.due_at, i.labels, d.version, p.item_no is not null as waits, t.detail,
  coalesce(e.name, case when p.item_no is null then 'begun' else 'waiting' end) as state
from ledger.due_item i
join ledger.definition d using (definition_no)
left join ledger.pending p using (item_no)
left join ledger.transition t on t.item_no = i.item_no and t.event in (5, 11, 12, 13, 14)
left join ledger.transition_event e on e.event = t.event
where d.name = $1
order by i.due_at, i.item_no
"""


async def rows(connection: Connection, name: str = "d") -> list[dict[str, Any]]:
    """Return every item of every version, by due time, and its state."""
    (accounting, *others) = await read_accounting(connection)
    assert not any(each.difference for each in (accounting, *others))
    return [dict(row) for row in await connection.fetch(ROWS, name)]


def due_times(found: Sequence[dict[str, Any]], *states: str) -> list[datetime]:
    return [row["due_at"] for row in found if row["state"] in states]


def hours(first: datetime, last: datetime, step: timedelta = HOUR) -> list[datetime]:
    return [first + n * step for n in range(-((first - last) // step))]


async def test_g13_what_waits_beyond_the_change_ends_as_superseded_and_the_newer_is_owed(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    change = NOON + timedelta(hours=5, minutes=10)
    await set_schedule("d", HALF_PAST, effective_from=change)
    await tick_until_idle(materialiser)
    found = await rows(connection)
    half = NOON + timedelta(hours=5, minutes=30)
    assert due_times(found, "waiting") == hours(NOON, change) + hours(half, END)
    assert due_times(found, "superseded") == hours(NOON + 6 * HOUR, END)
    reasons = [row["detail"] for row in found if row["state"] == "superseded"]
    assert reasons == [{"reason": "version", "version": 2}] * len(reasons)
    assert {row["version"] for row in found if row["waits"] and row["due_at"] >= change} == {2}


async def test_g13_an_occurrence_that_both_owe_stays_under_the_newer_terms_with_the_older_on_record(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", HOURLY, labels={"region": "north"})
    await tick_until_idle(materialiser)
    before = await rows(connection)
    change = NOON + 4 * HOUR
    await set_schedule(
        "d", EVERY_THIRD, effective_from=change, labels={"region": "south"}, smear="PT20M"
    )
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert [row["id"] for row in sorted(found, key=lambda row: row["cycle"])] == [
        row["id"] for row in before
    ], "no item is new, none is lost"
    taken = [row for row in found if row["version"] == 2]
    assert [row["cycle"] for row in taken] == [
        at.strftime("%Y-%m-%dT%H:%M") for at in hours(NOON + 6 * HOUR, END, 3 * HOUR)
    ]
    assert all(row["waits"] and row["labels"] == {"region": "south"} for row in taken)
    timeline = await item_timeline(connection, taken[0]["id"])
    assert [event["event"] for event in timeline] == ["emitted", "revised"]
    detail = timeline[1]["detail"]
    assert (detail["reason"], detail["before"]["version"]) == ("version", 1)
    assert detail["before"]["labels"] == {"region": "north"}
    assert datetime.fromisoformat(detail["before"]["due_at"]) == NOON + 6 * HOUR
    assert datetime.fromisoformat(detail["due_at"]) == taken[0]["due_at"]
    assert [row["due_at"] for row in taken] == [
        nominal + timedelta(seconds=smear_seconds(row["id"], timedelta(minutes=20)))
        for nominal, row in zip(hours(NOON + 6 * HOUR, END, 3 * HOUR), taken, strict=True)
    ]
    available = await connection.fetch(
        "select available_at from ledger.pending join ledger.due_item using (item_no)"
        " where id = any ($1::uuid[]) order by available_at",
        [row["id"] for row in taken],
    )
    assert [row["available_at"] for row in available] == [row["due_at"] for row in taken]


async def test_g13_what_was_handed_out_or_has_ended_never_moves_and_is_owed_anew_elsewhere_only(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
) -> None:
    """The newer version, back to noon, has the same nominal times six hours later."""
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(hours=3, minutes=30))
    fence, done = await claim_next(connection, actor_no, 2)
    run_no = await start(connection, actor_no, fence, 2)
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED, TransitionEvent.FAILED])
    _, claimed = await claim_next(connection, actor_no, 1)
    touched = {*done, *claimed}
    assert len(touched) == 3
    before = {row["id"]: row for row in await rows(connection) if row["id"] in touched}
    await set_schedule(
        "d",
        {"cron": "0 * * * *", "timezone": "Etc/GMT+6"},
        effective_from=NOON,
        labels={"a": "b"},
    )
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert {row["id"]: row for row in found if row["id"] in touched} == before
    assert len({row["cycle"] for row in found}) == len(found)
    others = [row for row in found if row["id"] not in touched and row["state"] == "waiting"]
    assert {row["version"] for row in others} == {2}
    assert [row["cycle"].partition("T")[2] for row in others][:10] == [
        *("06:00", "07:00", "08:00", "09:00", "10:00", "11:00"),
        *("12:00~2", "13:00~2", "14:00~2"),
        "15:00",
    ], "from noon to two they are in other hands, and owed six hours later too; three only then"


async def test_g13_a_version_taken_back_owes_what_it_withdrew_once_more(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_schedule("d", HALF_PAST, effective_from=NOON + timedelta(minutes=1))
    await tick_until_idle(materialiser)
    back = NOON + timedelta(hours=2, minutes=40)
    await set_schedule("d", HOURLY, effective_from=back)
    await tick_until_idle(materialiser)
    found = await rows(connection)
    waiting = [row for row in found if row["state"] == "waiting"]
    half = NOON + timedelta(minutes=30)
    assert [row["due_at"] for row in waiting] == [
        NOON,
        *hours(half, back),
        *hours(NOON + 3 * HOUR, END),
    ]
    assert {row["cycle"] for row in waiting[4:]} == {
        f"{at:%Y-%m-%dT%H:%M}~2" for at in hours(NOON + 3 * HOUR, END)
    }
    await set_time(NOON + timedelta(hours=3, minutes=10))
    fence, ids = await claim_next(connection, actor_no, 10)
    run_no = await start(connection, actor_no, fence, len(ids))
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED] * len(ids))
    ended = {row["id"] for row in await rows(connection) if row["state"] == "completed"}
    assert len(ended) == 5
    await set_schedule("d", HOURLY, effective_from=back, labels={"again": "yes"})
    await tick_until_idle(materialiser)
    found = await rows(connection)
    waiting = [row for row in found if row["state"] == "waiting"]
    assert [row["due_at"] for row in waiting] == hours(NOON + 4 * HOUR, END + 4 * HOUR)
    assert all(row["cycle"].endswith("~2") == (row["due_at"] < END) for row in waiting)
    assert {row["id"] for row in found if row["state"] == "completed"} == ended


async def test_of_several_versions_to_come_the_newest_decides_from_its_time_on(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """The second is superseded before it was ever in force; the fourth lies beyond the horizon."""
    await set_schedule("d", HOURLY)
    await set_schedule("d", HALF_PAST, effective_from=NOON + 10 * HOUR)
    await set_schedule("d", EVERY_THIRD, effective_from=NOON + 5 * HOUR)
    await set_schedule("d", HALF_PAST, effective_from=NOON + 100 * HOUR)
    await tick_until_idle(materialiser)
    third = hours(NOON + 6 * HOUR, END, 3 * HOUR)
    found = await rows(connection)
    assert due_times(found, "waiting") == hours(NOON, NOON + 5 * HOUR) + third
    assert {row["version"] for row in found} == {1, 3}
    await set_time(NOON + 20 * HOUR)
    in_force = await find_definition(connection, "acme", "d")
    assert in_force is not None
    assert in_force.version == 3
    await set_time(NOON + 101 * HOUR)
    in_force = await find_definition(connection, "acme", "d")
    assert in_force is not None
    assert in_force.version == 4


async def test_the_same_document_makes_a_version_only_where_it_shall_hold_earlier(
    set_schedule: SetSchedule, set_time: SetTime
) -> None:
    await set_time(NOON)
    first = await set_schedule("d", HOURLY, effective_from=NOON + 10 * HOUR)
    assert await set_schedule("d", HOURLY, effective_from=NOON + 10 * HOUR) == first
    assert await set_schedule("d", HOURLY, effective_from=NOON + 11 * HOUR) == first
    sooner = await set_schedule("d", HOURLY, effective_from=NOON + HOUR)
    assert sooner != first
    assert await set_schedule("d", HOURLY, effective_from=NOON + HOUR) == sooner


async def test_a_superseded_version_is_never_taken_again(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    newest = await set_schedule("d", HALF_PAST, effective_from=NOON + HOUR)
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(days=30))
    async with connection.transaction():
        taken = await take_materialisable(connection, DAY, 10)
    assert [row.definition_no for row in taken] == [newest]


async def test_what_is_to_be_withdrawn_is_withdrawn_in_bounded_batches(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", {"every": "PT20S", "anchor": "2027-01-01T00:00:00Z"})
    await tick_until_idle(materialiser)
    await set_schedule(
        "d", {"cron": "0 0 1 * *", "timezone": "UTC"}, effective_from=NOON + timedelta(minutes=1)
    )
    most = 0
    for _ in range(50):
        counts = await materialiser.tick()
        most = max(most, counts.get("superseded", 0))
        if not any(counts.values()):
            break
    assert most == 1_000, "the room of a pass"
    found = await rows(connection)
    assert due_times(found, "waiting") == hours(
        NOON, NOON + timedelta(minutes=1), timedelta(seconds=20)
    )
    assert len(due_times(found, "superseded")) > 4_000


async def test_while_the_newer_version_fails_the_older_ones_items_are_still_owed(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
) -> None:
    await set_schedule("d", HOURLY)
    await set_schedule("other", HOURLY)
    await tick_until_idle(materialiser)
    broken = await set_schedule("d", HALF_PAST, effective_from=NOON + HOUR)
    await connection.execute(
        """update ledger.definition set document = document || '{"when":{"cron":"a b"}}'
        where definition_no = $1""",
        broken,
    )
    assert (await materialiser.tick())["failed"] == 1
    assert due_times(await rows(connection), "waiting") == hours(NOON, END)
    await set_schedule("d", HALF_PAST, effective_from=NOON + HOUR)
    await tick_until_idle(materialiser)
    half = NOON + timedelta(minutes=90)
    assert due_times(await rows(connection), "waiting") == [NOON, *hours(half, END)]


async def test_an_event_rule_after_a_schedule_withdraws_what_the_schedule_still_owes(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_schedule(
        "d",
        {"relative": "P-30D", "at": "09:00", "timezone": "UTC"},
        effective_from=NOON + 2 * HOUR,
        event="PolicyActivated",
        business_key="data.number",
        effective_date="data.expires_on",
        cycle="data.term",
    )
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert due_times(found, "waiting") == hours(NOON, NOON + 2 * HOUR)
    assert due_times(found, "superseded") == hours(NOON + 2 * HOUR, END)
    async with connection.transaction():
        assert await take_materialisable(connection, 100 * DAY, 10) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "OtherDue"},
        {"business_key": "other"},
        {"lane": "region", "labels": {"region": "x"}},
    ],
)
async def test_a_change_of_an_occurrences_name_or_flow_leaves_each_owed_once(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    changed: dict[str, Any],
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    change = NOON + 3 * HOUR
    await set_schedule("d", HOURLY, effective_from=change, **changed)
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert due_times(found, "waiting") == hours(NOON, END)
    assert all((row["version"] == 2) == (row["due_at"] >= change) for row in found if row["waits"])
    astray = await connection.fetchval(
        "select count(*) from ledger.pending join ledger.due_item i using (item_no)"
        " where pending.flow_no <> i.flow_no"
    )
    assert astray == 0


async def test_a_fixed_rate_with_another_anchor_is_owed_from_the_change_on(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", {"every": "PT1H", "anchor": "2027-01-01T00:00:00Z"})
    await tick_until_idle(materialiser)
    change = NOON + 2 * HOUR
    await set_schedule(
        "d", {"every": "PT1H", "anchor": "2027-01-01T00:20:00Z"}, effective_from=change
    )
    await tick_until_idle(materialiser)
    assert due_times(await rows(connection), "waiting") == [
        *hours(NOON, change),
        *hours(change + timedelta(minutes=20), END),
    ]


async def test_g2_of_what_two_versions_missed_the_latest_is_owed_once_by_the_newer(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun, change = NOON - 10 * HOUR, NOON - 5 * HOUR
    for name, newer in (("d", HALF_PAST), ("e", {"cron": "30 13 * * *", "timezone": "UTC"})):
        await set_schedule(name, HOURLY, effective_from=begun, catch_up={"policy": "latest"})
        await set_schedule(name, newer, effective_from=change, catch_up={"policy": "latest"})
    await tick_until_idle(materialiser)
    missed = [at for at in due_times(await rows(connection), "waiting") if at < NOON]
    assert missed == [NOON - timedelta(minutes=30)]
    # If the newer version has missed nothing, the older one's latest is the latest of all.
    missed = [at for at in due_times(await rows(connection, "e"), "waiting") if at < NOON]
    assert missed == [change - HOUR]


async def test_what_the_newer_version_skips_is_recorded_as_skipped_with_its_reason(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    daily = {"cron": "0 18 * * *", "timezone": "UTC"}
    await set_schedule("d", daily)
    await tick_until_idle(materialiser)
    calendar = {"weekend": [], "holidays": ["2027-03-01"], "roll": "skip"}
    await set_schedule("d", daily, effective_from=NOON + HOUR, calendar=calendar)
    await tick_until_idle(materialiser)
    (row,) = await rows(connection)
    assert (row["state"], row["version"]) == ("skipped", 2)
    assert row["detail"]["reason"] == "calendar"
    assert row["detail"]["before"]["version"] == 1


async def test_g13_a_newer_version_ends_items_on_another_day_than_the_one_that_names_them(
    pool: Pool,
    settings: MaterialiserSettings,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """A calendar rolls one by three weeks; in two zones it is another day than in UTC."""
    await set_time(NOON)
    number = await register_actor(connection, "materialiser:test", ActorKind.MATERIALISER)

    async def materialise(horizon: timedelta) -> None:
        seconds = {"materialise_horizon_seconds": int(horizon.total_seconds())}
        changed = Materialiser(pool, settings.model_copy(update=seconds), actor_no=number)
        await tick_until_idle(changed)

    closed = [f"2027-03-{day:02}" for day in range(3, 25)]
    rolled = {"calendar": {"weekend": [], "holidays": closed, "roll": "following"}}
    schedules: dict[str, tuple[dict[str, Any], datetime, dict[str, Any]]] = {
        "rolled": ({"cron": "0 9 3 3 *", "timezone": "UTC"}, NOON + timedelta(days=9), rolled),
        "east": ({"cron": "30 1 2 3 *", "timezone": "Pacific/Auckland"}, NOON, {}),
        "west": (
            {"cron": "30 21 1 3 *", "timezone": "America/New_York"},
            NOON + timedelta(hours=14),
            {},
        ),
    }
    for name, (when, _, terms) in schedules.items():
        await set_schedule(name, when, **terms)
    await materialise(timedelta(days=30))
    for name, (when, since, terms) in schedules.items():
        (before,) = await rows(connection, name)
        assert before["state"] == "waiting"
        await set_schedule(name, when, effective_from=since, ended=True, **terms)
    for horizon in (timedelta(hours=1), timedelta(days=30)):
        await materialise(horizon)
    for name in schedules:
        (after,) = await rows(connection, name)
        assert after["state"] == "superseded", name


async def test_g1_an_occurrence_that_an_older_version_merged_is_owed_by_a_newer_one_alone(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """In the gap, 02:30 is 03:30; without an occurrence of its own at 03:30 it is owed itself."""
    eve = datetime(2027, 3, 13, 20, tzinfo=UTC)
    zone = {"timezone": "America/New_York"}
    await set_time(eve)
    await set_schedule("d", {"cron": "30 2,3 * * *", **zone}, effective_from=eve)
    await tick_until_idle(materialiser)
    await set_schedule("d", {"cron": "30 2 * * *", **zone}, effective_from=eve)
    await tick_until_idle(materialiser)
    states = {row["cycle"]: row["state"] for row in await rows(connection)}
    assert states == {
        "2027-03-14T02:30": "skipped",
        "2027-03-14T03:30": "superseded",
        "2027-03-14T02:30~2": "waiting",
    }
    await set_schedule("d", {"cron": "30 2,3 * * *", **zone}, effective_from=eve)
    await tick_until_idle(materialiser)
    states = {row["cycle"]: row["state"] for row in await rows(connection)}
    assert [cycle for cycle, state in states.items() if state == "waiting"] == [
        "2027-03-14T03:30~2"
    ]
    assert states["2027-03-14T02:30~2"] == "skipped"


async def test_what_a_person_wanted_started_stays_when_a_version_takes_over(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    actor_no: int,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    wanted = (await rows(connection))[5]["id"]
    await expedite_items(connection, [wanted], reason="now", actor_no=actor_no)
    await set_schedule("d", HALF_PAST, effective_from=NOON + timedelta(minutes=1))
    await tick_until_idle(materialiser)
    found = await rows(connection)
    (row,) = [row for row in found if row["id"] == wanted]
    assert (row["state"], row["version"]) == ("waiting", 1)


async def test_a_version_that_lets_items_run_beside_each_other_frees_what_waits(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
) -> None:
    await set_schedule("d", HOURLY, overlap="buffer_all")
    await tick_until_idle(materialiser)
    await set_schedule("d", HOURLY, effective_from=NOON + HOUR)
    await tick_until_idle(materialiser)
    found = await connection.fetch(
        "select i.due_at, p.serial is null and p.serial_due_at is null and p.overlap is null"
        " and i.serial is null and i.overlap is null as free"
        " from ledger.pending p join ledger.due_item i using (item_no) order by 1"
    )
    assert [(row["due_at"], row["free"]) for row in found] == [
        (at, at >= NOON + HOUR) for at in hours(NOON, END)
    ]


async def test_a_version_that_begins_while_another_is_expanded_waits_for_it(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection, pool: Pool
) -> None:
    """The transaction that expands the older one locks it until the commit."""
    await set_schedule("d", HOURLY)
    async with pool.acquire() as other, other.transaction():
        (held,) = await take_materialisable(other, DAY, 10)
        await connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(Conflict):
            await set_schedule("d", HALF_PAST)
        assert held.version == 1
    await connection.execute("reset lock_timeout")
    await set_schedule("d", HALF_PAST)
    await tick_until_idle(materialiser)
    assert {row["version"] for row in await rows(connection) if row["waits"]} == {2}
    assert await read_now(connection) == NOON.astimezone(UTC)


async def test_g1_an_older_version_that_comes_late_takes_nothing_from_the_newer_one(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    """It could not be read for a while; the newer one has the same nominal times later."""
    broken = await set_schedule("d", HOURLY)
    document = "update ledger.definition set document = $2 where definition_no = $1"
    read = await connection.fetchval(
        "select document from ledger.definition where definition_no = $1", broken
    )
    await connection.execute(document, broken, read | {"when": {"cron": "a b"}})
    change = NOON + 2 * HOUR
    await set_schedule("d", HOURLY | {"timezone": "Etc/GMT+6"}, effective_from=change)
    await tick_until_idle(materialiser)
    newer = await rows(connection)
    await connection.execute(document, broken, read)
    await connection.execute("update ledger.materialised set failed_at = null")
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert [row for row in found if row["version"] == 2] == newer
    assert due_times(found, "waiting") == hours(NOON, END)


async def test_a_version_is_not_expanded_while_an_older_one_is_behind(
    set_schedule: SetSchedule, set_time: SetTime, connection: Connection
) -> None:
    """Two processes that expand them at the same time would wait for each other's items."""
    await set_time(NOON)
    for number in range(3):
        await set_schedule(
            "d", HOURLY, effective_from=NOON + number * HOUR, labels={"n": "abc"[number]}
        )
    async with connection.transaction():
        assert [row.version for row in await take_materialisable(connection, DAY, 10)] == [1]
