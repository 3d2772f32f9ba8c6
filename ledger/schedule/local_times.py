"""The local times of a rule, day by day: which days, and which times on each.

By day, because a calendar moves days, and all times of a day move with it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Protocol

LocalTimesOfDay = tuple[timedelta, ...]
"""Times of day since midnight, in order, each once."""


class LocalTimes(Protocol):
    """A rule over local time, before any calendar and any zone."""

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield in order the days from `first` to `last` that may have a time."""
        ...

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return the times on one of these days; the same tuple for equal days, if possible."""
        ...


def midnight_of(day: date) -> datetime:
    """Return the beginning of a local day, naive."""
    return datetime.combine(day, time.min)


def times_within(times: LocalTimesOfDay, low: timedelta, high: timedelta) -> LocalTimesOfDay:
    """Return the times in [low, high); the same tuple if that is all of them."""
    return times[bisect_left(times, low) : bisect_left(times, high)]


def times_between(
    times: LocalTimesOfDay, day: date, start: datetime | None, end: datetime | None = None
) -> LocalTimesOfDay:
    """Return the times on this day that are at or after `start` and before `end`."""
    midnight = midnight_of(day)
    first = 0 if start is None else bisect_left(times, start - midnight)
    last = len(times) if end is None else bisect_left(times, end - midnight)
    return times[first:last]


def days_between(
    first: date, last: date, start: datetime | None, end: datetime | None = None
) -> tuple[date, date]:
    """Return the first and the last day that may have times at or after `start`, before `end`."""
    return (
        first if start is None else max(first, start.date()),
        last if end is None else min(last, end.date()),
    )


def nominals_of(rule: LocalTimes, low: datetime, high: datetime) -> Iterator[datetime]:
    """Yield the local times of a rule in [low, high), in order."""
    for day in rule.days(low.date(), high.date()):
        midnight = midnight_of(day)
        for of_day in times_between(rule.times_on(day), day, low, high):
            yield midnight + of_day
