"""Group events by subject: which items they imply and which they withdraw. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.rules.drafts import ItemDraft, ItemSubject, RuleEffect
from dueledger.ledger.rules.event_issues import (
    EventOrder,
    ImpliedItem,
    Withdrawal,
    event_order,
    find_withdrawals,
    microseconds_of,
)
from dueledger.ledger.rules.event_rules import DomainEvent


class InterpretedEvent(NamedTuple):
    """An event and its effects; `effects` is None if no rule uses its type.

    `body` is the JSON text of its data; `key` is its business key in the inbox.
    """

    event: DomainEvent
    body: str
    key: str | None
    effects: list[RuleEffect] | None


class ReceivedEvent(NamedTuple):
    """An event of the inbox; `is_new` if this batch has recorded it.

    If no rule applied to it when it was received, `was_matched` is False: it made no item.
    """

    read: InterpretedEvent
    event_no: int
    received_at: datetime
    is_new: bool
    was_matched: bool


class ImpliedDraft(NamedTuple):
    """The item that an event implies: its first issue, and the number of the event."""

    draft: ItemDraft
    event_no: int


@dataclass(slots=True)
class SubjectEvents:
    """The events of one subject: what they imply and withdraw. `new` are those of this batch."""

    implied: list[ImpliedItem[ImpliedDraft]] = field(
        default_factory=list[ImpliedItem[ImpliedDraft]]
    )
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    new: set[EventOrder] = field(default_factory=set[EventOrder])


def interpret_event(rules: RulesInForce, event: DomainEvent, body: str = "") -> InterpretedEvent:
    """Return the event with its effects. Raises InvalidEvent if it lacks a field of a rule."""
    effects = rules.effects_of(event)
    key = effects[0].effect.business_key if effects else event.subject
    return InterpretedEvent(event, body, key, effects)


def group_by_subject(events: Iterable[ReceivedEvent]) -> dict[ItemSubject, SubjectEvents]:
    """Group events by the subjects of their effects; new events come first.

    Subjects without a new event are left out: nothing has changed.
    """
    subjects: dict[ItemSubject, SubjectEvents] = {}
    for received in events:
        effects = received.read.effects or ()
        if received.is_new:
            for effect in effects:
                subjects.setdefault(effect.effect.subject, SubjectEvents())
        elif not any(effect.effect.subject in subjects for effect in effects):
            continue
        _add_effects(subjects, received)
    return subjects


def _add_effects(subjects: dict[ItemSubject, SubjectEvents], received: ReceivedEvent) -> None:
    effects = received.read.effects or []
    event = received.read.event
    order = event_order(event.time, event.source, event.id)
    for definition_no, effect, draft, reinstates in effects:
        subject_events = subjects.get(effect.subject)
        if subject_events is None:
            continue
        if received.is_new:
            subject_events.new.add(order)
        if draft is not None and received.was_matched:
            implied = ImpliedItem(
                order,
                definition_no,
                microseconds_of(received.received_at),
                draft.is_too_late(received.received_at),
                reinstates,
                ImpliedDraft(draft, received.event_no),
            )
            subject_events.implied.append(implied)
    for subject, withdrawal in find_withdrawals(order, effects).items():
        if subject in subjects:
            subjects[subject].withdrawals.append(withdrawal)
