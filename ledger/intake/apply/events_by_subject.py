"""What events say of each subject: which items they imply, and what they withdraw. Pure."""

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
    """An event and what it means; `meanings` is None where no rule knows it.

    `body` is the JSON text of its data, `key` what the inbox finds it by.
    """

    event: DomainEvent
    body: str
    moment: EventOrder
    key: str | None
    effects: list[RuleEffect] | None


@dataclass(slots=True)
class SubjectEvents:
    """What is known of a subject that something withdraws from."""

    implied_items: list[ImpliedItem] = field(default_factory=list[ImpliedItem])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    new_withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])


def interpret_event(rulebook: RulesInForce, event: DomainEvent, body: str = "") -> InterpretedEvent:
    """Ask the rules what an event means. Raises InvalidEvent where it lacks what they address."""
    meanings = rulebook.effects_of(event)
    key = meanings[0].effect.business_key if meanings else event.subject
    return InterpretedEvent(
        event, body, EventOrder(event.time, event.source, event.id), key, meanings
    )


def group_by_subject(
    known: Iterable[InterpretedEvent], fresh: Sequence[InterpretedEvent]
) -> dict[ItemSubject, SubjectEvents]:
    """Gather the stories that the fresh events change: those in which something is withdrawn.

    Most events withdraw nothing and meet nothing that does; they cost no story.
    """
    touched = {meaning.subject for read in fresh for meaning in read.effects or ()}
    bearing = [
        read for read in known if any(meaning.subject in touched for meaning in read.effects or ())
    ]
    withdrawing = touched & {
        meaning.subject
        for reads in (fresh, bearing)
        for read in reads
        for meaning in read.effects or ()
        if not isinstance(meaning.effect, ItemDraft)
    }
    stories: defaultdict[ItemSubject, SubjectEvents] = defaultdict(SubjectEvents)
    if withdrawing:
        for read in fresh:
            for subject, withdrawal in _add_effects(stories, withdrawing, read):
                stories[subject].new_withdrawals.append(withdrawal)
        for read in bearing:
            _add_effects(stories, withdrawing, read)
    return stories


def _add_effects(
    stories: defaultdict[ItemSubject, SubjectEvents],
    withdrawing: set[ItemSubject],
    read: InterpretedEvent,
) -> list[tuple[ItemSubject, Withdrawal]]:
    told: list[tuple[ItemSubject, Withdrawal]] = []
    for meaning in read.effects or ():
        if meaning.subject not in withdrawing:
            continue
        story = stories[meaning.subject]
        if meaning.draft is not None:
            story.implied_items.append(ImpliedItem(read.moment, meaning.draft.id))
        withdrawal = _withdrawal(read, meaning)
        if withdrawal is not None:
            story.withdrawals.append(withdrawal)
            told.append((meaning.subject, withdrawal))
    return told


def _withdrawal(read: InterpretedEvent, meaning: RuleEffect) -> Withdrawal | None:
    match meaning.effect:
        case ItemDraft():
            return None
        case Cancellation(reason=reason):
            return Withdrawal(
                read.moment,
                TransitionEvent.CANCELLED,
                reason,
                frozenset(_items_of_same_event(read, meaning)),
            )
        case Supersession(reason=reason, replacement=replacement):
            return Withdrawal(
                read.moment,
                TransitionEvent.SUPERSEDED,
                reason,
                frozenset(_items_of_same_event(read, meaning)),
                replacement.id,
            )


def _items_of_same_event(read: InterpretedEvent, meaning: RuleEffect) -> Iterable[UUID]:
    return (
        other.draft.id
        for other in read.effects or ()
        if other.subject == meaning.subject and other.draft is not None
    )
