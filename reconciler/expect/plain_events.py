"""Event rules that are applied to many events at a time, without a draft of each item.

Such a rule only follows names in the event's data. Of each effective date it applies the rule as it
is to the first event, and takes due time, SLA and nominal time from that draft. An event of which
anything is unusual is left to the rules as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

import orjson

from dueledger.ledger.definitions.model import (
    BUSINESS_KEY_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    Definition,
)
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_issues import FIRST_CYCLE_CHARS_MAX
from dueledger.ledger.rules.event_rules import (
    PARTITION_BY_BUSINESS_KEY,
    DomainEvent,
    apply_rule,
)
from dueledger.ledger.rules.path_evaluation import names_of
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.fixed_width import RowLayout
from dueledger.reconciler.columns.plain_rows import PlainBatch
from dueledger.reconciler.columns.terms import ABSENT, SEPARATOR
from dueledger.reconciler.expect.item_terms import flow_texts, postgres_microseconds
from dueledger.reconciler.expect.versions import DefinitionSpan

_EVENTS_AT_ONCE: Final = 256
_DATES_MAX: Final = 20_000
_DIGITS_MAX: Final = 10**18
_MARK: Final = "~"
_NO_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EVENT_SEPARATOR: Final = SEPARATOR.encode()

_INBOX: Final = RowLayout(event_no="bigint", received_at="instant", event="text")

Names = tuple[str, ...]
Head = bytes
"""Tenant and type of an event, as `copy_inbox_events` gives them."""


class InboxPage(NamedTuple):
    """Events of the inbox: numbers, when each was received, and what rules read of each."""

    numbers: list[int]
    received: list[int]
    texts: list[bytes]

    @classmethod
    def empty(cls) -> "InboxPage":
        """Return a page without events."""
        return cls([], [], [])

    def part(self, begin: int, end: int) -> "InboxPage":
        """Return some of the events."""
        return InboxPage(*(column[begin:end] for column in self))


async def read_inbox_page(connection: Connection, types: Sequence[str], page: int) -> InboxPage:
    """Read the events of these types in a page of numbers."""
    rows = _INBOX.reader(bytes)
    await reconciled_rows.copy_inbox_events(connection, types, page, rows.put)
    columns, texts = rows.finish()
    return InboxPage(columns["event_no"].tolist(), columns["received_at"].tolist(), texts)


class NotPlain(Exception):
    """The rule as it is has to be applied to the event."""


@dataclass(slots=True)
class _Date:
    """What all items of a rule and an effective date share; `entry` is its number in the batch."""

    entry: int
    id_end: str
    texts: str


@dataclass(slots=True)
class PlainRule:
    """A version of an event rule that only follows names.

    `paths` are those of business key, cycle and effective date.
    """

    definition_no: int
    definition: Definition
    from_at: int
    paths: tuple[Names, Names, Names]
    payload: Names | dict[str, Names]
    id_begin: str
    dates: dict[str, _Date | None] = field(default_factory=dict[str, _Date | None])
    _read: Callable[[Any], tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._read = _reader(self.paths)

    @property
    def event_type(self) -> str | None:
        """Return the type of the events that imply its items."""
        return self.definition.event

    @classmethod
    def of(cls, version: DefinitionSpan) -> "PlainRule | None":
        """Return the rule; None where its items say more than such a rule computes."""
        definition = version.definition
        paths = (definition.business_key, definition.cycle, definition.effective_date)
        business_key, cycle, effective_date = map(_names, paths)
        payload = _payload_names(definition.payload)
        if (
            version.periods
            or definition.smear is not None
            or definition.labels
            or definition.catch_up.window is not None
            or definition.dispatch.partition_key != PARTITION_BY_BUSINESS_KEY
            or any(
                match.event == definition.event
                for match in (*definition.cancel_on, *definition.supersede_on)
            )
        ):
            return None
        if business_key is None or cycle is None or effective_date is None or payload is None:
            return None
        return cls(
            version.definition_no,
            definition,
            postgres_microseconds(version.effective_from),
            (business_key, cycle, effective_date),
            payload,
            f"{definition.tenant}{SEPARATOR}{definition.kind}{SEPARATOR}",
        )

    def add(self, batch: PlainBatch, event: Head, events: InboxPage, left: set[int]) -> None:
        """Add the items that events owe to a batch; the numbers of those not plain go to `left`.

        The texts of the events are their data alone.
        """
        for begin in range(0, len(events.numbers), _EVENTS_AT_ONCE):
            self._add(batch, event, events.part(begin, begin + _EVENTS_AT_ONCE), left)

    def _add(self, batch: PlainBatch, event: Head, events: InboxPage, left: set[int]) -> None:
        """Add what some events owe; where that fails, what each half of them does."""
        try:
            self._add_columns(batch, event, events)
        except (NotPlain, KeyError, RecursionError, orjson.JSONEncodeError, orjson.JSONDecodeError):
            if (count := len(events.numbers)) == 1:
                left.update(events.numbers)
            else:
                for begin, end in pairwise((0, count // 2, count)):
                    self._add(batch, event, events.part(begin, end), left)

    def _add_columns(self, batch: PlainBatch, event: Head, events: InboxPage) -> None:
        bodies: list[Any] = orjson.loads(b"[%b]" % b",".join(events.texts))
        if len(bodies) != len(events.texts) or {*map(type, bodies)} != {dict}:
            raise NotPlain
        read_keys, read_cycles, days = zip(*map(self._read, bodies), strict=True)
        keys = _texts_of(read_keys, BUSINESS_KEY_CHARS_MAX)
        cycles = _texts_of(read_cycles, FIRST_CYCLE_CHARS_MAX)
        if {*map(type, days)} != {str} or any(_MARK in cycle for cycle in {*cycles}):
            raise NotPlain
        payloads = self._payloads_of(bodies)
        for day in {*days}.difference(self.dates):
            self.dates[day] = self._date_of(batch, event, bodies[days.index(day)], day)
        dates = [date for date in map(self.dates.__getitem__, days) if date is not None]
        if len(dates) < len(days):
            raise NotPlain
        begin = self.id_begin
        batch.digests += [
            sha256(f"{begin}{key}{SEPARATOR}{cycle}{date.id_end}".encode()).digest()
            for key, cycle, date in zip(keys, cycles, dates, strict=True)
        ]
        batch.texts += [
            hash(f"{key}{SEPARATOR}{cycle}{date.texts}".encode() + payload)
            for key, cycle, date, payload in zip(keys, cycles, dates, payloads, strict=True)
        ]
        batch.entry += [date.entry for date in dates]
        batch.events += events.numbers
        batch.subjects += map(hash, keys)

    def _payloads_of(self, bodies: Sequence[object]) -> list[bytes]:
        names, payloads = self.payload, bodies
        if isinstance(names, dict):
            payloads = [
                {name: _follow(body, path) for name, path in names.items()} for body in bodies
            ]
        elif names:
            payloads = [_follow(body, names) for body in bodies]
        texts = [*map(orjson.dumps, payloads, repeat(None), repeat(orjson.OPT_SORT_KEYS))]
        if None in payloads or max(map(len, texts)) > PAYLOAD_BYTES_MAX:
            raise NotPlain
        return texts

    def _date_of(self, batch: PlainBatch, event: Head, data: object, day: str) -> _Date | None:
        """Apply the rule as it is to the first event of a date; None if that is not plain."""
        if len(self.dates) >= _DATES_MAX:
            raise NotPlain
        tenant, _, type_ = event.decode().partition(SEPARATOR)
        first = DomainEvent(tenant=tenant, source="", id="", type=type_, time=_NO_TIME, data=data)
        try:
            effects = apply_rule(self.definition, first)
        except InvalidInput:
            return None
        draft = effects[0] if len(effects) == 1 else None
        if not isinstance(draft, ItemDraft) or draft.effective_date.isoformat() != day:
            return None
        nominal = (text or ABSENT for text in _nominal(draft))
        texts = (ABSENT, ABSENT, *nominal, *flow_texts(draft.lane, draft.overlap))
        entry = len(batch.entries)
        batch.entries.append(
            (
                draft.effective_date.toordinal(),
                postgres_microseconds(draft.due_at),
                postgres_microseconds(draft.start_by),
                postgres_microseconds(draft.complete_by),
                self.definition_no,
            )
        )
        return _Date(entry, f"{SEPARATOR}{day}", f"{SEPARATOR}{SEPARATOR.join(texts)}{SEPARATOR}")


class PlainRules:
    """The rules that apply to an event, by its tenant and type, where all of them are plain."""

    def __init__(self, rules: Mapping[tuple[str, str], Sequence[Sequence[DefinitionSpan]]]) -> None:
        self.batch = PlainBatch()
        self._by_head: dict[Head, list[list[PlainRule]] | None] = {}
        self.types: set[str] = set()
        """Types of events to which plain rules apply, at least in one tenant."""
        for (tenant, type_), names in rules.items():
            found = [_plain_versions(versions, type_) for versions in names]
            plain = [versions for versions in found if versions is not None]
            is_plain = len(plain) == len(found)
            self._by_head[f"{tenant}{SEPARATOR}{type_}".encode()] = plain if is_plain else None
            if is_plain:
                self.types.add(type_)

    def add(self, events: InboxPage) -> list[int]:
        """Add what events owe to the batch; return the numbers of those that are not plain."""
        by_head: defaultdict[Head, InboxPage] = defaultdict(InboxPage.empty)
        for event_no, received_at, text in zip(*events, strict=True):
            head, _, body = text.rpartition(_EVENT_SEPARATOR)
            numbers, received, bodies = by_head[head]
            numbers.append(event_no)
            received.append(received_at)
            bodies.append(body)
        left: set[int] = set()
        for head, found in by_head.items():
            rules = self._by_head.get(head, ())
            if rules is None:
                left.update(found.numbers)
                continue
            for versions in rules:
                for rule, part in _parts_in_force(versions, found):
                    if not rule.definition.ended:
                        rule.add(self.batch, head, part, left)
        if left:
            self.batch.drop(left)
        return sorted(left)


def _parts_in_force(
    versions: Sequence[PlainRule], events: InboxPage
) -> Iterator[tuple[PlainRule, InboxPage]]:
    """Yield versions with the events that were received while each was in force."""
    if min(events.received) >= versions[-1].from_at:
        yield versions[-1], events
        return
    by_version: defaultdict[int, InboxPage] = defaultdict(InboxPage.empty)
    for event in zip(*events, strict=True):
        for place in range(len(versions) - 1, -1, -1):
            if versions[place].from_at <= event[1]:
                for column, value in zip(by_version[place], event, strict=True):
                    column.append(value)
                break
    for place, part in by_version.items():
        yield versions[place], part


def _plain_versions(versions: Sequence[DefinitionSpan], type_: str) -> list[PlainRule] | None:
    """Return all versions of a rule as plain ones, where all are and the event implies an item."""
    rules = [PlainRule.of(version) for version in versions]
    plain = [rule for rule in rules if rule is not None and rule.event_type == type_]
    return plain if len(plain) == len(rules) else None


def _names(path: str | None) -> Names | None:
    """Return the names that a path follows from the event's data."""
    names = names_of(path) if path else None
    return names[1:] if names and names[0] == "data" else None


