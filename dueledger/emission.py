"""Emission from a service, on the connection and in the transaction of its own writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from dueledger.ledger.runtime.tracing import current_traceparent
from dueledger.ledger.store.emission import emission_query

_DRIVERS: Final = ("asyncpg", "psycopg", "sqlalchemy")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One item to emit.

    `tenant`, `kind`, `business_key`, `cycle` and `effective_date` are its identity: the same again
    is the same item. `due_at` has an offset. `payload` is what the handler gets: bytes are JSON
    text, kept to the letter; anything else is encoded as JSON. `lane` '' means none. Without a
    `traceparent` it is of the running span of OpenTelemetry, if there is one.
    """

    tenant: str
    kind: str
    business_key: str
    effective_date: date
    due_at: datetime
    payload: object = field(default_factory=dict[str, object])
    cycle: str = ""
    lane: str = ""
    partition_key: str | None = None
    labels: Mapping[str, object] | None = None
    traceparent: str | None = None


class Emitted(NamedTuple):
    """The result for one item. `created` is False if the item existed before."""

    id: UUID
    created: bool


async def emit(connection: object, items: Iterable[NewItem]) -> list[Emitted]:
    """Emit items in the transaction of `connection`; return results in input order.

    `connection` is an asyncpg connection, a psycopg AsyncConnection, or an AsyncConnection or
    AsyncSession of SQLAlchemy. One statement for all items. Repeating it changes nothing.

    Raises ValueError for a `due_at` without offset, TypeError for another connection, and the
    driver's own error where Postgres refuses an item; then nothing is emitted.
    """
    values = _values(items)
    client: Any = connection
    match _driver(connection):
        case "asyncpg":
            rows = await client.fetch(_query(values, r"$\1"), *values)
        case "psycopg":
            async with client.cursor(row_factory=_tuple_row()) as cursor:
                await cursor.execute(_query(values, "%s"), values)
                rows = await cursor.fetchall()
        case _:
            rows = (await client.execute(_clause(values), _named(values))).all()
    return _results(rows)


def emit_sync(connection: object, items: Iterable[NewItem]) -> list[Emitted]:
    """Emit items as `emit` does, on a connection that is not asynchronous.

    `connection` is a psycopg Connection, or a Connection or Session of SQLAlchemy.
    """
    values = _values(items)
    client: Any = connection
    match _driver(connection):
        case "psycopg":
            with client.cursor(row_factory=_tuple_row()) as cursor:
                rows = cursor.execute(_query(values, "%s"), values).fetchall()
        case "sqlalchemy":
            rows = client.execute(_clause(values), _named(values)).all()
        case driver:
            message = f"{driver} is asynchronous: use `await emit(…)`"
            raise TypeError(message)
    return _results(rows)


def _driver(connection: object) -> str:
    """Return the library that a connection, or a class that it extends, comes from."""
    for each in type(connection).__mro__:
        library = each.__module__.partition(".")[0]
        if library in _DRIVERS:
            return library
    message = (
        f"{type(connection).__qualname__} is no connection of asyncpg, psycopg or SQLAlchemy;"
        " with another driver call ledger.emit_many in SQL"
    )
    raise TypeError(message)


def _tuple_row() -> object:
    return import_module("psycopg.rows").tuple_row  # whatever rows the caller's connection makes


def _query(values: Sequence[object], parameter: str) -> str:
    return emission_query(parameter, of_one=len(values) > 1)


def _clause(values: Sequence[object]) -> object:
    return import_module("sqlalchemy").text(_query(values, r":p\1"))


def _named(values: Sequence[object]) -> dict[str, object]:
    return {f"p{number}": value for number, value in enumerate(values, 1)}


def _values(items: Iterable[NewItem]) -> Sequence[object]:
    """Return the values for a statement: of one item its members, of others a document."""
    trace = current_traceparent()
    given = [_members(item, trace) for item in items]
    if len(given) != 1:
        return [orjson.dumps(given).decode()]
    [one] = given
    payload, labels = (_json_text(one[name]) for name in ("payload", "labels"))
    return list((one | {"payload": payload or "{}", "labels": labels}).values())


def _json_text(value: object) -> str | None:
    """Return JSON text, or None for null, as Postgres reads a member of a document."""
    text = orjson.dumps(value).decode().strip()
    return None if text == "null" else text


def _members(item: NewItem, trace: str | None) -> dict[str, object]:
    if item.due_at.utcoffset() is None:
        message = f"due_at of {item.business_key!r} has no offset from UTC"
        raise ValueError(message)
    payload = item.payload
    return {
        "tenant": item.tenant,
        "kind": item.kind,
        "business_key": item.business_key,
        "effective_date": item.effective_date,
        "due_at": item.due_at,
        "payload": orjson.Fragment(payload) if isinstance(payload, bytes) else payload,
        "cycle": item.cycle,
        "lane": item.lane,
        "partition_key": item.partition_key,
        "labels": None if item.labels is None else dict(item.labels),
        "traceparent": item.traceparent or trace,
    }


def _results(rows: Sequence[Any]) -> list[Emitted]:
    return [Emitted(_uuid(row[0]), row[1]) for row in rows]


def _uuid(value: UUID | str) -> UUID:
    """Return the id; asyncpg has a class of its own, and some drivers return text."""
    return UUID(str(value))
