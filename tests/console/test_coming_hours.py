"""What schedules owe by the weekday and hour that clocks show, also where they are changed."""

from array import array
from collections import Counter
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from dueledger.console.hours_by_weekday import ComingHour, coming_by_hour
from dueledger.past_load import PastDays
from dueledger.planning.load_plan import OwedQuarters

NOON = datetime(2027, 3, 3, 12, 15, tzinfo=UTC)
"""A Wednesday."""
QUARTER = timedelta(minutes=15)


def one_each_quarter(first: date, zone: tzinfo, since: datetime | None = None) -> list[ComingHour]:
    """Return the hours of seven days in which one item is due each quarter of an hour."""
    days = PastDays.of(first, 7, zone)
    start = since or days.begins[0]
    quarters = array("i", [1] * ((days.begins[-1] - start) // QUARTER))
    return coming_by_hour(days, OwedQuarters(start, {}, quarters), zone)


def test_each_hour_of_seven_days_is_in_one_cell_and_the_first_begins_where_counting_ends() -> None:
    hours = one_each_quarter(NOON.date(), UTC, NOON)
    first, second, *_, last = hours
    ends = NOON.replace(hour=13, minute=0)
    assert first == ComingHour(NOON.date(), 12, NOON, ends, 3, 60)
    assert second == ComingHour(NOON.date(), 13, ends, ends + timedelta(hours=1), 4, 61)
    assert (last.day, last.hour, last.due) == (date(2027, 3, 9), 23, 4)
    assert last.until == datetime(2027, 3, 10, tzinfo=UTC)
    assert len(hours) == len({each.place for each in hours}) == 7 * 24 - 12


def test_hours_without_items_are_left_out_and_nothing_is_owed_without_schedules() -> None:
    days = PastDays.of(NOON.date(), 7, UTC)
    quarters = array("i", [0] * 700)
    quarters[4 * 30 + 2] = 5
    owed = OwedQuarters(days.begins[0], {}, quarters)
    begins = datetime(2027, 3, 4, 6, tzinfo=UTC)
    assert coming_by_hour(days, owed, UTC) == [
        ComingHour(date(2027, 3, 4), 6, begins, begins + timedelta(hours=1), 5, 78)
    ]
    assert coming_by_hour(days, None, UTC) == []


def test_hours_are_those_of_a_zone_of_half_hours() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    first, *_ = one_each_quarter(date(2027, 3, 4), kolkata)
    assert (first.day, first.hour) == (date(2027, 3, 4), 0)
    assert first.since == datetime(2027, 3, 3, 18, 30, tzinfo=UTC)


def test_a_day_on_which_clocks_are_changed_has_the_hours_that_they_show() -> None:
    for name, day, due in (
        ("Europe/Berlin", date(2027, 3, 28), {2: 0}),
        ("Europe/Berlin", date(2027, 10, 31), {2: 8}),
        ("Australia/Lord_Howe", date(2027, 4, 4), {1: 6}),
    ):
        found = Counter[int]()
        for each in one_each_quarter(day, ZoneInfo(name)):
            if each.day == day:
                found[each.hour] += each.due
        assert {hour: found[hour] for hour in range(24)} == dict.fromkeys(range(24), 4) | due
