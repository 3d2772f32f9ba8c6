"""Databases for tests: copied from a template, cleaned after a test, and leased to the next one.

A copy costs much more than a few deletes. A database is used again only if it equals the template:
rows, sequences, schema, settings, and the planner's statistics. Additions of many tests are undone
first: table partitions, tables in `public`, and the clock's settings. The server counts which
tables were written; only where a catalog is among them, or statistics were made, the schema is
compared. A test that stops counting sets the counts back: then everything is looked at.

The session that cleans a database stays, and is lent to the next test as its connection: what it
has learned of the tables costs most of a cleaning, and much of a short test.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from dueledger.ledger.store import connect

if TYPE_CHECKING:
    from datetime import datetime

RESET_SECONDS: Final = 10.0
BYTES_MAX: Final = 2_000_000
"""Tables beyond it are not worth cleaning: what is deleted stays in their files."""

# A change of a row replaces it by one with a later xmin, so that no change keeps count and sum.
_CATALOGS: Final = """
select string_agg(
  format('select %L as name, count(*) as rows, sum(xmin::text::bigint) as xmins from pg_catalog.%I',
    relname, relname), ' union all ' order by relname)
from pg_class
where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared
  and relname not in ('pg_depend', 'pg_description', 'pg_statistic', 'pg_statistic_ext_data')
"""

_OPEN_ITEM: Final = """
select replace(trim(trailing ';' from pg_get_viewdef('ledger.open_item')), 'ledger.', '')
"""

_SETTINGS: Final = """
select
  (select count(*) from pg_db_role_setting where setdatabase = d.oid) as settings,
  d.datacl::text as access, d.datconnlimit as connections
from pg_database d
where d.datname = current_database()
"""

_STATISTICS: Final = """
select
  (select count(*) from pg_statistic where starelid >= 16384) as statistics,
  (select count(*) from pg_statistic_ext_data) as extended_statistics,
  sum(relpages) as pages, sum(reltuples) as tuples
from pg_class where oid >= 16384 and relkind = 'r'
"""

# Each session adds what it wrote to the server's counts when it ends, at the latest.
_WRITTEN: Final = """
select c.oid::regclass::text as name, pg_relation_size(c.oid) as bytes,
  c.relnamespace = 'pg_catalog'::regnamespace or n.surveys > 0 as is_alteration
from pg_class c
cross join lateral (
  select pg_stat_get_analyze_count(c.oid) + pg_stat_get_autoanalyze_count(c.oid)
    + pg_stat_get_vacuum_count(c.oid) + pg_stat_get_autovacuum_count(c.oid) as surveys) n
where c.relkind = 'r' and not c.relisshared
  and pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid)
    + pg_stat_get_tuples_deleted(c.oid) + n.surveys > 0
"""

_COUNTED_SINCE: Final = """
select pg_stat_get_db_stat_reset_time(oid) from pg_database where datname = current_database()
"""

_FLUSH_COUNTS: Final = "select pg_stat_force_next_flush()"
_RESET_COUNTS: Final = "select pg_stat_reset()"

_TABLES: Final = """
select c.oid, c.oid::regclass::text as name,
  c.relispartition or n.nspname = 'public' as is_removable,
  pg_relation_size(c.oid) as bytes
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname in ('ledger', 'ledger_migration', 'public')
order by c.oid
"""

_RESTART_SEQUENCES: Final = """
select setval(seqrelid, seqstart, false) from pg_sequence
where pg_sequence_last_value(seqrelid) is not null
"""

_RESET_SETTINGS: Final = """
do $$ begin
  execute format('alter database %I reset all', current_database());
end $$
"""

# What `Connection.reset` leaves. The plans are those of an owner who cleans, not of a process.
_RESET_SESSION: Final = """
reset session authorization;
reset role;
discard sequences;
set enable_seqscan = on;
set enable_bitmapscan = on;
set enable_hashjoin = on;
set enable_mergejoin = on;
set plan_cache_mode = auto;
select pg_stat_force_next_flush()
"""

# A session that begins with these keeps them as its defaults.
_HAS_SETTINGS: Final = """
select exists (
  select from pg_db_role_setting where setdatabase =
    (select oid from pg_database where datname = current_database()))
"""

# `alter database` refuses where the session that cleans is connected.
_RENAME: Final = "update pg_database set datname = $2 where datname = $1"
_END_SESSIONS: Final = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = $1 and backend_type = 'client backend' and pid is distinct from $2
"""

# The tables are those that have rows: a new session takes 30 ms to learn of all partitions, and
# 5 ms to plan for all places.
_MISPLACED: Final = """
with {tables},
place as ({places})
select i.item_no, i.business_key, count(p.item_no) as places
from due_item i full join place p using (item_no)
group by i.item_no, i.business_key having i.item_no is null or count(p.item_no) <> 1
"""
_NOWHERE: Final = "select null::bigint as item_no where false"
_WAITING: Final = "select item_no from pending"
_PARKED: Final = "select item_no from review"
_ENDED: Final = """
select item_no from transition t
join ledger.transition_event e on e.event = t.event join ledger.state s on s.state = e.after_state
where s.terminal
"""

