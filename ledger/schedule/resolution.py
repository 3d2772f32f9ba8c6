"""Local time to UTC: what a wall-clock time means where clocks jump, decided and named.

Schedules think in naive local times; only this module turns one into an instant. A local time
that an offset change skips (gap) or repeats (fold) is settled by policy, and the decision is kept.
Pure: the zone is given, nothing is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, assert_never
from zoneinfo import ZoneInfo

SCAN_MARGIN: Final = timedelta(hours=48)  # Samoa and Kwajalein skipped a whole day
PROBE: Final = timedelta(hours=6)
"""Within so long no zone changes its offset twice: the tests hold that against the database."""

_ONE_SECOND: Final = timedelta(seconds=1)
_RESOLVED_ALONE: Final = 4


class Gap(StrEnum):
    """What to do with a local time that never is."""

    SKIP = "skip"
    SHIFT_FORWARD = "shift_forward"  # by the gap's length, as RFC 5545 section 3.3.5 reads it
    GAP_END = "gap_end"  # the first instant after the gap


class Fold(StrEnum):
    """Which of the two instants of a repeated local time is meant."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Decision(StrEnum):
    """How an instant was found for a nominal time."""

    EXACT = "exact"
    GAP_SKIPPED = "gap_skipped"
    GAP_SHIFTED_FORWARD = "gap_shifted_forward"
    GAP_END = "gap_end"
    ROLLED = "rolled"  # to a business day, and exact there
    FOLD_FIRST = "fold_first"
    FOLD_SECOND = "fold_second"
    FOLD_BOTH_FIRST = "fold_both_first"
    FOLD_BOTH_SECOND = "fold_both_second"


class SkipReason(StrEnum):
    """Why an occurrence is recorded as skipped."""

    GAP = "gap"
    CALENDAR = "calendar"  # no business day, and the rule is to leave such days out


class Occurrence(NamedTuple):
    """One instant, the nominal local time it stands for, and how it was decided."""

    due_at: datetime  # aware, UTC
    nominal: datetime  # naive, local
    utc_offset: timedelta  # in force at due_at
    decision: Decision


@dataclass(frozen=True, slots=True)
class Skipped:
    """A nominal time that gives nothing. `at` is its instant, or the end of its gap."""

    at: datetime  # aware, UTC; tells the window it belongs to
    nominal: datetime  # naive, local
    reason: SkipReason
    decision: Decision = Decision.GAP_SKIPPED


def instant_of(found: Occurrence | Skipped) -> datetime:
    """Return the instant that tells which window it belongs to."""
    return found.due_at if isinstance(found, Occurrence) else found.at


@dataclass(frozen=True, slots=True)
class ScheduleWindow:
    """What a schedule says of one half-open stretch of time, each part in order of time."""

    occurrences: tuple[Occurrence, ...]
    skipped: tuple[Skipped, ...]


