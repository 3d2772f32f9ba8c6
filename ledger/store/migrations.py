r"""Forward-only migrations: numbered SQL files, each in its transaction, under one lock.

The first is the baseline. It includes the files of ``sql/schema`` as psql does, by ``\ir``.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.cells import assign_cell
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.partitions import AHEAD, MOVED_ROWS_MAX, make_partitions
from dueledger.ledger.store.schema_version import (
    number_of,
    oldest_code,
    require_usable_schema,
)
from dueledger.ledger.store.server_version import require_supported_server
from dueledger.ledger.store.statements import SQL_ROOT, statement

_INCLUDED: Final = re.compile(r"^\\ir (\S+)$", re.MULTILINE)
_TIMEOUTS: Final = "set local lock_timeout = '10s'; set local statement_timeout = '10min'"
_JOURNAL: Final = """
do $$ begin
  create schema if not exists ledger_migration;
  create table if not exists ledger_migration.applied (
    name text primary key,
    checksum text not null,
    code_min integer not null default 1,
    applied_at timestamptz not null default statement_timestamp()
  );
exception when unique_violation or duplicate_schema or duplicate_table then
  null;  -- another process has just made it
end $$
"""
_LOCK: Final = "lock table ledger_migration.applied in share row exclusive mode"
"""One process at a time. Only its owner can hold others up; an advisory lock is open to all."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of ``sql/migrations``. `text` holds the files that it includes."""

    name: str
    text: str

    @property
    def number(self) -> int:
        """Return the number at the beginning of the file's name."""
        return number_of(self.name)

    @property
    def code_min(self) -> int:
        """Return the least migration that code must ship to use the schema after this one."""
        return oldest_code(self.text)

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations() -> list[Migration]:
    """Read the shipped migrations in order."""
    return [Migration(path.stem, _included_text(path)) for path in _files()]


async def migrate(
    connection: Connection,
    *,
    cell_no: int | None = None,
    ahead: timedelta = AHEAD,
    rows_max: int | None = MOVED_ROWS_MAX,
    applied: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Apply missing migrations and create partitions `ahead`; return the applied names.

    The first call decides the ledger's cell, 0 if `cell_no` is None. `rows_max` is as in
    `make_partitions`. Processes that call it at once wait for each other.

    Raises Conflict, and applies nothing, if the ledger has another cell, if an
    applied file has been changed since (put the change into a new migration), or if a file was not
    applied and one with a higher number was. Raises UnsupportedServer on a server that is too old,
    SchemaTooNew on a schema that this version cannot use.
    """
    await require_supported_server(connection)
    await connection.execute(_JOURNAL)
    fresh: list[str] = []
    for migration in read_migrations():
        async with connection.transaction():
            await connection.execute(_LOCK)
            if not await _is_missing(connection, migration):
                continue
            await connection.execute(_TIMEOUTS)
            await connection.execute(migration.text)
            await assign_cell(connection, cell_no)
            await connection.execute(
                "insert into ledger_migration.applied (name, checksum, code_min)"
                " values ($1, $2, $3)",
                migration.name,
                migration.checksum,
                migration.code_min,
            )
        fresh.append(migration.name)
        applied(migration.name)
    async with connection.transaction():
        await connection.execute(_LOCK)
        await assign_cell(connection, cell_no)
    await require_usable_schema(connection)
    await make_partitions(connection, ahead=ahead, rows_max=rows_max)
    return fresh


async def _is_missing(connection: Connection, migration: Migration) -> bool:
    """Return whether to apply it; raise Conflict if it does not fit what was applied."""
    rows = await connection.fetch(statement("list_applied_migrations"))
    done = {row["name"]: row["checksum"] for row in rows}
    _require_unchanged(read_migrations(), done)
    _require_in_order(read_migrations(), done)
    return migration.name not in done


async def pending_migrations(connection: Connection) -> list[str]:
    """Return the names of the shipped migrations that this database lacks."""
    names = [path.stem for path in _files()]
    known = await connection.fetchval("select to_regclass('ledger_migration.applied')")
    if known is None:
        return names
    done = {row["name"] for row in await connection.fetch(statement("list_applied_migrations"))}
    return [name for name in names if name not in done]


def _files() -> list[Path]:
    return sorted((SQL_ROOT / "migrations").glob("*.sql"))


def _included_text(path: Path) -> str:
    return _INCLUDED.sub(
        lambda found: (path.parent / found[1]).read_text(encoding="utf-8"),
        path.read_text(encoding="utf-8"),
    )


def _require_unchanged(migrations: Sequence[Migration], done: Mapping[str, str]) -> None:
    for migration in migrations:
        if done.get(migration.name, migration.checksum) != migration.checksum:
            message = (
                f"migration {migration.name} was applied and has been changed since; "
                "restore the file and put the change into a new migration"
            )
            raise Conflict(message, migration=migration.name)


def _require_in_order(migrations: Sequence[Migration], done: Mapping[str, str]) -> None:
    highest = max(done, key=number_of, default=None)
    for migration in migrations:
        if highest and migration.name not in done and migration.number <= number_of(highest):
            message = (
                f"migration {migration.name} was not applied, and {highest} was; give a new "
                "migration the next number; make a database that is older than the baseline again"
            )
            raise Conflict(message, migration=migration.name)
