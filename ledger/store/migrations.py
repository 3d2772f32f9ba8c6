"""Forward-only migrations: numbered SQL files, each in its transaction, under one lock."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.partitions import AHEAD, make_partitions
from dueledger.ledger.store.statements import SQL_ROOT

_LOCK: Final = 0x6475656C6467
_TIMEOUTS: Final = "set local lock_timeout = '10s'; set local statement_timeout = '10min'"
_JOURNAL: Final = """
create schema if not exists ledger_migration;
create table if not exists ledger_migration.applied (
  name text primary key,
  checksum text not null,
  applied_at timestamptz not null default statement_timestamp()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of ``sql/migrations``."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the file, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations() -> list[Migration]:
    """Read the shipped migrations in order."""
    return [
        Migration(path.stem, path.read_text(encoding="utf-8"))
        for path in sorted((SQL_ROOT / "migrations").glob("*.sql"))
    ]


async def migrate(
    connection: Connection,
    *,
    ahead: timedelta = AHEAD,
    applied: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Apply what is missing and make partitions `ahead`; return the names applied.

    Processes that call it at once wait for one another. Raises Conflict where a file that was
    applied has been changed since: mend with a new migration.
    """
    await connection.execute("select pg_advisory_lock($1)", _LOCK)
    try:
        await connection.execute(_JOURNAL)
        rows = await connection.fetch("select name, checksum from ledger_migration.applied")
        done = {row["name"]: row["checksum"] for row in rows}
        fresh: list[str] = []
        for migration in read_migrations():
            if migration.name in done:
                _require_same(migration, done[migration.name])
                continue
            async with connection.transaction():
                await connection.execute(_TIMEOUTS)
                await connection.execute(migration.text)
                await connection.execute(
                    "insert into ledger_migration.applied (name, checksum) values ($1, $2)",
                    migration.name,
                    migration.checksum,
                )
            fresh.append(migration.name)
            applied(migration.name)
        await make_partitions(connection, ahead=ahead)
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)
    return fresh


async def pending_migrations(connection: Connection) -> list[str]:
    """Name the shipped migrations that this database lacks."""
    known = await connection.fetchval("select to_regclass('ledger_migration.applied')")
    if known is None:
        return [migration.name for migration in read_migrations()]
    rows = await connection.fetch("select name from ledger_migration.applied")
    done = {row["name"] for row in rows}
    return [migration.name for migration in read_migrations() if migration.name not in done]


def _require_same(migration: Migration, checksum: str) -> None:
    if migration.checksum != checksum:
        message = (
            f"migration {migration.name} was applied and has been changed since; "
            "restore the file and put the change into a new migration"
        )
        raise Conflict(message, migration=migration.name)
