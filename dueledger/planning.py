"""The load to come, by the minute: peaks, what smearing would do to them, and when it is quiet.

Counted from definitions alone, by the code that materialises. What hangs on something that has not
happened yet, an event or the end of an item, is named and not counted.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Final

from dueledger.preview import preview_definition
from ledger.definitions import Definition
from ledger.errors import BeyondCalendar, InvalidInput, Problem, WindowTooLarge
from ledger.identity import item_id
from ledger.schedule import CHAINED, DATED, Occurrence
from ledger.schedule.smear import smear_seconds
from ledger.scheduled import cycle_of

QUARTER_MINUTES: Final = 15
WINDOW_MAX: Final = timedelta(days=62)
SMEAR_MAX: Final = timedelta(days=1)
OCCURRENCES_MAX: Final = 2_000_000
PEAKS_MAX: Final = 5
_BUSIEST_MAX: Final = 3
_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)
_QUARTER: Final = timedelta(minutes=QUARTER_MINUTES)


@dataclass(frozen=True, slots=True)
class InForce:
    """A definition, and the part of a window in which it decides."""

    definition: Definition
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Quarter:
    """A quarter of an hour: what is due in it and in its busiest minute, as defined and smeared."""

    start: datetime
    due: int
    busiest_minute: int
    smeared_due: int
    smeared_busiest_minute: int


@dataclass(frozen=True, slots=True)
class Peak:
    """One of the quarters with the busiest minutes, and the definitions that make most of it."""

    quarter: Quarter
    most_of: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Quiet:
    """A stretch in which nothing falls due; `due` is more than none where none was long enough."""

    start: datetime
    end: datetime
    due: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The load of a window."""

    start: datetime
    end: datetime
    smear: timedelta
    quiet_for: timedelta
    definitions: int
    not_counted: tuple[tuple[str, str], ...]
    quarters: tuple[Quarter, ...]
    peaks: tuple[Peak, ...]
    quiet: tuple[Quiet, ...]
    quietest: Quiet | None


@dataclass(frozen=True, slots=True)
class _Times:
    """The minutes, counted from the window's start, in which a definition's items fall due."""

    name: str
    as_defined: "array[int]"
    smeared: "array[int]"


def make_plan(
    definitions: Iterable[InForce],
    start: datetime,
    end: datetime,
    *,
    smear: timedelta,
    quiet_for: timedelta,
) -> Plan:
    """Count what falls due in [start, end), which is widened to whole quarters of an hour."""
    start, end = _floor(start), _floor(end + _QUARTER - _SECOND)
    _check(start, end, smear, quiet_for)
    counted: list[_Times] = []
    not_counted: list[tuple[str, str]] = []
    room = OCCURRENCES_MAX
    for each in definitions:
        if reason := _uncountable(each.definition):
            not_counted.append((_name(each.definition), reason))
            continue
        try:
            times = _times(each, (start, end), smear, room)
        except BeyondCalendar as error:
            not_counted.append((_name(each.definition), error.problems[0].reason))
            continue
        room -= len(times.as_defined)
        counted.append(times)
    return _plan(counted, tuple(not_counted), (start, end), smear, quiet_for)


def _check(start: datetime, end: datetime, smear: timedelta, quiet_for: timedelta) -> None:
    if not timedelta() < end - start <= WINDOW_MAX:
        reason = f"a plan reaches from a quarter of an hour to {WINDOW_MAX.days} days"
        problem = Problem("--to", end.isoformat(), reason, "a shorter window, a later --to")
        raise InvalidInput("The window cannot be planned:", [problem])
    if smear > SMEAR_MAX:
        problem = Problem("--smear", str(smear), "longer than a day", "a period such as PT10M")
        raise InvalidInput("The smear cannot be tried:", [problem])
    if quiet_for > end - start:
        problem = Problem(
            "--quiet-for", str(quiet_for), "longer than the window", "a longer window"
        )
        raise InvalidInput("No quiet window can be found:", [problem])


def _name(definition: Definition) -> str:
    """Return how a plan names a definition: two tenants may each have one of a name."""
    return f"{definition.tenant}/{definition.definition}"


def _uncountable(definition: Definition) -> str | None:
    if isinstance(definition.when, DATED):
        return "hangs on events that have not come yet"
    if isinstance(definition.when, CHAINED):
        return "each follows when the one before it ends"
    return None


