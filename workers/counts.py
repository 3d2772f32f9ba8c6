"""The counts of a worker, for its log lines and for tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import final

from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.runtime.log import LogEvent, get_logger

log = get_logger("worker")


@final
@dataclass(slots=True)
class WorkerCounts:
    """Counts of items since the process started."""

    polled: int = 0
    rejected: int = 0  # records that break the contract
    started: int = 0
    skipped: int = 0  # positions that were started before, by any worker
    stale: int = 0  # positions whose claim is closed or unknown
    after_gap: int = 0  # positions after a gap in their claim; its deadline releases them
    withdrawn: int = 0
    settled: int = 0
    settlements_refused: int = 0  # outcomes that the ledger refused as stale
    loop_blocks: int = 0  # times the event loop was blocked for too long
    stalls: int = 0  # times a partition made no progress for longer than its queue deadline
    lapsed: int = 0  # items whose handlers were stopped because their lease lapsed

    def snapshot(self) -> dict[str, int]:
        """Return all counts by name."""
        return asdict(self)

    def samples(self) -> list[Sample]:
        """Return all counts as metrics."""
        counts = self.snapshot().items()
        return [Sample(Metric.WORKER_COUNTS, count, (name,)) for name, count in counts]


@final
class CountsReport:
    """Logs the counts of a worker, at each tick that finds them changed."""

    def __init__(self, counts: WorkerCounts) -> None:
        self._counts = counts
        self._logged = counts.snapshot()

    async def tick(self) -> dict[str, int]:
        """Log all counts since the start of the process, if one has changed since the last line."""
        counts = self._counts.snapshot()
        if counts != self._logged:
            self._logged = counts
            log.info(LogEvent.TICK_COMPLETED, **counts)
        return {}
