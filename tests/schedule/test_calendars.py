from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.errors import BeyondCalendar, InvalidItem
from dueledger.ledger.schedule import (
    Business,
    Calendar,
    CalendarRule,
    Cron,
    Decision,
    Every,
    Fold,
    Observance,
    Relative,
    Roll,
    SkipReason,
    Weekday,
    due_for,
    expand,
)

from .rolled_days import DAY, calendars_of, is_open, rolled

WEEKEND = (Weekday.SAT, Weekday.SUN)
ROLLS = st.sampled_from([roll for roll in Roll if roll is not Roll.SKIP])
DATES = st.dates(date(2026, 12, 1), date(2027, 2, 15))


def calendars() -> st.SearchStrategy[Calendar]:
    return calendars_of(DATES)


@given(calendars(), DATES, ROLLS)
def test_a_day_is_rolled_as_a_check_of_every_day_says(
    calendar: Calendar, day: date, roll: Roll
) -> None:
    assert calendar.roll(day, roll) == rolled(calendar, day, roll)
    assert calendar.is_business_day(day) == is_open(calendar, day)


@given(calendars())
def test_no_run_of_closed_days_is_longer_than_said(calendar: Calendar) -> None:
    run = longest = 0
    for n in range(-60, 160):
        run = 0 if is_open(calendar, date(2027, 1, 1) + n * DAY) else run + 1
        longest = max(longest, run)
    assert longest <= calendar.closed_days_max


MONTHLY = st.integers(1, 31).map(lambda day: f"0 9 {day} * *")
WEEKLY = st.integers(0, 6).map(lambda day: f"30 17 * * {day}")
EXPRESSIONS = st.sampled_from(["0 9 * * *", "0 9,17 */2 * *"]) | MONTHLY | WEEKLY


@settings(max_examples=60)
@given(calendars(), EXPRESSIONS, ROLLS, st.lists(st.integers(0, 2400), min_size=3, max_size=5))
def test_a_rolled_series_falls_on_the_days_that_the_words_say_and_windows_compose(
    calendar: Calendar, expression: str, roll: Roll, hours: list[int]
) -> None:
    cron = Cron(cron=expression, timezone="UTC")
    bounds = [datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=n) for n in sorted(hours)]
    plain = expand(cron, bounds[0] - 90 * DAY, bounds[-1] + 90 * DAY).occurrences
    landed = {
        datetime.combine(rolled(calendar, each.nominal.date(), roll), each.nominal.time(), UTC)
        for each in plain
    }
    observance = Observance(calendar, roll)
    found = expand(cron, bounds[0], bounds[-1], observance)
    assert [each.due_at for each in found.occurrences] == sorted(
        each for each in landed if bounds[0] <= each < bounds[-1]
    )
    parts = [expand(cron, low, high, observance) for low, high in pairwise(bounds)]
    assert found.occurrences == tuple(each for part in parts for each in part.occurrences)


@given(calendars(), EXPRESSIONS)
def test_what_is_left_out_is_recorded_and_nothing_else_changes(
    calendar: Calendar, expression: str
) -> None:
    cron = Cron(cron=expression, timezone="America/New_York", fold=Fold.BOTH)
    window = (datetime(2026, 10, 30, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC))
    plain = expand(cron, *window).occurrences
    found = expand(cron, *window, Observance(calendar, Roll.SKIP))
    assert found.occurrences == tuple(
        each for each in plain if is_open(calendar, each.nominal.date())
    )
    assert [(each.at, each.reason) for each in found.skipped] == [
        (each.due_at, SkipReason.CALENDAR)
        for each in plain
        if not is_open(calendar, each.nominal.date())
    ]


NEW_YEAR = Calendar(
    weekend=WEEKEND,
    holidays=(date(2027, 1, 1), date(2027, 12, 27), date(2027, 12, 31)),
    first_day=date(2027, 1, 1),
    last_day=date(2027, 12, 31),
)


def ask(
    expression: str, roll: Roll, since: date, until: date, calendar: Calendar = NEW_YEAR
) -> list[str]:
    cron = Cron(cron=expression, timezone="UTC")
    low, high = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (since, until))
    found = expand(cron, low, high, Observance(calendar, roll)).occurrences
    return [each.due_at.date().isoformat() for each in found]


