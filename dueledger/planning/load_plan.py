"""The future load by the minute: peaks, the effect of smearing, and quiet windows.

It counts what schedules owe, expanded from their definitions, and the ledger's other pending items:
those of events and services, the next of a fixed delay, retries, snoozes, triggered items.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from dueledger.ledger.errors import InvalidInput, Problem, WindowTooLarge
from dueledger.ledger.store.pending_load import PendingLoad
from dueledger.planning.schedule_load import (
    MINUTE,
    QUARTER,
    QUARTER_MINUTES,
    LoadSource,
    ScheduleLoad,
    UncountedLoad,
)

PEAKS_MAX: Final = 5
WAITING_ROWS_MAX: Final = 500_000
"""The maximum of minutes times sources in a window."""

_BUSIEST_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class QuarterHour:
    """A quarter of an hour: items due in it and in its busiest minute, as defined and smeared.

    `waiting` is the part of `due` that is counted from the ledger; a smear does not move it.
    """

    start: datetime
    due: int
    waiting: int
    busiest_minute: int
    smeared_due: int
    smeared_busiest_minute: int


@dataclass(frozen=True, slots=True)
class LoadPeak:
    """One of the quarters with the busiest minutes, and the definitions with most of its items."""

    quarter: QuarterHour
    most_of: tuple[tuple[LoadSource, int], ...]


@dataclass(frozen=True, slots=True)
class QuietPeriod:
    """A window without due items; `due` is above 0 if no empty window was long enough."""

    start: datetime
    end: datetime
    due: int


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load of a window; `overdue` items are available already."""

    start: datetime
    end: datetime
    smear: timedelta
    quiet_for: timedelta
    definitions: int
    overdue: int
    not_counted: tuple[UncountedLoad, ...]
    quarters: tuple[QuarterHour, ...]
    peaks: tuple[LoadPeak, ...]
    quiet: tuple[QuietPeriod, ...]
    quietest: QuietPeriod | None


@dataclass(frozen=True, slots=True)
class OwedQuarters:
    """What schedules owe of each kind from `start` on, by its tenant and name, and of all kinds.

    Each has how many items are due in each quarter of an hour.
    """

    start: datetime
    kinds: "Mapping[tuple[str, str], array[int]]"
    all_kinds: "array[int]"


@dataclass(frozen=True, slots=True)
class _Minutes:
    """Items due in each minute of the window."""

    due: "array[int]"
    smeared: "array[int]"
    waiting: "array[int]"


