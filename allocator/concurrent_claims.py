"""Concurrent claims for light flows, so that no claim waits for another's commit."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from types import TracebackType
from typing import Final, Self, final

from dueledger.allocator.claim_loop import PUBLISHING_MAX, ClaimLoop
from dueledger.ledger.flows.shares import FlowShare
from dueledger.ledger.store import Connection, Pool, mapped_loss

CONCURRENT_CLAIMS_MAX: Final = 2
SPACING_SECONDS: Final = 0.006
"""A claim costs 2 to 4 ms of CPU in all processes together, however few items it has."""
SPACING_SECONDS_MAX: Final = 0.025
BURST_CLAIMS: Final = 4
"""So many claims may start at once after a time with fewer: then no item waits for the spacing."""


@final
class ConcurrentClaims:
    """The claims of one pass. Connections are acquired when first needed and kept for the pass."""

    def __init__(
        self, pool: Pool, claim_loop: ClaimLoop, on_ended: Callable[[asyncio.Task[None]], None]
    ) -> None:
        """`on_ended` is called when a claim has ended, and its connection is free again."""
        self._pool = pool
        self._claim_loop = claim_loop
        self._on_ended = on_ended
        self._exits = AsyncExitStack()
        self._free: list[Connection] = []
        self._pace = ClaimPace()
        self.busy: set[asyncio.Task[None]] = set()

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

    def next_start_at(self, spacing_seconds_min: float) -> float:
        """Return when the next claim may start; infinity while the most allowed are running."""
        if (
            len(self.busy) == CONCURRENT_CLAIMS_MAX
            or len(self._claim_loop.publishing) >= PUBLISHING_MAX
        ):
            return float("inf")
        return self._pace.next_start_at(self._spacing_seconds(spacing_seconds_min))

    def start(self, counts: Counter[str], spacing_seconds_min: float) -> bool:
        """Make one claim in the background. False if no flow can be claimed from."""
        shares = self._claim_loop.next_shares()
        if shares:
            self._pace.started(self._spacing_seconds(spacing_seconds_min), now=monotonic())
            claim = asyncio.create_task(self._claim(shares, counts))
            self.busy.add(claim)
            claim.add_done_callback(self._remove_ended)
            claim.add_done_callback(self._on_ended)
        return bool(shares)

    def raise_failures(self) -> None:
        """Raise the error of a claim that has ended."""
        for task in [task for task in self.busy if task.done()]:
            self.busy.remove(task)
            task.result()

    def _remove_ended(self, claim: asyncio.Task[None]) -> None:
        """Remove a claim that has ended, unless it failed: `raise_failures` raises its error."""
        if not has_failed(claim):
            self.busy.discard(claim)

    def _spacing_seconds(self, seconds_min: float) -> float:
        return spacing_seconds(self._claim_loop.claim_seconds, seconds_min)

    async def _claim(self, shares: Sequence[FlowShare], counts: Counter[str]) -> None:
        try:
            if not self._free:
                self._free.append(await self._exits.enter_async_context(self._pool.acquire()))
            # The one used last: its backend's memory is still in the caches of the CPU.
            connection = self._free.pop()
        except BaseException:
            self._claim_loop.return_unserved(shares)
            raise
        try:
            with mapped_loss(connection):
                await self._claim_loop.claim(connection, shares, counts)
        finally:
            self._free.append(connection)


@final
class ClaimPace:
    """The mean time between the starts of claims, which a burst may fall short of.

    It is the generic cell rate algorithm: each start moves a time on by one spacing, and the next
    one may be a burst ahead of that time.
    """

    def __init__(self) -> None:
        self._paced_until = float("-inf")

    def next_start_at(self, spacing_seconds: float) -> float:
        """Return when the next claim may start at this spacing."""
        return self._paced_until - (BURST_CLAIMS - 1) * spacing_seconds

    def started(self, spacing_seconds: float, *, now: float) -> None:
        """Take note of a claim that starts now."""
        self._paced_until = max(self._paced_until, now) + spacing_seconds


def has_failed(claim: asyncio.Task[None]) -> bool:
    """Return whether a claim that has ended failed."""
    return claim.cancelled() or claim.exception() is not None


def spacing_seconds(claim_seconds: float, seconds_min: float) -> float:
    """Return the mean time between the starts of two claims, from how long a claim takes.

    It is about the duration of a claim: the slower claims are, the more items each of them has.
    """
    return max(SPACING_SECONDS, seconds_min, min(SPACING_SECONDS_MAX, claim_seconds))
