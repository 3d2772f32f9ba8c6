"""Calendars at random, and rolling as the words say it: by looking at every day around."""

from datetime import date, timedelta

from hypothesis import strategies as st

from dueledger.ledger.schedule import Calendar, Roll, Weekday

DAY = timedelta(days=1)
REACH_DAYS = 90
WEEKDAYS = tuple(Weekday)


@st.composite
def calendars_of(draw: st.DrawFn, days: st.SearchStrategy[date]) -> Calendar:
    weekend = draw(st.lists(st.sampled_from(list(Weekday)), max_size=3, unique=True))
    holidays = draw(st.sets(days, max_size=25))
    workdays = draw(st.sets(days, max_size=3)) - holidays
    return Calendar(weekend=tuple(weekend), holidays=tuple(holidays), workdays=tuple(workdays))


def is_open(calendar: Calendar, day: date) -> bool:
    if WEEKDAYS[day.weekday()] in calendar.weekend:
        return day in calendar.workdays
    return day not in calendar.holidays


def _nearest_open(calendar: Calendar, day: date, step: timedelta) -> date:
    for n in range(REACH_DAYS + 1):
        if is_open(calendar, day + n * step):
            return day + n * step
    raise LookupError(day)


def rolled(calendar: Calendar, day: date, roll: Roll) -> date:
    match roll:
        case Roll.FOLLOWING:
            return _nearest_open(calendar, day, DAY)
        case Roll.PRECEDING:
            return _nearest_open(calendar, day, -DAY)
        case _:
            after = _nearest_open(calendar, day, DAY)
            before = _nearest_open(calendar, day, -DAY)
    if roll is Roll.MODIFIED_FOLLOWING:
        return after if after.month == day.month else before
    return after if after - day <= day - before else before
