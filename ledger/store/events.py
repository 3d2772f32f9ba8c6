"""The inbox of domain events."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class InboxEvent:
    """One domain event as it is landed. `body` is JSON text of its data.

    `matched` tells whether a rule knew it; None where nobody has looked yet.
    """

    tenant: str
    source: str
    id: str
    type: str
    occurred_at: datetime
    subject: str | None
    business_key: str | None
    body: str
    traceparent: str | None = None
    matched: bool | None = None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """The inbox's answer: `new` is False for a duplicate, within the batch or of long ago.

    `event_no` may be None for a duplicate that another process is landing right now;
    `received_at` is told only of what was landed now, on the database's clock.
    """

    event_no: int | None
    new: bool
    received_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """An inbox event as it was landed; `body` is decoded."""

    event_no: int
    tenant: str
    source: str
    id: str
    type: str
    occurred_at: datetime
    subject: str | None
    business_key: str | None
    body: Any
    traceparent: str | None


async def record_events(
    connection: Connection, events: Sequence[InboxEvent]
) -> list[RecordedEvent]:
    """Land events; one with the same source, id and time is there already. Input order."""
    with mapped_errors():
        rows = await connection.fetch(
            statement("record_events"),
            [event.tenant for event in events],
            [event.source for event in events],
            [event.id for event in events],
            [event.type for event in events],
            [event.occurred_at for event in events],
            [event.subject for event in events],
            [event.business_key for event in events],
            [event.body for event in events],
            [event.traceparent for event in events],
            [event.matched for event in events],
        )
    return [RecordedEvent(row["event_no"], row["new"], row["received_at"]) for row in rows]


async def list_key_events(
    connection: Connection,
    tenants: Sequence[str],
    business_keys: Sequence[str],
    types: Sequence[str],
) -> list[KeyEvent]:
    """List the events of these keys (tenants pairwise) and types, oldest first in each key."""
    rows = await connection.fetch(statement("list_key_events"), tenants, business_keys, types)
    return [KeyEvent(**row) for row in rows]


async def lock_business_keys(connection: Connection, buckets: Sequence[int]) -> None:
    """Hold these buckets until the transaction ends; ascending, or two callers may deadlock."""
    await connection.fetchval(statement("lock_business_keys"), buckets)
