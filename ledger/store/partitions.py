"""Monthly partitions: made ahead, and watched for changes."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from ledger.store.connection import Connection, Record
from ledger.store.statements import statement

AHEAD: Final = timedelta(days=396)


async def make_partitions(connection: Connection, *, ahead: timedelta = AHEAD) -> int:
    """Make what is missing up to `ahead` of business time; return how many were made."""
    return await connection.fetchval(statement("make_partitions"), ahead)


async def make_event_months(connection: Connection, months: Sequence[date]) -> int:
    """Make the inbox's partitions for these months (each the first of its month)."""
    return await connection.fetchval(statement("make_event_months"), months)


async def list_change_marks(connection: Connection) -> list[Record]:
    """List marks that change once what they stand for has: from_date, to_date (excluded), mark.

    One for each range of effective dates that has partitions, and one without dates for all that is
    open. A mark follows a commit late, and never comes twice. What cannot be counted is not listed.
    """
    return await connection.fetch(statement("list_change_marks"))
