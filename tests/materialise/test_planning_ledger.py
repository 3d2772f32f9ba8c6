"""A plan of a ledger: schedules' items are counted once, and other pending items too."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import TransitionEvent as Event
from dueledger.ledger.store import Connection
from dueledger.ledger.store.flows import snooze_items
from dueledger.ledger.store.items import RequestResult, emit_items
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs
from dueledger.planning.ledger_load import LoadFilter, read_load
from dueledger.planning.load_plan import LoadPlan, make_plan
from dueledger.planning.schedule_load import QUARTER
from tests.claim_ids import run_ids

from .conftest import NOON, SetSchedule, SetTime, claim_next, start, tick_until_idle

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}
HALF_PAST = {"cron": "30 * * * *", "timezone": "UTC"}

MakePlan = Callable[..., Awaitable[LoadPlan]]
MakeDrafts = Callable[..., list[ItemDraft]]
ON_EVENT = {
    "event": "PolicyActivated",
    "business_key": "data.policy_number",
    "cycle": "data.term",
    "effective_date": "data.expires_on",
}


@pytest.fixture
def plan(connection: Connection) -> MakePlan:
    """Plan twelve hours from a full hour on, by default noon."""

    async def make(
        wanted: LoadFilter | None = None, *, since: datetime = NOON, quiet_for: timedelta = HOUR
    ) -> LoadPlan:
        load = await read_load(
            connection, wanted or LoadFilter(), since, since + 12 * HOUR, smear=timedelta(0)
        )
        return make_plan(load.schedules, load.waiting, quiet_for=quiet_for)

    return make


def due(made: LoadPlan) -> dict[timedelta, int]:
    """Return the items due in each quarter hour, by the time since noon, without empty ones."""
    return {each.start - NOON: each.due for each in made.quarters if each.due}


def hourly(offset: timedelta = timedelta(0), *, first: int = 0) -> dict[timedelta, int]:
    return {number * HOUR + offset: 1 for number in range(first, 12)}


async def settle(
    connection: Connection, actor_no: int, run_no: int, outcomes: Sequence[Outcome]
) -> None:
    (run,) = await run_ids(connection, [run_no])
    assert await settle_runs(connection, [Settlement(run, outcomes)], actor_no) == []


@pytest.mark.parametrize("smear", [None, "PT40M"])
async def test_occurrences_that_are_items_already_are_counted_once(
    materialiser: Materialiser, set_schedule: SetSchedule, plan: MakePlan, smear: str | None
) -> None:
    await set_schedule("d", HOURLY, smear=smear)
    before = await plan()
    assert before.definitions == 1
    assert sum(each.due for each in before.quarters) == 12
    await tick_until_idle(materialiser)
    assert await plan() == before


async def test_items_of_events_leave_no_hour_quiet_in_which_they_fall_due(
    connection: Connection,
    set_schedule: SetSchedule,
    make_drafts: MakeDrafts,
    materialiser: Materialiser,
    actor_no: int,
    plan: MakePlan,
) -> None:
    when = {"relative": "P-30D", "at": "09:00", "timezone": "UTC"}
    rule = await set_schedule("renewal", when, **ON_EVENT)
    drafts = make_drafts(50, due_at=NOON + 3 * HOUR + 7 * MINUTE)
    drafts = [replace(draft, nominal="2027-03-01T15:07", zone="UTC") for draft in drafts]
    await emit_items(connection, drafts, actor_no=actor_no, definition_no=rule)
    await tick_until_idle(materialiser)
    made = await plan(quiet_for=4 * HOUR)
    assert due(made) == {3 * HOUR: 50}
    assert [(one.start, one.end) for one in made.quiet] == [
        (NOON + 3 * HOUR + 8 * MINUTE, NOON + 12 * HOUR)
    ]
    [(source, items)] = made.peaks[0].most_of
    assert (source.tenant, source.definition, items) == ("acme", "renewal", 50)
    assert [each.source.definition for each in made.not_counted] == ["renewal"]


async def test_a_fixed_delay_counts_with_the_item_that_waits(
    materialiser: Materialiser, set_schedule: SetSchedule, plan: MakePlan
) -> None:
    await set_schedule("poll", {"after_completion": "PT10M"}, effective_from=NOON + 2 * HOUR)
    assert due(await plan()) == {}
    await tick_until_idle(materialiser)
    made = await plan()
    assert due(made) == {2 * HOUR: 1}
    assert [each.source.definition for each in made.not_counted] == ["poll"]


async def test_retries_and_snoozes_are_counted_when_they_are_tried_again(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
    plan: MakePlan,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_time(NOON + HOUR)
    fence, ids = await claim_next(connection, actor_no, 2)
    assert len(ids) == 2
    assert due(await plan()) == hourly()  # for items that are handed out no retry is known
    outcomes = Outcome(Event.FAILED, "{}", 2_000), Outcome(Event.SNOOZED, "{}", 7_800)
    await settle(connection, actor_no, await start(connection, actor_no, fence, 2), outcomes)
    again = {HOUR + 30 * MINUTE: 1, 3 * HOUR: 2}  # 33 min and 2 h 10 min after one o'clock
    assert due(await plan()) == hourly() | again


@pytest.mark.parametrize("smear", [None, "PT40M"])
async def test_an_item_that_a_person_snoozed_is_counted_once_when_it_is_available(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    actor_no: int,
    plan: MakePlan,
    smear: str | None,
) -> None:
    await set_schedule("d", HOURLY, smear=smear)
    await tick_until_idle(materialiser)
    [first, second] = await connection.fetch(
        "select id, due_at from ledger.due_item where due_at >= $1 order by due_at limit 2",
        NOON + 2 * HOUR,
    )
    before = due(await plan())
    times = NOON + 5 * HOUR + 20 * MINUTE, NOON + 20 * HOUR
    for row, until in zip((first, second), times, strict=True):
        [snoozed] = await snooze_items(
            connection, [row["id"]], reason="INC-1", actor_no=actor_no, until=until
        )
        assert snoozed.result is RequestResult.DONE
    made = await plan()
    expected = Counter(before)
    for row in (first, second):
        expected[(row["due_at"] - NOON) // QUARTER * QUARTER] -= 1
    expected[5 * HOUR + QUARTER] += 1
    assert due(made) == {each: items for each, items in expected.items() if items}
    assert sum(each.waiting for each in made.quarters) == 1  # the other one waits beyond the window


async def test_a_triggered_occurrence_is_counted_beside_the_schedules_own(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    actor_no: int,
    plan: MakePlan,
) -> None:
    await set_schedule("d", HALF_PAST)
    await tick_until_idle(materialiser)
    await trigger_definition(connection, "acme", "d", cycle=None, reason="rerun", actor_no=actor_no)
    made = await plan()
    assert due(made) == {timedelta(0): 1} | hourly(30 * MINUTE)
    assert sum(each.waiting for each in made.quarters) == 1


async def test_what_an_older_version_has_waiting_is_counted_with_the_newer_one(
    materialiser: Materialiser, set_schedule: SetSchedule, plan: MakePlan
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_schedule("d", HALF_PAST, effective_from=NOON + 6 * HOUR)
    expected = {number * HOUR: 1 for number in range(6)} | hourly(30 * MINUTE, first=6)
    assert due(await plan()) == expected  # before the newer one has taken over
    await tick_until_idle(materialiser)
    assert due(await plan()) == expected


async def test_pending_occurrences_are_counted_if_their_schedule_is_unknown(
    connection: Connection, materialiser: Materialiser, set_schedule: SetSchedule, plan: MakePlan
) -> None:
    calendar = {"weekend": ["sat", "sun"], "last_day": "2027-03-01", "roll": "skip"}
    await set_schedule("d", HOURLY, calendar=calendar)
    await tick_until_idle(materialiser)
    waiting = await connection.fetchval("select count(*) from ledger.pending")
    made = await plan(since=NOON + 6 * HOUR)
    assert made.definitions == 0
    assert [each.source.definition for each in made.not_counted] == ["d"]
    assert sum(each.waiting for each in made.quarters) == waiting - 6 == 6


async def test_what_was_due_before_is_said_apart_and_what_a_key_holds_back_with_it(
    connection: Connection,
    make_drafts: MakeDrafts,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
    plan: MakePlan,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    held = [
        replace(draft, overlap=Overlap.WAIT, overlap_key="k")
        for draft in make_drafts(2, due_at=NOON)
    ]
    await emit_items(connection, held, actor_no=actor_no)
    await connection.execute(
        "update ledger.pending set available_at = 'infinity'"
        " where item_no = (select max(item_no) from ledger.pending where serial is not null)"
    )
    await set_time(NOON + 2 * HOUR)
    made = await plan(since=NOON + 2 * HOUR)
    assert made.overdue == 4  # noon and one o'clock, and both of the key
    assert due(made)[2 * HOUR] == 1
    assert sum(each.waiting for each in made.quarters) == 0


async def test_an_occurrence_that_came_late_is_counted_once(
    materialiser: Materialiser, set_schedule: SetSchedule, set_time: SetTime, plan: MakePlan
) -> None:
    await set_schedule("d", HOURLY)
    await set_time(NOON + 2 * HOUR + MINUTE)
    await tick_until_idle(materialiser)
    assert due(await plan()) == hourly()


async def test_tenant_kind_and_service_choose_among_what_waits(
    connection: Connection,
    make_drafts: MakeDrafts,
    materialiser: Materialiser,
    actor_no: int,
    kind: str,
    plan: MakePlan,
) -> None:
    await tick_until_idle(materialiser)
    at = {"due_at": NOON + HOUR}
    labels = '{"service":"billing"}'
    drafts = [
        *make_drafts(1, **at),
        *make_drafts(2, tenant="umbra", **at),
        *make_drafts(4, kind=f"{kind}Other", **at),
        *make_drafts(8, prefix="labelled", labels=labels, **at),
    ]
    await emit_items(connection, drafts, actor_no=actor_no)

    async def counted(wanted: LoadFilter) -> int:
        made, later = await plan(wanted), await plan(wanted, since=NOON + 2 * HOUR)
        assert (made.overdue, sum(due(later).values())) == (0, 0)
        assert later.overdue == sum(due(made).values())
        return later.overdue

    assert await counted(LoadFilter()) == 15
    assert await counted(LoadFilter(tenant="umbra")) == 2
    assert await counted(LoadFilter(kind=kind)) == 11
    assert await counted(LoadFilter(service="billing")) == 8
    assert await counted(LoadFilter(tenant="acme", kind=f"{kind}Other")) == 4
    assert await counted(LoadFilter(service="shipping")) == 0
