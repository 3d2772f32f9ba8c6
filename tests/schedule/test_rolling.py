"""Frequent schedules that observe calendars, compared with each local time rolled by itself."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dueledger.ledger.errors import WindowTooLarge
from dueledger.ledger.schedule import (
    Calendar,
    Cron,
    Decision,
    Every,
    Observance,
    Occurrence,
    Recurring,
    Roll,
    Rrule,
    ScheduleWindow,
    Skipped,
    SkipReason,
    expand,
    resolve,
)
from dueledger.ledger.schedule.expansion import falls_due
from dueledger.ledger.schedule.local_times import LocalTimes, LocalTimesOfDay
from dueledger.ledger.schedule.resolution import collapse, instant_of
from tests.examples import examples

from .minute_scan import HOUR, INTERESTING, MINUTE, changes
from .rolled_days import DAY, calendars_of, is_open, rolled

KINDS: TypeAdapter[Recurring] = TypeAdapter(Cron | Rrule | Every)
MARGIN = 30 * DAY


@st.composite
def cases(draw: st.DrawFn) -> tuple[Recurring, Calendar, Roll, datetime]:
    """Draw a schedule that is owed often, a calendar and a change of the clocks amid its days."""
    zone = draw(st.sampled_from(INTERESTING[:-1]))
    change = draw(st.sampled_from(changes(zone)))
    begin = (change - 60 * DAY).replace(tzinfo=None, second=0, microsecond=0)
    policies: dict[str, object] = {
        "timezone": zone,
        "gap": draw(st.sampled_from(["skip", "shift_forward", "gap_end"])),
        "fold": draw(st.sampled_from(["first", "second", "both"])),
    }
    number = draw(st.integers(20, 70))
    document: dict[str, object]
    match draw(st.sampled_from(["cron", "bounded", "minutely", "counted", "until", "every"])):
        case "cron":
            document = {"cron": f"*/{number % 30 + 15} * * * *", **policies}
        case "bounded":
            document = {"cron": "*/20 0-4,22 * * *", **policies}
            document["start"] = (begin + 59 * DAY).isoformat()
            document["end"] = (begin + 62 * DAY + number * MINUTE).isoformat()
        case "minutely":
            document = {"rrule": f"FREQ=MINUTELY;INTERVAL={number}", **policies}
        case "counted":
            rule = f"FREQ=HOURLY;BYMINUTE=10,{number % 60};COUNT={60 * 48 + number}"
            document = {"rrule": rule, **policies}
        case "until":
            until = change + (number - 45) * HOUR
            document = {"rrule": f"FREQ=MINUTELY;INTERVAL=25;UNTIL={until:%Y%m%dT%H%M%SZ}"}
            document |= policies
        case _:
            document = {"every": f"PT{number}M", "anchor": begin.replace(tzinfo=UTC).isoformat()}
    if "rrule" in document:
        document["start"] = begin.isoformat()
    days = st.dates(change.date() - 12 * DAY, change.date() + 12 * DAY)
    calendar = draw(calendars_of(days))
    return KINDS.validate_python(document), calendar, draw(st.sampled_from(list(Roll))), change


def each_by_itself(
    when: Recurring, calendar: Calendar, roll: Roll, bounds: tuple[datetime, datetime]
) -> ScheduleWindow:
    """Roll and resolve every local time alone, from long before to long after."""
    low, high = (each.replace(tzinfo=None) for each in (bounds[0] - MARGIN, bounds[1] + MARGIN))
    return collapse(_each(when, calendar, roll, (low, high)), bounds)


def _each(
    when: Recurring, calendar: Calendar, roll: Roll, naive: tuple[datetime, datetime]
) -> Iterator[Occurrence | Skipped]:
    ruling = when.ruling
    rolled_to: dict[date, date] = {}
    for nominal in nominals(when, *naive):
        day = nominal.date()
        own = [
            each
            for each in resolve(nominal, *ruling.policy)
            if ruling.last_instant is None or instant_of(each) <= ruling.last_instant
        ]
        if is_open(calendar, day):
            yield from own
        elif roll is Roll.SKIP:
            for each in own:
                left_out = SkipReason.CALENDAR
                yield (
                    each
                    if isinstance(each, Skipped)
                    else Skipped(each.due_at, nominal, left_out, each.decision)
                )
        elif own:
            if day not in rolled_to:
                rolled_to[day] = rolled(calendar, day, roll)
            moved = datetime.combine(rolled_to[day], nominal.time())
            for each in resolve(moved, *ruling.policy):
                if isinstance(each, Skipped):
                    yield replace(each, nominal=nominal)
                else:
                    exact = each.decision is Decision.EXACT
                    decision = Decision.ROLLED if exact else each.decision
                    yield each._replace(nominal=nominal, decision=decision)


def nominals(when: Recurring, low: datetime, high: datetime) -> Iterator[datetime]:
    if isinstance(when, Every):
        at = when.anchor.replace(tzinfo=None)
        while at < high:
            if at >= low:
                yield at
            at += when.every
    elif isinstance(when, Cron | Rrule):
        yield from when.nominals(low, high)


@settings(max_examples=examples(25, full=60))
@given(cases(), st.lists(st.integers(-3000, 3000), min_size=3, max_size=5))
def test_a_frequent_schedule_is_rolled_as_each_time_by_itself_and_windows_add_up(
    case: tuple[Recurring, Calendar, Roll, datetime], cuts: list[int]
) -> None:
    when, calendar, roll, change = case
    bounds = [change + cut * MINUTE for cut in sorted(cuts)]
    observance = Observance(calendar, roll)
    found = expand(when, bounds[0], bounds[-1], observance)
    assert found == each_by_itself(when, calendar, roll, (bounds[0], bounds[-1]))
    parts = [expand(when, low, high, observance) for low, high in pairwise(bounds)]
    assert found.occurrences == tuple(each for part in parts for each in part.occurrences)
    assert found.skipped == tuple(each for part in parts for each in part.skipped)


@settings(max_examples=examples(25, full=60))
@given(cases(), st.integers(-3000, 3000), st.integers(1, 200))
def test_whether_anything_falls_due_is_what_its_window_tells(
    case: tuple[Recurring, Calendar, Roll, datetime], begin: int, length: int
) -> None:
    when, calendar, roll, change = case
    observance = Observance(calendar, roll)
    start = change + begin * MINUTE
    bounds = start, start + length * MINUTE
    found = expand(when, *bounds, observance).occurrences
    assert isinstance(when, Cron | Rrule | Every)
    assert falls_due(when, when.ruling, observance, bounds) == bool(found)


class Watched:
    """A rule that keeps in mind of which days the times were asked for."""

    def __init__(self, rule: LocalTimes) -> None:
        self.rule = rule
        self.asked: list[date] = []

    def days(self, first: date, last: date) -> Iterator[date]:
        return self.rule.days(first, last)

    def times_on(self, day: date) -> LocalTimesOfDay:
        self.asked.append(day)
        return self.rule.times_on(day)


def test_days_left_out_are_not_expanded_for_what_falls_due() -> None:
    when = Cron(cron="* * * * * *", timezone="America/New_York")
    watched = Watched(when)
    observance = Observance(closed_from(date(2027, 1, 1), 330), Roll.SKIP)
    start = datetime(2027, 1, 5, tzinfo=UTC)
    assert falls_due(watched, when.ruling, observance, (start, start + 3000 * DAY))
    assert watched.asked == [date(2027, 1, 1) + 330 * DAY]


def closed_from(first: date, days: int) -> Calendar:
    return Calendar(weekend=(), holidays=tuple(first + n * DAY for n in range(days)))


SECONDS: list[dict[str, object]] = [
    {"cron": "* * * * * *", "timezone": "America/New_York"},
    {"every": "PT1S", "anchor": "2026-01-01T00:00:00Z"},
    {
        "rrule": "FREQ=MINUTELY;BYSECOND=" + ",".join(map(str, range(60))),
        "start": "2026-01-01T00:00",
        "timezone": "America/New_York",
    },
]


@pytest.mark.parametrize("document", SECONDS)
@pytest.mark.parametrize(
    ("roll", "closed", "rolled_here"),
    [
        (Roll.SKIP, 330, 0),
        (Roll.FOLLOWING, 2, 2),
        (Roll.NEAREST, 20, 10),
        pytest.param(Roll.NEAREST, 330, 165, marks=pytest.mark.full),
    ],
)
def test_an_hour_of_every_second_costs_its_rows_whatever_the_calendar(
    document: dict[str, object], roll: Roll, closed: int, rolled_here: int
) -> None:
    when = KINDS.validate_python(document)
    last = date(2026, 12, 27)
    observance = Observance(closed_from(last - (closed - 1) * DAY, closed), roll)
    start = datetime(2026, 12, 28, 12, tzinfo=UTC)  # the first business day after them
    # It reads those of the hour, and those of the hour of the days that roll onto this one.
    rows = 3600 * (1 + rolled_here)
    found = expand(when, start, start + HOUR, observance, times_max=rows + 400)
    assert len(found.occurrences) == 3600
    assert {each.decision for each in found.occurrences} == {Decision.EXACT}
    assert len(found.skipped) == 3600 * rolled_here
    assert {each.reason for each in found.skipped} <= {SkipReason.MERGED}


def test_what_closed_days_heap_up_is_refused_beyond_a_bound() -> None:
    # All of the hour that the gap skips comes from each of 300 days, and each is to be recorded.
    when = Cron(cron="* * * * * *", timezone="America/New_York")
    observance = Observance(closed_from(date(2027, 3, 14) - 300 * DAY, 300), Roll.FOLLOWING)
    start = datetime(2027, 3, 14, 7, tzinfo=UTC)
    with pytest.raises(WindowTooLarge, match="more than 250,000 local times"):
        expand(when, start, start + MINUTE, observance, times_max=250_000)
    minutes = Cron(cron="* * * * *", timezone="America/New_York")
    found = expand(minutes, start, start + MINUTE, observance, times_max=250_000)
    (owed,) = found.occurrences
    merged = [each for each in found.skipped if each.reason is SkipReason.MERGED]
    assert {each.into for each in merged} == {owed}
    assert len(merged) == 300
    assert len(found.skipped) == 60 * 301 + 300


def test_a_count_that_is_past_asks_no_more_of_its_calendar() -> None:
    when = Rrule(rrule="FREQ=DAILY;COUNT=3", start=datetime(2027, 1, 4, 9), timezone="UTC")  # noqa: DTZ001
    known = Calendar(weekend=(), last_day=date(2027, 1, 31))
    start = datetime(2027, 1, 30, tzinfo=UTC)
    for roll in (Roll.SKIP, Roll.FOLLOWING):
        assert expand(when, start, start + 9 * DAY, Observance(known, roll)) == ScheduleWindow(
            (), ()
        )
