"""How much of the service one request, and one caller, may have at a time."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

from dueledger.ledger.errors import ServiceBusy
from dueledger.ledger.store import Connection, Pool

WAIT_SECONDS: Final = 5.0
"""For a connection, or for memory. Then the client gets 503, and may ask another process."""
REQUESTS_MAX: Final = 2_000
DOWNLOADS_OF_ONE: Final = 2
"""That one caller may have at a time in a process."""
SMALL_BODY_BYTES: Final = 64 * 1024
ARRIVING_BODIES: Final = 4
READ_BODIES: Final = 2
"""Of the largest size, in memory at a time: while they arrive, which clients may make slow, and
while they are worked. A body of numbers becomes ten times its bytes when it is read."""


def busy(what: str) -> ServiceBusy:
    """Return the error of a request that would have to wait too long."""
    return ServiceBusy(f"{what} Nothing was changed. Wait, and try again.", seconds=1)


def share_of_one(whole: int) -> int:
    """Return how much of what all callers share one of them may have: three quarters."""
    return max(1, whole - max(1, whole // 4))


class RequestShares:
    """Admits requests: of one caller at most three quarters at a time, long polls among them."""

    def __init__(self, requests_max: int) -> None:
        self._each = share_of_one(requests_max)
        self._open = Counter[int]()

    @contextmanager
    def admit(self, actor_no: int) -> Generator[None]:
        """Count a request of a caller for the block. Raises ServiceBusy."""
        if self._open[actor_no] >= self._each:
            raise busy("This caller has too many requests at a time.")
        self._open[actor_no] += 1
        try:
            yield
        finally:
            self._open[actor_no] -= 1
            if not self._open[actor_no]:
                del self._open[actor_no]


class BodyBudget:
    """Bounds the bytes of all bodies in memory; one caller has at most three quarters of them.

    Small ones are as many as there are requests.
    """

    def __init__(self, bytes_max: int) -> None:
        self._free = bytes_max
        self._each = share_of_one(bytes_max)
        self._used = Counter[int]()
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def reserve(self, size: int, actor_no: int) -> AsyncGenerator[None]:
        """Reserve bytes of a caller for the block, when they are free.

        Raises ServiceBusy after 5 s.
        """
        if size <= SMALL_BODY_BYTES:
            yield
            return
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not self._fits(size, actor_no):
                    await self._until_changed()
        except TimeoutError:
            raise busy("Other large requests are in progress.") from None
        self._take(size, actor_no)
        try:
            yield
        finally:  # without waiting, so that no cancellation comes in between
            self._take(-size, actor_no)
            for each in self._waiting:
                if not each.done():
                    each.set_result(None)

    def _fits(self, size: int, actor_no: int) -> bool:
        return size <= min(self._free, self._each - self._used[actor_no])

    def _take(self, size: int, actor_no: int) -> None:
        self._free -= size
        self._used[actor_no] += size
        if not self._used[actor_no]:
            del self._used[actor_no]

    async def _until_changed(self) -> None:
        changed = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        try:
            await changed
        finally:
            self._waiting.remove(changed)


class DownloadShares:
    """Admits downloads: two of a caller at a time, and of all one for two connections.

    Each has a connection only while it reads a part, so pages always find one.
    """

    def __init__(self, connections_max: int) -> None:
        self._all = max(1, connections_max // 2)
        self._open = Counter[int]()

    @property
    def count(self) -> int:
        """Return how many there are now."""
        return self._open.total()

    @contextmanager
    def admit(self, actor_no: int) -> Generator[None]:
        """Count a download of a caller for the block. Raises ServiceBusy."""
        if self._open[actor_no] >= DOWNLOADS_OF_ONE:
            raise busy("This caller has too many downloads at a time.")
        if self.count >= self._all:
            raise busy("The service has too many downloads at a time.")
        self._open[actor_no] += 1
        try:
            yield
        finally:
            self._open[actor_no] -= 1
            if not self._open[actor_no]:
                del self._open[actor_no]


class ConnectionShares:
    """Lends connections of the pool: to one caller at most three quarters of them at a time."""

    def __init__(self, pool: Pool, connections_max: int) -> None:
        self.downloads = DownloadShares(connections_max)
        self._pool = pool
        self._each = share_of_one(connections_max)
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
