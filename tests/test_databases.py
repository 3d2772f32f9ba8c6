"""Nothing that a test leaves in its database reaches the next test."""

from collections.abc import Callable
from datetime import UTC, date, datetime

import asyncpg
import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import next_fences
from dueledger.ledger.store.clock import set_clock, set_machine_clock
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.items import emit_items
from tests.databases import DatabasePool, lent_session

MakeDrafts = Callable[..., list[ItemDraft]]

NAMES = """
select relname from pg_class
where relnamespace = 'ledger'::regnamespace and relkind = any($1) order by relname
"""

SETTINGS = """
select s.setconfig::text from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
where d.datname = current_database()
"""


async def everything(dsn: str) -> dict[str, object]:
    """Return the rows of each table and partition, the last number of each sequence."""
    connection = await asyncpg.connect(dsn)
    found: dict[str, object] = {}
    try:
        for name in await _column(connection, NAMES, [b"r", b"p"]):
            rows = f"select t::text from ledger.{name} t order by 1"  # noqa: S608 - of the catalog
            found[name] = await _column(connection, rows)
        for name in await _column(connection, NAMES, [b"S"]):
            drawn = f"select (last_value, is_called)::text from ledger.{name}"  # noqa: S608 - of the catalog
            found[name] = await _column(connection, drawn)
        return found
    finally:
        await connection.close()


async def _column(connection: asyncpg.Connection, query: str, *parameters: object) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *parameters)]


async def work(connection: Connection, make_drafts: MakeDrafts) -> None:
    """Leave rows in many tables, a paused flow, a partition, and numbers that were drawn."""
    actor_no = await register_actor(connection, "test", ActorKind.WORKER)
    [draft] = make_drafts(effective_date=date(2031, 5, 1))
    await emit_items(connection, [draft], actor_no=actor_no)
    await pause_flows(connection, FlowScope("acme", draft.kind), reason="test", actor_no=actor_no)
    assert await next_fences(connection, 1) == [1]


async def test_rows_numbers_pauses_and_partitions_do_not_reach_the_next_test(
    database_pool: DatabasePool, make_drafts: MakeDrafts
) -> None:
    async with database_pool.lease() as dsn:
        before = await everything(dsn)
        connection = await connect(dsn, application_name="test")
        await work(connection, make_drafts)
        await connection.close()
        assert await everything(dsn) != before
    made = database_pool.made
    async with database_pool.lease() as next_dsn:
        assert next_dsn != dsn
        assert await everything(next_dsn) == before
        connection = await connect(next_dsn, application_name="test")
        await work(connection, make_drafts)  # numbers begin at 1 again
        await connection.close()
    assert database_pool.made == made


@pytest.mark.parametrize(
    "change",
    [
        "alter database {name} set ledger.clock = '2027-01-01|2027-01-01|0'",
        "create table public.seen (item int primary key); insert into public.seen values (1)",
        "select ledger.make_partition('claim', '2031-05-01')",
    ],
)
async def test_what_many_tests_add_is_undone(database_pool: DatabasePool, change: str) -> None:
    async with database_pool.lease() as dsn:
        name = dsn.rpartition("/")[2]
        admin = await asyncpg.connect(dsn)
        before = await _schema_and_settings(admin)
        await admin.execute(change.format(name=name))
        assert await _schema_and_settings(admin) != before
        oid = await admin.fetchval("select oid from pg_database where datname = $1", name)
        await admin.close()
    async with database_pool.lease() as dsn:
        admin = await asyncpg.connect(dsn)
        assert await admin.fetchval("select count(*) from pg_database where oid = $1", oid)
        assert await _schema_and_settings(admin) == before
        await admin.close()


async def _schema_and_settings(connection: asyncpg.Connection) -> list[str]:
    return [
        *await _column(connection, "select oid::regclass::text from pg_class order by 1"),
        *await _column(connection, SETTINGS),
    ]


FILL = """
insert into ledger.actor (kind, name)
select 'worker', repeat('a', 100) || n from generate_series(1, 20000) n
"""


@pytest.mark.parametrize(
    "change",
    [
        "alter role postgres in database {name} set work_mem = '1MB'",
        "alter database {name} connection limit 7",
        "grant temporary on database {name} to ledger_worker",
        "create view public.seen as select 1",
        "create table ledger.seen (item uuid)",
        "create or replace function ledger.none() returns int language sql as 'select 1'",
        "alter table ledger.flow disable trigger all",
        "alter table ledger.flow set (fillfactor = 50)",
        "drop index ledger.review_parked_idx",
        "revoke select on ledger.flow from ledger_worker",
        "update ledger.partition_span set made_at = now()",
        "delete from ledger.state",
        FILL,
        "analyze ledger.flow",
    ],
)
async def test_a_database_that_cannot_be_restored_is_dropped(
    database_pool: DatabasePool, change: str
) -> None:
    async with database_pool.lease(damaged=True) as dsn:
        name = dsn.rpartition("/")[2]
        admin = await asyncpg.connect(dsn)
        await admin.execute("set session_replication_role = replica")
        await admin.execute(change.format(name=name))
        oid = await admin.fetchval("select oid from pg_database where datname = $1", name)
        await admin.close()
    async with database_pool.lease() as dsn:
        admin = await asyncpg.connect(dsn)
        assert not await admin.fetchval("select count(*) from pg_database where oid = $1", oid)
        await admin.close()


