"""What `define` shows of a change is what then happens, whatever changes: zone, kind, calendar."""

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dueledger.definitions.diff import ChangeKind, DefinitionDiff
from dueledger.definitions.named_calendars import add_ledger_calendars
from dueledger.definitions.put_in_force import preview_change
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.rules.schedule_drafts import split_issue
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.calendars import put_calendar
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.items import read_accounting
from dueledger.reconciler import Reconciler

from .conftest import DAY, NOON, SetSchedule, SetTime, claim_next, end, start, tick_until_idle

NAMES = [f"d-{number}" for number in range(8)]
ZONES = ("Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
YEAR = timedelta(days=365)
CHANGES_OF_OFFSETS = (
    datetime(2027, 3, 13, 18, 10, 17, tzinfo=UTC),
    datetime(2027, 3, 27, 18, 10, 17, tzinfo=UTC),
    datetime(2027, 4, 3, 8, 10, 17, tzinfo=UTC),
)
LIVE = """
select k.name as kind, i.cycle, i.due_at
from ledger.due_item i
join ledger.definition d using (definition_no)
join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
where d.name = $1
  and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) >= $2
  and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) < $3
  and not exists (
    select from ledger.transition t where t.item_no = i.item_no and t.event in (12, 13))
"""

Due = dict[tuple[str, str], set[datetime]]
"""By kind and nominal time."""


def times_of_day(choice: random.Random) -> tuple[str, int]:
    hours = sorted(choice.sample(range(24), choice.randint(1, 6)))
    return ",".join(map(str, hours)), choice.choice((0, 5, 30))


def terms(choice: random.Random) -> dict[str, Any]:
    """Return the terms of a version; two of them often have some of the same nominal times."""
    zone = {"timezone": choice.choice(ZONES)}
    hours, minute = times_of_day(choice)
    changed: dict[str, Any] = {}
    if choice.random() < 0.2:
        changed["smear"] = "PT10M"
    if choice.random() < 0.05:
        changed["ended"] = True
    match choice.randrange(7):
        case 0 | 1:
            when = {"cron": f"{minute} {hours} * * *"} | zone
        case 2:
            rulings = {"gap": ("skip", "shift_forward"), "fold": ("first", "second", "both")}
            ruling = {name: choice.choice(values) for name, values in rulings.items()}
            when = {"cron": f"*/30 {hours} * * *"} | zone | ruling
        case 3:
            rule = f"FREQ=DAILY;BYHOUR={hours};BYMINUTE={minute}"
            when = {"rrule": rule, "start": "2027-01-01T00:00"} | zone
        case 4:
            every = choice.choice(("PT2H", "PT3H", "PT5H", "PT24H"))
            return {"when": {"every": every, "anchor": "2027-01-01T00:00:00Z"}} | changed
        case 5:
            when = {"business": {"day_of_month": 15}, "at": f"09:{minute:02}"} | zone
        case _:
            when = {"at": f"2027-04-04T02:{minute:02}"} | zone
            return {"when": when} | changed
    if choice.random() < 0.4 or "business" in when:
        changed["calendar"] = {
            "weekend": choice.choice((["sat", "sun"], ["fri"])),
            "holidays": ["2027-03-15", "2027-03-29", "2027-04-06"],
            "roll": choice.choice(("skip", "following", "preceding")),
        }
    return {"when": when} | changed


async def live_items(connection: Connection, name: str, diff: DefinitionDiff) -> Due:
    found: Due = {}
    for row in await connection.fetch(LIVE, name, diff.since, diff.until):
        dues = found.setdefault((row["kind"], split_issue(row["cycle"])[0]), set())
        assert row["due_at"] not in dues, f"{name}: {row['cycle']} is owed twice"
        dues.add(row["due_at"])
    return found


def changes_between(before: Due, after: Due) -> list[tuple[datetime, str, str]]:
    """Return the kind of each change with its instant, and the nominal time."""
    found: list[tuple[datetime, str, str]] = []
    for key in {*before, *after}:
        old, new = before.get(key, set()), after.get(key, set())
        _, cycle = key
        found += [(each, ChangeKind.KEPT, cycle) for each in old & new]
        gone, come = sorted(old - new), sorted(new - old)
        moved = not old & new
        for each in come:
            kind = ChangeKind.MOVED if moved and gone else ChangeKind.ADDED
            found.append((each, kind, cycle))
            gone = gone[1:] if moved else gone
        found += [(each, ChangeKind.REMOVED, cycle) for each in gone]
    return sorted(found)


def hold_to(diff: DefinitionDiff, before: Due, after: Due, context: str) -> None:
    found = changes_between(before, after)
    counted = Counter(kind for _, kind, _ in found)
    assert {kind: counted[kind] for kind in ChangeKind} == diff.counts, context
    shown = sorted((each.at, each.kind, each.cycle) for each in diff.upcoming)
    last = shown[-1][0] if len(shown) < sum(diff.counts.values()) else diff.until + YEAR
    assert [each for each in found if each[0] < last] == [
        each for each in shown if each[0] < last
    ], context


async def work_some(connection: Connection, actor_no: int, choice: random.Random) -> None:
    """Claim what is due; complete some of it, let some fail, and leave some open."""
    while await list_due_flows(connection, 1):
        fence, ids = await claim_next(connection, actor_no, 50)
        if choice.random() < 0.8:
            events = [TransitionEvent.COMPLETED, TransitionEvent.FAILED]
            run_no = await start(connection, actor_no, fence, len(ids))
            ended = choice.choices(events, weights=(4, 1), k=len(ids))
            await end(connection, actor_no, run_no, ended)


async def test_g1_g13_after_a_change_of_zone_all_that_was_shown_comes(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    kind: str,
    reconciler: Reconciler,
) -> None:
    at = datetime(2027, 3, 15, 8, tzinfo=UTC)
    await set_time(at)
    cron = {"cron": "5 * * * *"}
    london, new_york = ({"timezone": zone} for zone in ("Europe/London", "America/New_York"))
    await set_schedule("d", cron | london, effective_from=at)
    await tick_until_idle(materialiser)
    now = at + timedelta(hours=4, minutes=30)
    await set_time(now)
    fence, ids = await claim_next(connection, actor_no, 50)
    run_no = await start(connection, actor_no, fence, len(ids))
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED] * 5)
    document = {"definition": "d", "tenant": "acme", "kind": kind, "business_key": "d"}
    newer = parse_definition(document | {"when": cron | new_york})
    diff = (await preview_change(connection, newer, now)).diff
    added = [each for each in diff.upcoming if each.kind is ChangeKind.ADDED]
    hours = [at + timedelta(hours=hour, minutes=5) for hour in range(5, 9)]
    assert [each.due_at for each in added] == hours
    await set_schedule("d", cron | new_york, effective_from=now)
    await tick_until_idle(materialiser)
    rows = await connection.fetch(
        "select cycle, due_at from ledger.due_item join ledger.pending using (item_no)"
        " order by due_at limit 6"
    )
    assert [(row["cycle"], row["due_at"]) for row in rows[:4]] == [
        (f"{each.cycle}~2", each.due_at) for each in added
    ]
    assert [row["due_at"] for row in rows[4:]] == [
        hours[-1] + timedelta(hours=1),
        hours[-1] + timedelta(hours=2),
    ]

    await set_time(hours[-1] + timedelta(minutes=1))
    await reconciler.pool.connections.expire_connections()
    assert set((await reconciler.run_pass()).found) == {FindingType.LATE, FindingType.OVERDUE}
    lost = await connection.fetchval(
        "delete from ledger.pending p using ledger.due_item i"
        " where i.item_no = p.item_no and i.due_at = $1 returning p.item_no",
        hours[0],
    )
    await connection.execute("delete from ledger.due_item where item_no = $1", lost)
    found = (await reconciler.run_pass()).found
    assert found[FindingType.MISSING] == 1


