"""One version's next stretch of time, expanded: what it owes from its watermark on. Pure."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import BeyondCalendar
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
from dueledger.ledger.schedule import AfterCompletion, Relative, ScheduleWindow
from dueledger.ledger.store.calendars import CalendarUse
from dueledger.ledger.store.definitions import DefinitionToMaterialise

_STRETCH_MIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class FixedDelayChain:
    """A fixed delay: the item that begins it where nothing leads it on."""

    first: ItemDraft
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Expansion:
    """What one version owes from its watermark, `start`, up to `until`.

    `takes_over`: it may find older versions' items of the same rounds; `contested`: it must end
    what they alone owe in this stretch.
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
        """What it takes of a pass's room: counting costs a tenth of emitting, or less."""
        counted = 0 if self.missed is None else self.missed.occurrences // 10
        return len(self.owed.drafts) + len(self.owed.skipped) + counted


def expand_observed(
    observed: ObservingDefinition,
    row: DefinitionToMaterialise,
    *,
    items_max: int,
    outdated: bool = False,
) -> Expansion:
    """Expand by the calendar that counts now, as far as it reaches: what it knows is owed.

    Raises BeyondCalendar where all that it knows is materialised. `outdated`: see `judge_missed`.
    """
    definition = observed.definition
    try:
        stretch = expand_version(definition, row, items_max=items_max, outdated=outdated)
    except BeyondCalendar:
        found = _expand_known(definition, row, items_max, outdated=outdated)
        if found is None:
            raise
        stretch = found
    owed = ScheduleDrafts([*observed.overtaken, *stretch.owed.drafts], stretch.owed.skipped)
    return replace(stretch, owed=owed, calendar_use=observed.use)


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
    """Expand from the watermark to `row.until`, or as far as about `items_max` occurrences reach.

    A stretch that was cut ends at the instant of the first occurrence it leaves out, so the next
    one begins there and windows compose. `outdated`: see `judge_missed`.
    """
    start, until = row.materialised_until, row.until
    when = definition.when
    if isinstance(when, Relative):  # an event rule after a schedule: it owes nothing of its own
        return _stretch(row, until, ScheduleDrafts([], []))
    if isinstance(when, AfterCompletion):
        return replace(
            _stretch(row, until, ScheduleDrafts([], [])), chain=_chain(definition, when, row)
        )
    missed = decide_catch_up(definition, start, until, row.now, outdated=outdated)
    lapse: MissedRange | None = None
    if missed.as_one_range and start < missed.owed_from:
        lapse = count_missed(definition, start, missed.owed_from)
        start = lapse.until_at
        lapse = lapse if lapse.occurrences else None
        if start < missed.owed_from:
            return replace(_stretch(row, start, ScheduleDrafts([], [])), missed=lapse)
    expected = when.estimate(start, until)
    if expected > items_max:
        until = min(until, start + max(_STRETCH_MIN, (until - start) * (items_max / expected)))
    window = expand_schedule(definition, start, until, times_max=EXPANSION_TIMES_MAX)
    found = window.occurrences
    if len(found) > items_max and found[items_max].due_at > start:
        until = found[items_max].due_at
        window = ScheduleWindow(
            tuple(each for each in found if each.due_at < until),
            tuple(each for each in window.skipped if each.at < until),
        )
    owed = draft_window(definition, window, until, owed_from=missed.owed_from)
    return replace(_stretch(row, until, owed), missed=lapse)


def _stretch(row: DefinitionToMaterialise, until: datetime, owed: ScheduleDrafts) -> Expansion:
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
    """Return what begins a fixed delay; one that is about to be superseded begins no more."""
    if row.ends_at is not None and row.materialised_until > row.effective_from:
        return None
    begins_at = max(min(row.materialised_until, row.now), row.effective_from)
    first = draft_chain_start(definition, when, begins_at)
    return FixedDelayChain(first, when.after_completion.total_seconds())
