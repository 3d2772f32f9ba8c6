"""Monthly table partitions: creation ahead of time, checks for lost items, and change marks."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

AHEAD: Final = timedelta(days=396)
COUNT_TIMEOUT_SECONDS: Final = 600.0
"""For statements that read all items of a month: 1.3 s for a million items if one is lost."""


async def make_partitions(connection: Connection, *, ahead: timedelta = AHEAD) -> int:
    """Create missing partitions up to `ahead` of the business clock; return how many."""
    return await connection.fetchval(statement("make_partitions"), ahead)


async def finish_month(connection: Connection) -> bool:
    """Exclude a month without open claims or runs from the plans that look for these.

    A month that is over takes two calls, each a transaction of its own. Returns False if there is
    none. The second call reads the month, and delays no other statement.
    """
    return await connection.fetchval(statement("finish_month"), timeout=COUNT_TIMEOUT_SECONDS)


async def make_event_months(connection: Connection, months: Sequence[date]) -> int:
    """Create the inbox's partitions for these months, each given by its first day."""
    return await connection.fetchval(statement("make_event_months"), months)


async def take_unchecked_month(
    connection: Connection, *, rest_seconds: float, first_seconds: float
) -> tuple[date, date] | None:
    """Select the month whose items were counted longest ago, and record that they are counted now.

    Months counted within `rest_seconds` or created within `first_seconds` are skipped. Returns the
    month's first day and the day after its last.
    """
    row = await connection.fetchrow(statement("take_unchecked_month"), rest_seconds, first_seconds)
    return None if row is None else (row["starts_on"], row["ends_before"])


async def count_lost(connection: Connection, from_date: date, to_date: date) -> int:
    """Return the number of items of these effective dates minus their states; 0 is correct.

    Negative if items have two states. It takes 0.12 s for a million items, and 1 us for a pending
    one; a partition that is being made may be counted in part.
    """
    return await connection.fetchval(
        statement("count_lost"), from_date, to_date, timeout=COUNT_TIMEOUT_SECONDS
    )


async def lock_partitions(connection: Connection) -> bool:
    """Prevent new partitions until this transaction ends; return False if one is being created."""
    return await connection.fetchval(statement("lock_partitions"))


async def recover_items(
    connection: Connection, from_date: date, to_date: date, *, limit: int, actor_no: int
) -> list[UUID]:
    """Make items without a state pending again, after `lock_partitions` in the transaction."""
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
    """List marks that change when their rows have changed: from_date, to_date (excluded), mark.

    One mark for each range of effective dates with partitions, and one without dates for all open
    items. A mark changes some time after the commit, and its value never repeats. Ranges that
    cannot be counted are left out.
    """
    return await connection.fetch(statement("list_change_marks"))
