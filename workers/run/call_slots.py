"""The call slots of a handler pool: how many calls run at once, and how many are started ahead.

A start costs a commit. With short calls a pool would spend more time between calls than in them.
So items are started while others still run, and each takes the slot of a call that ends. Their
number follows from time: AHEAD_SECONDS of work waits here, never more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

AHEAD_SECONDS: Final = 0.05
AHEAD_CALLS_MAX: Final = 256
AHEAD_WAIT_SECONDS: Final = 1.0  # an item started ahead waits no longer than this for a slot
_NEWEST: Final = 0.1  # the weight of the newest duration in the mean


@final
class CallSlots:
    """Gives out `count` slots in the order of requests, and measures how long calls keep them."""

    def __init__(self, count: int, *, goes_ahead: bool) -> None:
        self._count = count
        self._goes_ahead = goes_ahead
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._mean_seconds: float | None = None

    @property
    def ahead_calls(self) -> int:
        """How many calls may be started beyond the number of slots."""
        if not self._goes_ahead or self._mean_seconds is None or self._free < 0:
            return 0
        seconds = max(self._mean_seconds, self._count * AHEAD_SECONDS / AHEAD_CALLS_MAX)
        return int(self._count * AHEAD_SECONDS / seconds)

    def startable_calls(self, busy: int) -> int:
        """Return how many calls to start while `busy` calls are started or running.

        It is 0 until half of the calls ahead run: few large starts cost less than many small ones.
        """
        ahead = self.ahead_calls
        startable = self._count + ahead - busy
        return startable if startable > 0 and 2 * startable >= ahead else 0

    def record_duration(self, seconds: float) -> None:
        """Record how long a call kept its slot."""
        if self._mean_seconds is None:
            self._mean_seconds = seconds
        else:
            self._mean_seconds += _NEWEST * (seconds - self._mean_seconds)

    async def acquire(self, timeout_seconds: float) -> bool:
        """Take a slot. Returns False if none became free in time."""
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
        """Take a slot for a call that is past its timeout and still runs."""
        self._free -= 1

    def release(self) -> None:
        """Release a slot."""
        self._free += 1
        while self._waiting and self._free > 0:
            next_one = self._waiting.popleft()
            if not next_one.done():
                self._free -= 1
                next_one.set_result(None)
