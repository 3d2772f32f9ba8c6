"""How much is written to each table: what has changed since a page was made."""

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def read_activity(connection: Connection) -> dict[str, int]:
    """Return rows written to each table since the server counts.

    A session that writes is counted within a second, the last write before it rests within ten.
    """
    rows = await connection.fetch(statement("read_activity"))
    return {row["name"]: row["rows"] for row in rows}
