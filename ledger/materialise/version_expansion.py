"""Expansion of one version's next window, from its materialised watermark on. Pure."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import BeyondCalendar, WindowTooLarge
from dueledger.ledger.materialise.schedule_calendars import ObservingDefinition
from dueledger.ledger.rules.calendar_change import calendar_ends
from dueledger.ledger.rules.catch_up import MissedRange, count_missed, decide_catch_up
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import (
    EXPANSION_TIMES_MAX,
    ScheduleDrafts,
    draft_chain_start,
    draft_window,
    expand_schedule,
)
from dueledger.ledger.schedule import (
    RECURRING,
    AfterCompletion,
    Every,
    Relative,
    ScheduleWindow,
    tzdata_version,
)
from dueledger.ledger.store.calendars import CalendarUse
from dueledger.ledger.store.definitions import DefinitionToMaterialise

_WINDOW_MIN: Final = timedelta(seconds=1)
_WINDOW_PARTS: Final = 16

TZ_SHIFT_MAX: Final = timedelta(days=2)
"""How far a newer tz database may move an occurrence: Samoa skipped a day."""


@dataclass(frozen=True, slots=True)
class FixedDelayChain:
    """A fixed-delay schedule: the first item of its chain, if it has none yet, and the delay."""

    first: ItemDraft
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Expansion:
    """The items of one version from its watermark, `start`, up to `until`.

    `replaces_older`: older versions may have items of the same occurrences. `contested`: items that
    only older versions have in this window must be superseded.
    """

    definition_no: int
    start: datetime
    until: datetime
    owed: ScheduleDrafts
    effective_from: datetime
    replaces_older: bool = False
    contested: bool = False
    chain: FixedDelayChain | None = None
    missed: MissedRange | None = None
    calendar_use: CalendarUse | None = None

    @property
    def pass_cost(self) -> int:
        """The cost in items of a pass: counting an occurrence costs at most a tenth of emitting."""
        counted = 0 if self.missed is None else self.missed.occurrences // 10
        return len(self.owed.drafts) + len(self.owed.skipped) + counted


def expand_observed(
    observed: ObservingDefinition,
    row: DefinitionToMaterialise,
    *,
    items_max: int,
    outdated: bool = False,
) -> Expansion:
    """Expand with the calendar in force now, at most to the last day that it knows.

    Raises BeyondCalendar if all known days are materialised. `outdated`: see `decide_catch_up`.
    """
    definition = observed.definition
    try:
        expansion = expand_version(definition, row, items_max=items_max, outdated=outdated)
    except BeyondCalendar:
        found = _expand_known(definition, row, items_max, outdated=outdated)
        if found is None:
            raise
        expansion = found
    moved = _moved_by_tzdata(definition, row, outdated=outdated)
    owed = observed.moved_before + moved + expansion.owed
    return replace(expansion, owed=owed, calendar_use=observed.use)


def _moved_by_tzdata(
    definition: Definition, row: DefinitionToMaterialise, *, outdated: bool
) -> ScheduleDrafts:
    """Return what is owed just before the watermark, if another tz database expanded that.

    An occurrence that this one has before the watermark, and the other one had after it, is in no
    other window. The others exist already.
    """
    at, when = row.materialised_until, definition.when
    start = max(row.effective_from, at - TZ_SHIFT_MAX)
    zoned = isinstance(when, RECURRING) and not isinstance(when, Every)
    if definition.ended or not zoned or row.tzdata in (None, tzdata_version()) or start >= at:
        return ScheduleDrafts([], [])
    missed = decide_catch_up(definition, start, at, row.now, outdated=outdated)
    window = expand_schedule(definition, start, at)
    return draft_window(definition, window, at, owed_from=missed.owed_from)


def _expand_known(
    definition: Definition, row: DefinitionToMaterialise, items_max: int, *, outdated: bool
) -> Expansion | None:
    for until in calendar_ends(definition):
        if row.materialised_until < until < row.until:
            known = replace(row, until=until)
            with suppress(BeyondCalendar):
                return expand_version(definition, known, items_max=items_max, outdated=outdated)
    return None


def expand_version(
    definition: Definition, row: DefinitionToMaterialise, *, items_max: int, outdated: bool = False
) -> Expansion:
    """Expand from the watermark to `row.until`, or until about `items_max` occurrences.

    Those recorded as skipped count too. A shortened window ends at the instant of the first
    occurrence left out, and the next window begins there. `outdated`: see `decide_catch_up`.
    """
    start, until = row.materialised_until, row.until
    when = definition.when
    # An event rule, or the declaration of a kind, may follow a schedule; it has no occurrences.
    if when is None or isinstance(when, Relative) or definition.ended or start >= until:
        return _expansion(row, until, ScheduleDrafts([], []))
    if isinstance(when, AfterCompletion):
        return replace(
            _expansion(row, until, ScheduleDrafts([], [])), chain=_chain(definition, when, row)
        )
    missed = decide_catch_up(definition, start, until, row.now, outdated=outdated)
    missed_range: MissedRange | None = None
    if missed.as_one_range and start < missed.owed_from:
        counted = count_missed(definition, start, missed.owed_from)
        start = counted.until_at
        missed_range = counted if counted.occurrences else None
        if start < missed.owed_from:
            return replace(_expansion(row, start, ScheduleDrafts([], [])), missed=missed_range)
    expected = when.estimate(start, until)
    if expected > items_max:
        until = min(until, start + max(_WINDOW_MIN, (until - start) * (items_max / expected)))
    window, until = _expand_bounded(definition, start, until)
    if len(window.occurrences) + len(window.skipped) > items_max:
        window, until = _shorten(window, start, until, items_max)
    owed = draft_window(definition, window, until, owed_from=missed.owed_from)
    return replace(_expansion(row, until, owed), missed=missed_range)


def _expand_bounded(
    definition: Definition, start: datetime, until: datetime
) -> tuple[ScheduleWindow, datetime]:
    """Expand a window, or a shorter one if a calendar rolls too many occurrences into it."""
    while True:
        try:
            window = expand_schedule(definition, start, until, times_max=EXPANSION_TIMES_MAX)
        except WindowTooLarge:
            if until <= start + _WINDOW_MIN:
                raise
            until = start + max(_WINDOW_MIN, (until - start) / _WINDOW_PARTS)
        else:
            return window, until


def _shorten(
    window: ScheduleWindow, start: datetime, until: datetime, items_max: int
) -> tuple[ScheduleWindow, datetime]:
    """Leave out what follows the first `items_max`; what one instant has stays together."""
    found, skipped = window.occurrences, window.skipped
    end = sorted([*(each.due_at for each in found), *(each.at for each in skipped)])[items_max]
    if end <= start:
        return window, until
    shorter = ScheduleWindow(
        tuple(each for each in found if each.due_at < end),
        tuple(each for each in skipped if each.at < end),
    )
    return shorter, end


def _expansion(row: DefinitionToMaterialise, until: datetime, owed: ScheduleDrafts) -> Expansion:
    contested = row.contested_until is not None and row.materialised_until < row.contested_until
    return Expansion(
        row.definition_no,
        row.materialised_until,
        until,
        owed,
        row.effective_from,
        replaces_older=row.version > 1,
        contested=contested,
    )


def _chain(
    definition: Definition, when: AfterCompletion, row: DefinitionToMaterialise
) -> FixedDelayChain | None:
    """Return the chain to start, or None: a version about to be superseded starts none."""
    if row.ends_at is not None and row.materialised_until > row.effective_from:
        return None
    begins_at = max(min(row.materialised_until, row.now), row.effective_from)
    first = draft_chain_start(definition, when, begins_at)
    return FixedDelayChain(first, when.after_completion.total_seconds())
