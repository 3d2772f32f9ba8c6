"""Monthly partitions, made ahead."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from ledger.store.connection import Connection
from ledger.store.statements import statement

AHEAD: Final = timedelta(days=396)


async def make_partitions(connection: Connection, *, ahead: timedelta = AHEAD) -> int:
    """Make what is missing up to `ahead` of business time; return how many were made."""
    return await connection.fetchval(statement("make_partitions"), ahead)


async def make_event_months(connection: Connection, months: Sequence[date]) -> int:
    """Make the inbox's partitions for these months (each the first of its month)."""
    return await connection.fetchval(statement("make_event_months"), months)
