"""The baseline has every file of sql/schema once; migrations are applied by number."""

import re
from collections import Counter

import pytest

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store import Connection
from dueledger.ledger.store.migrations import migrate, pending_migrations, read_migrations
from dueledger.ledger.store.statements import SQL_ROOT

BASELINE = "0001_baseline"
FUNCTION = re.compile(r"^create (?:or replace )?function (ledger\.\w+)", re.MULTILINE)


def test_the_baseline_migration_includes_each_file_of_the_schema_once() -> None:
    text = (SQL_ROOT / "migrations" / f"{BASELINE}.sql").read_text()
    included = re.findall(r"^\\ir \.\./schema/(\S+)$", text, re.MULTILINE)
    files = [
        str(path.relative_to(SQL_ROOT / "schema")) for path in SQL_ROOT.rglob("schema/**/*.sql")
    ]
    assert sorted(included) == sorted(files)
    baseline = read_migrations()[0]
    assert baseline.name == BASELINE
    assert "\\ir" not in baseline.text


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    numbers = [migration.number for migration in read_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_body_of_each_function_is_in_the_baseline_migration_once() -> None:
    counts = Counter(FUNCTION.findall(read_migrations()[0].text))
    assert counts
    assert set(counts.values()) == {1}


async def test_migrations_applied_already_are_not_applied_again(connection: Connection) -> None:
    assert await pending_migrations(connection) == []
    assert await migrate(connection) == []


async def test_a_migration_changed_after_it_was_applied_is_refused(connection: Connection) -> None:
    await connection.execute(
        "update ledger_migration.applied set checksum = 'another' where name = $1", BASELINE
    )
    with pytest.raises(Conflict, match=f"{BASELINE} was applied and has been changed since"):
        await migrate(connection)


async def test_a_migration_missing_below_the_highest_applied_is_refused(
    connection: Connection,
) -> None:
    await connection.execute("update ledger_migration.applied set name = '0180_of_another_history'")
    with pytest.raises(
        Conflict, match=f"{BASELINE} was not applied, and 0180_of_another_history was"
    ):
        await migrate(connection)
    rows = await connection.fetch("select name from ledger_migration.applied")
    assert [row["name"] for row in rows] == ["0180_of_another_history"]