def _payload_names(payload: object) -> Names | dict[str, Names] | None:
    if isinstance(payload, str):
        return _names(payload)
    members = {name: _names(path) for name, path in cast("dict[str, str]", payload).items()}
    found = {name: names for name, names in members.items() if names is not None}
    return found if len(found) == len(members) else None


def _follow(found: object, names: Names) -> object:
    for name in names:
        if type(found) is not dict:
            return None
        members: dict[str, object] = found  # pyright: ignore[reportUnknownVariableType]
        found = members.get(name)
    return found


def _texts_of(found: Sequence[object], chars_max: int) -> list[str]:
    """Return printable texts; those of small integers are their digits."""
    texts = [each if type(each) is str else _digits_of(each) for each in found]
    lengths = [*map(len, texts)]
    if not 0 < min(lengths) <= max(lengths) <= chars_max or not "".join(texts).isprintable():
        raise NotPlain
    return texts


def _digits_of(found: object) -> str:
    if type(found) is not int or not -_DIGITS_MAX < found < _DIGITS_MAX:
        raise NotPlain
    return str(found)


def _reader(paths: Sequence[Names]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads these paths of an object; it may raise KeyError."""
    if all(len(names) == 1 for names in paths):
        return itemgetter(*(name for (name,) in paths))
    return lambda data: tuple(_follow(data, names) for names in paths)


def _nominal(draft: ItemDraft) -> tuple[str | None, str | None, str | None]:
    return draft.nominal, draft.zone, draft.decision
