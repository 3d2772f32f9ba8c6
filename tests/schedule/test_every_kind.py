"""Every kind of `when` compared with the scan of minutes, around every sort of change.

What is nominal is said by arithmetic on naive minutes, what it means by minute_scan.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dueledger.ledger.schedule import (
    Calendar,
    Fold,
    Gap,
    Observance,
    Recurring,
    Relative,
    Roll,
    Weekday,
    due_for,
    expand,
    load_zone,
)
from tests.examples import examples

from .minute_scan import INTERESTING, MINUTE, changes, expected_instants, local_at, neighbourhood

DAY = timedelta(days=1)
RECURRING: TypeAdapter[Recurring] = TypeAdapter(Recurring)
SPAN = timedelta(hours=75)
REACH = 30 * 60  # minutes from the change to a bound, at most; a local day may be missing


@dataclass(frozen=True)
class Place:
    """A change of a zone, and the local time at it."""

    zone: str
    change: datetime

    @property
    def local(self) -> datetime:
        return local_at(self.change, load_zone(self.zone)).replace(second=0)


@dataclass(frozen=True)
class Case:
    """A `when`, and its nominal times around the change with the day each is moved to."""

    document: Mapping[str, object]
    local_times: list[datetime]
    observance: Observance | None = None


PLACES = st.sampled_from(INTERESTING[:-1]).flatmap(
    lambda zone: st.builds(Place, st.just(zone), st.sampled_from(changes(zone)))
)
TIMES = st.builds(time, st.integers(0, 4), st.sampled_from([0, 10, 30, 45]))


def days_around(place: Place, days: int = 4) -> list[date]:
    return [place.local.date() + n * DAY for n in range(-days, days + 1)]


@st.composite
def at_cases(draw: st.DrawFn, place: Place) -> Case:
    local = place.local + draw(st.integers(-200, 200)) * MINUTE
    return Case({"at": local.isoformat(timespec="minutes")}, [local])


@st.composite
def rrule_cases(draw: st.DrawFn, place: Place) -> Case:
    start = datetime.combine(place.local.date() - 9 * DAY, draw(TIMES))
    minutes = [start + n * MINUTE for n in range(14 * 1440)]
    text = start.isoformat(timespec="minutes")
    match draw(st.sampled_from(["MINUTELY", "HOURLY", "DAILY", "WEEKLY"])):
        case "MINUTELY":
            step = draw(st.integers(7, 100))
            return Case({"rrule": f"FREQ=MINUTELY;INTERVAL={step}", "start": text}, minutes[::step])
        case "HOURLY":
            step = draw(st.integers(1, 30))
            every = minutes[:: step * 60]
            return Case({"rrule": f"FREQ=HOURLY;INTERVAL={step}", "start": text}, every)
        case "DAILY":
            hours = sorted(draw(st.sets(st.integers(0, 4), min_size=1, max_size=3)))
            named = [each for each in minutes if each.hour in hours and each.minute == start.minute]
            listed = ",".join(map(str, hours))
            return Case({"rrule": f"FREQ=DAILY;BYHOUR={listed}", "start": text}, named)
        case _:
            weekday = place.local.weekday()
            name = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")[weekday]
            named = [
                each
                for each in minutes
                if each.time() == start.time() and each.weekday() == weekday
            ]
            return Case({"rrule": f"FREQ=WEEKLY;BYDAY={name}", "start": text}, named)


@st.composite
def business_cases(draw: st.DrawFn, place: Place) -> Case:
    """Make the day of the change the only business day that counts."""
    of_day = draw(TIMES)
    day = place.local.date() + draw(st.integers(-1, 1)) * DAY
    document: dict[str, object] = {"at": of_day.isoformat("minutes")}
    local_time = [datetime.combine(day, of_day)]
    closed = tuple(day + n * DAY for n in range(-40, 41) if n)
    alone = Calendar(weekend=(), holidays=closed)
    roll = draw(st.sampled_from([Roll.FOLLOWING, Roll.PRECEDING]))
    match draw(st.sampled_from(["first", "last", "nth", "day_of_month"])):
        case "nth":
            return Case(document | {"business": {"nth": 1}}, local_time, Observance(alone, roll))
        case "day_of_month":
            back = 2 if roll is Roll.FOLLOWING else -2
            named = {"day_of_month": (day - back * DAY).day, "roll": roll.value}
            dates = [day + n * DAY for n in range(-4, 5)]
            shut = Calendar(weekend=(), holidays=((day - back * DAY), (day - back // 2 * DAY)))
            found = [
                datetime.combine(day if each == day - back * DAY else each, of_day)
                for each in dates
                if each.day == named["day_of_month"]
            ]
            return Case(document | {"business": named}, found, Observance(shut, Roll.SKIP))
        case word:
            return Case(document | {"business": word}, local_time, Observance(alone, Roll.SKIP))


@st.composite
def cron_cases(draw: st.DrawFn, place: Place) -> Case:
    """Close the days before or after the change, and roll a daily time from them."""
    of_day = draw(TIMES)
    days = days_around(place, 9)
    shut = draw(st.sets(st.sampled_from(days_around(place, 2)), max_size=3))
    calendar = Calendar(weekend=(), holidays=tuple(shut))
    roll = draw(st.sampled_from([Roll.FOLLOWING, Roll.PRECEDING, Roll.SKIP]))
    landed: list[datetime] = []
    for day in days:
        target = day
        while target in shut and roll is not Roll.SKIP:
            target += DAY if roll is Roll.FOLLOWING else -DAY
        if target not in shut:
            landed.append(datetime.combine(target, of_day))
    document = {"cron": f"{of_day.minute} {of_day.hour} * * *"}
    return Case(document, landed, Observance(calendar, roll))


def scanned(
    place: Place, local_times: Iterable[datetime], policy: tuple[Gap, Fold]
) -> list[datetime]:
    near = neighbourhood(load_zone(place.zone), place.change - SPAN, place.change + SPAN)
    due = {
        instant
        for local_time in local_times
        for instant in expected_instants(near, local_time, *policy) or []
    }
    return sorted(due)


def check(place: Place, case: Case, policy: tuple[Gap, Fold], cuts: list[int]) -> None:
    gap, fold = policy
    document = {**case.document, "timezone": place.zone, "gap": gap.value, "fold": fold.value}
    when = RECURRING.validate_python(document)
    stored = RECURRING.dump_python(when, mode="json", exclude_none=True)
    assert RECURRING.validate_python(stored) == when
    bounds = [place.change + cut * MINUTE for cut in sorted(cuts)]
    found = expand(when, bounds[0], bounds[-1], case.observance)
    instants = [each.due_at for each in found.occurrences]
    expected = scanned(place, case.local_times, policy)
    assert instants == [each for each in expected if bounds[0] <= each < bounds[-1]]
    parts = [expand(when, low, high, case.observance) for low, high in pairwise(bounds)]
    assert found.occurrences == tuple(each for part in parts for each in part.occurrences)
    assert found.skipped == tuple(each for part in parts for each in part.skipped)
    again = RECURRING.validate_python(document)
    assert expand(again, bounds[0], bounds[-1], case.observance) == found


CASES = {
    "at": at_cases,
    "rrule": rrule_cases,
    "business": business_cases,
    "cron with a calendar": cron_cases,
}
POLICIES = st.tuples(st.sampled_from(list(Gap)), st.sampled_from(list(Fold)))
CUTS = st.lists(st.integers(-REACH, REACH), min_size=2, max_size=4)


@pytest.mark.parametrize("kind", CASES)
@settings(max_examples=12)
@given(st.data(), PLACES, POLICIES, CUTS)
def test_a_kind_equals_the_scan_around_every_sort_of_change(
    kind: str, data: st.DataObject, place: Place, policy: tuple[Gap, Fold], cuts: list[int]
) -> None:
    check(place, data.draw(CASES[kind](place)), policy, cuts)


@pytest.mark.full
@pytest.mark.parametrize("kind", CASES)
@settings(max_examples=1500)
@given(st.data(), PLACES, POLICIES, CUTS)
def test_a_kind_equals_the_scan_in_many_cases(
    kind: str, data: st.DataObject, place: Place, policy: tuple[Gap, Fold], cuts: list[int]
) -> None:
    check(place, data.draw(CASES[kind](place)), policy, cuts)


@settings(max_examples=examples(20, full=40))
@given(
    PLACES,
    TIMES,
    st.integers(-1, 1),
    st.sampled_from([Gap.SHIFT_FORWARD, Gap.GAP_END]),
    st.sampled_from([Fold.FIRST, Fold.SECOND]),
)
def test_what_hangs_on_a_date_equals_the_scan_around_every_sort_of_change(
    place: Place, of_day: time, offset: int, gap: Gap, fold: Fold
) -> None:
    when = Relative.model_validate(
        {"relative": "P-30D", "at": of_day.isoformat(), "timezone": place.zone}
        | {"gap": gap.value, "fold": fold.value}
    )
    day = place.local.date() + offset * DAY
    found = due_for(when, day + 30 * DAY)
    assert [found.due_at] == scanned(place, [datetime.combine(day, of_day)], (gap, fold))
    assert found.due_at.tzinfo is UTC


SAME: list[dict[str, object]] = [
    {"cron": "*/7 1-3 * * *"},
    {"cron": "30 2 * * mon-fri", "preset": "debian"},
    {"rrule": "FREQ=HOURLY;INTERVAL=5;COUNT=3000", "start": "2024-01-01T00:30", "fold": "both"},
    {"rrule": "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "start": "2020-01-01T02:30"},
    {"business": {"day_of_month": 31, "roll": "nearest"}, "at": "00:15"},
    {"business": "last", "at": "02:30", "gap": "gap_end"},
    {"at": "2024-03-31T02:30", "gap": "gap_end"},
]


def test_the_same_documents_give_the_same_instants_in_every_process_and_python() -> None:
    year = (datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))
    holidays = (date(2024, 1, 1), date(2024, 3, 29), date(2024, 4, 1), date(2024, 12, 25))
    calendar = Calendar(weekend=(Weekday.SAT, Weekday.SUN), holidays=holidays)
    digest = sha256()
    for document in SAME:
        for zone in ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"):
            when = RECURRING.validate_python({**document, "timezone": zone})
            for observance in (None, Observance(calendar, Roll.PRECEDING)):
                for found in expand(when, *year, observance).occurrences:
                    line = (found.due_at, found.nominal, found.utc_offset, found.decision.value)
                    digest.update(" ".join(map(str, line)).encode())
    assert digest.hexdigest() == "2657460748f127f78034d7b2747e215eb739c34080980b24cd23f6134fde09d8"