def make_plan(
    schedules: ScheduleLoad, waiting: Sequence[PendingLoad] = (), *, quiet_for: timedelta
) -> LoadPlan:
    """Add pending items to what schedules owe, and find the peaks and the quiet windows.

    Raises InvalidInput if no quiet window can be found, WindowTooLarge if more items are pending
    than were read.
    """
    start, end = schedules.start, schedules.end
    if quiet_for > end - start:
        problem = Problem(
            "--quiet-for", str(quiet_for), "is longer than the window", "a longer window"
        )
        raise InvalidInput("No quiet window can be found:", [problem])
    if len(waiting) > WAITING_ROWS_MAX:
        raise too_many_waiting(start, end)
    minutes = _count(schedules, waiting)
    quarters = tuple(_quarters(minutes, start))
    wanted = -(-quiet_for // MINUTE)
    quiet = tuple(_quiet(minutes.due, start, wanted))
    return LoadPlan(
        start,
        end,
        schedules.smear,
        quiet_for,
        len(schedules.times),
        sum(each.items for each in waiting if each.minute is None),
        schedules.not_counted,
        quarters,
        _peaks(quarters, schedules, waiting),
        quiet,
        None if quiet else _quietest(minutes.due, start, wanted),
    )


def too_many_waiting(start: datetime, end: datetime) -> WindowTooLarge:
    """Return the error of a window in which more items are pending than are read."""
    return WindowTooLarge(
        f"From {start.isoformat()} to {end.isoformat()} too many items are pending; "
        "use a shorter window or one --kind."
    )


def owed_by_kind(schedules: ScheduleLoad) -> OwedQuarters:
    """Count what schedules owe of each kind."""
    length = (schedules.end - schedules.start) // QUARTER
    found: dict[tuple[str, str], array[int]] = {}
    of_all = array("i", bytes(length * 4))
    for times in schedules.times:
        key = times.source.tenant, times.source.kind
        counts = found.setdefault(key, array("i", bytes(length * 4)))
        for minute in times.as_defined:
            counts[minute // QUARTER_MINUTES] += 1
            of_all[minute // QUARTER_MINUTES] += 1
    return OwedQuarters(schedules.start, found, of_all)


def _count(schedules: ScheduleLoad, waiting: Sequence[PendingLoad]) -> _Minutes:
    length = (schedules.end - schedules.start) // MINUTE
    minutes = _Minutes(*(array("i", bytes(length * 4)) for _ in range(3)))
    for times in schedules.times:
        for counts, found in ((minutes.due, times.as_defined), (minutes.smeared, times.smeared)):
            for minute, items in Counter(found).items():
                counts[minute] += items
    for place, items in _placed(waiting, schedules.start):
        for counts in (minutes.due, minutes.smeared, minutes.waiting):
            counts[place] += items
    return minutes


def _placed(waiting: Sequence[PendingLoad], start: datetime) -> Iterator[tuple[int, int]]:
    for each in waiting:
        if each.minute is not None:
            yield (each.minute - start) // MINUTE, each.items


def _quarters(minutes: _Minutes, start: datetime) -> Iterator[QuarterHour]:
    for place in range(0, len(minutes.due), QUARTER_MINUTES):
        within = slice(place, place + QUARTER_MINUTES)
        yield QuarterHour(
            start + place * MINUTE,
            sum(minutes.due[within]),
            sum(minutes.waiting[within]),
            max(minutes.due[within]),
            sum(minutes.smeared[within]),
            max(minutes.smeared[within]),
        )


def _peaks(
    quarters: Sequence[QuarterHour], schedules: ScheduleLoad, waiting: Sequence[PendingLoad]
) -> tuple[LoadPeak, ...]:
    ranked = sorted(quarters, key=lambda each: (-each.busiest_minute, -each.due, each.start))
    chosen = [quarter for quarter in ranked[:PEAKS_MAX] if quarter.due]
    peaks: list[LoadPeak] = []
    for quarter in chosen:
        low = (quarter.start - schedules.start) // MINUTE
        high = low + QUARTER_MINUTES
        parts = Counter[LoadSource]()
        for times in schedules.times:
            found = times.as_defined
            if number := bisect_left(found, high) - bisect_left(found, low):
                parts[times.source] += number
        for each in waiting:
            if each.minute and low <= (each.minute - schedules.start) // MINUTE < high:
                parts[LoadSource(each.tenant, each.kind, each.definition)] += each.items
        peaks.append(LoadPeak(quarter, tuple(parts.most_common(_BUSIEST_MAX))))
    return tuple(peaks)


def _quiet(minutes: "array[int]", start: datetime, wanted: int) -> Iterator[QuietPeriod]:
    """Yield the windows of at least `wanted` minutes without due items."""
    place = 0
    for is_quiet, run in groupby(minutes, key=lambda due: due == 0):
        length = len(list(run))
        if is_quiet and length >= wanted:
            yield QuietPeriod(start + place * MINUTE, start + (place + length) * MINUTE, 0)
        place += length


def _quietest(minutes: "array[int]", start: datetime, wanted: int) -> QuietPeriod:
    """Return the first window of `wanted` minutes with the fewest items."""
    due = least = sum(minutes[:wanted])
    best = 0
    for place in range(1, len(minutes) - wanted + 1):
        due += minutes[place + wanted - 1] - minutes[place - 1]
        if due < least:
            least, best = due, place
    return QuietPeriod(start + best * MINUTE, start + (best + wanted) * MINUTE, least)
