"""Ranges of effective dates, small enough for memory, or for a snapshot."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import Final

WINDOW_ROWS_MAX: Final = 400_000
"""A window ends before it would exceed this; a day with more rows is a window of its own."""
SNAPSHOT_BYTES_MAX: Final = 134_217_728
"""Bytes of items, about a million of them, that a statement over all items reads in a snapshot."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """A half-open range of effective dates, as proleptic ordinals."""

    from_day: int
    to_day: int

    @classmethod
    def of(cls, from_date: date, to_date: date) -> "DateRange":
        """Return the half-open range of two dates."""
        return cls(from_date.toordinal(), to_date.toordinal())

    @classmethod
    def around(cls, ascending: Sequence["DateRange"]) -> "DateRange":
        """Return the range from the first to the last of these; an empty one of none."""
        return cls(ascending[0].from_day, ascending[-1].to_day) if ascending else cls(1, 1)

    def contains(self, other: "DateRange") -> bool:
        """Return whether all dates of another range lie inside."""
        return self.from_day <= other.from_day and other.to_day <= self.to_day

    def has(self, day: int) -> bool:
        """Return whether a date lies inside."""
        return self.from_day <= day < self.to_day

    @property
    def from_date(self) -> date:
        """Return the first date inside."""
        return date.fromordinal(self.from_day)

    @property
    def to_date(self) -> date:
        """Return the first date after it."""
        return date.fromordinal(self.to_day)


class DayCounts:
    """How many rows days have, by proleptic ordinal."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self._counts = counts
        self._days = sorted(counts)

    def days(self, window: DateRange) -> list[int]:
        """Return the days within a window that have rows, ascending."""
        days = self._days
        return days[bisect_left(days, window.from_day) : bisect_left(days, window.to_day)]

    def within(self, window: DateRange) -> dict[int, int]:
        """Return the counts of the days within a window."""
        return {day: self._counts[day] for day in self.days(window)}


def split_by_month(from_date: date, to_date: date) -> Iterator[tuple[date, date]]:
    """Yield, ascending, the parts of a half-open range that lie in different months."""
    while from_date < to_date:
        ahead = from_date.replace(day=1) + timedelta(days=32)
        following = min(ahead.replace(day=1), to_date)
        yield from_date, following
        from_date = following


def cut_by_bytes(
    whole: DateRange,
    parts: Iterable[tuple[DateRange, int]],
    bytes_max: int,
) -> Iterator[DateRange]:
    """Yield, ascending, ranges that compose to `whole`; each has at most so many bytes or one day.

    The parts ascend and do not overlap. A part with more bytes is cut into equal numbers of days.
    """
    edges, used = [whole.from_day], 0
    for part, size in parts:
        days = part.to_day - part.from_day
        pieces = min(-(-size // bytes_max), days) or 1
        if used + size > bytes_max:
            edges += [part.from_day + days * piece // pieces for piece in range(pieces)]
            used = 0
        used += size // pieces
    for from_day, to_day in pairwise((*edges, whole.to_day)):
        if from_day < to_day:
            yield DateRange(from_day, to_day)


def disjoint(windows: Iterable[DateRange]) -> Iterator[DateRange]:
    """Yield, ascending, the windows that overlap no other."""
    ordered = sorted(windows, key=attrgetter("from_day", "to_day"))
    reached = 0
    for window, following in zip_longest(ordered, ordered[1:]):
        if window.from_day >= reached and (
            following is None or window.to_day <= following.from_day
        ):
            yield window
        reached = max(reached, window.to_day)


def compose(whole: DateRange, parts: Iterable[DateRange]) -> Iterator[DateRange]:
    """Yield, ascending, windows that compose to `whole`: its parts and the gaps between them.

    The parts ascend and do not overlap.
    """
    from_day = whole.from_day
    for part in parts:
        if from_day < part.from_day:
            yield DateRange(from_day, part.from_day)
        yield part
        from_day = part.to_day
    if from_day < whole.to_day:
        yield DateRange(from_day, whole.to_day)


def join(windows: Iterable[DateRange]) -> Iterator[DateRange]:
    """Yield ascending windows; adjacent ones are joined."""
    joined: DateRange | None = None
    for window in windows:
        if joined is not None and joined.to_day == window.from_day:
            joined = DateRange(joined.from_day, window.to_day)
            continue
        if joined is not None:
            yield joined
        joined = window
    if joined is not None:
        yield joined


def plan_windows(counts: Mapping[int, int], rows_max: int = WINDOW_ROWS_MAX) -> Iterator[DateRange]:
    """Yield ascending windows that have every counted day, each day once.

    Days without rows between two windows belong to none: nothing is expected and no item exists.
    """
    from_day = last_day = 0
    row_count = 0
    for day in sorted(counts):
        if row_count and row_count + counts[day] > rows_max:
            yield DateRange(from_day, last_day + 1)
            row_count = 0
        if not row_count:
            from_day = day
        row_count += max(1, counts[day])
        last_day = day
    if row_count:
        yield DateRange(from_day, last_day + 1)
