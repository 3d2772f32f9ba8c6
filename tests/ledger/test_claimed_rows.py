"""The columns of claimed rows have the names that the statements give them."""

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.claimed_rows import CLAIMED_COLUMNS
from dueledger.ledger.store.statements import statement


@pytest.mark.parametrize("name", ["claim_items", "claim_serial_items"])
async def test_a_claimed_rows_columns_are_those_of_its_statement(
    name: str, connection: Connection
) -> None:
    prepared = await connection.prepare(statement(name))
    assert [column.name for column in prepared.get_attributes()] == list(CLAIMED_COLUMNS)
