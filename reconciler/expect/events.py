"""What the recorded domain events owe, in the order of their own times.

An item is born of the earliest event that implies it and ended by the first withdrawal after its
birth, so that any order of arrival, duplicates included, expects the same.
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
"""When an event happened, in microseconds, and its source and id, which settle ties."""

ExpectedSubject = tuple[str, str, str]
"""Tenant, kind and business key: what a withdrawal ends items of."""


class EventItem(NamedTuple):
    """An event implies an item; `lapsed`: it came too late to owe it, if it came first.

    `received` is when it came, in microseconds.
    """

    id: bytes
    key: ExpectedSubject
    moment: EventOrderKey
    definition_no: int
    event_no: int
    received: int = 0
    is_missed: bool = False


class InboxFacts(NamedTuple):
    """What the inbox knows of an event beside the event."""

    moment: EventOrderKey
    event_no: int
    received_at: datetime


class ExpectedWithdrawal(NamedTuple):
    """An event ends the items of its key born before it; `spares` is the one it implies itself."""

    moment: EventOrderKey
    key: ExpectedSubject
    cancels: bool
    spared_item: bytes | None


@dataclass(slots=True)
class EventEffects:
    """What one event means under the versions that were in force when it arrived."""

    births: list[tuple[EventItem, ItemDraft]] = field(
        default_factory=list[tuple[EventItem, ItemDraft]]
    )
    withdrawals: list[ExpectedWithdrawal] = field(default_factory=list[ExpectedWithdrawal])


class WithdrawalIndex:
    """Every withdrawal, by what it ends items of."""

    def __init__(self) -> None:
        self._by_key: defaultdict[ExpectedSubject, list[ExpectedWithdrawal]] = defaultdict(list)

    def add(self, withdrawal: ExpectedWithdrawal) -> None:
        """Take a withdrawal up; a repeated one changes nothing."""
        self._by_key[withdrawal.key].append(withdrawal)

    def is_withdrawn(self, birth: EventItem) -> bool:
        """Tell whether the item is ended.

        A cancellation at the instant of the birth ends it; of two events that supersede at one
        instant the later in identity stands, or both would fall.
        """
        for withdrawal in self._by_key.get(birth.key, ()):
            if withdrawal.spared_item == birth.id:
                continue
            if withdrawal.cancels:
                if withdrawal.moment[0] >= birth.moment[0]:
                    return True
            elif withdrawal.moment > birth.moment:
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
        for (tenant, _), line in by_name.items():
            line.sort(key=lambda version: (version.effective_from, version.number))
            known = {type_ for version in line for type_ in version.definition.event_types}
            types |= known
            for type_ in known:
                self._by_type[tenant, type_].append(line)
        self.types = sorted(types)

    def apply(self, row: Record, refused: Counter[str]) -> EventEffects:
        """Apply the rules to an inbox row; what a rule cannot read is counted in `refused`."""
        applied = EventEffects()
        lines = self._by_type.get((row["tenant"], row["type"]))
        if not lines:
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
        for line in lines:
            version = _in_force(line, row["received_at"])
            if version is None:
                continue
            try:
                definition = version.definition_at(row["received_at"])
                landed = InboxFacts(moment, row["event_no"], row["received_at"])
                _apply_version(version, definition, event, landed, applied)
            except InvalidInput as refusal:
                refused[str(refusal)[:REASON_CHARS_MAX]] += 1
        return applied


def _apply_version(
    version: DefinitionSpan,
    definition: Definition,
    event: DomainEvent,
    landed: InboxFacts,
    applied: EventEffects,
) -> None:
    moment = landed.moment
    found: EventEffects = EventEffects()
    for consequence in apply_rule(definition, event):
        match consequence:
            case ItemDraft() as draft:
                found.births.append(_birth(draft, version, landed))
            case Cancellation(tenant=tenant, kind=kind, business_key=business_key):
                found.withdrawals.append(
                    ExpectedWithdrawal(
                        moment, (tenant, kind, business_key), cancels=True, spared_item=None
                    )
                )
            case Supersession(tenant=tenant, kind=kind, business_key=business_key) as change:
                birth = _birth(change.replacement, version, landed)
                found.births.append(birth)
                found.withdrawals.append(
                    ExpectedWithdrawal(
                        moment, (tenant, kind, business_key), cancels=False, spared_item=birth[0].id
                    )
                )
    applied.births += found.births
    applied.withdrawals += found.withdrawals


def _birth(
    draft: ItemDraft, version: DefinitionSpan, landed: InboxFacts
) -> tuple[EventItem, ItemDraft]:
    birth = EventItem(
        draft.id.bytes,
        (draft.tenant, draft.kind, draft.business_key),
        landed.moment,
        version.definition_no,
        landed.event_no,
        microseconds_of(landed.received_at),
        draft.is_too_late(landed.received_at),
    )
    return birth, draft


def _in_force(line: Sequence[DefinitionSpan], at: datetime) -> DefinitionSpan | None:
    """Return the version of a definition that decided at an instant; the line is in order."""
    place = bisect_right(line, at, key=lambda version: version.effective_from)
    return line[place - 1] if place else None
