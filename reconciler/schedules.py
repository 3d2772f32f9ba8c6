"""What schedules owe, a slice of time at a time."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from ledger.drafts import ItemDraft
from ledger.scheduled import draft_occurrences
from reconciler.versions import Version

SLICE: Final = timedelta(days=7)
"""How much of a schedule is expanded at once: at a second's beat 604,800 occurrences."""


def occurrence_of(draft: ItemDraft) -> datetime:
    """Return when the schedule's own occurrence falls, from which smear moved the item."""
    return draft.due_at - timedelta(seconds=draft.smear_seconds or 0)


def within(lapses: Sequence[tuple[datetime, datetime]], instant: datetime) -> bool:
    """Tell whether an instant lies in one of the half-open ranges, which are in order."""
    place = bisect_right(lapses, instant, key=itemgetter(0))
    return place > 0 and instant < lapses[place - 1][1]


def schedule_slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield slices that compose to the half-open [start, end)."""
    while start < end:
        until = min(start + SLICE, end)
        yield start, until
        start = until


def schedule_drafts(version: Version, start: datetime, end: datetime) -> Iterator[ItemDraft]:
    """Yield what a schedule owes in a slice, occurrences recorded as skipped included."""
    scheduled = draft_occurrences(version.definition, start, end)
    yield from scheduled.drafts
    for skipped in scheduled.skipped:
        yield skipped.draft
