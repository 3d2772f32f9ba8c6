"""A cron expression as days and times of day: its times of day are the same on every day."""

from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product, repeat
from math import prod
from typing import Final, final

from dueledger.ledger.schedule.cron_dialect import CronFields, parse_cron
from dueledger.ledger.schedule.local_times import LocalTimesOfDay, midnight_of, times_between

_DAY_SECONDS: Final = 86_400
_UNITS: Final = (1, 60, 3600)  # seconds of a second, a minute, an hour
_CYCLE_START: Final = date(2024, 1, 1)  # weekdays and leap days come round again after 28 years
_CYCLE_END: Final = date(2052, 12, 31)
_DAYS_A_WEEK: Final = 7
_MONTHS: Final = 12
_TIMES_MANY: Final = 1440  # of a day; only a few plans with seconds are kept

TimesOfDay = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@final
class CronPlan:
    """A compiled expression. `either`: a day matches if one of the two day fields does."""

    __slots__ = ("_any_day_rule", "_days", "_fields", "_has_many_times", "_months", "_years")

    def __init__(self, fields: CronFields, *, either: bool) -> None:
        self._fields = fields
        self._any_day_rule = either
        self._has_many_times = prod(map(len, self.of_day())) > _TIMES_MANY
        self._months = frozenset(fields.months)
        self._years = frozenset(fields.years)
        self._days: dict[tuple[int, int], tuple[int, ...]] = {}  # a month has 28 shapes, no more

    def days(self, first: date, last: date) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yield the days that match from `first` to `last`, as year, month and days."""
        year, month = first.year, first.month
        begin, end = (first.year, first.month), (last.year, last.month)
        while (year, month) <= end:
            if month in self._months and year in self._years:
                shape = monthrange(year, month)
                found = self._days.get(shape)
                if found is None:
                    found = self._days[shape] = _days_of_month(
                        self._fields, shape, self._any_day_rule
                    )
                if (year, month) == begin:
                    found = tuple(day for day in found if day >= first.day)
                if (year, month) == end:
                    found = tuple(day for day in found if day <= last.day)
                if found:
                    yield year, month, found
            year, month = (year, month + 1) if month < _MONTHS else (year + 1, 1)

    def days_matching(self, first: date, last: date) -> Iterator[date]:
        """Yield the days that match from `first` to `last`."""
        for year, month, days in self.days(first, last):
            for day in days:
                yield date(year, month, day)

    @lru_cache(maxsize=4096)  # noqa: B019 -- plans are kept as long, and no more of them
    def first_nominal(self, low: datetime, high: datetime) -> datetime | None:
        """Return the first local time in [low, high), None where there is none."""
        for day in self.days_matching(low.date(), high.date()):
            if within := times_between(self.times(), day, low, high):
                return midnight_of(day) + within[0]
        return None

    def times(self) -> LocalTimesOfDay:
        """Return its times of day since midnight, in order."""
        return _many_times(self) if self._has_many_times else _few_times(self)

    def of_day(self) -> TimesOfDay:
        """Return the hours, minutes and seconds of its times."""
        return self._fields.hours, self._fields.minutes, self._fields.seconds

    @lru_cache(maxsize=4096)  # noqa: B019 -- plans are kept as long, and no more of them
    def shortest_period(self) -> timedelta | None:
        """Return the shortest time between two nominal occurrences, None where there are no two.

        By units: between two that follow each other in one, the last of the lesser units lies
        before and their first after.
        """
        first = last = 0
        apart: list[int] = []
        for values, unit in zip(reversed(self.of_day()), _UNITS, strict=True):
            apart += ((after - before) * unit + first - last for before, after in pairwise(values))
            first, last = first + values[0] * unit, last + values[-1] * unit
        days = self._days_apart()
        if days is not None:
            apart.append(days * _DAY_SECONDS + first - last)
        return timedelta(seconds=min(apart)) if apart else None

    def _days_apart(self) -> int | None:
        least: int | None = None
        before: int | None = None
        first, last = _CYCLE_START, _CYCLE_END
        if self._fields.restricts_year:
            first, last = date(self._fields.years[0], 1, 1), date(self._fields.years[-1], 12, 31)
        for year, month, days in self.days(first, last):
            for ordinal in (date(year, month, day).toordinal() for day in days):
                if before is not None and (least is None or ordinal - before < least):
                    least = ordinal - before
                    if least == 1:
                        return least
                before = ordinal
        return least


@lru_cache(maxsize=4096)
def plan_cron(expression: str, either: bool) -> CronPlan:  # noqa: FBT001 -- a cache key
    """Return the plan of an expression, the same one for equal expressions."""
    return CronPlan(parse_cron(expression), either=either)


def _days_of_month(
    fields: CronFields,
    shape: tuple[int, int],
    either: bool,  # noqa: FBT001 -- as plan_cron's
) -> tuple[int, ...]:
    """Return the days that match in a month of this shape, as `monthrange` gives it."""
    monday_first, length = shape
    named = _named(fields, monday_first, length)
    weekly = _by_weekday(fields, (monday_first + 1) % _DAYS_A_WEEK, length)
    union = either and fields.restricts_day and fields.restricts_weekday
    return tuple(sorted(named | weekly if union else named & weekly))


def _named(fields: CronFields, monday_first: int, length: int) -> set[int]:
    days = {day for day in fields.days if day <= length}
    days |= {length - back for back in fields.last_days if back < length}
    for number in fields.nearest_weekdays:
        day = number if number > 0 else length + number
        if 1 <= day <= length:
            days.add(_nearest_weekday(day, monday_first, length))
    return days


def _nearest_weekday(day: int, monday_first: int, length: int) -> int:
    """Return the day from Monday to Friday that is nearest to `day` in the same month."""
    match (monday_first + day - 1) % _DAYS_A_WEEK:
        case 5:  # Saturday
            return day - 1 if day > 1 else day + 2
        case 6:
            return day + 1 if day < length else day - 2
        case _:
            return day


def _by_weekday(fields: CronFields, first: int, length: int) -> set[int]:
    """Return the days by weekday, where the month begins on `first`, counted from Sunday."""
    if not (fields.nth_weekdays or fields.last_weekdays):
        weekly = (_each(weekday, first, length) for weekday in fields.weekdays)
        return {day for days in weekly for day in days}
    nth = (_each(weekday, first, length)[n - 1 : n] for weekday, n in fields.nth_weekdays)
    last = (_each(weekday, first, length)[-1:] for weekday in fields.last_weekdays)
    return {day for days in (*nth, *last) for day in days}


def _each(weekday: int, first: int, length: int) -> range:
    return range(1 + (weekday - first) % _DAYS_A_WEEK, length + 1, _DAYS_A_WEEK)


def _times(plan: CronPlan) -> LocalTimesOfDay:
    since_midnight = (
        hour * 3600 + minute * 60 + second for hour, minute, second in product(*plan.of_day())
    )
    return tuple(map(timedelta, repeat(0), since_midnight))


_few_times: Final = lru_cache(maxsize=256)(_times)
_many_times: Final = lru_cache(maxsize=4)(_times)  # 4 MB each at most
