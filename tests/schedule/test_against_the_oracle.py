"""Schedules compared with a brute-force scan of UTC minutes around offset changes.

The scan is in minute_scan.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.ledger.schedule import (
    Cron,
    Fold,
    Gap,
    Occurrence,
    SkipReason,
    expand,
    load_zone,
    resolve,
    zone_names,
)
from dueledger.ledger.schedule.cron import DayRule
from tests.examples import examples

from .minute_scan import (
    HOUR,
    INTERESTING,
    MINUTE,
    Neighbourhood,
    changes,
    expected_instants,
    local_at,
    minutes_between,
    neighbourhood,
)

SHIFT_MAX = 26 * HOUR
"""More than any gap or fold moves a local time."""


def check_change(name: str, change: datetime, step: timedelta) -> int:
    """Compare every policy for the local times around one change; return how many were compared."""
    zone = load_zone(name)
    before = (change - MINUTE).astimezone(zone).utcoffset()
    after = change.astimezone(zone).utcoffset()
    assert before is not None
    assert after is not None
    reach = abs(after - before) + 3 * HOUR
    near = neighbourhood(zone, change - 2 * reach, change + 2 * reach)
    compared = 0
    nominal = local_at(change, zone) - reach
    while nominal <= local_at(change, zone) + reach:
        for gap in Gap:
            for fold in Fold:
                expected = expected_instants(near, nominal, gap, fold)
                assert expected is not None
                found = resolve(nominal, zone, gap, fold)
                due = [each.due_at for each in found if isinstance(each, Occurrence)]
                assert due == expected, (name, nominal, gap, fold)
                compared += 1
        nominal += step
    return compared


@pytest.mark.parametrize("name", INTERESTING)
def test_resolution_equals_the_scan_at_every_change_of_the_interesting_zones(name: str) -> None:
    compared = [check_change(name, change, timedelta(minutes=10)) for change in changes(name)[::9]]
    assert all(compared)
    assert compared or name == "Asia/Kathmandu"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(zone_names())[: examples(0, full=10_000)])
def test_resolution_equals_the_scan_at_every_change_of_every_zone(name: str) -> None:
    for change in changes(name):
        assert check_change(name, change, timedelta(minutes=15))


def test_the_oracle_sees_the_changes_that_are_known() -> None:
    assert datetime(2026, 3, 8, 7, tzinfo=UTC) in changes("America/New_York")
    assert datetime(2011, 12, 30, 10, tzinfo=UTC) in changes("Pacific/Apia")
    assert changes("Asia/Kathmandu") == ()


@dataclass(frozen=True)
class Field:
    """One field of an expression, as a text and as the values a person reads in it."""

    text: str
    values: frozenset[int]


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> Field:
    value = st.integers(low, high)
    match draw(st.sampled_from(["all", "step", "one", "range", "several", "from"])):
        case "all":
            return Field("*", frozenset(range(low, high + 1)))
        case "step":
            step = draw(st.integers(1, high - low + 1))
            return Field(f"*/{step}", frozenset(range(low, high + 1, step)))
        case "one":
            one = draw(value)
            return Field(f"{one:02}", frozenset([one]))
        case "range":
            first, last = sorted((draw(value), draw(value)))
            whole = (first, last) == (low, high)  # of which a step past the end is refused
            step = draw(st.integers(1, min(9, high - low + 1) if whole else 9))
            return Field(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step)))
        case "from":
            first = draw(st.integers(low, high - 1))
            step = draw(st.integers(1, min(9, high - first + 1)))
            return Field(f"{first}/{step}", frozenset(range(first, high + 1, step)))
        case _:
            several = draw(st.lists(value, min_size=1, max_size=4))
            return Field(",".join(map(str, several)), frozenset(several))


@dataclass(frozen=True)
class Expression:
    text: str
    day_rule: str
    matches: Callable[[datetime], bool]


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    minute = draw(fields(0, 59))
    hour = draw(fields(0, 23))
    day = draw(fields(1, 31))
    weekday = draw(fields(0, 6))
    day_rule = draw(st.sampled_from(["any", "all"]))
    every_day = len(day.values) == 31
    every_weekday = len(weekday.values) == 7

    def matches(local: datetime) -> bool:
        by_day = local.day in day.values
        by_weekday = local.isoweekday() % 7 in weekday.values
        either = day_rule == "any" and not every_day and not every_weekday
        of_days = by_day or by_weekday if either else by_day and by_weekday
        return local.minute in minute.values and local.hour in hour.values and of_days

    text = f"{minute.text} {hour.text} {day.text} * {weekday.text}"
    return Expression(text, day_rule, matches)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, datetime]:
    name = draw(st.sampled_from(INTERESTING[:-1]))
    return name, draw(st.sampled_from(changes(name)))


def expected_window(
    near: Neighbourhood, cron: Cron, expression: Expression, bounds: tuple[datetime, datetime]
) -> tuple[set[tuple[datetime, datetime]], set[datetime]]:
    """Return instants with their local times, and the local times skipped, by the minutes alone."""
    start, end = bounds
    due: set[tuple[datetime, datetime]] = set()
    skipped: set[datetime] = set()
    for local in near.instants:
        if expression.matches(local):
            instants = expected_instants(near, local, cron.gap, cron.fold) or []
            due.update((each, local) for each in instants)
    for before, after in near.gaps:
        for nominal in minutes_between(before.local, after.local):
            if expression.matches(nominal):
                found = expected_instants(near, nominal, cron.gap, cron.fold)
                due.update((each, nominal) for each in found or [])
                if found == [] and start <= after.instant < end:
                    skipped.add(nominal)
    return {each for each in due if start <= each[0] < end}, skipped


@settings(max_examples=examples(40, full=100))
@given(
    expressions(),
    places(),
    st.sampled_from(list(Gap)),
    st.sampled_from(list(Fold)),
    st.integers(-1700, 1700),
    st.integers(0, 2000),
)
def test_cron_equals_the_scan_around_every_sort_of_change(
    expression: Expression,
    place: tuple[str, datetime],
    gap: Gap,
    fold: Fold,
    offset: int,
    length: int,
) -> None:
    name, change = place
    zone = load_zone(name)
    cron = Cron(
        cron=expression.text,
        timezone=name,
        day_rule=DayRule(expression.day_rule),
        sparse=True,
        gap=gap,
        fold=fold,
    )
    start = change + offset * MINUTE
    end = start + length * MINUTE
    near = neighbourhood(zone, start - SHIFT_MAX, end + SHIFT_MAX)
    due, skipped = expected_window(near, cron, expression, (start, end))
    found = expand(cron, start, end)
    assert {each.due_at for each in found.occurrences} == {instant for instant, _ in due}
    merged = [each for each in found.skipped if each.reason is SkipReason.MERGED]
    assert {each.nominal for each in found.skipped if each not in merged} == skipped
    named = [(each.due_at, each.nominal) for each in found.occurrences]
    named += [(each.at, each.nominal) for each in merged]
    assert sorted(named) == sorted(due), "each local time is named once"
    assert all(each.into in found.occurrences for each in merged)
    assert all(each.into and each.into.due_at == each.at for each in merged)


@given(
    expressions(),
    places(),
    st.booleans(),
    st.lists(st.integers(-3000, 3000), min_size=3, max_size=6),
)
def test_windows_compose_and_instants_are_unique_and_in_order(
    expression: Expression,
    place: tuple[str, datetime],
    defaults: bool,  # noqa: FBT001 - hypothesis gives it by position
    cuts: list[int],
) -> None:
    name, change = place
    document = {
        "cron": expression.text,
        "timezone": name,
        "day_rule": expression.day_rule,
        "sparse": True,
    }
    policies = {} if defaults else {"gap": "gap_end", "fold": "both"}
    cron = Cron.model_validate(document | policies)
    bounds = [change + cut * MINUTE for cut in sorted(cuts)]
    whole = expand(cron, bounds[0], bounds[-1])
    parts = [expand(cron, low, high) for low, high in pairwise(bounds)]
    assert whole.occurrences == tuple(each for part in parts for each in part.occurrences)
    assert whole.skipped == tuple(each for part in parts for each in part.skipped)
    instants = [each.due_at for each in whole.occurrences]
    assert instants == sorted(set(instants))
    assert all(
        each.due_at + each.utc_offset == local_at(each.due_at, load_zone(name)).replace(tzinfo=UTC)
        for each in whole.occurrences
    )
