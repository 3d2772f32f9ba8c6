"""The database's machine clock, extrapolated between two reads.

A signature has the time when it was made, and the receiver compares it with its own clock. The time
comes from the database's machine clock, because business time may be simulated and the receiver's
is not.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import final

from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_machine_now


@final
class DatabaseClock:
    """Returns the time as last read, plus what this process's monotonic clock counted since."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._read: tuple[datetime, float] | None = None

    async def synchronise(self, connection: Connection) -> None:
        """Read the database's clock."""
        began = self._clock()
        now = await read_machine_now(connection)
        self.set(now, at=(began + self._clock()) / 2)

    def set(self, now: datetime, *, at: float) -> None:
        """Set the time: it was `now` when the monotonic clock was `at`."""
        self._read = now, at

    def now(self) -> datetime:
        """Return the time, as an aware datetime in UTC."""
        if self._read is None:
            raise RuntimeError("the database's clock has not been read yet")
        now, at = self._read
        return now + timedelta(seconds=self._clock() - at)
