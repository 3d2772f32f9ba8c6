"""Resolve local times to UTC, and name the decision where clocks are changed.

Schedules use naive local times; only this module converts one to an instant. A local time that an
offset change skips (gap) or repeats (fold) is resolved by policy, and the decision is recorded.
Pure: the zone is an argument, nothing is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, assert_never
from zoneinfo import ZoneInfo

SCAN_MARGIN: Final = timedelta(hours=48)  # Samoa and Kwajalein skipped a whole day
PROBE: Final = timedelta(hours=6)
"""No zone changes its offset twice within this time: tests check it against the tz database."""

_ONE_SECOND: Final = timedelta(seconds=1)
_RESOLVED_ALONE: Final = 4


class Gap(StrEnum):
    """What to do with a local time that does not exist."""

    SKIP = "skip"
    SHIFT_FORWARD = "shift_forward"  # by the gap's length, as RFC 5545 section 3.3.5 reads it
    GAP_END = "gap_end"  # the first instant after the gap


class Fold(StrEnum):
    """Which of the two instants of a repeated local time is used."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Decision(StrEnum):
    """How the instant of a nominal time was found."""

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
    CALENDAR = "calendar"  # not a business day, and the roll is `skip`
    MERGED = "merged"  # another occurrence is owed at its instant


class Occurrence(NamedTuple):
    """One instant, its nominal local time, and how it was resolved."""

    due_at: datetime  # aware, UTC
    nominal: datetime  # naive, local
    utc_offset: timedelta  # in force at due_at
    decision: Decision

    @property
    def local(self) -> datetime:
        """Return the local time at `due_at`, naive. Unlike `nominal` it always exists."""
        return self.due_at.replace(tzinfo=None) + self.utc_offset


@dataclass(frozen=True, slots=True)
class Skipped:
    """A nominal time without an occurrence. `at` is its instant, or the end of its gap.

    `into` is the occurrence into which it was merged.
    """

    at: datetime  # aware, UTC; decides to which window it belongs
    nominal: datetime  # naive, local
    reason: SkipReason
    decision: Decision = Decision.GAP_SKIPPED
    into: Occurrence | None = None


def instant_of(found: Occurrence | Skipped) -> datetime:
    """Return the instant that decides to which window it belongs."""
    return found.due_at if isinstance(found, Occurrence) else found.at


class OccurrenceColumns(NamedTuple):
    """What items have of their occurrences, a column each. A `nominal` is ISO text."""

    cycles: Sequence[str]
    effective_dates: Sequence[date]
    due_ats: Sequence[datetime]
    nominals: Sequence[str]
    decisions: Sequence[str]


@dataclass(frozen=True)
class ScheduleWindow:
    """Occurrences and skipped times of a schedule in a half-open window, each in order of time."""

    occurrences: tuple[Occurrence, ...]
    skipped: tuple[Skipped, ...]

    @cached_property
    def columns(self) -> OccurrenceColumns:
        """The occurrences by column; once for all definitions that share the window."""
        found = self.occurrences
        nominals = [cycle_of(each.nominal) for each in found]
        second = Decision.FOLD_BOTH_SECOND
        return OccurrenceColumns(
            [
                cycle_of(each.nominal, second) if each.decision is second else nominal
                for each, nominal in zip(found, nominals, strict=True)
            ],
            [each.nominal.date() for each in found],
            [each.due_at for each in found],
            nominals,
            [each.decision.value for each in found],
        )


def cycle_of(nominal: datetime, decision: Decision = Decision.EXACT) -> str:
    """Return the cycle of a recurring schedule's occurrence."""
    text = nominal.isoformat(
        timespec="microseconds"
        if nominal.microsecond
        else "seconds"
        if nominal.second
        else "minutes"
    )
    return f"{text}#2" if decision is Decision.FOLD_BOTH_SECOND else text


def resolve(
    nominal: datetime, zone: ZoneInfo, gap: Gap, fold: Fold
) -> tuple[Occurrence | Skipped, ...]:
    """Resolve the naive `nominal` in `zone`: one occurrence, two, or one skip."""
    instants = sorted(nominal.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if instants[0] == instants[1]:
        return (_at(nominal, instants[0], zone, Decision.EXACT),)
    # Round trip: an instant counts only if the zone shows `nominal` at it. Sorted, because either
    # fold may be the earlier one in the database.
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
    """Resolve local times that are given in order, in the same order.

    If two times at most PROBE apart have one offset, so have all times between them; the same
    holds for one gap. Only times around the ends of a gap or a fold are resolved one by one.
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
    """Return the naive bounds of all times that may resolve into [start, end) in any zone."""
    low, high = (each.astimezone(UTC).replace(tzinfo=None) for each in (start, end))
    return low - margin, high + margin


def collapse(
    resolved: Iterable[Occurrence | Skipped], bounds: tuple[datetime, datetime]
) -> ScheduleWindow:
    """Keep results in the half-open `bounds`, each instant once, in order of time.

    Of nominal times with the same instant one is kept: the one that is exact, else the earliest.
    The others are merged into it.
    """
    start, end = bounds
    kept: dict[datetime, Occurrence] = {}
    merged: list[Occurrence] = []
    skipped: list[Skipped] = []
    for found in resolved:
        match found:
            case Skipped():
                if start <= found.at < end:
                    skipped.append(found)
            case Occurrence():
                if start <= found.due_at < end:
                    present = kept.setdefault(found.due_at, found)
                    if present is found:
                        continue
                    if _precedence(found) < _precedence(present):
                        kept[found.due_at], found = found, present  # noqa: PLW2901 - swapped
                    merged.append(found)
            case _:
                assert_never(found)
    skipped += (
        Skipped(each.due_at, each.nominal, SkipReason.MERGED, each.decision, kept[each.due_at])
        for each in merged
    )
    return ScheduleWindow(
        tuple(kept[due_at] for due_at in sorted(kept)),
        tuple(sorted(skipped, key=lambda each: (each.at, each.nominal))),
    )


def _precedence(occurrence: Occurrence) -> tuple[bool, datetime]:
    return occurrence.local != occurrence.nominal, occurrence.nominal


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
    """Return the first instant whose local time is after `nominal`, by bisection to the second."""
    low, high = before, after
    while high - low > _ONE_SECOND:
        middle = low + timedelta(seconds=(high - low) // _ONE_SECOND // 2)
        if _local(middle, zone) > nominal:
            high = middle
        else:
            low = middle
    return high
