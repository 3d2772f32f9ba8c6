"""What schedules owe, a slice of time at a time."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Final

from dueledger.ledger.rules.calendar_change import drafts_moved_before
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.reconciler.expect.calendar_history import CalendarPeriod
from dueledger.reconciler.expect.versions import DefinitionSpan

SLICE: Final = timedelta(days=7)
"""How much of a schedule is expanded at once: every second gives 604,800 occurrences."""

ExpectedDraft = tuple[ItemDraft, str | None]
"""An occurrence, and why it is recorded as skipped; None if it is owed."""


def within(missed_ranges: Sequence[tuple[datetime, datetime]], instant: datetime) -> bool:
    """Return whether an instant lies in one of the half-open ranges, which are in order."""
    index = bisect_right(missed_ranges, instant, key=itemgetter(0))
    return index > 0 and instant < missed_ranges[index - 1][1]


def schedule_slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield slices that compose to the half-open [start, end)."""
    while start < end:
        until = min(start + SLICE, end)
        yield start, until
        start = until


def expected_drafts(version: DefinitionSpan, end: datetime) -> Iterator[ExpectedDraft]:
    """Yield what a schedule owes from its beginning up to `end`, each item once.

    Another version of its calendar changes nothing that was owed before it counted.
    """
    changes = [period for period in version.periods if period.before is not None]
    near: set[bytes] = set()
    for draft, reason in _drafts(version, end):
        at = draft.occurs_at
        if changes and any(change.may_occur_twice(at) for change in changes):
            if draft.id.bytes in near:
                continue
            near.add(draft.id.bytes)
        yield draft, reason


def _drafts(version: DefinitionSpan, end: datetime) -> Iterator[ExpectedDraft]:
    for start, until in schedule_slices(version.effective_from, end):
        yield from schedule_drafts(version, start, until)
    # It was expanded further, and another calendar version counted from an instant before that.
    expanded_until = version.materialised_until or end
    for period in version.periods:
        if end <= period.from_at < expanded_until:
            for draft, reason in drafts_moved_before_change(version, period):
                if draft.occurs_at < end:
                    yield draft, reason


def schedule_drafts(
    version: DefinitionSpan, start: datetime, end: datetime
) -> Iterator[ExpectedDraft]:
    """Yield what a schedule owes in a slice, occurrences recorded as skipped included.

    A slice in which another calendar version begins also has what this version moves to before its
    beginning: no version emitted it.
    """
    changes = [period for period in version.periods if start < period.from_at < end]
    for begin, until in pairwise((start, *(period.from_at for period in changes), end)):
        for period in version.periods:
            if period.from_at == begin:
                yield from drafts_moved_before_change(version, period)
        yield from draft_occurrences(version.definition_at(begin), begin, until).each()


def drafts_moved_before_change(
    version: DefinitionSpan, period: CalendarPeriod
) -> Iterator[ExpectedDraft]:
    """Yield what a calendar owes before its own beginning and the one before owed after it."""
    if period.before is not None:
        since, at = version.effective_from, period.from_at
        yield from drafts_moved_before(period.definition, period.before, since, at).each()
