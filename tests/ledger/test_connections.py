"""Connections that one user keeps, and those that are lost."""

# pyright: reportPrivateUsage=false

import asyncio
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from dueledger.ledger.errors import ConnectionLost, Unavailable
from dueledger.ledger.store import (
    Connection,
    PlanProfile,
    Pool,
    ReconnectingConnection,
    connect,
    is_lost,
    long_transaction,
    open_pool,
)
from tests.databases import MakeDatabase
from tests.faults.servers import proxied

LAST_MESSAGE = b"E\0\0\0\x1aSFATAL\0C57P01\0Mended\0\0"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HELD_BY_A_SESSION = (
    "set statement_timeout = 4711",
    "select pg_advisory_lock(4711)",
    "listen news",
    "declare kept cursor with hold for select 1",
)


class Trouble(Exception):
    """The error of a block."""


async def backend_of(kept: ReconnectingConnection) -> int:
    async with kept.acquire() as connection:
        return int(await connection.fetchval("select pg_backend_pid()"))


async def test_a_kept_connection_is_the_same_until_something_goes_wrong(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    assert await backend_of(kept) == first
    idle = pool.connections.get_idle_size()
    with pytest.raises(Trouble):
        async with kept.acquire():
            raise Trouble
    assert pool.connections.get_idle_size() == idle + 1


async def test_a_kept_connection_that_was_cut_off_is_followed_by_another(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    async with pool.acquire() as other:
        assert await other.fetchval("select pg_terminate_backend($1, 5000)", first)
        # The server notifies the cut connection before it responds to another one.
        await other.fetchval("select 1")
    assert await backend_of(kept) != first
    assert pool.connections.get_size() - pool.connections.get_idle_size() == 1


async def test_a_connection_that_closes_between_two_statements_of_a_start_is_unavailable(
    pool: Pool, database: str
) -> None:
    async def use_after_its_end(first: Connection) -> None:
        closed = asyncio.Event()
        first.add_termination_listener(lambda _: closed.set())
        await pool.connections.fetchval("select pg_terminate_backend($1)", first.get_server_pid())
        await closed.wait()
        await first.execute("select 1")

    opening = open_pool(database, application_name="test", before_use=use_after_its_end)
    with pytest.raises(ConnectionLost):
        await opening.__aenter__()


async def end(connection: Connection) -> None:
    """End a connection's backend in the middle of a statement of its own."""
    await connection.execute("select pg_terminate_backend(pg_backend_pid())")


async def end_between(connection: Connection) -> None:
    closed = asyncio.Event()
    connection.add_termination_listener(lambda _: closed.set())
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await end(connection)
    await closed.wait()
    await connection.execute("select 1")


async def end_in_a_transaction(connection: Connection) -> None:
    async with connection.transaction():
        await end(connection)


async def end_and_fail_otherwise(connection: Connection) -> None:
    try:
        await end(connection)
    except asyncpg.PostgresError as error:
        raise Trouble from error


@pytest.mark.parametrize("use", [end, end_between, end_in_a_transaction, end_and_fail_otherwise])
async def test_whatever_error_ends_a_block_it_is_a_lost_connection_if_that_is_closed(
    pool: Pool, use: Callable[[Connection], Awaitable[None]]
) -> None:
    async def lose() -> None:
        async with pool.acquire() as connection:
            await use(connection)

    with pytest.raises(ConnectionLost):
        await lose()
    async with pool.acquire() as connection:
        assert await connection.fetchval("select 1") == 1


async def use(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute("select 1")


async def test_a_statement_sent_before_the_end_of_its_connection_was_read_finds_it_lost(
    pool: Pool,
) -> None:
    """Between the server's last message and the end of the stream, asyncpg has its own error."""

    async def lose() -> None:
        async with pool.acquire() as connection:
            inside: Any = connection
            inside._protocol.data_received(LAST_MESSAGE)
            await connection.execute("select 1")

    with pytest.raises(ConnectionLost) as lost:
        await lose()
    assert isinstance(lost.value.__cause__, asyncpg.InternalClientError)
    await use(pool)


async def test_a_server_that_refuses_connections_is_unavailable(database: str) -> None:
    async with (
        proxied(database) as (proxy, dsn),
        open_pool(dsn, application_name="test") as pool,
    ):
        proxy.is_refusing = True
        await proxy.reset()
        with pytest.raises(Unavailable):  # by the connection that was reset
            await use(pool)
        with pytest.raises(Unavailable) as refused:
            await use(pool)
        assert not isinstance(refused.value, ConnectionLost)


async def test_a_connection_without_an_answer_is_closed_once_its_statement_timed_out(
    database: str,
) -> None:
    async with (
        proxied(database) as (proxy, dsn),
        open_pool(dsn, application_name="test", size_max=1, command_seconds=0.2) as pool,
    ):
        proxy.silence()
        with pytest.raises(ConnectionLost):
            await use(pool)
        assert pool.connections.get_size() == 0
        proxy.heal()
        await use(pool)


async def test_the_kernel_closes_the_connection_of_a_server_that_vanished(
    connection: Connection,
) -> None:
    inside: Any = connection
    sock = inside._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000


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


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
async def test_the_end_of_a_handlers_transaction_leaves_nothing_of_its_session(
    database: str, *, commits: bool
) -> None:
    """A reset of its own would be a round trip an item."""
    sent: list[str] = []
    async with open_pool(
        database, application_name="test", size_max=1, lent_to_handlers=True
    ) as pool:
        async with pool.acquire() as connection, connection.transaction():
            connection.add_query_logger(lambda each: sent.append(each.query))
        for query in HELD_BY_A_SESSION:
            async with pool.acquire() as connection:
                transaction = connection.transaction()
                await transaction.start()
                await connection.execute(query)
                await (transaction.commit() if commits else transaction.rollback())
        assert "BEGIN;" in sent
        assert [query for query in sent if query.startswith("SELECT pg_advisory")] == []
        async with pool.acquire() as connection:
            assert await connection.fetchval("show statement_timeout") == "0"
            for held in ("pg_cursors where is_holdable", "pg_listening_channels()"):
                assert await connection.fetch(f"select from {held}") == []
            mine = "select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
            assert await connection.fetch(mine) == []


async def test_a_session_that_no_transaction_ended_is_reset_by_its_release(database: str) -> None:
    async with open_pool(
        database, application_name="test", size_max=1, lent_to_handlers=True
    ) as pool:
        async with pool.acquire() as connection:
            async with connection.transaction():
                pass
            await connection.execute("set statement_timeout = 4711")
        async with pool.acquire() as connection:
            assert await connection.fetchval("show statement_timeout") == "0"


@pytest.mark.parametrize(
    ("profile", "lent_to_handlers", "limit"),
    [
        (PlanProfile.HOT, False, "1min"),
        (PlanProfile.HOT, True, "1min"),
        (PlanProfile.ANALYTIC, False, "0"),
        (PlanProfile.SERIAL, False, "0"),
    ],
    ids=["hot", "handlers", "analytic", "serial"],
)
async def test_hot_transactions_have_a_limit_also_after_their_session_was_reset(
    database: str, profile: PlanProfile, limit: str, *, lent_to_handlers: bool
) -> None:
    show = "show transaction_timeout"
    async with open_pool(
        database,
        application_name="test",
        size_max=1,
        profile=profile,
        lent_to_handlers=lent_to_handlers,
    ) as pool:
        for _ in range(2):
            async with pool.acquire() as connection:
                async with connection.transaction():
                    assert await connection.fetchval(show) == limit
                assert await connection.fetchval(show) == limit
                async with long_transaction(connection):
                    assert await connection.fetchval(show) == "0"
                assert await connection.fetchval(show) == limit


@pytest.mark.parametrize("lent_to_handlers", [False, True], ids=["hot", "handlers"])
async def test_a_process_frozen_between_a_preparation_and_its_call_keeps_no_locks(
    database: str, connection: Connection, *, lent_to_handlers: bool
) -> None:
    """To Postgres its session is not idle."""
    await connection.execute("create table public.held ()")
    closed = asyncio.Event()
    async with (
        open_pool(
            database,
            application_name="test",
            command_seconds=0.5,
            lent_to_handlers=lent_to_handlers,
        ) as pool,
        pool.acquire() as frozen,
    ):
        frozen.add_termination_listener(lambda _: closed.set())
        await frozen.transaction().start()
        await frozen.execute("lock table public.held")
        await frozen.prepare("select 1")
        async with connection.transaction():
            await connection.execute("lock table public.held")
        await closed.wait()
        assert is_lost(frozen)
