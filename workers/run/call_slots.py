"""The places of a crew: so many calls run at once, and a few more are started ahead of them.

A start is a commit. Where calls are short a crew would spend more time between them than in them,
so items are started while others still run, and each takes the place of one that ends. How many is
a matter of time: what waits here is some hundredths of a second ahead, never more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

AHEAD_SECONDS: Final = 0.05
AHEAD_CALLS_MAX: Final = 256
AHEAD_WAIT_SECONDS: Final = 1.0  # in which what is ahead must have begun: calls were short
_NEWEST: Final = 0.1  # of the mean


@final
class CallSlots:
    """Gives `count` places in the order asked for, and knows how long calls keep them."""

    def __init__(self, count: int, *, goes_ahead: bool) -> None:
        self._count = count
        self._goes_ahead = goes_ahead
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._mean_seconds: float | None = None

    @property
    def ahead_calls(self) -> int:
        """How many calls may be started beyond the places that there are."""
        if not self._goes_ahead or self._mean_seconds is None or self._free < 0:
            return 0
        seconds = max(self._mean_seconds, self._count * AHEAD_SECONDS / AHEAD_CALLS_MAX)
        return int(self._count * AHEAD_SECONDS / seconds)

    def startable_calls(self, busy: int) -> int:
        """Return how many calls to start while so many are started or run.

        None until half of those ahead have begun: few large starts, not many small ones.
        """
        ahead = self.ahead_calls
        startable = self._count + ahead - busy
        return startable if startable > 0 and 2 * startable >= ahead else 0

    def record_duration(self, seconds: float) -> None:
        """Note how long a call kept its place."""
        if self._mean_seconds is None:
            self._mean_seconds = seconds
        else:
            self._mean_seconds += _NEWEST * (seconds - self._mean_seconds)

    async def acquire(self, timeout_seconds: float) -> bool:
        """Take a place, or return False where none came free in time."""
        if self._free > 0:
            self._free -= 1
            return True
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            async with asyncio.timeout(timeout_seconds):
                await slot
        except BaseException as error:
            if slot.done() and not slot.cancelled():
                self.release()
            if isinstance(error, TimeoutError):
                self._mean_seconds = AHEAD_WAIT_SECONDS
                return False
            raise
        return True

    def acquire_overdue(self) -> None:
        """Take a place for a call that does not end."""
        self._free -= 1

    def release(self) -> None:
        """Give a place back."""
        self._free += 1
        while self._waiting and self._free > 0:
            next_one = self._waiting.popleft()
            if not next_one.done():
                self._free -= 1
                next_one.set_result(None)