@pytest.mark.parametrize("roll", list(Roll))
def test_a_calendar_is_used_up_to_its_first_and_last_day(roll: Roll) -> None:
    assert ask("0 9 15 * *", roll, date(2027, 1, 1), date(2028, 1, 1))[0] == "2027-01-15"
    assert len(ask("0 9 * 2-11 2", roll, date(2027, 1, 1), date(2028, 1, 1))) == 44  # Tuesdays


@pytest.mark.parametrize(
    ("expression", "roll", "since", "until"),
    [
        ("0 9 * * *", Roll.SKIP, date(2027, 12, 1), date(2028, 1, 2)),
        ("0 9 * * *", Roll.SKIP, date(2026, 12, 31), date(2027, 1, 2)),
        ("0 9 31 12 *", Roll.FOLLOWING, date(2027, 12, 1), date(2028, 1, 2)),
        ("0 9 31 12 *", Roll.FOLLOWING, date(2027, 1, 1), date(2027, 1, 5)),  # into January?
        ("0 9 1 1 *", Roll.PRECEDING, date(2027, 12, 1), date(2028, 1, 1)),  # into December?
        ("0 9 1 1 *", Roll.NEAREST, date(2027, 12, 1), date(2028, 1, 1)),
        ("0 9 3 1 *", Roll.PRECEDING, date(2026, 12, 30), date(2027, 1, 5)),
        ("0 9 * * 2", Roll.FOLLOWING, date(2027, 1, 1), date(2027, 1, 5)),  # out of December?
    ],
)
def test_what_hangs_on_days_beyond_a_calendar_is_never_guessed(
    expression: str, roll: Roll, since: date, until: date
) -> None:
    with pytest.raises(BeyondCalendar, match=r"calendar inline (ends|begins)") as refused:
        ask(expression, roll, since, until)
    assert refused.value.code == "BEYOND_CALENDAR"
    assert isinstance(refused.value, InvalidItem)  # so an event it concerns is refused alone


def test_a_day_beyond_that_can_change_nothing_stops_nothing() -> None:
    # 31 December 2026 may roll to Monday the 4th, where the daily one falls due in any case.
    found = ask("0 9 * * *", Roll.FOLLOWING, date(2027, 1, 1), date(2027, 1, 6))
    assert found == ["2027-01-04", "2027-01-05"]
    # 1 January 2028 may roll back to Thursday the 30th at the earliest, and the window ends before.
    assert ask("0 9 1 1 *", Roll.PRECEDING, date(2027, 12, 1), date(2027, 12, 30)) == []
    # Modified following never leaves its month.
    assert ask("0 9 1 1 *", Roll.MODIFIED_FOLLOWING, date(2027, 12, 1), date(2028, 1, 1)) == []


def test_a_start_of_its_own_keeps_a_series_to_the_days_that_its_calendar_knows() -> None:
    cron = Cron.model_validate(
        {"cron": "0 9 * * 2", "timezone": "UTC", "start": "2027-01-01T00:00"}
    )
    window = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 6, tzinfo=UTC))
    (found,) = expand(cron, *window, Observance(NEW_YEAR, Roll.FOLLOWING)).occurrences
    assert found.due_at.day == 5


def test_a_rolled_item_keeps_the_nominal_time_that_names_it() -> None:
    cron = Cron(cron="30 2 13 * *", timezone="America/New_York")
    window = (datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 4, 1, tzinfo=UTC))
    saturdays = Observance(Calendar(weekend=(Weekday.SAT,)), Roll.FOLLOWING)
    (found,) = expand(cron, *window, saturdays).occurrences
    # Saturday the 13th becomes Sunday the 14th, where 02:30 is in the gap.
    assert found.nominal == datetime(2027, 3, 13, 2, 30)  # noqa: DTZ001
    assert found.due_at == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)
    assert found.decision == Decision.GAP_SHIFTED_FORWARD


