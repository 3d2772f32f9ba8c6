"""Smear: deterministic, even, and never to or past the occurrence that follows."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dueledger.ledger.schedule import Cron, Every, Occurrence, When, expand
from dueledger.ledger.schedule.smear import gaps_after, shortest_period, smear_seconds

MINUTE = timedelta(minutes=1)
START = datetime(2027, 1, 1, tzinfo=UTC)


DOCS = Path(__file__).parents[2] / "docs" / "smear-and-catch-up.md"
VECTORS = re.findall(r"\| `([0-9a-f-]{36})` \| (\d+) \| (\d+) \|", DOCS.read_text(encoding="utf-8"))


def test_the_vectors_of_the_docs_hold_on_any_host() -> None:
    """They were computed by `sha256sum` and whole numbers, without this code."""
    assert len(VECTORS) == 6
    for item, window, seconds in VECTORS:
        assert smear_seconds(UUID(item), timedelta(seconds=int(window))) == int(seconds)


@given(st.uuids(), st.integers(1, 10**9), st.integers(0, 10**9))
def test_an_item_is_moved_by_less_than_the_window_and_than_the_time_to_the_next(
    item: UUID, window: int, to_next: int
) -> None:
    moved = smear_seconds(item, timedelta(seconds=window), timedelta(seconds=to_next))
    assert 0 <= moved <= max(min(window, to_next) - 1, 0)
    assert moved == smear_seconds(item, timedelta(seconds=min(window, to_next)))


def test_items_are_spread_evenly() -> None:
    quarters = Counter(smear_seconds(UUID(int=n), timedelta(seconds=4)) for n in range(4000))
    assert set(quarters) == {0, 1, 2, 3}
    assert all(900 < count < 1100 for count in quarters.values())


def cron(expression: str, timezone: str = "UTC") -> Cron:
    return Cron(cron=expression, timezone=timezone, sparse=True)


@pytest.mark.parametrize(
    ("expression", "period"),
    [
        ("* * * * * *", timedelta(seconds=1)),
        ("*/25 * * * *", 10 * MINUTE),
        ("0 9 * * *", timedelta(days=1)),
        ("0 9,17 * * *", timedelta(hours=8)),
        ("0 2,23 * * *", timedelta(hours=3)),
        ("0 2,23 1 * *", timedelta(hours=21)),
        ("0 9 * * 1", timedelta(days=7)),
        ("0 9 * * 1,6", timedelta(days=2)),
        ("0 9 1 * *", timedelta(days=28)),
        ("0 9 L * *", timedelta(days=28)),
        ("0 9 29 2 *", timedelta(days=1461)),
        ("0 9 31 2 *", None),
    ],
)
def test_the_period_is_the_shortest_time_between_two_nominal_times(
    expression: str, period: timedelta | None
) -> None:
    assert shortest_period(cron(expression)) == period


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=3),
    st.lists(st.integers(0, 23), min_size=1, max_size=3),
    st.lists(st.integers(1, 31), min_size=1, max_size=3),
)
def test_no_two_nominal_times_are_closer_than_the_period(
    minutes: list[int], hours: list[int], days: list[int]
) -> None:
    fields = (",".join(map(str, numbers)) for numbers in (minutes, hours, days))
    found = cron(" ".join([*fields, "*", "*"]))
    nominals = [each.nominal for each in expand(found, START, START.replace(year=2033)).occurrences]
    gaps = [after - before for before, after in pairwise(nominals)]
    assert shortest_period(found) == min(gaps)


@pytest.mark.parametrize(
    ("when", "period"),
    [
        ({"rrule": "FREQ=MONTHLY", "start": "2027-01-31T09:00"}, timedelta(days=31)),
        ({"rrule": "FREQ=WEEKLY;BYDAY=MO,TH", "start": "2199-01-01T00:00"}, timedelta(days=3)),
        ({"rrule": "FREQ=DAILY;COUNT=1", "start": "2027-01-01T00:00"}, None),
        ({"rrule": "FREQ=HOURLY", "start": "2199-12-31T22:00"}, timedelta(hours=1)),
        ({"business": "first", "at": "09:00"}, timedelta(days=28)),
        ({"business": {"day_of_month": 31, "roll": "preceding"}, "at": "09:00"}, timedelta(31)),
        ({"at": "2027-01-01T00:00"}, None),
    ],
)
def test_every_other_kind_has_the_period_of_its_first_occurrences(
    when: dict[str, object], period: timedelta | None
) -> None:
    read: When = TypeAdapter[When](When).validate_python({**when, "timezone": "America/New_York"})
    assert shortest_period(read) == period


def test_a_fixed_rate_has_its_own_period() -> None:
    every = Every(every=timedelta(hours=4), anchor=START.replace(year=2100))
    assert shortest_period(every) == timedelta(hours=4)


def occurrences(*minutes: int) -> tuple[Occurrence, ...]:
    found = expand(cron("* * * * *"), START, START + timedelta(hours=2)).occurrences
    return tuple(found[minute] for minute in minutes)


def test_the_smear_is_bounded_by_the_next_time_and_unbounded_if_none_follows() -> None:
    assert gaps_after(occurrences(0, 5, 7), occurrences(10, 11)) == [
        5 * MINUTE,
        2 * MINUTE,
        3 * MINUTE,
    ]
    assert gaps_after(occurrences(0, 5), ()) == [5 * MINUTE, timedelta.max]
    assert gaps_after((), occurrences(1)) == []
