"""Whether an item of the ledger agrees with what its source says of it. Pure."""

from collections.abc import Set as AbstractSet
from typing import Any, Final

from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.schedule.resolution import SkipReason
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.actors import ActorKind
from dueledger.reconciler.compared_items import LATER, ActualItem, ExpectedItem

COMPLETED: Final = int(TransitionEvent.COMPLETED)
SUPERSEDED: Final = int(TransitionEvent.SUPERSEDED)
SKIPPED: Final = int(TransitionEvent.SKIPPED)
CANCELLED: Final = int(TransitionEvent.CANCELLED)
WITHDRAWN: Final = frozenset({SUPERSEDED, SKIPPED})
EXPLAINING: Final = WITHDRAWN | {CANCELLED}
JUDGES: Final = frozenset({ActorKind.PERSON, ActorKind.RECONCILER})
PROCESSES: Final = frozenset(ActorKind) - JUDGES - {ActorKind.SERVICE}
OVERLAP: Final = "overlap"
SKIPPED_FOR: Final = frozenset({*SkipReason, MISSED_REASON, OVERLAP})

_DEFINITION: Final = ExpectedItem._fields.index("definition_no")
_DUE: Final = ExpectedItem._fields.index("due_microseconds")
_REFERENCE: Final = ExpectedItem._fields.index("reference")
_TERMS: Final = ExpectedItem._fields.index("terms_digest")


def is_excused(item: ActualItem, row: tuple[Any, ...], ending_events: AbstractSet[str]) -> bool:
    """Return whether an item that its source owes ended without being completed for a reason.

    A person may end it, and a repair. A process may by an event of `ending_events`, the types by
    which some version of the kind's rules ends items, or by a rule of overlap, of catch-up or of
    the schedule. What another version of its schedule supersedes is owed as its next issue.
    """
    if item.ended_by in JUDGES:
        return True
    if item.ended_by not in PROCESSES:
        return False
    if item.ended_for in ending_events:
        return True
    if item.event == SUPERSEDED:
        return row[_REFERENCE] is None and row[_DEFINITION] is not None
    if item.event == SKIPPED:
        return item.ended_for in SKIPPED_FOR
    return item.event == CANCELLED and item.ended_for == OVERLAP


def agrees(item: ActualItem, row: tuple[Any, ...]) -> bool:
    """Return whether an item says what its source does. Of an issue, its own version speaks."""
    due = microseconds_of(item.due_at)
    if due == row[_DUE] and row[_TERMS] == item.terms_digest:
        return (item.definition_no, item.event_no) == (row[_DEFINITION], row[_REFERENCE])
    if row[_TERMS] is None:
        return due == row[_DUE]
    return any(
        each[_DEFINITION] == item.definition_no
        and each[_DUE] == due
        and each[_TERMS] == item.terms_digest
        for each in row[LATER]
    )
