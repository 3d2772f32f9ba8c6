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


class Moment(NamedTuple):
    """Where an event stands among the events of its key. Ties are settled by its identity."""

    occurred_at: datetime
    source: str
    id: str


class Birth(NamedTuple):
    """An event implies an item."""

    moment: Moment
    item: UUID


class Withdrawal(NamedTuple):
    """An event ends the items of its key that were born before it.

    `own` are the items of the key that the event itself implies; they outlive it.
    """

    moment: Moment
    event: TransitionEvent
    reason: str
    own: frozenset[UUID] = frozenset()
    replacement: UUID | None = None

    def end(self, item: UUID) -> "Ending":
        """Return the ending of an item that it ends."""
        return Ending(item, self.event, self.reason, self.replacement)


class Ending(NamedTuple):
    """An item that must not stay open, and why."""

    item: UUID
    event: TransitionEvent
    reason: str
    replacement: UUID | None


def earliest_births(births: Iterable[Birth]) -> dict[UUID, Moment]:
    """Return when each item was born: the earliest of the events that imply it."""
    found: dict[UUID, Moment] = {}
    for moment, item in births:
        known = found.get(item)
        if known is None or moment < known:
            found[item] = moment
    return found


def endings(born: dict[UUID, Moment], withdrawals: Sequence[Withdrawal]) -> list[Ending]:
    """Return which of the items of one key are ended, each by the first withdrawal after its birth.

    A cancellation at the very instant of a birth ends it; of two events that supersede at the same
    instant the later in identity stands, or both would fall.
    """
    if not withdrawals:
        return []
    ordered = sorted(withdrawals, key=attrgetter("moment"))
    found: list[Ending] = []
    for item, birth in born.items():
        for withdrawal in ordered:
            if _ends(withdrawal, item, birth):
                found.append(withdrawal.end(item))
                break
    return found


def _ends(withdrawal: Withdrawal, item: UUID, birth: Moment) -> bool:
    if item in withdrawal.own:
        return False
    if withdrawal.event is TransitionEvent.CANCELLED:
        return withdrawal.moment.occurred_at >= birth.occurred_at
    return withdrawal.moment > birth
