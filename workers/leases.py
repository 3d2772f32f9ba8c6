"""Leases: extended while runs are open, and obeyed before the ledger would take them away."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from ledger.log import LogEvent, get_logger
from ledger.store.runs import extend_leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger.store import Pool
    from workers.counts import WorkerCounts
    from workers.run import OpenRun

# A third for the heartbeat, so that two may be lost; handlers stop in the last sixth.
BEATS: Final = 3
MARGIN: Final = 1 / 6
LOOKS: Final = 24

log = get_logger("worker")


@final
class Leases:
    """Keeps the leases of all open runs. Durations are monotonic, from before each request."""

    def __init__(
        self,
        pool: Pool,
        runs: dict[int, OpenRun],
        counts: WorkerCounts,
        *,
        worker_no: int,
        lease_seconds: float,
        let_go: Callable[[OpenRun], None],
    ) -> None:
        self._pool = pool
        self._runs = runs
        self._counts = counts
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds
        self._let_go = let_go

    @property
    def beat_seconds(self) -> float:
        """How often to extend."""
        return self._lease_seconds / BEATS

    @property
    def look_seconds(self) -> float:
        """How often to look for leases that are nearly over."""
        return self._lease_seconds / LOOKS

    async def extend(self) -> dict[str, int]:
        """Extend every open run's lease; let go of those that the ledger no longer gives."""
        asked = [run for run in self._runs.values() if not run.is_stopped]
        if not asked:
            return {}
        held_until = monotonic() + self._lease_seconds
        async with asyncio.timeout(self.beat_seconds), self._pool.acquire() as connection:
            held = await extend_leases(
                connection,
                [run.run_no for run in asked],
                self._worker_no,
                self._lease_seconds,
            )
        for run in asked:
            if run.run_no in held:
                if held[run.run_no]:
                    run.held_until = held_until
            elif run.open_count > 0 and not run.is_stopped:
                self._lost(run, LogEvent.RUN_LOST)
            # Otherwise its last settlement closed it, or will be told that it is stale.
        return {}

    async def look(self) -> dict[str, int]:
        """Stop handlers whose lease may be over before the next look."""
        late = monotonic() + self._lease_seconds * MARGIN
        for run in list(self._runs.values()):
            if run.held_until <= late and not run.is_stopped:
                self._lost(run, LogEvent.LEASE_LAPSED)
        return {}

    def _lost(self, run: OpenRun, event: LogEvent) -> None:
        self._counts.lapsed += run.open_count
        log.warning(event, run_no=run.run_no, fence=run.fence, items=run.open_count)
        self._let_go(run)
