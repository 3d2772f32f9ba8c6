"""The columns of claimed rows have the names that the statements give them."""

from collections.abc import Sequence

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.claimed_rows import CLAIMED_COLUMNS, GROUP_COLUMNS, RECORDED_COLUMNS
from dueledger.ledger.store.statements import statement


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("claim_items", GROUP_COLUMNS),
        ("claim_serial_items", CLAIMED_COLUMNS),
        ("claim_few_items", RECORDED_COLUMNS),
    ],
)
async def test_a_claimed_rows_columns_are_those_of_its_statement(
    name: str, columns: Sequence[str], connection: Connection
) -> None:
    prepared = await connection.prepare(statement(name))
    assert [column.name for column in prepared.get_attributes()] == list(columns)
