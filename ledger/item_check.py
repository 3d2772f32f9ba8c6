"""Counts the items of each month, recovers lost items, and finishes months that are over.

An item is pending, handed out, in review or ended. A lost item is none of these. No statement may
lose one; this check exists in case one does.
"""

from datetime import date
from time import monotonic
from typing import Final, final
from uuid import UUID

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection, Pool, long_transaction
from dueledger.ledger.store.partitions import (
    count_lost,
    finish_month,
    lock_partitions,
    recover_items,
    take_unchecked_month,
)

CHECK_SECONDS: Final = 3600.0
"""How often the items of a month are counted at most."""
CHECK_FIRST_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 30.0
TIME_DIVISOR: Final = 200  # counting takes 0.12 s for a million items: 1/200 of the time
RECOVERED_MAX: Final = 100
"""A fault of a claim loses fewer items. If more are lost, somebody changed the tables."""


@final
class ItemCheck:
    """Checks and finishes one month at a time. Several processes share the months."""

    def __init__(self, pool: Pool, *, actor_no: int, role: str) -> None:
        self._pool = pool
        self._actor_no = actor_no
        self._log = get_logger(role)
        self._next_at = float("-inf")
        self._postponed: tuple[date, date] | None = None

    async def tick(self) -> dict[str, int]:
        """Check a month if one is due for a check; count the items that were recovered."""
        began = monotonic()
        if began < self._next_at:
            return {}
        self._next_at = began + PAUSE_SECONDS
        postponed, self._postponed = self._postponed, None
        async with self._pool.acquire() as connection:
            month = postponed or await take_unchecked_month(
                connection, rest_seconds=CHECK_SECONDS, first_seconds=CHECK_FIRST_SECONDS
            )
            try:
                async with long_transaction(connection):
                    await finish_month(connection)
                return {"recovered": await self._check(connection, month)} if month else {}
            finally:
                ended = monotonic()
                self._next_at = ended + TIME_DIVISOR * (ended - began)

    async def pause_seconds(self) -> float:
        """Return the time until the next check."""
        return max(0.0, self._next_at - monotonic())

    async def _check(self, connection: Connection, month: tuple[date, date]) -> int:
        lost = await self._count_lost(connection, month)
        if lost == 0:
            return 0
        ids = await self._recover(connection, month) if 0 < lost <= RECOVERED_MAX else []
        if ids is None:
            self._postponed = month
            return 0
        from_date, to_date = map(str, month)
        if ids:
            self._log.error(
                LogEvent.ITEM_RECOVERED,
                items=len(ids),
                ids=list(map(str, ids)),
                from_date=from_date,
                to_date=to_date,
            )
        elif await self._count_lost(connection, month):
            self._log.error(
                LogEvent.ITEM_MISPLACED, lost=lost, from_date=from_date, to_date=to_date
            )
        return len(ids)

    async def _count_lost(self, connection: Connection, month: tuple[date, date]) -> int:
        async with long_transaction(connection):
            return await count_lost(connection, *month)

    async def _recover(self, connection: Connection, month: tuple[date, date]) -> list[UUID] | None:
        """Recover lost items; None if a partition is being made, whose rows may be invisible."""
        async with long_transaction(connection):
            if not await lock_partitions(connection):
                return None
            return await recover_items(
                connection, *month, limit=RECOVERED_MAX, actor_no=self._actor_no
            )