def test_a_fixed_rate_observes_the_days_of_utc() -> None:
    every = Every.model_validate({"every": "PT12H", "anchor": "2027-01-01T06:00:00Z"})
    window = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 6, tzinfo=UTC))
    skipping = Observance(Calendar(weekend=WEEKEND), Roll.SKIP)
    found = [each.due_at for each in expand(every, *window, skipping).occurrences]
    assert [(each.day, each.hour) for each in found] == [
        (1, 6), (1, 18), (4, 6), (4, 18), (5, 6), (5, 18)
    ]  # fmt: skip


def relative(offset: str = "P0D") -> Relative:
    return Relative.model_validate(
        {"relative": offset, "at": "09:00", "timezone": "America/New_York"}
    )


@given(calendars(), DATES, ROLLS)
def test_an_event_item_falls_due_on_a_business_day(
    calendar: Calendar, day: date, roll: Roll
) -> None:
    found = due_for(relative(), day, Observance(calendar, roll))
    landed = rolled(calendar, day, roll)
    assert found.nominal == datetime.combine(day, found.nominal.time())
    assert (found.due_at + found.utc_offset).date() == landed
    assert found.decision == (Decision.EXACT if landed == day else Decision.ROLLED)


def test_an_event_item_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(BeyondCalendar, match="ends on 2027-12-31"):
        due_for(relative("P1M"), date(2027, 12, 15), Observance(NEW_YEAR, Roll.FOLLOWING))


def business(day: object, **fields: object) -> Business:
    document = {"business": day, "at": "17:00", "timezone": "America/New_York", **fields}
    return Business.model_validate(document)


def days_of(when: Business, calendar: Calendar | None = None, roll: Roll = Roll.SKIP) -> list[str]:
    year = (datetime(2027, 1, 2, tzinfo=UTC), datetime(2028, 1, 2, tzinfo=UTC))
    observance = None if calendar is None else Observance(calendar, roll)
    found = expand(when, *year, observance).occurrences
    return [(each.due_at + each.utc_offset).date().isoformat() for each in found]


MODIFIED = {"day_of_month": 31, "roll": "modified_following"}
PICKS: list[tuple[object, Callable[[list[date]], list[date]]]] = [
    ("last", lambda days: days[-1:]),
    ("first", lambda days: days[:1]),
    ({"nth": 3}, lambda days: days[2:3]),
    ({"nth": -2}, lambda days: days[-2:][:1] if len(days) > 1 else []),
    ({"nth": 23}, lambda days: days[22:23]),
]


@settings(max_examples=30)
@given(calendars(), st.sampled_from(PICKS))
def test_business_days_are_counted_within_their_month(
    calendar: Calendar, pick: tuple[object, Callable[[list[date]], list[date]]]
) -> None:
    day, choose = pick
    months: dict[tuple[int, int], list[date]] = {}
    for n in range(400):
        each = date(2027, 1, 1) + n * DAY
        if is_open(calendar, each):
            months.setdefault((each.year, each.month), []).append(each)
    expected = [each for days in months.values() for each in choose(days)]
    shown = [each.isoformat() for each in expected if date(2027, 1, 2) <= each < date(2028, 1, 1)]
    assert [each for each in days_of(business(day), calendar) if each < "2028"] == shown


@settings(max_examples=30)
@given(calendars(), st.integers(1, 31), ROLLS)
def test_a_day_of_the_month_is_rolled_and_missing_ones_give_nothing(
    calendar: Calendar, day: int, roll: Roll
) -> None:
    dates = [date(2026, 10, 1) + n * DAY for n in range(600)]
    landed = {rolled(calendar, each, roll) for each in dates if each.day == day}
    expected = sorted(each for each in landed if date(2027, 1, 2) <= each <= date(2028, 1, 1))
    when = business({"day_of_month": day, "roll": roll.value})
    assert days_of(when, calendar) == [each.isoformat() for each in expected]
    by_calendar = business({"day_of_month": day})
    assert days_of(by_calendar, calendar, roll) == days_of(when, calendar)


def test_business_days_are_monday_to_friday_where_no_calendar_is_given() -> None:
    assert days_of(business("last"))[:2] == ["2027-01-29", "2027-02-26"]


