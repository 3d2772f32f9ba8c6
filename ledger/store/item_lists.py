"""Lists of items: of a bounded number of rows, and by place where the next page begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from dueledger.ledger.rules.quoted_values import QuotedValues
from dueledger.ledger.rules.redaction import redact_row
from dueledger.ledger.states import TERMINAL_STATES
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

READ_MAX: Final = 10_000
_FIRST_EXAMINED: Final = 20
"""So many items for each that is wanted are examined first."""
READ_TOTAL_MAX: Final = 1_000_000
_ENDED: Final = frozenset(state.label for state in TERMINAL_STATES)
_NO_LABEL: Final = (None, None)
_NOWHERE: Final = (None, None)


class Label(NamedTuple):
    """A label of an item, and its value."""

    name: str
    value: str


class ItemPlace(NamedTuple):
    """The place of an item in a list by effective date."""

    effective_date: date
    item_no: int


class DuePlace(NamedTuple):
    """The place of an open item in a list by due time."""

    due_at: datetime
    item_no: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemListFilter:
    """Which items are listed; None: whatever it is. `tenants` limits who asks.

    `due_from` is contained, `due_before` is not. `in_flight`: handed out or running. `attempt_min`:
    open items that failed or are tried in so many attempts, and `worker`: those that run there, by
    its name as an actor. With a state in which items end: those that ended in such an attempt, and
    those whose end this actor recorded. `serial`: those that wait and have a place in the order of
    their key, and `blocked` of these those that wait for another item of it.
    """

    tenants: Sequence[str] | None = None
    tenant: str | None = None
    kind: str | None = None
    lane: str | None = None
    business_key: str | None = None
    state: str | None = None
    label: Label | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    definition_nos: Sequence[int] | None = None
    in_flight: bool = False
    attempt_min: int | None = None
    worker: str | None = None
    serial: bool = False
    blocked: bool = False

    @property
    def is_ended(self) -> bool:
        """Return whether its state is one in which items end."""
        return self.state in _ENDED

    @property
    def is_in_flight(self) -> bool:
        """Return whether only items in flight are meant."""
        return self.in_flight or (self.worker is not None and not self.is_ended)

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of the statements."""
        return (
            *(self.tenants, self.tenant, self.kind, self.lane, self.business_key, self.state),
            *(self.label or _NO_LABEL),
            *(self.due_from, self.due_before),
        )


class ItemRows(NamedTuple):
    """Items found, and the place after which others may be, if fewer were found than wanted."""

    items: list[dict[str, Any]]
    reached: ItemPlace | None


class OpenItems(NamedTuple):
    """Open items; `is_cut` if a flow has more than were read, so that others may be missing."""

    items: list[dict[str, Any]]
    is_cut: bool


async def list_items(
    connection: Connection,
    wanted: ItemListFilter,
    *,
    after: ItemPlace | None = None,
    limit: int = 100,
    examined_max: int = READ_MAX,
    oldest_first: bool = False,
) -> ItemRows:
    """List items with their states, the latest or the earliest effective date first.

    `wanted.state` is one in which items end. `examined_max` items are examined at most.
    """
    places, reached = await find_items(
        connection,
        wanted,
        after=after,
        limit=limit,
        examined_max=examined_max,
        oldest_first=oldest_first,
    )
    return ItemRows(await read_items(connection, places, wanted.tenants), reached)


async def find_items(
    connection: Connection,
    wanted: ItemListFilter,
    *,
    after: ItemPlace | None,
    limit: int,
    examined_max: int,
    oldest_first: bool = False,
) -> tuple[list[ItemPlace], ItemPlace | None]:
    """Find the places of the items that `list_items` lists.

    Pages of a key or a definition are full long before as many are examined as may be: that is
    tried first. Those of other filters often are not: items listed first may be due later, say, and
    none of them has ended.
    """
    is_narrow = wanted.business_key is not None or wanted.definition_nos is not None
    first = min(_FIRST_EXAMINED * limit, examined_max) if is_narrow else examined_max
    places, reached = await _find_among(
        connection, wanted, after, (first, first), limit, oldest_first=oldest_first
    )
    if reached is not None and first < examined_max:
        more = examined_max - first, examined_max
        found, reached = await _find_among(
            connection, wanted, reached, more, limit - len(places), oldest_first=oldest_first
        )
        places += found
    return places, reached


