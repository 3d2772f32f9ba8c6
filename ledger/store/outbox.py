"""The outbox of a service, in the service's own database, and its rows' way into the ledger."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Final, NamedTuple

import asyncpg

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import SQL_ROOT, statement

OUTBOX_SQL: Final = SQL_ROOT / "outbox"
_TENANT: Final = "tenant"


class OutboxItem(NamedTuple):
    """A row of an outbox. `payload` and `labels` are JSON text."""

    outbox_no: int
    tenant: str
    kind: str
    lane: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    payload: str
    partition_key: str | None
    labels: str | None
    traceparent: str | None


def outbox_schema() -> str:
    """Return the SQL that makes the outbox, for the service's migrations."""
    return _outbox_sql("schema")


@cache
def _outbox_sql(name: str) -> str:
    return OUTBOX_SQL.joinpath(f"{name}.sql").read_text(encoding="utf-8")


async def list_outbox_items(outbox: Connection, count_max: int) -> list[OutboxItem]:
    """Return the first committed rows that were not refused, in the order written."""
    rows = await outbox.fetch(_outbox_sql("list_outbox_items"), count_max)
    return [OutboxItem(*(row[name] for name in OutboxItem._fields)) for row in rows]


async def count_outbox_items(outbox: Connection, count_max: int) -> int:
    """Count the committed rows that were not refused, up to a limit."""
    return await outbox.fetchval(_outbox_sql("count_outbox_items"), count_max)


async def end_outbox_items(
    outbox: Connection, carried: Sequence[int], refusals: Mapping[int, str]
) -> None:
    """Delete the rows that the ledger has, and mark the refused ones; repeating is harmless."""
    async with outbox.transaction():
        await outbox.execute(_outbox_sql("delete_outbox_items"), carried)
        if refusals:
            await outbox.execute(
                _outbox_sql("refuse_outbox_items"), list(refusals), list(refusals.values())
            )


async def register_relay_sleep(outbox: Connection, name: str, seconds: float) -> int:
    """Record that a relay sleeps; return the number of the transaction that did.

    It is notified of rows that are written within `seconds`.
    """
    return await outbox.fetchval(_outbox_sql("register_relay_sleep"), name, seconds)


async def end_relay_sleep(outbox: Connection, name: str) -> None:
    """Record that a relay is awake."""
    await outbox.execute(_outbox_sql("end_relay_sleep"), name)


async def emit_as_service(connection: Connection, items: Sequence[OutboxItem]) -> list[bool]:
    """Emit items as the connection's login; return which are new. The first of a key counts.

    Raises InvalidItem if the ledger refuses one of them, also for a tenant that the login may not
    emit for; then none is emitted.
    """
    columns = [
        *("tenant", "kind", "business_key", "effective_date", "due_at", "payload", "cycle"),
        *("lane", "partition_key", "labels", "traceparent"),
    ]
    arrays = [[getattr(item, column) for item in items] for column in columns]
    with mapped_errors():
        try:
            rows = await connection.fetch(statement("emit_as_service"), *arrays)
        except asyncpg.InsufficientPrivilegeError as error:
            if error.column_name != _TENANT:
                raise
            raise InvalidItem(str(error.message), field=_TENANT) from error
    return [row["created"] for row in rows]
