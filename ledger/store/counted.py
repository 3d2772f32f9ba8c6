"""Statements that count the items they take and the items they find."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
from dueledger.ledger.store.statements import statement

T = TypeVar("T")


async def fetch_counted(connection: Connection, name: str, *arguments: object) -> list[Record]:
    """Run a statement that `ledger.none_lost` may refuse; if refused, repeat it once.

    See `repeat_counted`. The first run has no transaction of its own: a statement is one.
    """
    return await repeat_counted(connection, lambda: connection.fetch(statement(name), *arguments))


async def repeat_counted(connection: Connection, act: Callable[[], Awaitable[T]]) -> T:
    """Call `act`, whose statements `ledger.none_lost` may refuse; if refused, repeat it once.

    The counts differ for two reasons: a partition is newer than the plan, or somebody deleted an
    item by hand. The repeat runs in a transaction of its own in which no partition can be made, so
    only the second reason is left, and the rows of such items are dropped: one of them must not
    keep all the others. Raises UnseenPartition, with nothing changed, in a transaction of the
    caller's, or while a partition is being made.
    """
    try:
        with mapped_unseen_partition():
            return await act()
    except UnseenPartition:
        if connection.is_in_transaction():
            raise
    async with connection.transaction():
        if not await connection.fetchval(statement("lock_partitions")):
            raise UnseenPartition("a partition is being made: repeat the statement")
        await connection.fetchval(statement("drop_orphans"))
        return await act()