def _times(each: InForce, bounds: tuple[datetime, datetime], smear: timedelta, room: int) -> _Times:
    """Expand a definition; beyond the window as well, by as much as a smear moves things."""
    start, end = bounds
    own = each.definition.smear
    reach = max(smear, own or timedelta())
    first, last = max(each.start, start - reach), min(each.end, end + reach)
    as_defined, smeared = array("i"), array("i")
    if first >= last:
        return _Times(_name(each.definition), as_defined, smeared)
    window = preview_definition(each.definition, since=first, until=last, effective_date=None)
    if len(window.occurrences) > room:
        raise WindowTooLarge(
            f"From {start.isoformat()} to {end.isoformat()} there are more than "
            f"{OCCURRENCES_MAX:,} occurrences; ask for a shorter window or for one --kind."
        )
    for found, seconds in _spread(
        each.definition, window.occurrences, smear if own is None else own
    ):
        late = found.due_at + timedelta(seconds=seconds)
        if start <= late < end:
            smeared.append((late - start) // _MINUTE)
        defined = found.due_at if own is None else late
        if start <= defined < end:
            as_defined.append((defined - start) // _MINUTE)
    return _Times(_name(each.definition), as_defined, smeared)


def _spread(
    definition: Definition, occurrences: Sequence[Occurrence], smear: timedelta
) -> Iterator[tuple[Occurrence, int]]:
    """Yield by how many seconds each is moved: by its id, never to the next one or past it."""
    rooms = [after.due_at - before.due_at for before, after in pairwise(occurrences)]
    for found, room in zip(occurrences, [*rooms, smear], strict=False):
        item = item_id(
            definition.tenant,
            definition.kind,
            definition.business_key,
            cycle_of(found.nominal, found.decision),
            found.nominal.date(),
        )
        yield found, smear_seconds(item, smear, room)


def _plan(
    counted: Sequence[_Times],
    not_counted: tuple[tuple[str, str], ...],
    bounds: tuple[datetime, datetime],
    smear: timedelta,
    quiet_for: timedelta,
) -> Plan:
    start, end = bounds
    length = (end - start) // _MINUTE
    minutes = _tally((times.as_defined for times in counted), length)
    smeared = _tally((times.smeared for times in counted), length)
    quarters = tuple(
        Quarter(
            start + place * _MINUTE,
            sum(minutes[place : place + QUARTER_MINUTES]),
            max(minutes[place : place + QUARTER_MINUTES]),
            sum(smeared[place : place + QUARTER_MINUTES]),
            max(smeared[place : place + QUARTER_MINUTES]),
        )
        for place in range(0, length, QUARTER_MINUTES)
    )
    wanted = -(-quiet_for // _MINUTE)
    quiet = tuple(_quiet(minutes, start, wanted))
    return Plan(
        start,
        end,
        smear,
        quiet_for,
        len(counted),
        not_counted,
        quarters,
        _peaks(quarters, counted, start),
        quiet,
        None if quiet else _quietest(minutes, start, wanted),
    )


def _tally(all_times: Iterable["array[int]"], length: int) -> "array[int]":
    minutes = array("i", bytes(length * 4))
    for times in all_times:
        for minute in times:
            minutes[minute] += 1
    return minutes


def _peaks(
    quarters: Sequence[Quarter], counted: Sequence[_Times], start: datetime
) -> tuple[Peak, ...]:
    ranked = sorted(quarters, key=lambda each: (-each.busiest_minute, -each.due, each.start))
    chosen = [quarter for quarter in ranked[:PEAKS_MAX] if quarter.due]
    peaks: list[Peak] = []
    for quarter in chosen:
        low = (quarter.start - start) // _MINUTE
        high = low + QUARTER_MINUTES
        parts = Counter[str]()
        for times in counted:
            if number := sum(low <= minute < high for minute in times.as_defined):
                parts[times.name] += number
        peaks.append(Peak(quarter, tuple(parts.most_common(_BUSIEST_MAX))))
    return tuple(peaks)


def _quiet(minutes: "array[int]", start: datetime, wanted: int) -> Iterator[Quiet]:
    """Yield the stretches of so many minutes, or more, in which nothing falls due."""
    place = 0
    for is_quiet, run in groupby(minutes, key=lambda due: due == 0):
        length = len(list(run))
        if is_quiet and length >= wanted:
            yield Quiet(start + place * _MINUTE, start + (place + length) * _MINUTE, 0)
        place += length


def _quietest(minutes: "array[int]", start: datetime, wanted: int) -> Quiet:
    """Return the stretch of so many minutes with the least in it, the first where several are."""
    due = least = sum(minutes[:wanted])
    best = 0
    for place in range(1, len(minutes) - wanted + 1):
        due += minutes[place + wanted - 1] - minutes[place - 1]
        if due < least:
            least, best = due, place
    return Quiet(start + best * _MINUTE, start + (best + wanted) * _MINUTE, least)


def _floor(instant: datetime) -> datetime:
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (instant - midnight) // _QUARTER * _QUARTER
