"""The baseline has every file of sql/schema once; migrations are applied by number."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from dueledger.doctor import run_checks
from dueledger.ledger.errors import Conflict, DueledgerError, SchemaTooNew, SchemaTooOld
from dueledger.ledger.materialise import MaterialiserSettings, open_materialiser
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection, migrations
from dueledger.ledger.store.migrations import migrate, pending_migrations, read_migrations
from dueledger.ledger.store.schema_version import require_usable_schema, shipped_number
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


# Upgrades. `shipped` is what code of another version would ship.


def test_each_migration_after_the_baseline_says_which_code_can_use_the_schema_after_it() -> None:
    for migration in read_migrations()[1:]:
        assert re.search(r"^-- code: \d+$", migration.text, re.MULTILINE), migration.name
        assert 1 <= migration.code_min <= migration.number


async def test_a_migration_is_applied_to_the_ledger_that_is_there_and_old_code_goes_on(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("migrations", "schema"):
        shutil.copytree(SQL_ROOT / folder, tmp_path / folder)
    old, new = shipped_number(), shipped_number() + 1
    added = tmp_path / "migrations" / f"{new:04}_add_a_note.sql"
    added.write_text(f"-- code: {old}\nalter table ledger.cell add column note text;\n")
    monkeypatch.setattr(migrations, "SQL_ROOT", tmp_path)
    assert await pending_migrations(connection) == [added.stem]
    with pytest.raises(SchemaTooOld, match=f"at migration {old}, and this version needs {new}"):
        await require_usable_schema(connection, new)
    assert await migrate(connection) == [added.stem]
    assert await migrate(connection) == []
    await connection.execute("update ledger.cell set note = 'new code writes it'")
    for shipped in (old, new):
        await require_usable_schema(connection, shipped)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ("set name = '0000_before'", SchemaTooOld),
        (f"set code_min = {shipped_number() + 1}", SchemaTooNew),
    ],
)
async def test_a_process_refuses_a_schema_that_it_cannot_use(
    connection: Connection, database: str, change: str, refused: type[DueledgerError]
) -> None:
    await connection.execute(f"update ledger_migration.applied {change}")
    settings = {"dsn": database}
    with pytest.raises(refused):
        async with open_materialiser(MaterialiserSettings.model_validate(settings)):
            pass
    assert not await connection.fetchval("select count(*) from ledger.process")
    checks = [check async for check in run_checks(Settings.model_validate(settings))]
    [schema] = [check for check in checks if check.name == "schema"]
    assert schema.health == "fail"
    if refused is SchemaTooNew:
        with pytest.raises(SchemaTooNew):
            await migrate(connection)
