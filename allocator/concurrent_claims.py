"""Concurrent claims for light flows, so that no claim waits for another's commit."""

import asyncio
from collections import Counter, deque
from contextlib import AsyncExitStack
from time import monotonic
from types import TracebackType
from typing import Final, Self, final

from dueledger.allocator.claim_loop import ClaimLoop
from dueledger.ledger.store import Connection, Pool

CONCURRENT_CLAIMS_MAX: Final = 2
SPACING_SECONDS: Final = 0.006
"""A claim costs 2 to 4 ms of CPU in all processes together, however few items it has."""
SPACING_SECONDS_MAX: Final = 0.025
PUBLISHING_MAX: Final = 8


@final
class ConcurrentClaims:
    """The claims of one pass. Connections are acquired when first needed and kept for the pass."""

    def __init__(self, pool: Pool, claim_loop: ClaimLoop) -> None:
        self._pool = pool
        self._claim_loop = claim_loop
        self._exits = AsyncExitStack()
        self._free: deque[Connection] = deque()
        self._began_at = float("-inf")
        self.busy: set[asyncio.Task[bool]] = set()

    async def __aenter__(self) -> Self:
        """Start a pass."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the pass: wait for running claims and release the connections."""
        try:
            await asyncio.gather(*self.busy, return_exceptions=True)
        finally:
            await self._exits.aclose()

    def next_start_at(self, *, heavy_active: bool) -> float:
        """Return when the next claim may start; infinity while the most allowed are running."""
        if (
            len(self.busy) == CONCURRENT_CLAIMS_MAX
            or len(self._claim_loop.publishing) >= PUBLISHING_MAX
        ):
            return float("inf")
        return self._began_at + spacing_seconds(
            self._claim_loop.claim_seconds, heavy_active=heavy_active
        )

    def start(self, counts: Counter[str]) -> None:
        """Make one claim in the background."""
        self._began_at = monotonic()
        task = asyncio.create_task(self._claim_once(counts))
        self.busy.add(task)

    def raise_failures(self) -> None:
        """Raise the error of a claim that has ended."""
        for task in [task for task in self.busy if task.done()]:
            self.busy.remove(task)
            task.result()

    async def _claim_once(self, counts: Counter[str]) -> bool:
        if not self._free:
            self._free.append(await self._exits.enter_async_context(self._pool.acquire()))
        connection = self._free.popleft()
        try:
            return await self._claim_loop.claim_once(connection, counts)
        finally:
            self._free.append(connection)


def spacing_seconds(claim_seconds: float, *, heavy_active: bool) -> float:
    """Return the time between the starts of two claims, from how long a claim takes.

    It is about the duration of a claim: the slower claims are, the more items each of them has.
    While heavy flows are claimed the machine is busy, and fewer, larger claims cost less.
    """
    if heavy_active:
        return SPACING_SECONDS_MAX
    return min(SPACING_SECONDS_MAX, max(SPACING_SECONDS, claim_seconds))
