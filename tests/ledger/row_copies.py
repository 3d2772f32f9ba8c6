"""Copies of rows that differ in some columns: what a statement must tell apart."""

from typing import Any

from .conftest import Ledger


async def copy_row(ledger: Ledger, table: str, **other: object) -> None:
    """Insert the first row of a table again, with these values; null for None."""
    await ledger.connection.execute(
        f"insert into ledger.{table} overriding system value"  # noqa: S608 - names of the test
        f" select (jsonb_populate_record(null::ledger.{table}, to_jsonb(r) || $1::jsonb)).*"
        f" from (select * from ledger.{table} order by 1, 2 limit 1) r",
        {name: None if value is None else str(value) for name, value in other.items()},
    )


async def read_rows(ledger: Ledger, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted."""
    rows = await ledger.connection.fetch(
        f"select * from ledger.{table} t order by t"  # noqa: S608 - a name of the test
    )
    return [tuple(row) for row in rows]
