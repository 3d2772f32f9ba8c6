"""Connections that one user keeps."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.store import (
    Connection,
    Pool,
    ReconnectingConnection,
    connect,
    open_pool,
)
from tests.databases import MakeDatabase

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Trouble(Exception):
    """The error of a block."""


async def backend_of(kept: ReconnectingConnection) -> int:
    async with kept.acquire() as connection:
        return int(await connection.fetchval("select pg_backend_pid()"))


async def test_a_kept_connection_is_the_same_until_something_goes_wrong(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    assert await backend_of(kept) == first
    idle = pool.get_idle_size()
    with pytest.raises(Trouble):
        async with kept.acquire():
            raise Trouble
    assert pool.get_idle_size() == idle + 1


async def test_a_kept_connection_that_was_cut_off_is_followed_by_another(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    async with pool.acquire() as other:
        assert await other.fetchval("select pg_terminate_backend($1, 5000)", first)
        # The server notifies the cut connection before it responds to another one.
        await other.fetchval("select 1")
    assert await backend_of(kept) != first


async def test_a_connection_that_closes_between_two_statements_of_a_start_is_unavailable(
    pool: Pool, database: str
) -> None:
    async def use_after_its_end(first: Connection) -> None:
        closed = asyncio.Event()
        first.add_termination_listener(lambda _: closed.set())
        await pool.fetchval("select pg_terminate_backend($1)", first.get_server_pid())
        await closed.wait()
        await first.execute("select 1")

    opening = open_pool(database, application_name="test", before_use=use_after_its_end)
    with pytest.raises(Unavailable, match="Postgres cannot be used"):
        await opening.__aenter__()


async def test_only_the_first_connection_of_a_process_asks_for_the_built_in_types(
    database: str,
) -> None:
    sent: list[str] = []
    arrays = "select $1::float8[], $2::date[], $3::timestamptz[][], array[now() - now()]"
    for _ in range(2):
        connection = await connect(database, application_name="test")
        sent.clear()
        with connection.query_logger(lambda query: sent.append(query.query)):
            row = await connection.fetchrow(arrays, [1.5, None], [date(2026, 11, 22)], [[NOON]])
        await connection.close()
        assert row is not None
        assert tuple(row) == ([1.5, None], [date(2026, 11, 22)], [[NOON]], [timedelta(0)])
    assert sent == [arrays]


async def test_types_of_one_database_are_not_used_in_another(
    make_database: MakeDatabase,
) -> None:
    for values in ("cold", "hot"), ("low", "high"), ("cold", "hot"):
        async with make_database() as database:
            connection = await connect(database, application_name="test")
            names = ", ".join(f"'{value}'" for value in values)
            await connection.execute(f"create type public.level as enum ({names})")
            levels = await connection.fetchval("select enum_range(null::public.level)")
            await connection.close()
            assert tuple(levels) == values