async def test_g13_what_a_calendar_placed_before_it_was_changed_is_shown_as_it_is(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    actor_no: int,
    kind: str,
) -> None:
    """Tuesday is closed since it was materialised: the newer version rolls it onto Wednesday."""
    days: dict[str, Any] = {"weekend": [], "first_day": "2026-01-01", "last_day": "2027-12-31"}
    put = partial(
        put_calendar,
        connection,
        tenant="acme",
        name="north",
        valid_to=date(2027, 12, 31),
        source=None,
        actor_no=actor_no,
    )
    await put(days)
    nightly: dict[str, Any] = {
        "when": {"cron": "0 9 * * *", "timezone": "UTC"},
        "calendar": {"name": "north", "roll": "following"},
    }
    await set_schedule("d", effective_from=NOON, **nightly)
    await tick_until_idle(materialiser)
    await put(days | {"holidays": ["2027-03-02"]})
    document = {"definition": "d", "tenant": "acme", "kind": kind, "business_key": "d"} | nightly
    newer = parse_definition(document | {"labels": {"a": "b"}}, calendars=None)
    (observing,) = await add_ledger_calendars(connection, [newer])
    diff = (await preview_change(connection, observing, NOON)).diff
    tuesday = datetime(2027, 3, 2, 9, tzinfo=UTC)
    first = [(each.kind, each.cycle, each.due_before) for each in diff.upcoming[:2]]
    assert first == [
        (ChangeKind.REMOVED, "2027-03-02T09:00", tuesday),
        (ChangeKind.KEPT, "2027-03-03T09:00", tuesday + timedelta(days=1)),
    ]
    before = await live_items(connection, "d", diff)
    assert before == {(kind, "2027-03-02T09:00"): {tuesday}}
    await set_schedule("d", effective_from=NOON, labels={"a": "b"}, **nightly)
    await tick_until_idle(materialiser)
    assert await live_items(connection, "d", diff) == {}


