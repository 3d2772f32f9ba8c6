"""Group events by subject: which items they imply and which they withdraw. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.intake.apply.item_endings import EventOrder, ImpliedItem, Withdrawal
from dueledger.ledger.intake.apply.rules_in_force import ItemSubject, RuleEffect, RulesInForce
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.states import TransitionEvent


class InterpretedEvent(NamedTuple):
    """An event and its effects; `effects` is None if no rule uses its type.

    `body` is the JSON text of its data; `key` is its business key in the inbox.
    """

    event: DomainEvent
    body: str
    order: EventOrder
    key: str | None
    effects: list[RuleEffect] | None


@dataclass(slots=True)
class SubjectEvents:
    """The events of one subject with a withdrawal: implied items, and withdrawals."""

    implied_items: list[ImpliedItem] = field(default_factory=list[ImpliedItem])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    new_withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])


def interpret_event(rules: RulesInForce, event: DomainEvent, body: str = "") -> InterpretedEvent:
    """Return the event with its effects. Raises InvalidEvent if it lacks a field of a rule."""
    effects = rules.effects_of(event)
    key = effects[0].effect.business_key if effects else event.subject
    return InterpretedEvent(
        event, body, EventOrder(event.time, event.source, event.id), key, effects
    )


def group_by_subject(
    known: Iterable[InterpretedEvent], fresh: Sequence[InterpretedEvent]
) -> dict[ItemSubject, SubjectEvents]:
    """Group events of the subjects that `fresh` changes by a withdrawal.

    Most events withdraw nothing and concern no withdrawn subject; they are left out.
    """
    touched = {effect.subject for read in fresh for effect in read.effects or ()}
    related = [
        read for read in known if any(effect.subject in touched for effect in read.effects or ())
    ]
    withdrawing = touched & {
        effect.subject
        for reads in (fresh, related)
        for read in reads
        for effect in read.effects or ()
        if not isinstance(effect.effect, ItemDraft)
    }
    subjects: defaultdict[ItemSubject, SubjectEvents] = defaultdict(SubjectEvents)
    if withdrawing:
        for read in fresh:
            for subject, withdrawal in _add_effects(subjects, withdrawing, read):
                subjects[subject].new_withdrawals.append(withdrawal)
        for read in related:
            _add_effects(subjects, withdrawing, read)
    return subjects


def _add_effects(
    subjects: defaultdict[ItemSubject, SubjectEvents],
    withdrawing: set[ItemSubject],
    read: InterpretedEvent,
) -> list[tuple[ItemSubject, Withdrawal]]:
    found: list[tuple[ItemSubject, Withdrawal]] = []
    for effect in read.effects or ():
        if effect.subject not in withdrawing:
            continue
        subject_events = subjects[effect.subject]
        if effect.draft is not None:
            subject_events.implied_items.append(ImpliedItem(read.order, effect.draft.id))
        withdrawal = _withdrawal(read, effect)
        if withdrawal is not None:
            subject_events.withdrawals.append(withdrawal)
            found.append((effect.subject, withdrawal))
    return found


def _withdrawal(read: InterpretedEvent, effect: RuleEffect) -> Withdrawal | None:
    match effect.effect:
        case ItemDraft():
            return None
        case Cancellation(reason=reason):
            return Withdrawal(
                read.order,
                TransitionEvent.CANCELLED,
                reason,
                frozenset(_items_of_same_event(read, effect)),
            )
        case Supersession(reason=reason, replacement=replacement):
            return Withdrawal(
                read.order,
                TransitionEvent.SUPERSEDED,
                reason,
                frozenset(_items_of_same_event(read, effect)),
                replacement.id,
            )


def _items_of_same_event(read: InterpretedEvent, effect: RuleEffect) -> Iterable[UUID]:
    return (
        other.draft.id
        for other in read.effects or ()
        if other.subject == effect.subject and other.draft is not None
    )