@pytest.mark.parametrize(
    "reset", ["pg_stat_reset()", "pg_stat_reset_single_table_counters('ledger.flow'::regclass)"]
)
async def test_rows_do_not_reach_the_next_test_where_a_test_sets_the_counts_of_writes_back(
    database_pool: DatabasePool, make_drafts: MakeDrafts, reset: str
) -> None:
    async with database_pool.lease() as dsn:
        before = await everything(dsn)
        connection = await connect(dsn, application_name="test")
        await work(connection, make_drafts)
        await connection.close()
        admin = await asyncpg.connect(dsn)
        await admin.execute(f"select {reset}")
        await admin.close()
    async with database_pool.lease() as dsn:
        assert await everything(dsn) == before


async def test_a_session_that_a_test_leaves_open_is_ended(database_pool: DatabasePool) -> None:
    async with database_pool.lease() as dsn:
        left = await asyncpg.connect(dsn)
        await left.execute("begin; lock table ledger.flow")
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresConnectionError)):
        await left.fetchval("select 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(dsn)


SESSION = """
select current_user::text, session_user::text,
  array(select format('%s %s', name, setting) from pg_settings
    where name !~ '^(application_name|transaction_)') as settings,
  array(select pg_listening_channels()) as channels,
  (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') as locks,
  ledger.now() = statement_timestamp() and ledger.machine_now() = statement_timestamp() as is_real,
  pg_current_xact_id_if_assigned() is null as is_outside_transaction
"""


async def test_what_a_test_leaves_in_its_connection_does_not_reach_the_next(
    database_pool: DatabasePool,
) -> None:
    async with database_pool.lease() as dsn, lent_session(dsn) as connection:
        fresh = await connect(dsn, application_name="test")
        before = await fresh.fetchrow(SESSION)
        await fresh.close()
        assert await connection.fetchrow(SESSION) == before
        pid = connection.get_server_pid()
        assert await next_fences(connection, 2) == [1, 2]
        await set_clock(connection, datetime(2027, 1, 1, tzinfo=UTC), 0.0)
        await set_machine_clock(connection, datetime(2027, 1, 1, tzinfo=UTC), 0.0)
        await connection.execute(
            "listen left_over; select pg_advisory_lock(7); set lock_timeout = '1s';"
            " set role ledger_worker"
        )
        await connection.execute("begin; select pg_current_xact_id()")
        assert await connection.fetchrow(SESSION) != before
    async with database_pool.lease() as dsn, lent_session(dsn) as connection:
        assert connection.get_server_pid() == pid
        assert await connection.fetchrow(SESSION) == before
        assert await next_fences(connection, 1) == [1]


@pytest.mark.parametrize(
    "leave",
    [
        "alter database {name} set ledger.clock = '2027-01-01|2027-01-01|0'",
        "select pg_terminate_backend({pid})",
    ],
)
async def test_a_connection_that_cannot_be_as_new_is_not_lent_again(
    database_pool: DatabasePool, leave: str
) -> None:
    await database_pool.close()
    async with database_pool.lease() as dsn:
        admin = await asyncpg.connect(dsn)
        name, pid = dsn.rpartition("/")[2], 0
        if "pid" not in leave:
            await admin.execute(leave.format(name=name))
        async with lent_session(dsn) as connection:
            pid = connection.get_server_pid()
            if "pid" in leave:
                await admin.execute(leave.format(pid=pid))
        await admin.close()
    async with database_pool.lease() as dsn, lent_session(dsn) as connection:
        assert connection.get_server_pid() != pid
        assert await connection.fetchval("select ledger.now() = statement_timestamp()")


async def test_an_item_without_a_state_fails_its_test(
    database_pool: DatabasePool, make_drafts: MakeDrafts
) -> None:
    async def lose_an_item() -> None:
        async with database_pool.lease() as dsn:
            connection = await connect(dsn, application_name="test")
            await work(connection, make_drafts)
            await connection.execute("delete from ledger.pending")
            await connection.close()

    with pytest.raises(AssertionError, match="key-000000"):
        await lose_an_item()
