"""The leases of open runs: heartbeats extend them, and handlers stop before they lapse."""

from __future__ import annotations

import asyncio
import math
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store.runs import RunId, extend_leases, report_overruns

if TYPE_CHECKING:
    from collections.abc import Callable

    from dueledger.ledger.presence import Presence
    from dueledger.ledger.store import Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.open_run import OpenRun

EXTENDS_PER_LEASE: Final = 3  # heartbeats in a lease, so that two may be lost
CHECKS_PER_LEASE: Final = 24
CHECK_SECONDS_MAX: Final = 0.25  # a kind's hard end may be much nearer than a lease's
CHECK_SECONDS_MIN: Final = 0.01

log = get_logger("worker")


@final
class Leases:
    """Extends the leases of all open runs. Leases count, monotonic, from before each request."""

    def __init__(
        self,
        pool: Pool,
        runs: dict[int, OpenRun],
        counts: WorkerCounts,
        *,
        worker_no: int,
        lease_seconds: float,
        presence: Presence,
        abandon: Callable[[OpenRun], None],
        release_unbegun: Callable[[OpenRun], None],
    ) -> None:
        """`release_unbegun` releases the items of a run that must end and no handler was given."""
        self._pool = pool
        self._runs = runs
        self._counts = counts
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds
        self._presence, self._losses = presence, presence.losses
        self._abandon_run = abandon
        self._release_unbegun = release_unbegun
        self._overruns: dict[RunId, list[bool]] = {}
        self._has_overruns = asyncio.Event()

    @property
    def extend_seconds(self) -> float:
        """Seconds between two heartbeats."""
        return self._lease_seconds / EXTENDS_PER_LEASE

    @property
    def check_seconds(self) -> float:
        """Most seconds between two checks for leases that are nearly over."""
        return min(CHECK_SECONDS_MAX, self._lease_seconds / CHECKS_PER_LEASE)

    async def extend(self) -> dict[str, int]:
        """Extend every open run's lease; abandon runs whose lease the ledger does not extend."""
        open_runs = [run for run in self._runs.values() if not run.is_stopped]
        if not open_runs:
            return {}
        asked_at = monotonic()
        async with asyncio.timeout(self.extend_seconds), self._pool.acquire() as connection:
            extended = await extend_leases(
                connection,
                [run.id for run in open_runs],
                self._worker_no,
                self._lease_seconds,
            )
        for run in open_runs:
            if run.run_no in extended:
                seconds = extended[run.run_no]
                if seconds is not None:
                    run.extend_lease(asked_at, seconds)
            elif run.open_count > 0 and not run.is_stopped:
                self._lost(run, LogEvent.LEASE_LOST)
            # Otherwise its last settlement closed it, or will be refused as stale.
        return {}

    async def stop_expiring(self) -> dict[str, int]:
        """Stop handlers whose lease or hard end is nearly over, or all if the lock was lost."""
        is_confirmed = await self._presence.confirm()
        if not is_confirmed or self._presence.losses != self._losses:
            self._losses = self._presence.losses
            for run in [run for run in self._runs.values() if not run.is_stopped]:
                self._release_unbegun(run)
                self._lost(run, LogEvent.LOCK_LOST)
        now = monotonic()
        for run in list(self._runs.values()):
            if run.stop_at <= now and not run.is_stopped:
                self._release_unbegun(run)
                if any(in_call := run.bits_in_call()):
                    self._overruns[run.id] = in_call
                    self._has_overruns.set()
                self._lost(run, LogEvent.LEASE_LAPSED)
        return {}

    async def report_overruns(self) -> dict[str, int]:
        """Report the items that their handlers had at the hard end: no others are blamed for it."""
        await wait_for_event(self._has_overruns, CHECK_SECONDS_MAX)
        self._has_overruns.clear()
        overruns = dict(self._overruns)
        if overruns:
            async with self._pool.acquire() as connection:
                await report_overruns(connection, overruns, self._worker_no)
            for run_id in overruns:
                del self._overruns[run_id]
        return {}

    async def check_delay_seconds(self) -> float:
        """Return the seconds until handlers must stop, at most `check_seconds`."""
        left = min((run.stop_at for run in self._runs.values()), default=math.inf) - monotonic()
        return max(CHECK_SECONDS_MIN, min(left, self.check_seconds))

    def _lost(self, run: OpenRun, event: LogEvent) -> None:
        self._counts.lapsed += run.open_count
        log.warning(event, run_no=run.run_no, fence=run.fence, items=run.open_count)
        self._abandon_run(run)
