"""The inbox: received domain events."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class InboxEvent:
    """A domain event to record. `body` is the JSON text of its data.

    `business_key` is the first of those that it concerns. `matched` is whether an event rule
    matched it; None if no rule was tried yet.
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
    """The result for one event. `new` is False for a duplicate, in this batch or earlier.

    `event_no` may be None for a duplicate that another process records at the same time.
    `received_at` is on the database's clock; None for a duplicate. `altered`: a duplicate has
    another time, type, subject or data than the first event of its source and id.
    """

    event_no: int | None
    new: bool
    received_at: datetime | None
    altered: bool


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """An event as read from the inbox, with `body` decoded."""

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
    received_at: datetime
    matched: bool | None


async def record_events(
    connection: Connection, events: Sequence[InboxEvent], *, actor_no: int
) -> list[RecordedEvent]:
    """Record events in the name of an actor; return results in input order.

    An event with the tenant, source and id of a recorded one is a duplicate, whatever it contains.
    """
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
            actor_no,
        )
    return [RecordedEvent(**row) for row in rows]


async def record_other_keys(
    connection: Connection, keys: Sequence[tuple[str, str, int, datetime]]
) -> None:
    """Record the other keys of new events: tenant, business key, and the event's number and time.

    `record_events` records the first key.
    """
    tenants, business_keys, event_nos, times = zip(*keys, strict=True)
    values = tenants, business_keys, event_nos, times
    await connection.fetch(statement("record_other_keys"), *values)


async def list_key_events(
    connection: Connection,
    tenants: Sequence[str],
    business_keys: Sequence[str],
    types: Sequence[str],
    *,
    limit: int,
) -> list[KeyEvent]:
    """List the events that concern these keys (tenants pairwise) and types, each once.

    If there are more than `limit`, one more is returned.
    """
    values = tenants, business_keys, types, limit
    rows = await connection.fetch(statement("list_key_events"), *values)
    return [KeyEvent(**row) for row in rows]


async def lock_business_keys(connection: Connection, buckets: Sequence[int]) -> None:
    """Lock these buckets until the transaction ends. They ascend, so callers cannot deadlock."""
    await connection.fetchval(statement("lock_business_keys"), buckets)


async def forget_event_keys(connection: Connection, keep_days: int, limit: int) -> int:
    """Forget the oldest keys of events that were received that long ago; return how many."""
    return await connection.fetchval(statement("forget_event_keys"), keep_days, limit)
