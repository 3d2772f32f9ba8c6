"""Keys of serial items: free those of ended or missing items, and unblock the items that wait."""

from dataclasses import dataclass

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class WokenItems:
    """Number of unblocked items, and the key to continue after; None if all keys were visited."""

    unblocked: int
    reached: int | None


async def release_keys(connection: Connection, after_serial: int | None, limit: int) -> WokenItems:
    """Unblock items that wait for a key that is free, for `limit` keys after `after_serial`."""
    start = -(2**63) if after_serial is None else after_serial
    row = await connection.fetchrow(statement("release_keys"), start, limit)
    return WokenItems(**row) if row else WokenItems(0, None)


async def free_ended_keys(
    connection: Connection, after_serial: int | None, limit: int
) -> tuple[int, int | None]:
    """Free keys whose items have ended or are missing, of `limit` keys after `after_serial`.

    A missing item that waits, is open or in review keeps its key. Returns how many were freed, and
    the key to continue after; None if all keys were visited.
    """
    start = -(2**63) if after_serial is None else after_serial
    row = await connection.fetchrow(statement("free_ended_keys"), start, limit)
    return (row["freed"], row["reached"]) if row else (0, None)
