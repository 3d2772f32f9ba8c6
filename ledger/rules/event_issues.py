"""Split what the events of a subject imply into issues: an item, and its reinstatements. Pure.

The events' own times decide, in whatever order they arrive. The withdrawals of an item divide the
events that imply it into segments. The first segment owes the item, and each later one owes it
again: that is another issue, named for the withdrawal that it follows. The earliest event of an
issue gives its terms, and the next withdrawal ends it. So the same events have the same issues,
and one more pair of events does not rename an issue before or after it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeVar

from dueledger.ledger.definitions.model import CYCLE_CHARS_MAX
from dueledger.ledger.identity import SEPARATOR
from dueledger.ledger.rules.drafts import ItemDraft, ItemSubject, RuleEffect, Supersession
from dueledger.ledger.states import TransitionEvent

EventOrder = tuple[int, str, str]
"""When an event happened, in microseconds since 1970, and its source and id, which break ties.

A plain tuple, because the reconciler writes it by marshal.
"""

OwedT = TypeVar("OwedT")

_Place = tuple[int, bool, str, str]

_MARK: Final = "~r"
_DIGEST_CHARS: Final = 8
_REINSTATED: Final = re.compile(rf"{_MARK}[0-9a-f]{{{_DIGEST_CHARS}}}\Z")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

FIRST_CYCLE_CHARS_MAX: Final = CYCLE_CHARS_MAX - len(_MARK) - _DIGEST_CHARS
"""Longest cycle of an event rule's item: a reinstatement's name begins with it."""


class ImpliedItem(NamedTuple, Generic[OwedT]):
    """An event implies an item; `owed` is what the caller needs to emit or expect it.

    `received` is when the event was received, in microseconds; `is_missed`: that was too late to
    owe the item. `reinstates`: it owes the item again if an event withdrew it before.
    """

    order: EventOrder
    definition_no: int
    received: int
    is_missed: bool
    reinstates: bool
    owed: OwedT

    @property
    def place(self) -> _Place:
        """Return its place among implied items and withdrawals."""
        return implied_place(self.order)


class Withdrawal(NamedTuple):
    """An event ends the items of its subject that were implied before it.

    `spared` are the ids of items that the event itself implies: it does not end them.
    `replacement` is the first issue of the item that takes the place of those that end.
    """

    order: EventOrder
    event: TransitionEvent
    reason: str
    spared: frozenset[bytes] = frozenset()
    replacement: bytes | None = None

    @property
    def place(self) -> _Place:
        """Return its place among implied items and withdrawals.

        A cancellation ends what is implied at the same instant, whatever the sources and ids. Of
        two events that supersede at one instant, only the item of the later one in identity stays:
        otherwise both would end.
        """
        cancels = self.event is TransitionEvent.CANCELLED
        return self.order[0], cancels, self.order[1], self.order[2]


class Issue(NamedTuple, Generic[OwedT]):
    """One issue of an item. `follows` is None for the first; `ended_by` is None if it is owed.

    `implied` is empty if no event implies the issue any more. It was owed if those events came
    first that imply the item after `follows`, and then `ended_by`, which lies between.
    """

    follows: Withdrawal | None
    implied: Sequence[ImpliedItem[OwedT]]
    ended_by: Withdrawal | None

    @property
    def is_missed(self) -> bool:
        """Return whether the event that was received first came too late to owe it."""
        first = min(self.implied, key=lambda one: (one.received, one.place, one.definition_no))
        return first.is_missed


def event_order(occurred_at: datetime, source: str, event_id: str) -> EventOrder:
    """Return the place of an event among the events of its subject."""
    return microseconds_of(occurred_at), source, event_id


def implied_place(order: EventOrder) -> _Place:
    """Return the place of an item that an event implies, among these and withdrawals."""
    return order[0], False, order[1], order[2]


def microseconds_of(instant: datetime) -> int:
    """Return an instant as whole microseconds since the epoch, exactly."""
    passed = instant - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def find_withdrawals(
    order: EventOrder, effects: Sequence[RuleEffect]
) -> dict[ItemSubject, Withdrawal]:
    """Return how one event withdraws items, by subject. Of two rules the first counts."""
    found: dict[ItemSubject, Withdrawal] = {}
    for _, effect, draft, _ in effects:
        subject = effect.subject
        if isinstance(effect, ItemDraft) or subject in found:
            continue
        spared = frozenset(
            other.draft.id.bytes
            for other in effects
            if other.draft is not None and other.draft.subject == subject
        )
        found[subject] = Withdrawal(
            order,
            TransitionEvent.SUPERSEDED
            if isinstance(effect, Supersession)
            else TransitionEvent.CANCELLED,
            effect.reason,
            spared,
            None if draft is None else draft.id.bytes,
        )
    return found


def sort_withdrawals(withdrawals: Iterable[Withdrawal]) -> list[Withdrawal]:
    """Return the withdrawals of one subject as `split_into_issues` needs them; each event once."""
    by_event = {withdrawal.order: withdrawal for withdrawal in withdrawals}
    return sorted(by_event.values(), key=_place_of)


def split_into_issues(
    item: bytes, implied: Sequence[ImpliedItem[OwedT]], withdrawals: Sequence[Withdrawal]
) -> list[Issue[OwedT]]:
    """Return the issues of an item in order, given all that implies it and withdraws its subject.

    `item` is the id of the first issue, and `withdrawals` are sorted.
    """
    ordered = sorted(implied, key=lambda one: (one.place, one.definition_no))
    if not withdrawals:
        return [Issue(None, ordered, None)]
    last = max((one.place for one in ordered if one.reinstates), default=ordered[0].place)
    dividing = _find_dividing(item, withdrawals, ordered[0].place, last)
    segments: list[list[ImpliedItem[OwedT]]] = [[] for _ in range(len(dividing) + 1)]
    for one in ordered:
        index = bisect_left(dividing, one.place, key=_place_of)
        if index == 0 or one.reinstates:
            segments[index].append(one)
    if not segments[-1]:
        segments.pop()  # of the last withdrawal: nothing was ever owed after it
    return [
        Issue(
            dividing[index - 1] if index else None,
            segment,
            dividing[index] if index < len(dividing) else None,
        )
        for index, segment in enumerate(segments)
    ]


def _find_dividing(
    item: bytes, withdrawals: Sequence[Withdrawal], first: _Place, last: _Place
) -> list[Withdrawal]:
    """Return the item's withdrawals after it was first implied, up to the one after `last`."""
    found: list[Withdrawal] = []
    for index in range(bisect_right(withdrawals, first, key=_place_of), len(withdrawals)):
        withdrawal = withdrawals[index]
        if item in withdrawal.spared:
            continue
        found.append(withdrawal)
        if withdrawal.place > last:
            break
    return found


def _place_of(withdrawal: Withdrawal) -> _Place:
    return withdrawal.place


def issue_cycle(cycle: str, tenant: str, follows: Withdrawal | None) -> str:
    """Return the cycle of the issue that follows a withdrawal, given that of the first issue."""
    if follows is None:
        return cycle
    _, source, event_id = follows.order
    digest = sha256(SEPARATOR.join((tenant, source, event_id)).encode()).hexdigest()
    return f"{cycle}{_MARK}{digest[:_DIGEST_CHARS]}"


def reinstated_draft(draft: ItemDraft, follows: Withdrawal | None) -> ItemDraft:
    """Return the draft of the issue that follows a withdrawal, given that of the first issue."""
    if follows is None:
        return draft
    return replace(draft, cycle=issue_cycle(draft.cycle, draft.tenant, follows))


def is_reinstated(cycle: str) -> bool:
    """Return whether it is the cycle of a reinstatement."""
    return _MARK in cycle and _REINSTATED.search(cycle) is not None


def first_cycle(cycle: str) -> str:
    """Return the cycle of the first issue, given that of any issue."""
    return _REINSTATED.sub("", cycle)
