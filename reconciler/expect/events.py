"""What the recorded domain events do, by the versions that were in force when each was received.

`ledger.rules.event_issues` computes what they owe together, as for the intake: the events' own
times decide. So any order of arrival gives the same expectation, duplicates included.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import cached_property
from operator import attrgetter
from typing import Final

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.drafts import ItemSubject, RuleEffect
from dueledger.ledger.rules.event_issues import (
    EventOrder,
    ImpliedItem,
    Withdrawal,
    event_order,
    find_withdrawals,
    issue_cycle,
    sort_withdrawals,
    split_into_issues,
)
from dueledger.ledger.rules.event_rules import DomainEvent, find_effects
from dueledger.ledger.store import Record
from dueledger.reconciler.compared_items import ExpectedItem
from dueledger.reconciler.expect.spool import SpooledRow
from dueledger.reconciler.expect.versions import DefinitionSpan

REASON_CHARS_MAX: Final = 200
NEVER: Final = (0, "", "")


class WithdrawalIndex:
    """Every withdrawal, by subject."""

    def __init__(self) -> None:
        self._by_subject: defaultdict[ItemSubject, list[Withdrawal]] = defaultdict(list)

    def add(self, order: EventOrder, effects: Sequence[RuleEffect]) -> None:
        """Add the withdrawals of an event."""
        for subject, withdrawal in find_withdrawals(order, effects).items():
            self._by_subject[subject].append(withdrawal)

    def sort(self) -> None:
        """Sort the withdrawals, once all are added; a repeated one changes nothing."""
        for subject, withdrawals in self._by_subject.items():
            self._by_subject[subject] = sort_withdrawals(withdrawals)

    @cached_property
    def digests(self) -> dict[int, int]:
        """What withdraws items, as a digest of this process by the hash of the business key."""
        found: defaultdict[int, int] = defaultdict(int)
        for subject, withdrawals in self._by_subject.items():
            found[hash(subject[-1])] += hash((subject, tuple(withdrawals)))
        return found

    def has_subject(self, subject: ItemSubject) -> bool:
        """Return whether an event withdraws items of a subject."""
        return subject in self._by_subject

    def of_subject(self, subject: ItemSubject) -> Sequence[Withdrawal]:
        """Return the withdrawals of a subject in their order."""
        return self._by_subject.get(subject, ())


def expected_issues(
    rows: Sequence[SpooledRow], withdrawals: Sequence[Withdrawal]
) -> Iterator[ExpectedItem]:
    """Yield the issues of an item, given the rows of the events that imply it.

    An issue that ended, or that no event implies any more, is not live.
    """
    events = [ExpectedItem._make(row) for row in rows]
    implied = [
        ImpliedItem(
            event.moment or NEVER,
            event.definition_no or 0,
            event.received or 0,
            event.is_missed,
            event.reinstates,
            event,
        )
        for event in events
    ]
    issues = split_into_issues(events[0].id, implied, withdrawals)
    first = issues[0].implied[0].owed
    for issue in issues:
        if issue.implied:
            terms = issue.implied[0].owed._replace(is_missed=issue.is_missed)
            live = issue.ended_by is None
        else:
            terms, live = first, False
        if issue.follows is not None:
            cycle = issue_cycle(terms.cycle, terms.tenant, issue.follows)
            day = date.fromordinal(terms.day)
            identity = item_id(terms.tenant, terms.kind, terms.business_key, cycle, day).bytes
            terms = terms._replace(id=identity, cycle=cycle)
        yield terms._replace(is_live=live)


class ExpectedEventRules:
    """The event rules of all versions, ready to be applied to rows of the inbox."""

    def __init__(self, versions: Sequence[DefinitionSpan]) -> None:
        by_name: defaultdict[tuple[str, str], list[DefinitionSpan]] = defaultdict(list)
        for version in versions:
            if version.definition.event is not None:
                by_name[version.definition.tenant, version.name].append(version)
        self.versions = [each for versions_of_name in by_name.values() for each in versions_of_name]
        self.by_type: defaultdict[tuple[str, str], list[list[DefinitionSpan]]] = defaultdict(list)
        types: set[str] = set()
        for (tenant, _), versions_of_name in by_name.items():
            versions_of_name.sort(key=lambda version: (version.effective_from, version.number))
            known = {
                type_ for version in versions_of_name for type_ in version.definition.event_types
            }
            types |= known
            for type_ in known:
                self.by_type[tenant, type_].append(versions_of_name)
        self.types = sorted(types)

    def apply(self, row: Record, refused: Counter[str]) -> list[RuleEffect]:
        """Apply the rules to an inbox row; unreadable rows are counted in `refused`."""
        definitions = self.by_type.get((row["tenant"], row["type"]))
        if not definitions:
            return []
        effects: list[RuleEffect] = []
        for versions_of_name in definitions:
            version = _in_force(versions_of_name, row["received_at"])
            if version is None:
                continue
            definition = version.definition_at(row["received_at"])
            effects += draft_effects(version.definition_no, definition, row, refused)
        effects.sort(key=attrgetter("definition_no"))
        return effects

    def read_later(self, row: Record) -> list[RuleEffect]:
        """Return what the next version that reads the type makes of a row that none in force read.

        The intake applies it so once another event of the subject comes: what it withdraws counts.
        """
        effects: list[RuleEffect] = []
        for versions_of_name in self.by_type.get((row["tenant"], row["type"]), ()):
            in_force = _in_force(versions_of_name, row["received_at"])
            if in_force is not None and row["type"] in in_force.definition.event_types:
                continue
            for version in versions_of_name:
                is_later = version.effective_from > row["received_at"]
                if is_later and row["type"] in version.definition.event_types:
                    number, definition = version.definition_no, version.definition
                    effects += draft_effects(number, definition, row, Counter())
                    break
        return effects


def draft_effects(
    definition_no: int, definition: Definition, row: Record, refused: Counter[str]
) -> list[RuleEffect]:
    """Apply one rule to an inbox row; if that is not possible, count why in `refused`."""
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
    try:
        return find_effects(definition_no, definition, event)
    except InvalidInput as refusal:
        reason = f"{row['type']} of {row['tenant']}: {refusal}"
        refused[reason[:REASON_CHARS_MAX]] += 1
        return []


def order_of(row: Record) -> EventOrder:
    """Return the place of an inbox row among the events of its subject."""
    return event_order(row["occurred_at"], row["source"], row["id"])


def _in_force(versions_of_name: Sequence[DefinitionSpan], at: datetime) -> DefinitionSpan | None:
    """Return the version in force at an instant; the versions are in order."""
    place = bisect_right(versions_of_name, at, key=lambda version: version.effective_from)
    return versions_of_name[place - 1] if place else None
