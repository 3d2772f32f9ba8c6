"""What the recorded domain events owe, in the order of event time.

The earliest event that implies an item counts as its beginning, and the first withdrawal after that
ends it. So any order of arrival gives the same expectation, duplicates included.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.store import Record
from dueledger.reconciler.expect.item_terms import microseconds_of
from dueledger.reconciler.expect.versions import DefinitionSpan

REASON_CHARS_MAX: Final = 200

EventOrderKey = tuple[int, str, str]
"""When an event happened, in microseconds, and its source and id, which decide ties."""

ExpectedSubject = tuple[str, str, str]
"""Tenant, kind and business key: a withdrawal ends items of one subject."""


class EventItem(NamedTuple):
    """An item that an event implies.

    `received` is when the event was received, in microseconds; `is_missed`: that was too late to
    owe the item, if no other event of it was received earlier.
    """

    id: bytes
    key: ExpectedSubject
    moment: EventOrderKey
    definition_no: int
    event_no: int
    received: int = 0
    is_missed: bool = False


class InboxFacts(NamedTuple):
    """What the inbox records about an event."""

    moment: EventOrderKey
    event_no: int
    received_at: datetime


class ExpectedWithdrawal(NamedTuple):
    """An event ends its subject's earlier items; `spared_item` is the one it implies itself."""

    moment: EventOrderKey
    key: ExpectedSubject
    cancels: bool
    spared_item: bytes | None


@dataclass(slots=True)
class EventEffects:
    """What one event does under the versions that were in force when it was received."""

    implied: list[tuple[EventItem, ItemDraft]] = field(
        default_factory=list[tuple[EventItem, ItemDraft]]
    )
    withdrawals: list[ExpectedWithdrawal] = field(default_factory=list[ExpectedWithdrawal])


class WithdrawalIndex:
    """Every withdrawal, by subject."""

    def __init__(self) -> None:
        self._by_key: defaultdict[ExpectedSubject, list[ExpectedWithdrawal]] = defaultdict(list)

    def add(self, withdrawal: ExpectedWithdrawal) -> None:
        """Add a withdrawal; a repeated one changes nothing."""
        self._by_key[withdrawal.key].append(withdrawal)

    def is_withdrawn(self, implied_item: EventItem) -> bool:
        """Return whether the item is withdrawn.

        A cancellation at the same instant withdraws it. Of two events that supersede at one
        instant, the item of the later by source and id stays, or both would be withdrawn.
        """
        for withdrawal in self._by_key.get(implied_item.key, ()):
            if withdrawal.spared_item == implied_item.id:
                continue
            if withdrawal.cancels:
                if withdrawal.moment[0] >= implied_item.moment[0]:
                    return True
            elif withdrawal.moment > implied_item.moment:
                return True
        return False


class ExpectedEventRules:
    """The event rules of all versions, ready to be applied to rows of the inbox."""

    def __init__(self, versions: Sequence[DefinitionSpan]) -> None:
        by_name: defaultdict[tuple[str, str], list[DefinitionSpan]] = defaultdict(list)
        for version in versions:
            if version.definition.event is not None:
                by_name[version.definition.tenant, version.name].append(version)
        self._by_type: defaultdict[tuple[str, str], list[list[DefinitionSpan]]] = defaultdict(list)
        types: set[str] = set()
        for (tenant, _), versions_of_name in by_name.items():
            versions_of_name.sort(key=lambda version: (version.effective_from, version.number))
            known = {
                type_ for version in versions_of_name for type_ in version.definition.event_types
            }
            types |= known
            for type_ in known:
                self._by_type[tenant, type_].append(versions_of_name)
        self.types = sorted(types)

    def apply(self, row: Record, refused: Counter[str]) -> EventEffects:
        """Apply the rules to an inbox row; unreadable rows are counted in `refused`."""
        applied = EventEffects()
        definitions = self._by_type.get((row["tenant"], row["type"]))
        if not definitions:
            return applied
        event = DomainEvent(
            tenant=row["tenant"],
            source=row["source"],
            id=row["id"],
            type=row["type"],
            time=row["occurred_at"],
            subject=row["subject"],
            data=row["body"],
            traceparent=row["traceparent"],
        )
        moment = (microseconds_of(event.time), event.source, event.id)
        for versions_of_name in definitions:
            version = _in_force(versions_of_name, row["received_at"])
            if version is None:
                continue
            try:
                definition = version.definition_at(row["received_at"])
                facts = InboxFacts(moment, row["event_no"], row["received_at"])
                _apply_version(version, definition, event, facts, applied)
            except InvalidInput as refusal:
                refused[str(refusal)[:REASON_CHARS_MAX]] += 1
        return applied


def _apply_version(
    version: DefinitionSpan,
    definition: Definition,
    event: DomainEvent,
    facts: InboxFacts,
    applied: EventEffects,
) -> None:
    moment = facts.moment
    found: EventEffects = EventEffects()
    for consequence in apply_rule(definition, event):
        match consequence:
            case ItemDraft() as draft:
                found.implied.append(_implied_item(draft, version, facts))
            case Cancellation(tenant=tenant, kind=kind, business_key=business_key):
                found.withdrawals.append(
                    ExpectedWithdrawal(
                        moment, (tenant, kind, business_key), cancels=True, spared_item=None
                    )
                )
            case Supersession(tenant=tenant, kind=kind, business_key=business_key) as change:
                implied_item = _implied_item(change.replacement, version, facts)
                found.implied.append(implied_item)
                found.withdrawals.append(
                    ExpectedWithdrawal(
                        moment,
                        (tenant, kind, business_key),
                        cancels=False,
                        spared_item=implied_item[0].id,
                    )
                )
    applied.implied += found.implied
    applied.withdrawals += found.withdrawals


def _implied_item(
    draft: ItemDraft, version: DefinitionSpan, facts: InboxFacts
) -> tuple[EventItem, ItemDraft]:
    implied_item = EventItem(
        draft.id.bytes,
        (draft.tenant, draft.kind, draft.business_key),
        facts.moment,
        version.definition_no,
        facts.event_no,
        microseconds_of(facts.received_at),
        draft.is_too_late(facts.received_at),
    )
    return implied_item, draft


def _in_force(versions_of_name: Sequence[DefinitionSpan], at: datetime) -> DefinitionSpan | None:
    """Return the version in force at an instant; the versions are in order."""
    place = bisect_right(versions_of_name, at, key=lambda version: version.effective_from)
    return versions_of_name[place - 1] if place else None
