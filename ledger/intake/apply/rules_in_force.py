"""The event rules in force, ready to be asked what an event means."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.store.calendar_cache import Calendars, of_tenant
from dueledger.ledger.store.definitions import DefinitionRow

if TYPE_CHECKING:
    from dueledger.ledger.definitions.model import Definition


NO_NAMES: Final[Calendars] = {}
Edition = tuple[int, int | None, int]
"""How many rules are in force, the newest of all, and how many versions of calendars there are."""

Subject = tuple[str, str, str]
"""Tenant, kind and business key."""


class Meaning(NamedTuple):
    """One thing that an event means under one definition.

    `draft` is the item it owes, if it owes one.
    """

    definition_no: int
    effect: ItemDraft | Cancellation | Supersession
    subject: Subject
    draft: ItemDraft | None


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A stored definition that cannot be read any more; its events count as unmatched."""

    definition_no: int
    reason: str


class Rulebook:
    """The rules of one edition, by tenant and event type."""

    def __init__(
        self, edition: Edition, rows: Sequence[DefinitionRow], calendars: Calendars = NO_NAMES
    ) -> None:
        self.edition = edition
        self.refused: list[RefusedRule] = []
        self._rules: defaultdict[tuple[str, str], list[tuple[int, Definition]]] = defaultdict(list)
        for row in rows:
            try:
                definition = parse_definition(
                    row.document,
                    source=f"{row.tenant}/{row.name}",
                    calendars=of_tenant(calendars, row.tenant),
                )
            except InvalidInput as error:
                self.refused.append(RefusedRule(row.definition_no, str(error)))
                continue
            for event_type in definition.event_types:
                self._rules[row.tenant, event_type].append((row.definition_no, definition))
        self.event_types = sorted({event_type for _, event_type in self._rules})

    def meanings(self, event: DomainEvent) -> list[Meaning] | None:
        """Return what the event means; None where no rule knows its type.

        Raises InvalidEvent where a rule knows it and it does not carry what the rule addresses.
        """
        rules = self._rules.get((event.tenant, event.type))
        if rules is None:
            return None
        return [
            _meaning(definition_no, effect)
            for definition_no, definition in rules
            for effect in apply_rule(definition, event)
        ]


def _meaning(definition_no: int, effect: ItemDraft | Cancellation | Supersession) -> Meaning:
    subject = effect.tenant, effect.kind, effect.business_key
    match effect:
        case ItemDraft():
            draft = effect
        case Supersession(replacement=draft):
            pass
        case Cancellation():
            draft = None
    return Meaning(definition_no, effect, subject, draft)
