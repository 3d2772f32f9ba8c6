"""The metrics of the whole ledger, which one process at a time reads."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, final

from dueledger.ledger.metrics import Sample
from dueledger.ledger.store import Pool
from dueledger.ledger.store.gauges import measure_gauges, take_lead

READ_SECONDS: Final = 15.0
LEAD_SECONDS: Final = 2 * READ_SECONDS
"""A reading is shown for as long: then Postgres is away, or another process may show its own."""
TASK: Final = "metrics"


@final
class LedgerGauges:
    """Reads the metrics of the ledger while this process leads."""

    def __init__(self, pool: Pool, *, holder: str, clock: Callable[[], float] = monotonic) -> None:
        self._pool = pool
        self._holder = holder
        self._clock = clock
        self._read: tuple[float, Sequence[Sample]] = float("-inf"), ()

    async def tick(self) -> dict[str, int]:
        """Read them, unless another process does."""
        async with self._pool.acquire() as connection:
            asked_at = self._clock()
            if await take_lead(connection, TASK, self._holder, LEAD_SECONDS) is None:
                self._read = float("-inf"), ()
            else:
                self._read = asked_at, await measure_gauges(connection)
        return {}

    def samples(self) -> Sequence[Sample]:
        """Return the last reading, in any thread."""
        read_at, samples = self._read
        return samples if self._clock() - read_at < LEAD_SECONDS else ()
