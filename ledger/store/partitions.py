"""Monthly partitions: made ahead, and watched for changes."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

AHEAD: Final = timedelta(days=396)
COUNT_TIMEOUT_SECONDS: Final = 600.0
"""For statements that read all items of a month: 1.3 s a million where one is lost."""


async def make_partitions(connection: Connection, *, ahead: timedelta = AHEAD) -> int:
    """Make what is missing up to `ahead` of business time; return how many were made."""
    return await connection.fetchval(statement("make_partitions"), ahead)


async def make_event_months(connection: Connection, months: Sequence[date]) -> int:
    """Make the inbox's partitions for these months (each the first of its month)."""
    return await connection.fetchval(statement("make_event_months"), months)


async def take_unchecked_month(
    connection: Connection, *, rest_seconds: float, first_seconds: float
) -> tuple[date, date] | None:
    """Take the month whose items were counted longest ago, and note that they are counted now.

    One that was counted within `rest_seconds`, or made within `first_seconds`, is left for later.
    Returns its first day and the one after its last.
    """
    row = await connection.fetchrow(statement("take_unchecked_month"), rest_seconds, first_seconds)
    return None if row is None else (row["starts_on"], row["ends_before"])


async def count_lost(connection: Connection, from_date: date, to_date: date) -> int:
    """Count items of these effective dates less the places they stand in; 0 when all is well.

    Negative where items stand in two. 0.12 s a million items, and 1 us a pending one; a partition
    made meanwhile may be counted by half.
    """
    return await connection.fetchval(
        statement("count_lost"), from_date, to_date, timeout=COUNT_TIMEOUT_SECONDS
    )


async def lock_partitions(connection: Connection) -> bool:
    """Let no partition be made until this transaction ends; False where one is being made."""
    return await connection.fetchval(statement("lock_partitions"))


async def recover_items(
    connection: Connection, from_date: date, to_date: date, *, limit: int, actor_no: int
) -> list[UUID]:
    """Put items that stand nowhere back to work, behind `lock_partitions` in a transaction."""
    rows = await connection.fetch(
        statement("recover_items"),
        from_date,
        to_date,
        limit,
        actor_no,
        timeout=COUNT_TIMEOUT_SECONDS,
    )
    return [row["id"] for row in rows]


async def list_change_marks(connection: Connection) -> list[Record]:
    """List marks that change once what they stand for has: from_date, to_date (excluded), mark.

    One for each range of effective dates that has partitions, and one without dates for all that is
    open. A mark follows a commit late, and never comes twice. What cannot be counted is not listed.
    """
    return await connection.fetch(statement("list_change_marks"))