_PLACES: Final = ("due_item", "pending", "review", "claim", "run", "transition")


def named_database(dsn: str, name: str) -> str:
    """Return `dsn` with another database in it."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


Print = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A migrated database as it is before any test."""

    name: str
    tables: frozenset[int]
    rows: dict[str, int]
    """How many rows the tables have that are not empty."""
    next_xid: int
    catalogs: str
    print: Print
    settings: Print
    open_item: str
    """The view's query, with its tables unqualified."""

    @classmethod
    async def read(cls, connection: asyncpg.Connection, name: str) -> Self:
        tables = await connection.fetch(_TABLES)
        rows = {
            table["name"]: await connection.fetchval(f"select count(*) from {table['name']}")  # noqa: S608 - of the catalog
            for table in tables
            if table["bytes"]
        }
        catalogs = await connection.fetchval(_CATALOGS)
        return cls(
            name,
            frozenset(table["oid"] for table in tables),
            rows,
            await connection.fetchval(
                "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
            ),
            catalogs,
            await _read_print(connection, catalogs),
            await _read_settings(connection),
            await connection.fetchval(_OPEN_ITEM),
        )


async def _read_print(connection: asyncpg.Connection, catalogs: str) -> Print:
    """Read what differs between two databases whose schema, settings or statistics differ."""
    rows = [
        *await connection.fetch(catalogs),
        *await connection.fetch(_STATISTICS),
        *await connection.fetch(_SETTINGS),
    ]
    return tuple(tuple(row) for row in rows)


async def _read_settings(connection: asyncpg.Connection) -> Print:
    """Read what differs between two databases of one schema that have other settings."""
    return tuple(tuple(row) for row in await connection.fetch(_SETTINGS))


MakeDatabase = Callable[..., AbstractAsyncContextManager[str]]


@dataclass(slots=True)
class _Database:
    """A database of tests, and the session that has cleaned it last."""

    name: str
    counted_since: "datetime | None" = None
    """Since when its writes are counted."""
    cleaner: asyncpg.Connection | None = None
    keeps_cleaner: bool = True
    """Whether the session begins as that of a database without settings."""
    is_lent: bool = False
    """Whether a test has the session."""

    async def connect(self, dsn: str) -> asyncpg.Connection:
        """Open a session, which will clean it."""
        self.cleaner = await connect(dsn, application_name="test")
        self.keeps_cleaner = not await self.cleaner.fetchval(_HAS_SETTINGS)
        return self.cleaner


_LEASED: Final[dict[str, _Database]] = {}
"""Databases that tests have, by DSN."""


