"""Items found by what names them elsewhere: a Kafka record, a claim, a domain event."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

Tenants = Sequence[str] | None


class FoundEvent(NamedTuple):
    """A recorded event."""

    event_no: int
    occurred_at: datetime
    tenant: str
    source: str
    id: str


async def find_record(
    connection: Connection,
    topic: str,
    partition: int,
    offset: int,
    *,
    tenants: Tenants,
    claims_max: int,
) -> Mapping[str, Any] | None:
    """Return the item of a Kafka record.

    Each step of the search reads `claims_max` claims at most. So an older record of a topic that
    has less than one in so many of them may not be found.
    """
    row = await connection.fetchrow(
        statement("find_record"), topic, partition, offset, tenants, claims_max
    )
    return None if row is None else dict(row)


async def list_items_of_fence(
    connection: Connection, fence: int, *, tenants: Tenants, limit: int
) -> list[dict[str, Any]]:
    """Return the items of the claims with a fence, by position."""
    rows = await connection.fetch(statement("list_items_of_fence"), fence, tenants, limit)
    return [dict(row) for row in rows]


async def find_events(
    connection: Connection, event_id: str, *, tenants: Tenants, sources_max: int, limit: int
) -> list[FoundEvent]:
    """Return the events with an id, of any of the first `sources_max` sources."""
    rows = await connection.fetch(statement("find_events"), event_id, tenants, sources_max, limit)
    return [FoundEvent(*row) for row in rows]


async def find_event_number(
    connection: Connection, event_no: int, *, tenants: Tenants
) -> FoundEvent | None:
    """Return the event with a number."""
    row = await connection.fetchrow(statement("find_event_number"), event_no, tenants)
    return None if row is None else FoundEvent(*row)


async def list_items_of_event(
    connection: Connection, event: FoundEvent, *, tenants: Tenants, limit: int
) -> list[dict[str, Any]]:
    """Return the items that an event implied, the latest effective date first."""
    values = event.event_no, event.occurred_at, tenants, limit
    rows = await connection.fetch(statement("list_items_of_event"), *values)
    return [dict(row) for row in rows]


async def list_keys_from(
    connection: Connection, text: str, *, read_max: int, limit: int
) -> list[str]:
    """Return business keys of all tenants that begin with a text, in the database's order.

    `read_max` items are read from the first such key on. Keys may be missing beyond them, and where
    the database's collation has other keys between those that begin with the text.
    """
    rows = await connection.fetch(statement("list_keys_from"), text, read_max, limit)
    return [row["business_key"] for row in rows]


async def list_own_keys_from(
    connection: Connection,
    tenants: Sequence[str],
    text: str,
    *,
    flows_max: int,
    read_max: int,
    limit: int,
) -> list[str]:
    """Return business keys of these tenants that begin with a text, in the database's order.

    `read_max` items are read, of each of up to `flows_max` flows as many, those with the latest
    effective dates. No item of others is read.
    """
    values = tenants, text, flows_max, read_max, limit
    rows = await connection.fetch(statement("list_own_keys_from"), *values)
    return [row["business_key"] for row in rows]


async def list_lanes(connection: Connection, *, tenants: Tenants, read_max: int) -> list[str]:
    """Return the lanes of the first `read_max` flows of these tenants."""
    rows = await connection.fetch(statement("list_lanes"), tenants, read_max)
    return [row["lane"] for row in rows]


async def list_definition_names(
    connection: Connection, *, tenants: Tenants, read_max: int
) -> list[str]:
    """Return the names of definitions, of the first `read_max` versions of these tenants."""
    rows = await connection.fetch(statement("list_definition_names"), tenants, read_max)
    return [row["name"] for row in rows]
