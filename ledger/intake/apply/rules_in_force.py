"""The event rules in force."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.rules.drafts import RuleEffect
from dueledger.ledger.rules.event_rules import DomainEvent, find_effects
from dueledger.ledger.store.calendar_cache import CalendarsByKey, calendars_of_tenant
from dueledger.ledger.store.definitions import DefinitionRow

if TYPE_CHECKING:
    from dueledger.ledger.definitions.model import Definition


NO_NAMES: Final[CalendarsByKey] = {}
RulesVersion = tuple[int, int | None, int]
"""Number of rules in force, the newest rule's number, and number of calendar versions."""


@dataclass(frozen=True, slots=True)
class UnreadableRule:
    """A stored definition that can no longer be parsed; its events count as unmatched."""

    definition_no: int
    reason: str


class RulesInForce:
    """The rules of one version of the rule set, by tenant and event type."""

    def __init__(
        self,
        version: RulesVersion,
        rows: Sequence[DefinitionRow],
        calendars: CalendarsByKey = NO_NAMES,
    ) -> None:
        self.version = version
        self.refused: list[UnreadableRule] = []
        self._rules: defaultdict[tuple[str, str], list[tuple[int, Definition]]] = defaultdict(list)
        for row in rows:
            try:
                definition = parse_definition(
                    row.document,
                    source=f"{row.tenant}/{row.name}",
                    calendars=calendars_of_tenant(calendars, row.tenant),
                )
            except InvalidInput as error:
                self.refused.append(UnreadableRule(row.definition_no, str(error)))
                continue
            for event_type in definition.event_types:
                self._rules[row.tenant, event_type].append((row.definition_no, definition))
        self.event_types = sorted({event_type for _, event_type in self._rules})

    def effects_of(self, event: DomainEvent) -> list[RuleEffect] | None:
        """Return the effects of the event; None if no rule uses its type.

        Raises InvalidEvent if the event lacks a field that a rule reads.
        """
        rules = self._rules.get((event.tenant, event.type))
        if rules is None:
            return None
        return [
            effect
            for definition_no, definition in rules
            for effect in find_effects(definition_no, definition, event)
        ]
