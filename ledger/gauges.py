"""The metrics of the whole ledger, which one process at a time reads."""

from collections.abc import Sequence
from time import monotonic
from typing import Final, final

from dueledger.ledger.metrics import Sample
from dueledger.ledger.store import Pool
from dueledger.ledger.store.gauges import measure_gauges, take_lead

READ_SECONDS: Final = 15.0
SHOWN_SECONDS: Final = 3 * READ_SECONDS
"""Older readings are not shown: Postgres is away, or another process reads them."""
LEAD_SECONDS: Final = 2 * READ_SECONDS
TASK: Final = "metrics"


@final
class LedgerGauges:
    """Reads the metrics of the ledger while this process leads."""

    def __init__(self, pool: Pool, *, holder: str) -> None:
        self._pool = pool
        self._holder = holder
        self._read: tuple[float, Sequence[Sample]] = float("-inf"), ()

    async def tick(self) -> dict[str, int]:
        """Read them, unless another process does."""
        async with self._pool.acquire() as connection:
            if await take_lead(connection, TASK, self._holder, LEAD_SECONDS):
                self._read = monotonic(), await measure_gauges(connection)
            else:
                self._read = float("-inf"), ()
        return {}

    def samples(self) -> Sequence[Sample]:
        """Return the last reading, in any thread."""
        read_at, samples = self._read
        return samples if monotonic() - read_at < SHOWN_SECONDS else ()
