"""Items that a calendar change leaves between versions are searched as far back as they may be."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.rules.calendar_change import change_reach, drafts_moved_before
from dueledger.ledger.rules.schedule_drafts import expand_schedule, skip_reason_of
from dueledger.ledger.schedule import (
    RECURRING,
    Calendar,
    Occurrence,
    Roll,
    Skipped,
    Weekday,
    resolve,
)
from dueledger.ledger.schedule.calendars import Beyond
from dueledger.ledger.schedule.resolution import instant_of
from tests.examples import examples

from .minute_scan import INTERESTING
from .rolled_days import DAY

AT = datetime(2027, 3, 14, tzinfo=UTC)  # clocks go forward in New York; a Sunday
ROLLS = [roll for roll in Roll if roll is not Roll.SKIP]
LOCAL = ["5 */7 * * *", "30 2 * * *", "0 0 * * mon", "55 23 28-31 * *", "15 12 14 * *"]


@st.composite
def whens(draw: st.DrawFn) -> dict[str, object]:
    zone = {"timezone": draw(st.sampled_from(INTERESTING))}
    match draw(st.sampled_from(["cron", "rrule", "every", "at", "business"])):
        case "cron":
            policies = {"gap": draw(st.sampled_from(["skip", "shift_forward"])), "fold": "both"}
            return {"cron": draw(st.sampled_from(LOCAL)), **policies, **zone}
        case "rrule":
            rule = f"FREQ=DAILY;COUNT={draw(st.integers(60, 120))}"
            return {"rrule": rule, "start": "2026-12-31T22:30", **zone}
        case "every":
            return {"every": f"PT{draw(st.integers(5, 60))}H", "anchor": "2026-06-01T00:00:00Z"}
        case "at":
            day = (AT + draw(st.integers(-40, 10)) * DAY).date()
            return {"at": f"{day}T{draw(st.integers(0, 23)):02}:30", **zone}
        case _:
            day = {"day_of_month": draw(st.integers(1, 31))}
            return {"business": day, "at": "21:00", **zone}


@st.composite
def calendars(draw: st.DrawFn, last_days: st.SearchStrategy[int | None]) -> Calendar:
    """Draw a calendar with a long run of closed days and a few others about the change."""
    begin = AT.date() + draw(st.integers(-45, 10)) * DAY
    run = {begin + n * DAY for n in range(draw(st.integers(0, 50)))}
    few = draw(st.sets(st.integers(-50, 40), max_size=8))
    known = draw(last_days)
    last_day = None if known is None else AT.date() + known * DAY
    closed = run | {AT.date() + n * DAY for n in few}
    return Calendar(
        name="co",
        weekend=(Weekday.SAT, Weekday.SUN) if draw(st.booleans()) else (),
        holidays=tuple(day for day in closed if last_day is None or day <= last_day),
        last_day=last_day,
    )


@settings(max_examples=examples(100, full=300))
@given(
    whens(),
    calendars(st.none() | st.integers(-30, 30)),
    calendars(st.none()),
    st.sampled_from(ROLLS),
    st.integers(-60, 60),
)
def test_what_is_overtaken_is_found_wherever_it_may_be(
    when: dict[str, object],
    before: Calendar,
    after: Calendar,
    roll: Roll,
    hours: int,
) -> None:
    document = {"definition": "d", "tenant": "t", "kind": "D", "business_key": "d", "when": when}
    named = document | {"calendar": {"name": "co", "roll": roll.value}}
    definition = parse_definition(named, calendars=None).with_calendar({"co": after})
    at = AT + timedelta(hours=hours)
    low = at - change_reach(definition, before)
    rule = definition.when
    assert isinstance(rule, RECURRING)

    def was_due_later(found: Occurrence | Skipped) -> bool:
        day = before.roll(found.nominal.date(), roll)
        if isinstance(day, Beyond):
            return day is Beyond.AFTER
        there = resolve(datetime.combine(day, found.nominal.time()), *rule.ruling.policy)
        instants = [instant_of(each) for each in there if isinstance(each, Occurrence)]
        return bool(instants) and min(instants) >= at

    now = expand_schedule(definition, low, at)
    owed = [each.due_at for each in now.occurrences if was_due_later(each)]
    left_out = [(each.at, skip_reason_of(each)) for each in now.skipped if was_due_later(each)]
    drafted = drafts_moved_before(definition, before, low, at)
    assert [each.due_at for each in drafted.drafts] == owed
    assert [(each.draft.due_at, each.reason) for each in drafted.skipped] == left_out
