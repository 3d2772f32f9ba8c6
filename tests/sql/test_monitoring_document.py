"""docs/monitoring.md names what a monitor may watch, and nothing that is not there."""

import re
from pathlib import Path

from dueledger.ledger.store import Connection

DOCUMENT = Path(__file__).resolve().parents[2].joinpath("docs", "monitoring.md").read_text("utf-8")
FIRST_CELLS = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)


def _names(after: str) -> list[str]:
    section = DOCUMENT.split(f"\n## {after}")[1].split("\n## ")[0]
    return [name for cell in FIRST_CELLS.findall(section) for name in re.findall(r"`(.*?)`", cell)]


async def test_each_column_of_the_view_is_described(connection: Connection) -> None:
    columns = await connection.fetch(
        "select attname from pg_attribute where attrelid = 'ledger.depth'::regclass and attnum > 0"
    )
    assert sorted(_names("How much")) == sorted(row["attname"] for row in columns)


async def test_each_table_with_an_autovacuum_of_its_own_is_named_as_hot(
    connection: Connection,
) -> None:
    tables = await connection.fetch(
        "select oid::regclass::text as name from pg_class where relkind = 'r'"
        " and not relispartition and array_to_string(reloptions, ',') like '%vacuum_threshold%'"
    )
    assert sorted(_names("Hot tables")) == sorted(row["name"] for row in tables)


async def test_each_index_that_is_named_exists(connection: Connection) -> None:
    for name in re.findall(r"`(\w+_idx)`", DOCUMENT):
        assert await connection.fetchval("select to_regclass($1)", f"ledger.{name}") is not None