@pytest.mark.parametrize(
    ("day", "bounds", "months"),
    [
        ("last", {"start": "2027-01-29T17:00", "end": "2027-03-31T17:00"}, ["01-29", "02-26"]),
        ("last", {"start": "2027-01-29T17:01", "end": "2027-03-31T17:01"}, ["02-26", "03-31"]),
        # The date that names it decides, not the day to which it rolls: the 31st is a Sunday.
        (MODIFIED, {"start": "2027-01-31T17:00", "end": "2027-03-31T17:00"}, ["01-29"]),
        (MODIFIED, {"start": "2027-01-31T17:01", "end": "2027-05-31T17:01"}, ["03-31", "05-31"]),
    ],
)
def test_business_days_are_owed_from_the_start_and_before_the_end(
    day: object, bounds: dict[str, str], months: list[str]
) -> None:
    assert days_of(business(day, **bounds)) == [f"2027-{month}" for month in months]


@pytest.mark.parametrize(
    ("roll", "asked", "landed"),
    [
        # Sunday, the last of the month: the next business day is in another month.
        ("following", "2027-01-31", "2027-02-01"),
        ("modified_following", "2027-01-31", "2027-01-29"),
        ("preceding", "2027-01-31", "2027-01-29"),
        ("nearest", "2027-01-31", "2027-02-01"),
        ("modified_following", "2027-01-30", "2027-01-29"),
        ("nearest", "2027-01-30", "2027-01-29"),
        # Within the month, modified following is following.
        ("modified_following", "2027-02-13", "2027-02-15"),
        # Wednesday, a holiday between two business days: both are as near, the next counts.
        ("nearest", "2027-02-10", "2027-02-11"),
        ("preceding", "2027-02-10", "2027-02-09"),
        # Monday after a weekend, a holiday: Tuesday is nearer than Friday.
        ("nearest", "2027-02-22", "2027-02-23"),
        # Friday before a weekend, a holiday: Thursday is nearer than Monday.
        ("nearest", "2027-02-19", "2027-02-18"),
        ("following", "2027-02-19", "2027-02-23"),
    ],
)
def test_rolls_give_the_days_that_an_almanac_gives(roll: str, asked: str, landed: str) -> None:
    holidays = tuple(date.fromisoformat(f"2027-02-{day}") for day in (10, 19, 22))
    calendar = Calendar(weekend=WEEKEND, holidays=holidays)
    found = due_for(relative(), date.fromisoformat(asked), Observance(calendar, Roll(roll)))
    assert (found.due_at + found.utc_offset).date().isoformat() == landed


def test_a_month_that_a_calendar_knows_in_part_is_never_guessed() -> None:
    half = Calendar(weekend=WEEKEND, last_day=date(2027, 6, 15))
    may = (datetime(2027, 5, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC))
    june = (may[1], datetime(2027, 6, 10, tzinfo=UTC))
    observance = Observance(half, Roll.SKIP)
    assert len(expand(business("last"), *may, observance).occurrences) == 1
    with pytest.raises(BeyondCalendar, match="ends on 2027-06-15"):
        expand(business("last"), *june, observance)
    ended = business("last", end="2027-06-01T00:00")
    assert expand(ended, *june, observance).occurrences == ()


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"weekend": [*Weekday]}, "weekend", "every day"),
        ({"weekend": [], "holidays": ["2027-01-01"], "workdays": ["2027-01-01"]}, "workdays", "is"),
        ({"weekend": [], "first_day": "2027-02-01", "last_day": "2027-01-01"}, "last_day", "bef"),
        ({"weekend": [], "last_day": "2027-01-01", "holidays": ["2028-01-01"]}, "holidays", "out"),
        (
            {
                "weekend": [],
                "holidays": [(date(2027, 1, 1) + n * DAY).isoformat() for n in range(367)],
            },
            "holidays",
            "more than 366 days",
        ),
        ({"name": "us", "weekend": ["sat"]}, "weekend", "together with a name"),
        ({"holidays": ["2027-01-01"]}, "weekend", "are weekends business days"),
    ],
)
def test_a_calendar_that_contradicts_itself_is_refused(
    document: dict[str, object], field: str, reason: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        CalendarRule.model_validate(document)
    context = refused.value.errors()[0].get("ctx", {})
    assert context["field"] == field
    assert reason in context["reason"]
