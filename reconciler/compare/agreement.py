"""Whether an item of the ledger agrees with what its source says of it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from dueledger.ledger.rules.drafts import ItemSubject, Overlap
from dueledger.ledger.rules.event_issues import Withdrawal, implied_place, microseconds_of
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.schedule.resolution import SkipReason
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.actors import ActorKind
from dueledger.reconciler.compared_items import (
    ASSERTED,
    LATER,
    NOT_SAID,
    ActualItem,
    ExpectedItem,
)

COMPLETED: Final = int(TransitionEvent.COMPLETED)
SUPERSEDED: Final = int(TransitionEvent.SUPERSEDED)
SKIPPED: Final = int(TransitionEvent.SKIPPED)
CANCELLED: Final = int(TransitionEvent.CANCELLED)
WRITTEN_OFF: Final = int(TransitionEvent.WRITTEN_OFF)
WITHDRAWN: Final = frozenset({SUPERSEDED, SKIPPED})
EXPLAINING: Final = WITHDRAWN | {CANCELLED}
DECIDERS: Final = frozenset({ActorKind.PERSON, ActorKind.KEY, ActorKind.OIDC})
"""Who decides as a person does: at the console or by REST with a key or token, or by a login."""
PROCESSES: Final = frozenset(ActorKind) - {ActorKind.PERSON, ActorKind.SERVICE}
NEWER_VERSION: Final = "version"
OVERLAP: Final = "overlap"
OVERLAPS: Final = {
    SKIPPED: frozenset({Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER}),
    CANCELLED: frozenset({Overlap.CANCEL_OTHER}),
}
SKIPPED_FOR: Final = frozenset({*SkipReason, MISSED_REASON})

_DEFINITION: Final = ExpectedItem._fields.index("definition_no")
_DUE: Final = ExpectedItem._fields.index("due_microseconds")
_LIVE: Final = ExpectedItem._fields.index("is_live")
_MOMENT: Final = ExpectedItem._fields.index("moment")
_REFERENCE: Final = ExpectedItem._fields.index("reference")
_TERMS: Final = ExpectedItem._fields.index("terms_digest")
_OUTSIDE_TERMS: Final = ExpectedItem._fields.index("outside_terms")


class Excuse(Enum):
    """Why an item ended without being completed.

    OVERLAP: for another item of its key, if one was open then. TZDATA: its schedule skips it, as a
    tz database may have it that is not this one.
    """

    NONE = "none"
    GIVEN = "given"
    OVERLAP = "overlap"
    TZDATA = "tzdata"


@dataclass(frozen=True, slots=True)
class EndingGrounds:
    """What may end items.

    The withdrawals of a subject; by version, from when a newer one replaces it, and how long after
    it was due an occurrence may be skipped as missed. `tzdata` is the tz database of this process:
    items that another one placed may have been skipped by that one's gaps.
    """

    withdrawals: Callable[[ItemSubject], Sequence[Withdrawal]] = lambda _: ()
    replaced_at: Mapping[int, datetime] = field(default_factory=dict[int, datetime])
    missed_after: Mapping[int, timedelta] = field(default_factory=dict[int, timedelta])
    tzdata: str = ""


def find_excuse(
    item: ActualItem,
    row: tuple[Any, ...] | None,
    grounds: EndingGrounds,
    subject: ItemSubject,
) -> Excuse:
    """Return the excuse of an item that ended without being completed; `row` is what is expected.

    A person may end it for a reason, outside of any run, but skip only what the rule skips; and so
    may a repair that is on record. A process may by an event of the inbox that withdraws its
    subject and occurred after the one that owes it, by a newer version that was in force when it
    was due, by a rule of overlap, where the schedule or catch-up skips its occurrence, and where a
    population says that it ended. Of an item that no source names, its handler may say that it is
    not due.
    """
    if item.is_repair or _is_decided(item):
        return Excuse.GIVEN
    is_skipped = item.event == SKIPPED and item.ended_by == ActorKind.PERSON
    if item.event == WRITTEN_OFF or not (is_skipped or item.ended_by in PROCESSES):
        return Excuse.NONE
    ending = (item.event, item.ended_for)
    if item.ended_for == OVERLAP and item.overlap in OVERLAPS.get(item.event or 0, ()):
        return Excuse.OVERLAP
    if row is not None and row[ASSERTED] and not row[_LIVE]:
        return Excuse.GIVEN
    implied = None if row is None or row[_MOMENT] is None else implied_place(row[_MOMENT])
    excused = any(
        (each.event, each.reason) == ending and (implied is None or each.place > implied)
        for each in grounds.withdrawals(subject)
    )
    if item.event == SUPERSEDED:
        excused = excused or (item.ended_for == NEWER_VERSION and _is_replaced(item, grounds))
    elif item.event == SKIPPED:
        excused = excused or _is_skipped_by_rule(item, row, grounds)
    else:
        excused = excused or (row is None and item.has_run)
    if excused:
        return Excuse.GIVEN
    return Excuse.TZDATA if _is_skipped_elsewhere(item, grounds) else Excuse.NONE


def _is_skipped_elsewhere(item: ActualItem, grounds: EndingGrounds) -> bool:
    """Return whether a tz database that is not this one may have its schedule skip an item."""
    is_scheduled = item.event == SKIPPED and item.definition_no is not None
    by_rule = item.ended_for in SKIPPED_FOR and item.ended_for != MISSED_REASON
    return is_scheduled and by_rule and item.tzdata not in (None, grounds.tzdata)


def _is_replaced(item: ActualItem, grounds: EndingGrounds) -> bool:
    """Return whether a newer version decides what an item is, and no run had it."""
    replaced_at = grounds.replaced_at.get(item.definition_no or 0)
    return replaced_at is not None and item.due_at >= replaced_at and not item.has_run


def _is_decided(item: ActualItem) -> bool:
    is_reasoned = bool(item.ended_for) and not item.has_run and item.event != SKIPPED
    return item.ended_by in DECIDERS and is_reasoned


def _is_skipped_by_rule(
    item: ActualItem, row: tuple[Any, ...] | None, grounds: EndingGrounds
) -> bool:
    """Return whether the rule that made an item has its occurrence skipped, for its reason."""
    if row is None:
        return item.definition_no is not None and item.ended_for in SKIPPED_FOR
    is_missed = item.ended_for == MISSED_REASON
    named = map(ExpectedItem._make, (row, *row[LATER]))
    own = next((each for each in named if each.definition_no == item.definition_no), None)
    if own is None or own.definition_no is None or item.ended_at is None:
        return False
    if is_missed:
        after = grounds.missed_after.get(own.definition_no)
        if own.reference is not None:
            return own.is_missed or not own.is_live
        return after is not None and item.ended_at - item.due_at >= after
    return item.ended_for is not None and item.ended_for == own.skipped_for


def says_terms(row: tuple[Any, ...]) -> bool:
    """Return whether a source says the terms of an item; a population, its payload and SLA."""
    return row[_TERMS] is not None or NOT_SAID not in row[_OUTSIDE_TERMS]


def agrees(item: ActualItem, row: tuple[Any, ...]) -> bool:
    """Return whether an item says what its source does. Of an issue, its own version speaks."""
    due = microseconds_of(item.due_at)
    if due == row[_DUE] and row[_TERMS] == item.terms_digest:
        return (item.definition_no, item.event_no) == (row[_DEFINITION], row[_REFERENCE])
    if row[_TERMS] is None:
        terms = zip(row[_OUTSIDE_TERMS], item.outside_terms, strict=True)
        return due == row[_DUE] and all(said in (NOT_SAID, own) for said, own in terms)
    return any(
        each[_DEFINITION] == item.definition_no
        and each[_DUE] == due
        and each[_TERMS] == item.terms_digest
        for each in row[LATER]
    )