def resolve(
    nominal: datetime, zone: ZoneInfo, gap: Gap, fold: Fold
) -> tuple[Occurrence | Skipped, ...]:
    """Return what the naive `nominal` means in `zone`: one occurrence, two, or one skip."""
    instants = sorted(nominal.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if instants[0] == instants[1]:
        return (_at(nominal, instants[0], zone, Decision.EXACT),)
    # Round trip: an instant counts only if the zone shows `nominal` at it. Sorted, because which
    # fold comes first in time is the database's matter, not ours.
    real = [instant for instant in instants if _local(instant, zone) == nominal]
    match real:
        case [first, second]:
            return _resolve_fold(nominal, (first, second), zone, fold)
        case [only]:
            return (_at(nominal, only, zone, Decision.EXACT),)
        case _:
            return (_resolve_gap(nominal, instants, zone, gap),)


def resolve_all(
    nominals: Sequence[datetime], zone: ZoneInfo, gap: Gap, fold: Fold
) -> Iterator[Occurrence | Skipped]:
    """Resolve local times that are given in order: what each of them means, one after the other.

    Where one offset settles two that lie at most PROBE apart it settles all between them, and so
    does one gap. Only those around the ends of a gap or a fold are resolved by themselves.
    """
    if len(nominals) <= _RESOLVED_ALONE:
        for nominal in nominals:
            yield from resolve(nominal, zone, gap, fold)
        return
    first, last = nominals[0], nominals[-1]
    if last - first <= PROBE:
        ends = resolve(first, zone, gap, fold), resolve(last, zone, gap, fold)
        match ends:
            case (
                (Occurrence(utc_offset=offset, decision=Decision.EXACT),),
                (Occurrence(utc_offset=other, decision=Decision.EXACT),),
            ) if offset == other:
                for nominal in nominals:
                    due_at = nominal.replace(tzinfo=UTC) - offset
                    yield Occurrence(due_at, nominal, offset, Decision.EXACT)
                return
            case ((Skipped(at=gap_end),), (Skipped(at=other),)) if gap_end == other:
                for nominal in nominals:
                    yield Skipped(gap_end, nominal, SkipReason.GAP)
                return
            case _:
                pass
    middle = len(nominals) // 2
    yield from resolve_all(nominals[:middle], zone, gap, fold)
    yield from resolve_all(nominals[middle:], zone, gap, fold)


def naive_bounds(
    start: datetime, end: datetime, margin: timedelta = SCAN_MARGIN
) -> tuple[datetime, datetime]:
    """Return the naive times to scan for what may resolve into [start, end) in any zone."""
    low, high = (each.astimezone(UTC).replace(tzinfo=None) for each in (start, end))
    return low - margin, high + margin


def collapse(
    resolved: Iterable[Occurrence | Skipped], bounds: tuple[datetime, datetime]
) -> ScheduleWindow:
    """Keep what falls into the half-open `bounds`, each instant once, in order of time.

    Instants that collide become one: that of the nominal time which is exactly so, else that of
    the earliest.
    """
    start, end = bounds
    kept: dict[datetime, Occurrence] = {}
    skipped: set[Skipped] = set()
    for found in resolved:
        match found:
            case Skipped():
                if start <= found.at < end:
                    skipped.add(found)
            case Occurrence():
                if start <= found.due_at < end:
                    present = kept.get(found.due_at)
                    if present is None or _precedence(found) < _precedence(present):
                        kept[found.due_at] = found
            case _:
                assert_never(found)
    return ScheduleWindow(
        tuple(kept[due_at] for due_at in sorted(kept)),
        tuple(sorted(skipped, key=lambda each: (each.at, each.nominal))),
    )


def _precedence(occurrence: Occurrence) -> tuple[bool, datetime]:
    moved = occurrence.due_at.replace(tzinfo=None) + occurrence.utc_offset != occurrence.nominal
    return moved, occurrence.nominal


def _local(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _at(nominal: datetime, due_at: datetime, zone: ZoneInfo, decision: Decision) -> Occurrence:
    utc_offset = _local(due_at, zone) - due_at.replace(tzinfo=None)
    return Occurrence(due_at, nominal, utc_offset, decision)


def _resolve_fold(
    nominal: datetime, instants: tuple[datetime, datetime], zone: ZoneInfo, fold: Fold
) -> tuple[Occurrence, ...]:
    first, second = instants
    match fold:
        case Fold.FIRST:
            return (_at(nominal, first, zone, Decision.FOLD_FIRST),)
        case Fold.SECOND:
            return (_at(nominal, second, zone, Decision.FOLD_SECOND),)
        case Fold.BOTH:
            return (
                _at(nominal, first, zone, Decision.FOLD_BOTH_FIRST),
                _at(nominal, second, zone, Decision.FOLD_BOTH_SECOND),
            )
        case _:
            assert_never(fold)


def _resolve_gap(
    nominal: datetime, instants: list[datetime], zone: ZoneInfo, gap: Gap
) -> Occurrence | Skipped:
    before, after = instants
    match gap:
        case Gap.SHIFT_FORWARD:
            return _at(nominal, after, zone, Decision.GAP_SHIFTED_FORWARD)
        case Gap.GAP_END:
            end = _gap_end(nominal, zone, before, after)
            return _at(nominal, end, zone, Decision.GAP_END)
        case Gap.SKIP:
            return Skipped(_gap_end(nominal, zone, before, after), nominal, SkipReason.GAP)
        case _:
            assert_never(gap)


def _gap_end(nominal: datetime, zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the first instant whose local time is past `nominal`, by bisection to the second."""
    low, high = before, after
    while high - low > _ONE_SECOND:
        middle = low + timedelta(seconds=(high - low) // _ONE_SECOND // 2)
        if _local(middle, zone) > nominal:
            high = middle
        else:
            low = middle
    return high
