"""Monthly table partitions: creation, checks for lost items, and change marks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

AHEAD: Final = timedelta(days=396)
MOVED_ROWS_MAX: Final = 10_000
"""Rows that leave a default partition at once; everybody waits for 30 ms."""
MOVE_ALL_TIMEOUT_SECONDS: Final = 3600.0
"""A minute for a million items, of which others wait for 6 s."""
COUNT_TIMEOUT_SECONDS: Final = 600.0
"""For statements that read all items of a month: 1.3 s for a million items if one is lost."""


@dataclass(frozen=True, slots=True)
class DefaultPartition:
    """Items outside the monthly partitions, and the months that have too many to be moved."""

    items: int
    unmade: Sequence[date]
    lacks_next: bool
    """The next month has no partition yet, which should be made 13 months ahead."""


async def finish_month(connection: Connection) -> bool:
    """Exclude a month without open claims or runs from the plans that look for these.

    A month that is over takes two calls, each a transaction of its own. Returns False if there is
    none. The second call reads the month, and delays no other statement.
    """
    return await connection.fetchval(statement("finish_month"), timeout=COUNT_TIMEOUT_SECONDS)


async def make_partitions(
    connection: Connection, *, ahead: timedelta = AHEAD, rows_max: int | None = MOVED_ROWS_MAX
) -> int:
    """Make missing partitions up to `ahead` of the business clock; return how many.

    A month is left out while its rows in the default partition are more than `rows_max`, or locked
    by somebody: items of it are emitted into the default partition meanwhile. None moves them all,
    however long everybody waits.
    """
    missing = await connection.fetch(statement("list_missing_partitions"), ahead)
    made = [
        await _make_partition(connection, row["parent"], row["starts_on"], rows_max)
        for row in missing
    ]
    return made.count(True)


async def list_unmade_item_months(connection: Connection, days: Iterable[date]) -> list[date]:
    """List the months of these dates whose items would go to the default partition."""
    return await _list_unmade(connection, "due_item", days)


async def make_item_months(connection: Connection, days: Iterable[date]) -> None:
    """Make the partitions that items of these dates need, before a bulk of them is emitted.

    Call it outside a transaction. A month that cannot be made now is left out.
    """
    await _make_months(connection, "due_item", days)


async def make_event_months(connection: Connection, days: Iterable[date]) -> None:
    """Make the partitions that events of these dates need. Call it outside a transaction."""
    await _make_months(connection, "event", days)


async def has_event_month(connection: Connection, day: date) -> bool:
    """Return whether there is a partition for events of a date."""
    return not await _list_unmade(connection, "event", [day])


async def split_default_partition(connection: Connection) -> tuple[int, int]:
    """Make the partitions of months that have items in the default partition.

    Returns how many were made, and how many could not be made now. Months with too many items are
    left out; `make_partitions` tries those again.
    """
    months = await connection.fetch(statement("list_default_months"))
    made = [
        await _make_partition(connection, "due_item", row["starts_on"], MOVED_ROWS_MAX)
        for row in months
    ]
    return made.count(True), made.count(False)


async def _make_months(connection: Connection, parent: str, days: Iterable[date]) -> None:
    for day in await _list_unmade(connection, parent, days):
        await _make_partition(connection, parent, day, MOVED_ROWS_MAX)


async def _list_unmade(connection: Connection, parent: str, days: Iterable[date]) -> list[date]:
    rows = await connection.fetch(statement("list_unmade_months"), parent, sorted(set(days)))
    return [row["starts_on"] for row in rows]


async def _make_partition(
    connection: Connection, parent: str, day: date, rows_max: int | None
) -> bool:
    """Make one partition in a transaction that the server commits, whatever becomes of us."""
    return await connection.fetchval(
        statement("make_partition"),
        *(parent, day, rows_max),
        timeout=MOVE_ALL_TIMEOUT_SECONDS if rows_max is None else None,
    )


async def read_default_partition(connection: Connection, *, items_max: int) -> DefaultPartition:
    """Read what is outside the monthly partitions; count no more than `items_max` items."""
    (row,) = await connection.fetch(statement("read_default_partition"), items_max)
    return DefaultPartition(row["items"], row["unmade"], row["lacks_next"])


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
