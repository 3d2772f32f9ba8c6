"""Functions that run with their owner's rights may be called only by roles that need them."""

import pytest

from dueledger.ledger.store import Connection

OPEN_TO_ALL: set[str] = set()
"""Functions with the owner's rights that everybody may call."""


async def test_nobody_calls_by_chance_what_runs_with_the_owners_rights(
    connection: Connection,
) -> None:
    rows = await connection.fetch(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname = 'ledger' and p.prosecdef"
        " and has_function_privilege('public', p.oid, 'execute')"
    )
    assert {row["proname"] for row in rows} == OPEN_TO_ALL


@pytest.mark.parametrize("role", ["ledger_auditor", "ledger_emitter"])
async def test_no_trigger_of_another_table_ends_items(connection: Connection, role: str) -> None:
    may = "select has_function_privilege($1, 'ledger.finish_items()', 'execute')"
    assert await connection.fetchval(may, role) is False
