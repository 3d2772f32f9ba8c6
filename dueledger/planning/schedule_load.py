"""When schedules are due in a window, by the minute, as defined and with a smear.

They are expanded from definitions alone, with the materialiser's code. Items that depend on a
future event, or on the end of another item, are named and not counted.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import BeyondCalendar, InvalidInput, Problem, WindowTooLarge
from dueledger.ledger.identity import item_id
from dueledger.ledger.schedule import CHAINED, DATED, Occurrence, cycle_of
from dueledger.ledger.schedule.smear import smear_seconds
from dueledger.ledger.store.pending_load import CountedSchedule
from dueledger.preview.occurrences import preview_slices

QUARTER_MINUTES: Final = 15
MINUTE: Final = timedelta(minutes=1)
QUARTER: Final = timedelta(minutes=QUARTER_MINUTES)
WINDOW_MAX: Final = timedelta(days=62)
SMEAR_MAX: Final = timedelta(days=1)
OCCURRENCES_MAX: Final = 2_000_000
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_DAYS_KEPT_MAX: Final = 4_096
"""A day of a schedule of every minute takes 6 kB."""


@dataclass(frozen=True, slots=True)
class DefinitionInForce:
    """A definition, and the part of a window in which it is in force."""

    definition: Definition
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class LoadSource:
    """A source of items; `definition` is None if a service emits them itself."""

    tenant: str
    kind: str
    definition: str | None


@dataclass(frozen=True, slots=True)
class UncountedLoad:
    """A definition whose load cannot be counted, or only in part, and why."""

    source: LoadSource
    reason: str


@dataclass(frozen=True, slots=True)
class DueMinutes:
    """The minutes, counted from the window's start, in which a definition's items are due.

    In order; a minute is as often in it as it has items.
    """

    source: LoadSource
    as_defined: "array[int]"
    smeared: "array[int]"


@dataclass(frozen=True, slots=True)
class ScheduleLoad:
    """The schedules of a window; items of the occurrences in `counted` are not counted again."""

    start: datetime
    end: datetime
    smear: timedelta
    times: tuple[DueMinutes, ...]
    counted: tuple[CountedSchedule, ...]
    not_counted: tuple[UncountedLoad, ...]


def expand_schedules(
    definitions: Iterable[DefinitionInForce],
    start: datetime,
    end: datetime,
    *,
    smear: timedelta = timedelta(),
    occurrences_max: int = OCCURRENCES_MAX,
    put_off: Mapping[tuple[str, str], Collection[str]] | None = None,
) -> ScheduleLoad:
    """Expand what is due in [start, end), which is widened to whole quarters of an hour.

    `smear` is applied to definitions that have none. The cycles that `put_off` has of a definition,
    by its tenant and name, are left out. Raises InvalidInput if the window or the smear
    is too long, WindowTooLarge if the window has too many occurrences.
    """
    start, end = _floor(start), _floor(end + QUARTER - _SECOND)
    _check(start, end, smear)
    times: list[DueMinutes] = []
    counted: list[CountedSchedule] = []
    not_counted: list[UncountedLoad] = []
    capacity = occurrences_max
    for each in definitions:
        definition = each.definition
        source = LoadSource(definition.tenant, definition.kind, definition.definition)
        if reason := _uncountable(definition):
            not_counted.append(UncountedLoad(source, reason))
            continue
        try:
            left_out = (put_off or {}).get((source.tenant, definition.definition), ())
            found = _times(source, each, (start, end), smear, capacity, left_out=left_out)
        except BeyondCalendar as error:
            not_counted.append(UncountedLoad(source, error.problems[0].reason))
            continue
        capacity -= len(found.as_defined)
        times.append(found)
        counted.append(CountedSchedule(source.tenant, definition.definition, each.start, each.end))
    return ScheduleLoad(start, end, smear, tuple(times), tuple(counted), tuple(not_counted))


def expand_days(
    definitions: Sequence[DefinitionInForce],
    start: datetime,
    end: datetime,
    *,
    occurrences_max: int,
) -> ScheduleLoad:
    """Return what `expand_schedules` does; a day (UTC) of a definition is expanded once, and kept.

    There is no smear but that of definitions. Raises as `expand_schedules` does.
    """
    start, end = _floor(start), _floor(end + QUARTER - _SECOND)
    _check(start, end, timedelta())
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    days = [midnight + number * _DAY for number in range(-((midnight - end) // _DAY))]
    found: list[ScheduleLoad] = []
    left = occurrences_max
    for each in definitions:
        loads: list[ScheduleLoad] = []
        for day in days:
            loads.append(_expand_day(each, day, occurrences_max))
            left -= sum(len(times.as_defined) for times in loads[-1].times)
            _check_capacity(left, (start, end))
            if loads[-1].not_counted:
                break
        found.append(_join(loads, start, end))
    return ScheduleLoad(
        start,
        end,
        timedelta(),
        tuple(chain.from_iterable(each.times for each in found)),
        tuple(chain.from_iterable(each.counted for each in found)),
        tuple(chain.from_iterable(each.not_counted for each in found)),
    )


@lru_cache(maxsize=_DAYS_KEPT_MAX)
def _expand_day(each: DefinitionInForce, day: datetime, occurrences_max: int) -> ScheduleLoad:
    return expand_schedules([each], day, day + _DAY, occurrences_max=occurrences_max)


def _join(days: Sequence[ScheduleLoad], start: datetime, end: datetime) -> ScheduleLoad:
    """Return the days of one definition as a window within them; it is counted whole or not."""
    if days[-1].not_counted:
        return days[-1]
    [first] = days[0].times
    low, high = 0, (end - start) // MINUTE
    joined = array("i")
    for day in days:
        [times] = day.times
        offset = (day.start - start) // MINUTE
        joined.extend([minute + offset for minute in times.as_defined])
    within = joined[bisect_left(joined, low) : bisect_left(joined, high)]
    times = DueMinutes(first.source, within, within)
    return ScheduleLoad(start, end, timedelta(), (times,), days[0].counted, ())


def _check(start: datetime, end: datetime, smear: timedelta) -> None:
    if not timedelta() < end - start <= WINDOW_MAX:
        reason = f"a plan covers a quarter of an hour to {WINDOW_MAX.days} days"
        problem = Problem("--to", end.isoformat(), reason, "a shorter window, a later --to")
        raise InvalidInput("The window cannot be planned:", [problem])
    if smear > SMEAR_MAX:
        problem = Problem("--smear", str(smear), "is longer than a day", "a period such as PT10M")
        raise InvalidInput("The smear cannot be tried:", [problem])


def _uncountable(definition: Definition) -> str | None:
    if definition.is_declaration:
        return "declares a kind, whose items services emit"
    if isinstance(definition.when, DATED):
        return "depends on future events"
    if isinstance(definition.when, CHAINED):
        return "each item depends on the end of the one before"
    return None


def _times(
    source: LoadSource,
    each: DefinitionInForce,
    bounds: tuple[datetime, datetime],
    smear: timedelta,
    capacity: int,
    *,
    left_out: Collection[str],
) -> DueMinutes:
    """Expand a definition, beginning earlier by as much as a smear can delay items."""
    start, end = bounds
    own = each.definition.smear
    reach = max(smear, own or timedelta())
    first, last = max(each.start, start - reach), min(each.end, end + reach)
    as_defined, smeared = array("i"), array("i")
    if first >= last:
        return DueMinutes(source, as_defined, smeared)
    windows = preview_slices(each.definition, since=first, until=last, effective_date=None)
    delay = smear if own is None else own
    if not delay:
        for window in windows:
            as_defined.extend(
                [
                    (found.due_at - start) // MINUTE
                    for found in window.occurrences
                    if not left_out or cycle_of(found.nominal, found.decision) not in left_out
                ]
            )
            _check_capacity(capacity - len(as_defined), bounds)
        return DueMinutes(source, as_defined, as_defined)
    occurrences = (found for window in windows for found in window.occurrences)
    for found, seconds in _spread(each.definition, occurrences, delay):
        capacity -= 1
        _check_capacity(capacity, bounds)
        if left_out and cycle_of(found.nominal, found.decision) in left_out:
            continue
        late = found.due_at + timedelta(seconds=seconds)
        if start <= late < end:
            smeared.append((late - start) // MINUTE)
        defined = found.due_at if own is None else late
        if start <= defined < end:
            as_defined.append((defined - start) // MINUTE)
    return DueMinutes(source, *(array("i", sorted(each)) for each in (as_defined, smeared)))


def _check_capacity(left: int, bounds: tuple[datetime, datetime]) -> None:
    if left < 0:
        start, end = bounds
        raise WindowTooLarge(
            f"From {start.isoformat()} to {end.isoformat()} there are more than "
            f"{OCCURRENCES_MAX:,} occurrences; use a shorter window or one --kind."
        )


def _spread(
    definition: Definition, occurrences: Iterable[Occurrence], smear: timedelta
) -> Iterator[tuple[Occurrence, int]]:
    """Yield the delay of each in seconds: by its id, and less than the time to the next."""
    for found, following in pairwise(chain(occurrences, (None,))):
        if found is None:
            return
        gap = smear if following is None else following.due_at - found.due_at
        item = item_id(
            definition.tenant,
            definition.kind,
            definition.business_key or "",
            cycle_of(found.nominal, found.decision),
            found.nominal.date(),
        )
        yield found, smear_seconds(item, smear, gap)


def _floor(instant: datetime) -> datetime:
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (instant - midnight) // QUARTER * QUARTER
