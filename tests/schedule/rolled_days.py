"""Calendars at random, and rolling as the words say it: by looking at every day around."""

from datetime import date, timedelta

from hypothesis import strategies as st

from dueledger.ledger.schedule import Calendar, Roll, Weekday

DAY = timedelta(days=1)


@st.composite
def calendars_of(draw: st.DrawFn, days: st.SearchStrategy[date]) -> Calendar:
    weekend = draw(st.lists(st.sampled_from(list(Weekday)), max_size=3, unique=True))
    holidays = draw(st.sets(days, max_size=25))
    workdays = draw(st.sets(days, max_size=3)) - holidays
    return Calendar(weekend=tuple(weekend), holidays=tuple(holidays), workdays=tuple(workdays))


def is_open(calendar: Calendar, day: date) -> bool:
    if [*Weekday][day.weekday()] in calendar.weekend:
        return day in calendar.workdays
    return day not in calendar.holidays


def rolled(calendar: Calendar, day: date, roll: Roll) -> date:
    around = [day + n * DAY for n in range(-90, 91)]
    before = [each for each in around if each <= day and is_open(calendar, each)]
    after = [each for each in around if each >= day and is_open(calendar, each)]
    match roll:
        case Roll.FOLLOWING:
            return after[0]
        case Roll.PRECEDING:
            return before[-1]
        case Roll.MODIFIED_FOLLOWING:
            return after[0] if after[0].month == day.month else before[-1]
        case _:
            return after[0] if after[0] - day <= day - before[-1] else before[-1]
