"""A service emits on its own connection, whatever its driver, and in its own transaction."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from math import inf, nan
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
from asyncpg.pool import PoolConnectionProxy
from psycopg.rows import DictRow, dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from dueledger import NewItem, emit, emit_sync
from dueledger.ledger.identity import item_id
from dueledger.ledger.store import Connection
from tests.logins import with_login

Opened: TypeAlias = Connection | psycopg.AsyncConnection[DictRow] | AsyncConnection | AsyncSession
DAY = date(2027, 3, 31)
DUE_AT = datetime(2027, 3, 31, 9, tzinfo=UTC)


def _item(key: str, payload: object = None) -> NewItem:
    return NewItem(
        tenant="acme",
        kind="Reminder",
        business_key=key,
        effective_date=DAY,
        due_at=DUE_AT,
        payload=payload,
    )


FIRST = [replace(_item("one", b'{ "a":  1}'), labels={"region": "north"})]
ALL = [_item("two", {"b": None}), *FIRST, _item("two")]
IDS = [item_id("acme", "Reminder", key, "", DAY) for key in ("two", "one", "two")]


@pytest.fixture
def dsn(database: str) -> str:
    return with_login(database, "emitter")


def _url(dsn: str, driver: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(scheme=f"postgresql+{driver}"))


@pytest.fixture
async def session(dsn: str, request: pytest.FixtureRequest) -> AsyncGenerator[Opened]:
    """A connection of an asynchronous driver in a transaction, or what SQLAlchemy has for it."""
    match request.param:
        case "asyncpg":
            connection = await asyncpg.connect(dsn)
            yield connection
            await connection.close()
        case "pool":
            async with (
                asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
                pool.acquire() as pooled,
            ):
                yield pooled
        case "psycopg":
            async with await psycopg.AsyncConnection[DictRow].connect(
                dsn, row_factory=dict_row
            ) as opened:
                yield opened
        case driver:
            engine = create_async_engine(_url(dsn, driver.partition(" ")[0]))
            if driver.endswith("session"):
                async with AsyncSession(engine) as made:
                    yield made
            else:
                async with engine.connect() as made:
                    yield made
            await engine.dispose()


async def _begin(session: Opened) -> None:
    """Begin a transaction where the driver does not do so itself."""
    if isinstance(session, asyncpg.Connection | PoolConnectionProxy):
        await session.execute("begin")


async def _end(session: Opened, verb: Literal["commit", "rollback"]) -> None:
    if isinstance(session, asyncpg.Connection | PoolConnectionProxy):
        await session.execute(verb)
    elif verb == "commit":
        await session.commit()
    else:
        await session.rollback()


DRIVERS = ("asyncpg", "pool", "psycopg", "asyncpg session", "asyncpg core", "psycopg session")


@pytest.mark.parametrize("session", DRIVERS, indirect=True)
async def test_each_driver_emits_in_the_callers_transaction(
    session: Opened, connection: Connection
) -> None:
    await _begin(session)
    await emit(session, FIRST)
    await _end(session, "rollback")
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0

    await _begin(session)
    assert [each.created for each in await emit(session, FIRST)] == [True]
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0
    emitted = await emit(session, ALL)
    assert await emit(session, []) == []
    await _end(session, "commit")

    assert [each.created for each in emitted] == [True, False, False]
    assert [each.id for each in emitted] == IDS
    await _assert_both(connection)


@pytest.mark.parametrize("kind", ["psycopg", "core", "session", "scoped session"])
async def test_each_synchronous_driver_emits_in_the_callers_transaction(
    dsn: str, connection: Connection, kind: str
) -> None:
    engine = create_engine(_url(dsn, "psycopg"))
    opened: Any = {
        "psycopg": lambda: psycopg.Connection[DictRow].connect(dsn, row_factory=dict_row),
        "core": engine.connect,
        "session": lambda: Session(engine),
        "scoped session": lambda: scoped_session(sessionmaker(engine)),
    }[kind]()
    emit_sync(opened, FIRST)
    opened.rollback()
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0

    assert [each.created for each in emit_sync(opened, FIRST)] == [True]
    emitted = emit_sync(opened, ALL)
    opened.commit()
    opened.close()
    engine.dispose()

    assert [each.created for each in emitted] == [True, False, False]
    assert [each.id for each in emitted] == IDS
    await _assert_both(connection)


async def _assert_both(connection: Connection) -> None:
    rows = await connection.fetch(
        "select business_key, payload::text, labels::text, due_at from ledger.due_item order by 1"
    )
    assert [tuple(row) for row in rows] == [
        ("one", '{ "a":  1}', '{"region": "north"}', DUE_AT),
        ("two", '{"b":null}', None, DUE_AT),
    ]


async def test_one_item_alone_becomes_the_row_that_it_becomes_among_others(
    dsn: str, connection: Connection
) -> None:
    """One is sent as values, many are sent as a document."""
    whole = replace(
        _item("whole", [1.50, "é"]),
        cycle="2027",
        lane="north",
        partition_key="P",
        labels={},
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    items = [whole, _item("none"), _item("null", b" null "), _item("text", b' {"a" : 1.0} ')]
    service = await asyncpg.connect(dsn)
    for item in items:
        await emit(service, [replace(item, tenant="alone")])
    await emit(service, [replace(item, tenant="together") for item in items])
    await service.close()
    rows = await connection.fetch(
        "select f.tenant, i.payload::text as text, to_jsonb(i)"
        " - '{id,item_no,flow_no,emitted_at}'::text[] as item, f.kind, f.lane"
        " from ledger.due_item i join ledger.flow f using (flow_no) order by 1, i.business_key"
    )
    assert [row["tenant"] for row in rows] == ["alone"] * 4 + ["together"] * 4
    assert [tuple(row)[1:] for row in rows[:4]] == [tuple(row)[1:] for row in rows[4:]]


_OTHER = b'{"tenant":"victim","kind":"Payout","business_key":"x","payload":{}'


@dataclass(frozen=True, slots=True)
class Rate:
    """A payload that orjson encodes."""

    value: float


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"due_at": DUE_AT.replace(tzinfo=None)}, "due_at of 'one' has no offset"),
        ({"payload": b'{}, "tenant": "victim"'}, "payload of 'one' is not one JSON text"),
        ({"payload": b"{}}," + _OTHER}, "payload of 'one' is not one JSON text"),
        ({"payload": b""}, "payload of 'one' is not one JSON text"),
        ({"payload": b"NaN"}, "payload of 'one' is not one JSON text"),
        ({"payload": {"rates": [1.0, nan]}}, "'one' has a number that JSON lacks"),
        ({"payload": (Rate(inf),)}, "'one' has a number that JSON lacks"),
        ({"labels": {"rate": -inf}}, "'one' has a number that JSON lacks"),
    ],
)
async def test_an_item_that_json_cannot_hold_is_refused_before_anything_is_sent(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        await emit(object(), [replace(_item("one"), **changed)])


async def test_what_has_no_transaction_or_waits_otherwise_is_refused(
    dsn: str, connection: Connection
) -> None:
    engine = create_engine(_url(dsn, "psycopg"))
    async_engine = create_async_engine(_url(dsn, "asyncpg"))
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as pooled:
        for refused in (object(), pool, engine, async_engine):
            with pytest.raises(TypeError, match="is no connection or session of asyncpg"):
                await emit(refused, FIRST)
            with pytest.raises(TypeError, match="is no connection or session of asyncpg"):
                emit_sync(refused, FIRST)
        with Session(engine) as session:
            with pytest.raises(TypeError, match="Session is synchronous: use `emit_sync"):
                await emit(session, FIRST)
            session.commit()
        for opened in (pooled, AsyncSession(async_engine)):
            with pytest.raises(TypeError, match="is asynchronous: use `emit"):
                emit_sync(opened, FIRST)
    engine.dispose()
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0


async def test_a_refused_item_is_the_drivers_error_and_names_the_value(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    with pytest.raises(asyncpg.CheckViolationError, match="business_key must have 1 to 512"):
        await emit(connection, [*FIRST, _item("")])
    await connection.close()
