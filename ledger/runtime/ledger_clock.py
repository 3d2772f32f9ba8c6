"""The business clock of the ledger in a process, for metrics: no decision may use it."""

from datetime import datetime, timedelta
from time import monotonic
from typing import Final, final

RATE_SECONDS: Final = 0.5
"""Two reads that are closer show no rate."""


@final
class LedgerClock:
    """The business clock between two reads, at the rate at which it went before."""

    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None
        self._rate = 1.0

    def read(self, now: datetime, at: float) -> None:
        """Record that it was `now` when the monotonic clock was `at`."""
        if self._read is not None and (seconds := at - self._read[1]) > RATE_SECONDS:
            self._rate = (now - self._read[0]).total_seconds() / seconds
        self._read = now, at

    def now(self) -> datetime | None:
        """Return the time; None before the first read."""
        if self._read is None:
            return None
        now, at = self._read
        return now + timedelta(seconds=(monotonic() - at) * self._rate)
