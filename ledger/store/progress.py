"""Live counts and lists of items, for people."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

READ_MAX: Final = 10_000
_NO_LABEL: Final = (None, None)


@dataclass(frozen=True, slots=True)
class KindCounts:
    """The open items of one kind at `now`, on the business clock.

    `not_due` and `due` are pending, and the oldest of the due ones was due at `oldest_due_at`;
    `handed_out` are claimed and not started, `in_kafka` those of them that Kafka acknowledged;
    `past_sla` are past their SLA; `open_before` were due before the given instant.
    """

    tenant: str
    kind: str
    now: datetime
    not_due: int
    due: int
    oldest_due_at: datetime | None
    handed_out: int
    in_kafka: int
    running: int
    reviews: int
    past_sla: int
    open_before: int


class Label(NamedTuple):
    """A label of an item, and its value."""

    name: str
    value: str


class OpenItems(NamedTuple):
    """Open items; `is_cut` if a flow has more than were read, so that others may be missing."""

    items: list[dict[str, Any]]
    is_cut: bool


async def read_progress(
    connection: Connection, *, before: datetime | None = None
) -> list[KindCounts]:
    """Count the open items of each kind that has any. Reads all open items: call it rarely."""
    return [KindCounts(**row) for row in await connection.fetch(statement("read_progress"), before)]


async def list_items(
    connection: Connection,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    business_key: str | None = None,
    state: str | None = None,
    label: Label | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """List items with their states, latest effective date first."""
    rows = await connection.fetch(
        statement("list_items"), tenant, kind, business_key, state, *(label or _NO_LABEL), limit
    )
    return [dict(row) for row in rows]


async def list_open_items(
    connection: Connection,
    *,
    due_before: datetime | None = None,
    past_sla: bool = False,
    tenant: str | None = None,
    kind: str | None = None,
    business_key: str | None = None,
    state: str | None = None,
    label: Label | None = None,
    limit: int = 100,
) -> OpenItems:
    """List open items that are due before an instant, or past their SLA, the first due first.

    Of each flow READ_MAX items that wait for a first attempt, for a retry, for their key or for a
    person are read, those available first, and READ_MAX that are in flight in all.
    """
    rows = await connection.fetch(
        statement("list_open_items"),
        *(tenant, kind, business_key, state),
        *(label or _NO_LABEL),
        *(due_before, past_sla, READ_MAX, limit),
    )
    found = [dict(row) for row in rows if row["id"] is not None]
    items = [{name: item[name] for name in item if name != "is_cut"} for item in found]
    return OpenItems(items, is_cut=rows[0]["is_cut"])
