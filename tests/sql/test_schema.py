"""sql/schema.sql is what the migrations make: the file people read first."""

import os
import re
import subprocess

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import SQL_ROOT
from dueledger.stack import TEST_STACK_VARIABLE, Provider
from dueledger.stack.postgres import find_binaries

SCHEMA = SQL_ROOT / "schema.sql"
UPDATE_VARIABLE = "DUELEDGER_UPDATE_SCHEMA"
HEADING = """\
-- What the migrations make, as pg_dump prints it; monthly partitions left out.
-- Written by `make schema`, and compared by `make check`.
"""


def dump(dsn: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own pg_dump, our own database
        [
            find_binaries() / "pg_dump",
            "--schema-only",
            "--no-owner",
            "--schema=ledger",
            "--exclude-table=ledger.*_[12][0-9][0-9][0-9][0-9][0-9]",
            "--exclude-table=ledger.*_[12][0-9][0-9][0-9]",
            dsn,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    kept = [
        line
        for line in done.stdout.splitlines()
        if not re.match(r"--|SET |SELECT pg_catalog\.set_config|\\(un)?restrict", line)
    ]
    return HEADING + re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).rstrip() + "\n"


async def test_schema_dump_is_what_the_migrations_make(database: str) -> None:
    if os.environ.get(TEST_STACK_VARIABLE, Provider.EMBEDDED) != Provider.EMBEDDED:
        pytest.skip("the dump is made by the embedded server's own pg_dump")
    made = dump(database)
    if os.environ.get(UPDATE_VARIABLE):
        SCHEMA.write_text(made)
    assert SCHEMA.read_text() == made, "run `make schema` and read the difference"


UNCOMMENTED = """
select c.oid::regclass::text as object from pg_class c
where c.relnamespace = 'ledger'::regnamespace and c.relkind in ('r', 'p', 'v')
  and not c.relispartition and obj_description(c.oid, 'pg_class') is null
union all
select p.oid::regprocedure::text from pg_proc p
where p.pronamespace = 'ledger'::regnamespace and obj_description(p.oid, 'pg_proc') is null
"""


async def test_each_table_view_and_function_of_the_schema_has_a_comment(
    connection: Connection,
) -> None:
    rows = await connection.fetch(UNCOMMENTED)
    assert not [row["object"] for row in rows]


async def test_the_design_names_each_table(connection: Connection) -> None:
    design = (SQL_ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8")
    named = {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", design, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    rows = await connection.fetch(
        "select c.relname from pg_class c where c.relnamespace = 'ledger'::regnamespace"
        " and c.relkind in ('r', 'p') and not c.relispartition"
    )
    assert named == {row["relname"] for row in rows}