@asynccontextmanager
async def lent_session(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    """Yield a session as `connect` opens it: of a leased database the one that will clean it."""
    leased = _LEASED.get(dsn)
    if leased is None or leased.is_lent:
        connection = await connect(dsn, application_name="test")
        yield connection
        await connection.close()
        return
    leased.is_lent = True
    if leased.cleaner is None or leased.cleaner.is_closed():
        yield await leased.connect(dsn)
    else:
        await leased.cleaner.execute("reset all")
        yield leased.cleaner


class DatabasePool:
    """Leases migrated, empty databases, and uses them again where that cannot be noticed."""

    def __init__(self, admin: asyncpg.Connection, dsn: str, template: Template) -> None:
        self._admin = admin
        self._dsn = dsn
        self._template = template
        self._clean: list[_Database] = []
        """Databases that wait for another test."""
        self.made = 0

    @asynccontextmanager
    async def lease(self, *, damaged: bool = False) -> AsyncGenerator[str]:
        """Yield the DSN of a database; at the end each item must have one state, unless damaged.

        Each lease has a name of its own, so that a late connection of a test reaches no other
        test's database.
        """
        leased = self._clean.pop() if self._clean else await self._create()
        dsn = named_database(self._dsn, leased.name)
        _LEASED[dsn] = leased
        try:
            yield dsn
        finally:
            del _LEASED[dsn]
        cleaner = await self._withdraw(leased)
        reusable = False
        try:
            written = None  # where the test has set the counts back
            if await cleaner.fetchval(_COUNTED_SINCE) == leased.counted_since:
                written = await cleaner.fetch(_WRITTEN)
            if written != [] and not damaged:
                tables = written if written is not None else await cleaner.fetch(_TABLES)
                names = [table["name"] for table in tables]
                await _check_places(cleaner, self._template, names)
            reusable = await self._restore(cleaner, written)
            leased.counted_since = await cleaner.fetchval(_COUNTED_SINCE)
        finally:
            if not leased.keeps_cleaner:
                await cleaner.close()
            if reusable:
                self._clean.append(leased)
            else:
                await self._drop(leased)

    async def _withdraw(self, leased: _Database) -> asyncpg.Connection:
        """Take a database from its test and its processes; return the session that cleans it."""
        name, leased.name = leased.name, _new_name()
        await self._admin.execute(_RENAME, name, leased.name)
        cleaner = leased.cleaner
        pid = cleaner.get_server_pid() if cleaner is not None else None
        await self._admin.execute(_END_SESSIONS, leased.name, pid)
        leased.is_lent = False
        if cleaner is None or not await _reset(cleaner):
            cleaner = await leased.connect(named_database(self._dsn, leased.name))
            await cleaner.execute(_RESET_SESSION)
        return cleaner

    async def alter(self, command: str) -> None:
        """Run a command in the template, and drop the databases copied from it before."""
        await self.close()
        template = self._template.name
        await self._admin.execute(f"alter database {template} allow_connections true")
        connection = await asyncpg.connect(named_database(self._dsn, template))
        try:
            await connection.execute(command)
            self._template = await Template.read(connection, template)
        finally:
            await connection.close()
            await self._admin.execute(f"alter database {template} allow_connections false")

    async def close(self) -> None:
        """Drop the databases that wait for another test."""
        while self._clean:
            await self._drop(self._clean.pop())

    async def _create(self) -> _Database:
        self.made += 1
        name = _new_name()
        await self._admin.execute(
            f"create database {name} template {self._template.name} strategy file_copy"
        )
        return _Database(name)

    async def _drop(self, database: _Database) -> None:
        if database.cleaner is not None:
            await database.cleaner.close()
        await self._admin.execute(f"drop database {database.name} with (force)")

    async def _restore(
        self, connection: asyncpg.Connection, written: Sequence[asyncpg.Record] | None
    ) -> bool:
        """Delete the rows of a test; False if the database cannot be made equal to the template."""
        altered = written is None or any(table["is_alteration"] for table in written)
        tables = await connection.fetch(_TABLES) if altered or written is None else written
        if sum(table["bytes"] for table in tables) > BYTES_MAX:
            return False
        added = [table for table in tables if altered and table["oid"] not in self._template.tables]
        if not all(table["is_removable"] for table in added):
            return False
        commands = [
            "begin",
            "set local session_replication_role = replica",
        ]  # no triggers, any order
        if added:
            commands.append(f"drop table {', '.join(table['name'] for table in added)}")
        for table in tables:
            if table["bytes"] and table not in added:
                delete = f"delete from only {table['name']}"  # noqa: S608 - of the catalog
                if table["name"] in self._template.rows:
                    delete += f" where xmin::text::bigint >= {self._template.next_xid}"
                commands.append(delete)
        commands += [_RESTART_SEQUENCES, _RESET_SETTINGS, "commit", _FLUSH_COUNTS]
        await connection.execute(";".join(commands))
        for name in self._template.rows.keys() & {table["name"] for table in tables}:
            rows = await connection.fetchval(f"select count(*) from {name}")  # noqa: S608 - of the catalog
            if rows != self._template.rows[name]:
                return False
        await connection.execute(_RESET_COUNTS)
        if altered:
            return await _read_print(connection, self._template.catalogs) == self._template.print
        return await _read_settings(connection) == self._template.settings


async def _reset(session: asyncpg.Connection) -> bool:
    """Undo what a test has set in a session; False if it cannot be used any more."""
    if session.is_closed():
        return False
    try:
        await session.reset(timeout=RESET_SECONDS)
        await session.execute(_RESET_SESSION, timeout=RESET_SECONDS)
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # it was ended, and asyncpg has not read so yet
        OSError,
        TimeoutError,
    ):
        session.terminate()
        return False
    return True


def _new_name() -> str:
    return f"test_{secrets.token_hex(6)}"


async def _check_places(
    connection: asyncpg.Connection, template: Template, tables: Collection[str]
) -> None:
    """Fail if an item has no state or two, or a row of a state has no item."""
    rows = {
        parent: [
            name
            for name in tables
            if re.fullmatch(rf"ledger\.{parent}(_\d+(_again)?|_default)?", name)
        ]
        for parent in _PLACES
    }
    if not any(rows.values()):
        return
    named = ", ".join(
        f"{parent} as (" + " union all ".join(f"table {name}" for name in names) + ")"
        if names
        else f"{parent} as (select * from ledger.{parent} where false)"  # noqa: S608 - a name above
        for parent, names in rows.items()
    )
    places = {
        _WAITING: rows["pending"],
        _PARKED: rows["review"],
        f"select item_no from ({template.open_item}) open_item": rows["claim"] + rows["run"],  # noqa: S608 - of the catalog
        _ENDED: rows["transition"],
    }
    written = [place for place, names in places.items() if names]
    misplaced = await connection.fetch(
        _MISPLACED.format(tables=named, places=" union all ".join(written or [_NOWHERE]))
    )
    assert not misplaced, [tuple(row) for row in misplaced]
