"""Refreshes of the overview: by one process at a time, while a page is open, within a budget."""

import secrets
from collections.abc import Callable
from time import monotonic
from typing import Final, final

from dueledger.console.activity import LedgerActivity
from dueledger.ledger.store import Connection
from dueledger.ledger.store.gauges import take_lead
from dueledger.ledger.store.overview import (
    add_overview_flows,
    count_overview_in_flight,
    count_overview_minutes,
    count_overview_waiting,
    measure_overview_rates,
    read_overview_runs,
)

REFRESH_SECONDS: Final = 15.0
LEAD_SECONDS: Final = 2 * REFRESH_SECONDS
TASK: Final = "overview"
BUDGET_SECONDS: Final = 0.12
"""Of a refresh: a hundredth of a core is 0.15 s in 15 s."""
_RUNS_SHARE: Final = 0.4
_MINUTES_SHARE: Final = 0.6
_NEAR_SHARE: Final = 0.8
_ADDED_MAX: Final = 2_000
_IN_FLIGHT_MAX: Final = 2_000
_RUN_ITEMS_MAX: Final = 1_000
_RATED_RUNS_MAX: Final = 200
_MINUTE_RUNS_MAX: Final = 20_000
_MINUTE_RUNS_SAMPLED: Final = 500
_MINUTE_ITEMS_MAX: Final = 1_000
WAITING_MAX: Final = 10_000
"""Items counted in a quarter hour of a flow."""
_FLOWS_MAX: Final = 64
_STEP_SECONDS: Final = 0.01
"""What one statement should take: the number of flows that it counts follows."""


@final
class OverviewRefresh:
    """Counts again what the overview shows, a part each time."""

    def __init__(
        self,
        activity: LedgerActivity,
        *,
        budget_seconds: float = BUDGET_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._activity = activity
        self._holder = f"console:{secrets.token_hex(8)}"
        self._budget_seconds = budget_seconds
        self._clock = clock
        self._flows = 4

    async def tick(self) -> dict[str, int]:
        """Refresh once, unless another process does; wait while no page is open."""
        await self._activity.wait_open()
        if self._activity.is_closed:
            return {}
        async with self._activity.lend() as connection:
            if await take_lead(connection, TASK, self._holder, LEAD_SECONDS) is None:
                return {}
            return await self.refresh(connection)

    async def refresh(self, connection: Connection) -> dict[str, int]:
        """Count until all is counted that can be, or the budget is spent; each step commits."""
        started = self._clock()
        flows = await add_overview_flows(connection, limit=_ADDED_MAX)
        items = await self._read_runs(connection, started + self._budget_seconds * _RUNS_SHARE)
        # After them, so that no item of a run that has closed is counted twice.
        await count_overview_in_flight(connection, items_max=_IN_FLIGHT_MAX)
        await measure_overview_rates(connection, runs_max=_RATED_RUNS_MAX)
        await self._count_minutes(connection, started + self._budget_seconds * _MINUTES_SHARE)
        await self._count_waiting(connection, started, self._budget_seconds * _NEAR_SHARE)
        await self._count_waiting(connection, started, self._budget_seconds, is_far=True)
        items += await self._read_runs(connection, started + self._budget_seconds)
        return {"items": items, "flows": flows}

    async def _read_runs(self, connection: Connection, until: float) -> int:
        items = 0
        while self._clock() < until:
            read = await read_overview_runs(connection, items_max=_RUN_ITEMS_MAX)
            items += read
            if not read:
                break
        return items

    async def _count_minutes(self, connection: Connection, until: float) -> None:
        """Count what was completed by minute: at least once, then until no runs are left."""
        runs = _MINUTE_RUNS_MAX
        while 2 * runs > _MINUTE_RUNS_MAX:
            runs = await count_overview_minutes(
                connection,
                runs_max=_MINUTE_RUNS_MAX,
                sampled_runs_max=_MINUTE_RUNS_SAMPLED,
                items_max=_MINUTE_ITEMS_MAX,
            )
            if self._clock() >= until:
                break

    async def _count_waiting(
        self, connection: Connection, started: float, seconds: float, *, is_far: bool = False
    ) -> None:
        """Count flows, until each was counted since the refresh started."""
        while (step := self._clock()) - started < seconds:
            age = await count_overview_waiting(
                connection, flows_max=self._flows, items_max=WAITING_MAX, is_far=is_far
            )
            now = self._clock()
            if age is None or age <= now - started:
                break
            few = now - step < _STEP_SECONDS
            self._flows = min(_FLOWS_MAX, self._flows * 2) if few else max(1, self._flows // 2)