@pytest.mark.parametrize(
    "seed", [33, *(pytest.param(seed, marks=pytest.mark.full) for seed in (31, *range(34, 90)))]
)
async def test_g1_g13_what_define_shows_is_what_then_happens(
    settings: MaterialiserSettings,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    pool: Pool,
    actor_no: int,
    kind: str,
    seed: int,
) -> None:
    choice = random.Random(seed)  # noqa: S311 - the same changes in every run
    now = choice.choice(CHANGES_OF_OFFSETS)
    await set_time(now)
    changed = {
        "materialise_horizon_seconds": 33 * DAY,
        "materialise_items_max": choice.choice((40, 5_000)),
        "materialise_pass_items_max": 20_000,
    }
    number = await register_actor(connection, "materialiser:test", ActorKind.MATERIALISER)
    materialiser = Materialiser(pool, settings.model_copy(update=changed), actor_no=number)
    known: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    kinds = random.Random(seed)  # noqa: S311 - the same in every run
    for step in range(4):
        shown: dict[str, tuple[DefinitionDiff, Due]] = {}
        for name in NAMES:
            again = choice.choice(known[name]) if step > 1 and choice.random() < 0.3 else None
            each = again or terms(choice) | {"kind": kinds.choice((kind, kind, f"{kind}Other"))}
            known[name].append(each)
            since = now + timedelta(minutes=choice.choice((0, 0, 10, 100, 1_000)))
            newer = parse_definition(
                {"definition": name, "tenant": "acme", "business_key": name} | each
            )
            diff = (await preview_change(connection, newer, since)).diff
            shown[name] = diff, await live_items(connection, name, diff)
            await set_schedule(name, effective_from=since, **each)
        await tick_until_idle(materialiser)
        for name, (diff, before) in shown.items():
            after = await live_items(connection, name, diff)
            hold_to(diff, before, after, f"{name}, step {step}: {known[name]}")
        assert not [row for row in await read_accounting(connection) if row.difference]
        now += timedelta(minutes=choice.randint(1, 800))
        await set_time(now)
        await work_some(connection, actor_no, choice)
