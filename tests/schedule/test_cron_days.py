"""`W`, `L-n` and years compared with other definitions of the same days.

`W` with a search of the calendar around each day, `L-n` with dateutil's BYMONTHDAY, years with
croniter.
"""

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from croniter import CroniterBadDateError, croniter
from dateutil.rrule import MONTHLY, rrule
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.ledger.schedule import Cron, expand

DAY = timedelta(days=1)
FIRST, LAST = date(2024, 1, 1), date(2051, 12, 31)
"""28 years: each month with each weekday."""


def cron(text: str, **fields: object) -> Cron:
    return Cron.model_validate({"cron": text, "timezone": "UTC", "sparse": True, **fields})


def months() -> Iterator[tuple[int, int]]:
    return ((year, month) for year in range(FIRST.year, LAST.year + 1) for month in range(1, 13))


def nearest(asked: date) -> date:
    """Search outwards for the first day that is in the month and from Monday to Friday."""
    around = sorted(range(-2, 3), key=abs)
    days = (asked + step * DAY for step in around)
    return next(day for day in days if day.month == asked.month and day.isoweekday() <= 5)


@pytest.mark.parametrize("number", range(1, 32))
def test_w_is_the_weekday_of_the_month_that_is_nearest(number: int) -> None:
    expected = [
        nearest(date(year, month, number))
        for year, month in months()
        if number <= monthrange(year, month)[1]
    ]
    assert list(cron(f"0 0 {number}W * *").days(FIRST, LAST)) == expected


@pytest.mark.parametrize("back", range(31))
def test_l_n_counts_from_the_last_day_and_w_goes_on_from_there(back: int) -> None:
    text = f"L-{back}" if back else "L"
    by_dateutil = rrule(MONTHLY, bymonthday=-1 - back, dtstart=datetime(2024, 1, 1), until=LAST)  # noqa: DTZ001
    expected = [each.date() for each in by_dateutil]
    assert list(cron(f"0 0 {text} * *").days(FIRST, LAST)) == expected
    found = list(cron(f"0 0 {text}W * *").days(FIRST, LAST))
    assert found == [nearest(day) for day in expected]


@settings(max_examples=30)
@given(
    st.sets(st.integers(1, 31), max_size=3),
    st.sets(st.integers(0, 30), max_size=2),
    st.sets(st.integers(1, 31), max_size=2),
    st.booleans(),
    st.sets(st.integers(0, 6), min_size=1, max_size=6),
    st.sampled_from(["any", "all"]),
)
def test_days_of_every_kind_combine(
    plain: set[int],
    back: set[int],
    near: set[int],
    last_weekday: bool,  # noqa: FBT001 - hypothesis gives it by position
    weekdays: set[int],
    day_rule: str,
) -> None:
    parts = [*map(str, plain), *(f"L-{n}" if n else "L" for n in back), *(f"{n}W" for n in near)]
    parts += ["LW"] * last_weekday or ["2"] * (not parts)
    if parts == ["2"]:
        plain = {2}
    text = f"0 0 {','.join(parts)} * {','.join(map(str, weekdays))}"

    def matches(day: date) -> bool:
        length = monthrange(day.year, day.month)[1]
        targets = {day.replace(day=number) for number in near if number <= length}
        targets |= {day.replace(day=length)} if last_weekday else set()
        by_day = (
            day.day in plain
            or length - day.day in back
            or any(nearest(target) == day for target in targets)
        )
        by_weekday = day.isoweekday() % 7 in weekdays
        return (by_day or by_weekday) if day_rule == "any" else (by_day and by_weekday)

    days = (FIRST + number * DAY for number in range(3 * 366))
    found = list(cron(text, day_rule=day_rule).days(FIRST, FIRST + (3 * 366 - 1) * DAY))
    assert found == [day for day in days if matches(day)]


@settings(max_examples=30)
@given(
    st.sets(st.integers(1970, 2098), min_size=1, max_size=4),
    st.sampled_from(["0 0 9 1 1 ?", "30 5 17 L 2,3 ?", "0 0 12 ? 6 fri#2", "0 0 0 29 2 ?"]),
)
def test_years_are_those_that_croniter_steps_to(years: set[int], fields: str) -> None:
    listed = cron(f"{fields} {','.join(map(str, years))}")
    begin = datetime(1969, 12, 31)  # noqa: DTZ001 - nominal times are naive
    steps = croniter(
        listed.fields.canonical, begin, ret_type=datetime, max_years_between_matches=200
    )
    expected: list[date] = []
    try:
        while (found := steps.get_next(datetime)).year <= max(years):
            expected.append(found.date())
    except CroniterBadDateError:
        pass
    assert list(listed.days(date(1970, 1, 1), date(2099, 12, 31))) == expected


@pytest.mark.parametrize(
    ("text", "fields", "first"),
    [
        ("0 0 9 1 1 ? 2045", {}, "2045-01-01"),  # the reference is 2024: more than eight years
        ("0 0 9 1 1 ? 2045", {"start": "2027-01-01T00:00"}, "2045-01-01"),
        ("0 0 9 1 1 ? 2027-2199/10", {"start": "2030-06-01T00:00"}, "2037-01-01"),
        ("0 0 9 1 1 ? 1999", {}, "1999-01-01"),  # merely over
    ],
)
def test_a_year_far_away_is_meant(text: str, fields: dict[str, str], first: str) -> None:
    found = Cron.model_validate({"cron": text, "timezone": "UTC", **fields})
    window = expand(found, datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    assert window.occurrences[0].nominal.date().isoformat() == first


def test_the_shortest_period_is_within_the_years_that_are_named() -> None:
    assert cron("0 0 9 1 1 ? 2060").shortest_period is None
    assert cron("0 0 9 * 1 ? 2060").shortest_period == DAY
    assert cron("0 0 9 1 1 ? 2060,2061").shortest_period == 366 * DAY
