"""Keys of serial items: free those of ended or missing items, and unblock the items that wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

_FIRST: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class WokenItems:
    """Number of unblocked items, and the key to continue after; None if all keys were visited."""

    unblocked: int
    reached: int | None


async def release_keys(connection: Connection, after_serial: int | None, limit: int) -> WokenItems:
    """Unblock items that wait for a key that is free, for `limit` keys after `after_serial`."""
    start = _FIRST if after_serial is None else after_serial
    row = await connection.fetchrow(statement("release_keys"), start, limit)
    return WokenItems(**row) if row else WokenItems(0, None)


async def free_ended_keys(
    connection: Connection, after_serial: int | None, limit: int
) -> tuple[int, int | None]:
    """Free keys whose items have ended or are missing, of `limit` keys after `after_serial`.

    A missing item that waits, is open or in review keeps its key. Returns how many were freed, and
    the key to continue after; None if all keys were visited.
    """
    start = _FIRST if after_serial is None else after_serial
    row = await connection.fetchrow(statement("free_ended_keys"), start, limit, None)
    return (len(row["freed"]), row["reached"]) if row else (0, None)


async def free_ended_keys_of(connection: Connection, item_nos: Sequence[int]) -> set[int]:
    """Free the keys of these items, by number, as `free_ended_keys` does; return those freed."""
    row = await connection.fetchrow(statement("free_ended_keys"), _FIRST, len(item_nos), item_nos)
    return set(row["freed"]) if row else set()
