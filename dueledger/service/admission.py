"""How much of the service one request, and one caller, may have at a time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from dueledger.ledger.errors import ServiceBusy
from dueledger.ledger.store import Connection, Pool

WAIT_SECONDS: Final = 5.0
"""For a connection, or for memory. Then the client gets 503, and may ask another process."""
SMALL_BODY_BYTES: Final = 64 * 1024
_BODIES: Final = 2
"""Of the largest size, in memory at a time. A body of numbers becomes ten times its bytes."""


def busy(what: str) -> ServiceBusy:
    """Return the error of a request that would have to wait too long."""
    return ServiceBusy(f"{what} Nothing was changed. Wait, and try again.", seconds=1)


class BodyBudget:
    """Bounds the bytes of all bodies in memory. Small ones are as many as there are requests."""

    def __init__(self, body_bytes_max: int) -> None:
        self._free = _BODIES * body_bytes_max
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncGenerator[None]:
        """Reserve bytes for the block, when they are free. Raises ServiceBusy after 5 s."""
        if size <= SMALL_BODY_BYTES:
            yield
            return
        async with self._changed:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._changed.wait_for(lambda: self._free >= size)
            except TimeoutError:
                raise busy("Other large requests are in progress.") from None
            self._free -= size
        try:
            yield
        finally:
            async with self._changed:
                self._free += size
                self._changed.notify_all()


class ConnectionShares:
    """Lends connections of the pool: to one caller at most three quarters of them at a time."""

    def __init__(self, pool: Pool, connections_max: int) -> None:
        self._pool = pool
        self._each = connections_max - max(1, connections_max // 4)
        self._shares: dict[int, asyncio.Semaphore] = {}
        self._users: dict[int, int] = {}

    @asynccontextmanager
    async def lend(self, actor_no: int | None = None) -> AsyncGenerator[Connection]:
        """Lend a connection for the block. Raises ServiceBusy after 5 s without one."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    if actor_no is not None:
                        await stack.enter_async_context(self._share_of(actor_no))
                    connection = await stack.enter_async_context(self._pool.acquire())
            except TimeoutError:
                raise busy("All connections to Postgres are in use.") from None
            yield connection

    @asynccontextmanager
    async def _share_of(self, actor_no: int) -> AsyncGenerator[None]:
        share = self._shares.setdefault(actor_no, asyncio.Semaphore(self._each))
        self._users[actor_no] = self._users.get(actor_no, 0) + 1
        try:
            async with share:
                yield
        finally:
            self._users[actor_no] -= 1
            if not self._users[actor_no]:
                del self._users[actor_no], self._shares[actor_no]
