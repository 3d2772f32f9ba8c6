"""What the events of one business key add up to, whatever order they arrived in.

The order of their own times decides: an item is born of its earliest event and ended by the first
withdrawal after that birth. So a cancellation that overtook its activation still wins, and any
permutation of the same events, duplicates included, ends alike. Pure.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.states import TransitionEvent


class EventOrder(NamedTuple):
    """Where an event stands among the events of its key. Ties are settled by its identity."""

    occurred_at: datetime
    source: str
    id: str


class ImpliedItem(NamedTuple):
    """An event implies an item."""

    moment: EventOrder
    item: UUID


class Withdrawal(NamedTuple):
    """An event ends the items of its key that were born before it.

    `own` are the items of the key that the event itself implies; they outlive it.
    """

    moment: EventOrder
    event: TransitionEvent
    reason: str
    spared_items: frozenset[UUID] = frozenset()
    replacement: UUID | None = None

    def ending_of(self, item: UUID) -> "ItemEnding":
        """Return the ending of an item that it ends."""
        return ItemEnding(item, self.event, self.reason, self.replacement)


class ItemEnding(NamedTuple):
    """An item that must not stay open, and why."""

    item: UUID
    event: TransitionEvent
    reason: str
    replacement: UUID | None


def first_implied(births: Iterable[ImpliedItem]) -> dict[UUID, EventOrder]:
    """Return when each item was born: the earliest of the events that imply it."""
    found: dict[UUID, EventOrder] = {}
    for moment, item in births:
        known = found.get(item)
        if known is None or moment < known:
            found[item] = moment
    return found


def find_item_endings(
    born: dict[UUID, EventOrder], withdrawals: Sequence[Withdrawal]
) -> list[ItemEnding]:
    """Return which of the items of one key are ended, each by the first withdrawal after its birth.

    A cancellation at the very instant of a birth ends it; of two events that supersede at the same
    instant the later in identity stands, or both would fall.
    """
    if not withdrawals:
        return []
    ordered = sorted(withdrawals, key=attrgetter("moment"))
    found: list[ItemEnding] = []
    for item, birth in born.items():
        for withdrawal in ordered:
            if _ends(withdrawal, item, birth):
                found.append(withdrawal.ending_of(item))
                break
    return found


def _ends(withdrawal: Withdrawal, item: UUID, birth: EventOrder) -> bool:
    if item in withdrawal.spared_items:
        return False
    if withdrawal.event is TransitionEvent.CANCELLED:
        return withdrawal.moment.occurred_at >= birth.occurred_at
    return withdrawal.moment > birth
