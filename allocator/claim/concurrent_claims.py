"""Hands that claim for light flows beside each other, so that none waits for another's commit."""

import asyncio
from collections import Counter, deque
from contextlib import AsyncExitStack
from time import monotonic
from types import TracebackType
from typing import Final, Self, final

from dueledger.allocator.claim.claim_loop import ClaimLoop
from dueledger.ledger.store import Connection, Pool

CONCURRENT_CLAIMS_MAX: Final = 2
SPACING_SECONDS: Final = 0.006
"""A claim costs 2 to 4 ms of CPU on all sides together, however few items it has."""
SPACING_SECONDS_MAX: Final = 0.025
PUBLISHING_MAX: Final = 8


@final
class ConcurrentClaims:
    """The hands of one pass: each has a connection from its first claim on."""

    def __init__(self, pool: Pool, track: ClaimLoop) -> None:
        self._pool = pool
        self._claim_loop = track
        self._exits = AsyncExitStack()
        self._free: deque[Connection] = deque()
        self._began_at = float("-inf")
        self.busy: set[asyncio.Task[bool]] = set()

    async def __aenter__(self) -> Self:
        """Begin a pass."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it: wait for what the hands do, and give their connections back."""
        try:
            await asyncio.gather(*self.busy, return_exceptions=True)
        finally:
            await self._exits.aclose()

    def next_start_at(self, *, flooded: bool) -> float:
        """Say when the next claim may begin; never while all are busy."""
        if (
            len(self.busy) == CONCURRENT_CLAIMS_MAX
            or len(self._claim_loop.publishing) >= PUBLISHING_MAX
        ):
            return float("inf")
        return self._began_at + spacing_seconds(self._claim_loop.claim_seconds, flooded=flooded)

    def start(self, counts: Counter[str]) -> None:
        """Claim a round with a free hand, in the background."""
        self._began_at = monotonic()
        task = asyncio.create_task(self._claim_once(counts))
        self.busy.add(task)

    def raise_failures(self) -> None:
        """Raise what a hand met that has ended."""
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


def spacing_seconds(round_seconds: float, *, flooded: bool) -> float:
    """Say how far apart claims begin that take so long.

    About as far as they take, so that the slower they are the more each has to hand out. Beside a
    flood the machine is full: few claims of more items leave more of it to all, these included.
    """
    if flooded:
        return SPACING_SECONDS_MAX
    return min(SPACING_SECONDS_MAX, max(SPACING_SECONDS, round_seconds))
