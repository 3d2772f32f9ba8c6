"""Compute how the events of one business key end its items, in whatever order they arrived.

The events' own times decide: an item begins with its earliest event and is ended by the first
withdrawal after that. So a cancellation that arrived before its activation still counts, and every
permutation of the same events, duplicates included, has the same result. Pure.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.states import TransitionEvent


class EventOrder(NamedTuple):
    """The place of an event among the events of its key. Its identity breaks ties."""

    occurred_at: datetime
    source: str
    id: str


class ImpliedItem(NamedTuple):
    """An event implies an item."""

    order: EventOrder
    item: UUID


class Withdrawal(NamedTuple):
    """An event ends the items of its key that began before it.

    `spared_items` are the items of the key that the event itself implies: it does not end them.
    """

    order: EventOrder
    event: TransitionEvent
    reason: str
    spared_items: frozenset[UUID] = frozenset()
    replacement: UUID | None = None

    def ending_of(self, item: UUID) -> "ItemEnding":
        """Return the ending of an item by this withdrawal."""
        return ItemEnding(item, self.event, self.reason, self.replacement)


class ItemEnding(NamedTuple):
    """An item that must be ended, and why."""

    item: UUID
    event: TransitionEvent
    reason: str
    replacement: UUID | None


def first_implied(items: Iterable[ImpliedItem]) -> dict[UUID, EventOrder]:
    """Return when each item began: the earliest of the events that imply it."""
    found: dict[UUID, EventOrder] = {}
    for order, item in items:
        known = found.get(item)
        if known is None or order < known:
            found[item] = order
    return found


def find_item_endings(
    implied: dict[UUID, EventOrder], withdrawals: Sequence[Withdrawal]
) -> list[ItemEnding]:
    """Return the items of one key that are ended, each by the first withdrawal after its beginning.

    A cancellation at the very instant of the beginning ends the item. Of two events that supersede
    at the same instant, only the item of the later one in identity stays, or both would end.
    """
    if not withdrawals:
        return []
    ordered = sorted(withdrawals, key=attrgetter("order"))
    found: list[ItemEnding] = []
    for item, first in implied.items():
        for withdrawal in ordered:
            if _ends(withdrawal, item, first):
                found.append(withdrawal.ending_of(item))
                break
    return found


def _ends(withdrawal: Withdrawal, item: UUID, first: EventOrder) -> bool:
    if item in withdrawal.spared_items:
        return False
    if withdrawal.event is TransitionEvent.CANCELLED:
        return withdrawal.order.occurred_at >= first.occurred_at
    return withdrawal.order > first
