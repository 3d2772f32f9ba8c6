"""Emission from a service, on the connection and in the transaction of its own writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from importlib import import_module
from math import isfinite
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import orjson

from dueledger.ledger.runtime.tracing import current_traceparent
from dueledger.ledger.store.emission import emission_query

_ASYNC: Final = {
    ("asyncpg", "Connection"),
    ("asyncpg", "PoolConnectionProxy"),
    ("psycopg", "AsyncConnection"),
    ("sqlalchemy", "AsyncConnection"),
    ("sqlalchemy", "AsyncSession"),
    ("sqlalchemy", "async_scoped_session"),
}
_SYNC: Final = {
    ("psycopg", "Connection"),
    ("sqlalchemy", "Connection"),
    ("sqlalchemy", "Session"),
    ("sqlalchemy", "scoped_session"),
}
"""The library and the class of each connection. A pool or an engine has no transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One item to emit.

    `tenant`, `kind`, `business_key`, `cycle` and `effective_date` are its identity: the same again
    is the same item. `due_at` has an offset. `payload` is what the handler gets: bytes are one JSON
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

    Raises ValueError for a `due_at` without offset, for bytes that are not one JSON text and for
    a number that JSON lacks; TypeError for another connection; and the driver's own error where
    Postgres refuses an item. Then nothing is emitted.
    """
    values = _values(items)
    client: Any = connection
    match _library(connection, is_async=True):
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
    if _library(connection, is_async=False) == "psycopg":
        with client.cursor(row_factory=_tuple_row()) as cursor:
            rows = cursor.execute(_query(values, "%s"), values).fetchall()
    else:
        rows = client.execute(_clause(values), _named(values)).all()
    return _results(rows)


def _library(connection: object, *, is_async: bool) -> str:
    """Return the library of a connection, by its class or one that it extends."""
    kinds = [(c.__module__.partition(".")[0], c.__qualname__) for c in type(connection).__mro__]
    usable, others = (_ASYNC, _SYNC) if is_async else (_SYNC, _ASYNC)
    for kind in kinds:
        if kind in usable:
            return kind[0]
    name = type(connection).__qualname__
    if not others.isdisjoint(kinds):
        call = (
            "is synchronous: use `emit_sync(…)`" if is_async else "is asynchronous: use `emit(…)`"
        )
        message = f"{name} {call}"
    else:
        message = (
            f"{name} is no connection or session of asyncpg, psycopg or SQLAlchemy; on a connection"
            " of another driver call ledger.emit_many in SQL"
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
    batch = tuple(items)
    given = [_members(item, trace) for item in batch]
    if len(given) == 1:
        [one] = given
        payload, labels = (_json_text(one[name]) for name in ("payload", "labels"))
        values = list((one | {"payload": payload or "{}", "labels": labels}).values())
    else:
        values = [orjson.dumps(given).decode()]
    for item in batch:
        if not (_is_finite(item.payload) and _is_finite(item.labels)):
            message = f"{item.business_key!r} has a number that JSON lacks: NaN or an infinity"
            raise ValueError(message)
    return values


def _json_text(value: object) -> str | None:
    """Return JSON text, or None for null, as Postgres reads a member of a document."""
    text = orjson.dumps(value).decode().strip()
    return None if text == "null" else text


def _is_finite(value: object) -> bool:
    """Return whether no number in a value is one that orjson writes as null."""
    match value:
        case float():
            return isfinite(value)
        case Mapping():
            return all(map(_is_finite, cast("Mapping[object, object]", value).values()))
        case list() | tuple():
            return all(map(_is_finite, cast("Sequence[object]", value)))
        case Enum():
            return _is_finite(value.value)
        case _ if is_dataclass(value):
            return all(_is_finite(getattr(value, each.name)) for each in fields(value))
        case _:
            return True


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
        "payload": _fragment(payload, item) if isinstance(payload, bytes) else payload,
        "cycle": item.cycle,
        "lane": item.lane,
        "partition_key": item.partition_key,
        "labels": None if item.labels is None else dict(item.labels),
        "traceparent": item.traceparent or trace,
    }


def _fragment(payload: bytes, item: NewItem) -> orjson.Fragment:
    """Return a text for a place in a document, where it must not end before its own end."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        message = f"payload of {item.business_key!r} is not one JSON text: {error}"
        raise ValueError(message) from error
    return orjson.Fragment(payload)


def _results(rows: Sequence[Any]) -> list[Emitted]:
    return [Emitted(_uuid(row[0]), row[1]) for row in rows]


def _uuid(value: UUID | str) -> UUID:
    """Return the id; asyncpg has a class of its own, and some drivers return text."""
    return UUID(str(value))
