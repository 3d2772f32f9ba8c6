"""What schedules owe, a slice of time at a time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from ledger.drafts import ItemDraft
from ledger.rules import draft_occurrences
from reconciler.versions import Version

SLICE: Final = timedelta(days=7)
"""How much of a schedule is expanded at once: at a second's beat 604,800 occurrences."""


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
