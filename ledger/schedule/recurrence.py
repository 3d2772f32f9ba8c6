"""The local times of a recurrence rule in any window, without counting from its start.

Days are checked one by one, or the periods of BYSETPOS. Whether one belongs to the rule's INTERVAL
is arithmetic from the start. So the cost depends on the window only.
"""

from calendar import isleap, monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from math import gcd
from typing import Final

from dueledger.ledger.schedule.local_times import LocalTimesOfDay, days_between, times_between
from dueledger.ledger.schedule.rrule_text import Frequency, RecurrenceRule

_DAY_HOURS: Final = 24
_DAY_MINUTES: Final = 1440
_HOUR_MINUTES: Final = 60
_PERIODS_OF_DAY: Final = {Frequency.HOURLY: _DAY_HOURS, Frequency.MINUTELY: _DAY_MINUTES}
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_YEARS_ALIKE: Final = {
    (date(year, 1, 1).weekday(), isleap(year)): year for year in range(2000, 2028)
}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A rule with its start, which is the lower bound and fills in what the rule leaves open."""

    rule: RecurrenceRule
    start: datetime

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield in order its days from `first` to `last`; COUNT is ignored."""
        if not _has_times(self.rule, self.start):
            return iter(())
        first, last = days_between(first, last, self.start, self._until)
        if self._picks:
            return self._picked_days(first, last)
        if self.rule.frequency >= Frequency.MONTHLY and not self.rule.week_numbers:
            return self._monthly(first, last)
        return self._daily(first, last)

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return its times on a day."""
        times = self._picked(day).get(day, ()) if self._picks else self._times_of(day)
        return times_between(times, day, self.start, self._until)

    @property
    def _picks(self) -> bool:
        return bool(self.rule.positions) and self.rule.frequency >= Frequency.WEEKLY

    @property
    def _until(self) -> datetime | None:
        """Return the local time before which it ends, if UNTIL is a local time."""
        until = self.rule.until
        return None if until is None or until.tzinfo is not None else until + _SECOND

    def _monthly(self, first: date, last: date) -> Iterator[date]:
        month = first.replace(day=1)
        while month <= last:
            if self._in_interval(month) and _month_matches(self.rule, month):
                alike = _YEARS_ALIKE[date(month.year, 1, 1).weekday(), isleap(month.year)]
                for number in _numbers_of(self.rule, self.start.date(), alike, month.month):
                    if first <= (day := month.replace(day=number)) <= last:
                        yield day
            month = _next_month(month)

    def _daily(self, day: date, last: date) -> Iterator[date]:
        while day <= last:
            idle = self._idle_days(day)
            if not _month_matches(self.rule, day):
                day = _next_month(day)
            elif idle:
                day += timedelta(days=idle)
            else:
                if _day_matches(self.rule, self.start.date(), day):
                    yield day
                day += _DAY

    def _idle_days(self, day: date) -> int:
        """Return how many days, beginning with `day`, are certainly outside INTERVAL."""
        rule = self.rule
        match rule.frequency:
            case Frequency.DAILY:
                return (self.start.date() - day).days % rule.interval
            case Frequency.HOURLY | Frequency.MINUTELY:
                return self._first_period(day) // _PERIODS_OF_DAY[rule.frequency]
            case _ if self._in_interval(day):
                return 0
            case Frequency.WEEKLY:
                return (_week_of(rule, day) - day).days + 7
            case _:
                return (_next_month(day) - day).days

    def _first_period(self, day: date) -> int:
        """Return the first hour, or minute, since the beginning of `day` that is in INTERVAL."""
        days = (day - self.start.date()).days
        of_start = self.start.hour
        if self.rule.frequency is Frequency.MINUTELY:
            of_start = of_start * _HOUR_MINUTES + self.start.minute
        return (of_start - days * _PERIODS_OF_DAY[self.rule.frequency]) % self.rule.interval

    def _picked_days(self, first: date, last: date) -> Iterator[date]:
        period = _period_of(self.rule, first)
        while period <= last:
            if self._in_interval(period):
                yield from (day for day in self._picked(period) if first <= day <= last)
            period = _next_period(self.rule.frequency, period)

    def _picked(self, day: date) -> Mapping[date, LocalTimesOfDay]:
        """Return the times that BYSETPOS chooses in the week, month or year of a day."""
        return _picks_of(self.rule, self.start, _period_of(self.rule, day))

    def _in_interval(self, day: date) -> bool:
        rule, start = self.rule, self.start.date()
        match rule.frequency:
            case Frequency.YEARLY:
                periods = day.year - start.year
            case Frequency.MONTHLY:
                periods = (day.year - start.year) * 12 + day.month - start.month
            case _:
                periods = (_week_of(rule, day) - _week_of(rule, start)).days // 7
        return periods % rule.interval == 0

    def _times_of(self, day: date) -> LocalTimesOfDay:
        match self.rule.frequency:
            case Frequency.HOURLY:
                return _times_of_hours(self.rule, self.start, self._first_period(day))
            case Frequency.MINUTELY:
                return _times_of_minutes(self.rule, self.start, self._first_period(day))
            case _:
                return _times(self.rule, self.start)


@lru_cache(maxsize=1024)
def _has_times(rule: RecurrenceRule, start: datetime) -> bool:
    """Return whether a period can have a time at all: by arithmetic, no day is searched.

    A minute or hour must be one that INTERVAL comes to, and a position one of the largest set.
    """
    minutes, seconds = rule.minutes or (start.minute,), rule.seconds or (start.second,)
    hours = rule.hours or (start.hour,)
    match rule.frequency:
        case Frequency.MINUTELY:
            largest = len(seconds)
            step = gcd(rule.interval, _DAY_MINUTES)
            begin = start.hour * _HOUR_MINUTES + start.minute
            reached = {minute % _DAY_MINUTES for minute in range(begin, begin + _DAY_MINUTES, step)}
            if not any(
                (not rule.hours or minute // _HOUR_MINUTES in rule.hours)
                and (not rule.minutes or minute % _HOUR_MINUTES in rule.minutes)
                for minute in reached
            ):
                return False
        case Frequency.HOURLY:
            largest = len(minutes) * len(seconds)
            step = gcd(rule.interval, _DAY_HOURS)
            if rule.hours and all((hour - start.hour) % step for hour in rule.hours):
                return False
        case _:
            largest = len(hours) * len(minutes) * len(seconds) * _days_max(rule)
    return not rule.positions or min(map(abs, rule.positions)) <= largest


def _days_max(rule: RecurrenceRule) -> int:
    """Return how many days a period has at most."""
    weekly = len(rule.weekdays) or 7
    match rule.frequency:
        case Frequency.DAILY:
            return 1
        case Frequency.WEEKLY:
            return len(rule.weekdays) or 1
        case Frequency.MONTHLY:
            return min(31, 5 * weekly)
        case _:
            return min(366, 53 * weekly)


@lru_cache(maxsize=1024)
def _times(rule: RecurrenceRule, start: datetime) -> LocalTimesOfDay:
    """Return the times of day of a rule whose period is a day or longer."""
    times = tuple(
        timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in rule.hours or (start.hour,)
        for minute in rule.minutes or (start.minute,)
        for second in rule.seconds or (start.second,)
    )
    if rule.positions and rule.frequency is Frequency.DAILY:
        return tuple(times[place] for place in _places(rule.positions, len(times)))
    return times


@lru_cache(maxsize=1024)
def _times_of_hours(rule: RecurrenceRule, start: datetime, first: int) -> LocalTimesOfDay:
    within = [
        (minute, second)
        for minute in rule.minutes or (start.minute,)
        for second in rule.seconds or (start.second,)
    ]
    if rule.positions:
        within = [within[place] for place in _places(rule.positions, len(within))]
    return tuple(
        timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in range(first, _DAY_HOURS, rule.interval)
        if not rule.hours or hour in rule.hours
        for minute, second in within
    )


@lru_cache(maxsize=1024)
def _times_of_minutes(rule: RecurrenceRule, start: datetime, first: int) -> LocalTimesOfDay:
    seconds = rule.seconds or (start.second,)
    if rule.positions:
        seconds = tuple(seconds[place] for place in _places(rule.positions, len(seconds)))
    hours, minutes = frozenset(rule.hours), frozenset(rule.minutes)
    return tuple(
        timedelta(minutes=minute, seconds=second)
        for minute in range(first, _DAY_MINUTES, rule.interval)
        if not hours or minute // _HOUR_MINUTES in hours
        if not minutes or minute % _HOUR_MINUTES in minutes
        for second in seconds
    )


@lru_cache(maxsize=64)
def _picks_of(
    rule: RecurrenceRule, start: datetime, period: date
) -> Mapping[date, LocalTimesOfDay]:
    times = _times(rule, start)
    days = _days_of(rule, start.date(), period, _next_period(rule.frequency, period))
    picked: dict[date, LocalTimesOfDay] = {}
    for place in _places(rule.positions, len(days) * len(times)):
        day = days[place // len(times)]
        picked[day] = (*picked.get(day, ()), times[place % len(times)])
    return picked


def _places(positions: tuple[int, ...], size: int) -> list[int]:
    """Return the indices of BYSETPOS among `size` times, each once, in order."""
    places = {place - 1 if place > 0 else size + place for place in positions}
    return sorted(place for place in places if 0 <= place < size)


def _week_of(rule: RecurrenceRule, day: date) -> date:
    return day - timedelta(days=(day.weekday() - rule.week_start) % 7)


def _period_of(rule: RecurrenceRule, day: date) -> date:
    match rule.frequency:
        case Frequency.YEARLY:
            return day.replace(month=1, day=1)
        case Frequency.MONTHLY:
            return day.replace(day=1)
        case _:
            return _week_of(rule, day)


def _next_period(frequency: Frequency, first: date) -> date:
    match frequency:
        case Frequency.YEARLY:
            return first.replace(year=first.year + 1)
        case Frequency.MONTHLY:
            return _next_month(first)
        case _:
            return first + timedelta(days=7)


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


@lru_cache(maxsize=4096)
def _numbers_of(rule: RecurrenceRule, start: date, year: int, month: int) -> tuple[int, ...]:
    """Return the matching days of a month, as numbers; only for rules without BYWEEKNO."""
    first = date(year, month, 1)
    return tuple(day.day for day in _days_of(rule, start, first, _next_month(first)))


def _days_of(rule: RecurrenceRule, start: date, first: date, following: date) -> tuple[date, ...]:
    days = (first + timedelta(days=n) for n in range((following - first).days))
    return tuple(
        day for day in days if _month_matches(rule, day) and _day_matches(rule, start, day)
    )


def _month_matches(rule: RecurrenceRule, day: date) -> bool:
    return not rule.months or day.month in rule.months


def _day_matches(rule: RecurrenceRule, start: date, day: date) -> bool:
    """Return whether a day matches the parts about days; its month was checked before."""
    names_days = rule.weekdays or rule.nth_weekdays or rule.month_days
    if not names_days and not rule.year_days:
        return _day_of_start(rule, start, day)
    if rule.weekdays and day.weekday() not in rule.weekdays:
        return False
    if rule.month_days:
        length = monthrange(day.year, day.month)[1]
        if day.day not in rule.month_days and day.day - length - 1 not in rule.month_days:
            return False
    if rule.year_days:
        number = day.timetuple().tm_yday
        if number not in rule.year_days and number - _year_days(day.year) - 1 not in rule.year_days:
            return False
    if rule.nth_weekdays and not _counted(rule, day):
        return False
    return not rule.week_numbers or _week_matches(rule, day)


def _day_of_start(rule: RecurrenceRule, start: date, day: date) -> bool:
    """Return whether a day equals the start's, in the parts that the rule leaves open."""
    match rule.frequency:
        case Frequency.YEARLY:
            return day.day == start.day and (bool(rule.months) or day.month == start.month)
        case Frequency.MONTHLY:
            return day.day == start.day
        case Frequency.WEEKLY:
            return day.weekday() == start.weekday()
        case _:
            return True


def _year_days(year: int) -> int:
    return 366 if isleap(year) else 365


def _counted(rule: RecurrenceRule, day: date) -> bool:
    if rule.frequency is Frequency.YEARLY and not rule.months:
        number, length = day.timetuple().tm_yday, _year_days(day.year)
    else:
        number, length = day.day, monthrange(day.year, day.month)[1]
    from_start, from_end = (number - 1) // 7 + 1, -((length - number) // 7 + 1)
    weekday = day.weekday()
    return (from_start, weekday) in rule.nth_weekdays or (from_end, weekday) in rule.nth_weekdays


def _week_matches(rule: RecurrenceRule, day: date) -> bool:
    """Compare with BYWEEKNO: week 1 is the first with four days in its year."""
    middle = _week_of(rule, day) + timedelta(days=3)
    number = (middle.timetuple().tm_yday - 1) // 7 + 1
    last = date(middle.year, 12, 28)
    weeks = ((_week_of(rule, last) + timedelta(days=3)).timetuple().tm_yday - 1) // 7 + 1
    return number in rule.week_numbers or number - weeks - 1 in rule.week_numbers