async def _find_among(
    connection: Connection,
    wanted: ItemListFilter,
    after: ItemPlace | None,
    examined_max: tuple[int, int],
    limit: int,
    *,
    oldest_first: bool,
) -> tuple[list[ItemPlace], ItemPlace | None]:
    """Find items among so many after a place, or among all of a key that has no more than so many.

    Return their places, and the one that was reached if fewer than `limit` were found.
    """
    among, of_key = examined_max
    values = *wanted.values(), wanted.definition_nos, *(after or _NOWHERE)
    by_ending = wanted.attempt_min, wanted.worker
    if wanted.business_key is not None:
        rows = await connection.fetch(
            statement("list_key_items"), *values, of_key, limit, *by_ending, oldest_first
        )
        if not rows[0]["is_crowded"]:
            return _places(rows), None
    # Of all tenants, what is examined may be anybody's.
    if wanted.tenants is None and wanted.tenant is None:
        text = statement("list_oldest_items") if oldest_first else statement("list_items")
    else:
        text = statement("list_oldest_flow_items") if oldest_first else statement("list_flow_items")
    rows = await connection.fetch(text, *values, among, limit, *by_ending)
    number = rows[0]["reached_no"]
    reached = None if number is None else ItemPlace(rows[0]["reached_date"], number)
    return _places(rows), reached


async def read_items(
    connection: Connection, places: Sequence[ItemPlace], tenants: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Read items with their states, in the order of `places`."""
    if not places:
        return []
    dates, numbers = zip(*places, strict=True)
    rows = await connection.fetch(statement("read_items"), tenants, dates, numbers)
    return [dict(row) for row in rows]


async def read_executions(
    connection: Connection, places: Sequence[ItemPlace], tenants: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Read items as executions, with starts, ends and evidence, in the order of `places`."""
    if not places:
        return []
    dates, numbers = zip(*places, strict=True)
    rows = await connection.fetch(statement("read_executions"), tenants, dates, numbers)
    return [_execution(row) for row in rows]


def _execution(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an execution as it is shown: its payload is only to know what evidence quotes."""
    shown = dict(row)
    payload = shown.pop("payload")
    quoted = QuotedValues.of(payload, row["redacted_fields"]) if payload else QuotedValues()
    return quoted.hide_in(redact_row(shown))


async def list_open_items(
    connection: Connection,
    wanted: ItemListFilter,
    *,
    past_sla: bool = False,
    after: DuePlace | None = None,
    limit: int = 100,
    read_max: int = READ_MAX,
    read_total_max: int = READ_TOTAL_MAX,
) -> OpenItems:
    """List open items, past their SLA if that is asked for, the first due first.

    Of each flow `read_max` items that wait for a first attempt, for a retry, for their key or for a
    person are read, those available first, and `read_max` that are in flight in all; of all flows
    `read_total_max`, fewer of each if they are many.
    """
    rows = await connection.fetch(
        statement("list_open_items"),
        *wanted.values(),
        *(after or _NOWHERE),
        *(past_sla, read_max, read_total_max, limit, wanted.is_in_flight),
        *(wanted.definition_nos, wanted.attempt_min, wanted.worker),
        *(wanted.serial or wanted.blocked, wanted.blocked),
    )
    found = [dict(row) for row in rows if row["id"] is not None]
    items = [{name: item[name] for name in item if name != "is_cut"} for item in found]
    return OpenItems(items, is_cut=rows[0]["is_cut"])


async def count_late_items(
    connection: Connection, flow_nos: Sequence[int], *, read_max: int
) -> int:
    """Count the items of these flows that wait for a claim and are past their SLA.

    `read_max` are read at most in all, of each flow those available first.
    """
    return await connection.fetchval(statement("count_late_items"), flow_nos, read_max)


def _places(rows: Sequence[Any]) -> list[ItemPlace]:
    return [
        ItemPlace(row["effective_date"], row["item_no"])
        for row in rows
        if row["item_no"] is not None
    ]
