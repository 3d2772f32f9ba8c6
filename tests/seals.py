"""Rows that are sealed, changed as if they had been made so."""

from dueledger.ledger.store import Connection

_SEAL_AGAIN = """
update ledger.seal s set digest = ledger.row_digest(t)
from ledger.{what} t where s.what = '{what}' and s.number = t.{what}_no
"""


async def seal_again(connection: Connection, what: str) -> None:
    """Seal the rows of a table (definition, calendar or kind) as they are."""
    await connection.execute(_SEAL_AGAIN.format(what=what))


async def put_grace(connection: Connection, seconds: int) -> None:
    """Give all kinds another grace, as a policy that is put."""
    await connection.execute(
        "update ledger.kind set grace_seconds = $1, policy_version = policy_version + 1", seconds
    )
