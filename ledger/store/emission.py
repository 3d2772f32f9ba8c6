"""The statements by which services emit, on connections of their own drivers or by REST."""

import re
from collections.abc import Sequence
from functools import cache
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


@cache
def emission_query(parameter: str, *, of_one: bool) -> str:
    """Return the statement for one item or for many, with a driver's form of its parameters.

    `parameter` is a replacement of `re.sub`; its group 1 is the parameter's number.
    """
    lines = (statement("emit_item") if of_one else statement("emit_many")).splitlines()
    query = "\n".join(line for line in lines if not line.startswith("--"))
    return re.sub(r"\$(\d+)", parameter, query)


async def emit_by_key(connection: Connection, document: str) -> list[tuple[UUID, bool]]:
    """Emit the `items` of a JSON document; return the id of each, and whether it is new, in order.

    For a transaction in the name of an API key (`assume_role`). Payloads are kept to the letter.
    Raises InvalidItem if one is refused; then none is emitted.
    """
    with mapped_errors():
        rows = await connection.fetch(statement("emit_by_key"), document)
    return [(row["id"], row["created"]) for row in rows]


async def find_other_terms(
    connection: Connection, document: str, ords: Sequence[int]
) -> list[tuple[int, str]]:
    """Find which of the `items` of a JSON document the ledger has with other terms.

    Of those at some places, counted from 1: pairs of a place and a member that differs. For a
    transaction as of `emit_by_key`.
    """
    with mapped_errors():
        rows = await connection.fetch(statement("find_other_terms"), document, ords)
    return [(row["ord"], row["member"]) for row in rows]
