"""The database's real time, carried on between two looks at it.

A signature says when it was made, and the receiver compares that with its own clock. That is no
decision of ours, but a claim about now, and the clock that decides here is the database's: its
machine time, since business time may be simulated and a receiver's is not.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import final

from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_machine_now


@final
class DatabaseClock:
    """Tells the time once it was looked up. In between, this process's monotonic clock counts."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._read: tuple[datetime, float] | None = None

    async def synchronise(self, connection: Connection) -> None:
        """Look at the database's clock."""
        began = self._clock()
        now = await read_machine_now(connection)
        self.set(now, at=(began + self._clock()) / 2)

    def set(self, now: datetime, *, at: float) -> None:
        """Let it have been `now` when the monotonic clock showed `at`."""
        self._read = now, at

    def now(self) -> datetime:
        """Return the time, as an aware datetime in UTC."""
        if self._read is None:
            raise RuntimeError("nobody looked at the clock yet")
        now, at = self._read
        return now + timedelta(seconds=self._clock() - at)
