"""The overview: what each flow was and is due in each quarter hour of the last and next day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

QUARTER: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class OverviewCell:
    """A quarter hour of a flow.

    `place` is that of the flow, the worst first, `age_seconds` that of the flow's count.
    `is_capped`: more wait than were counted.
    """

    place: int
    tenant: str
    kind: str
    lane: str
    grace_seconds: float
    age_seconds: float
    quarter: datetime
    completed: int
    completed_late: int
    in_flight: int
    waiting: int
    blocked: int
    failed: int
    is_capped: bool

    @property
    def open(self) -> int:
        """Return how many of its items have not ended, without those that failed."""
        return self.in_flight + self.waiting + self.blocked

    @property
    def due(self) -> int:
        """Return how many items it has."""
        return self.completed + self.open + self.failed

    def is_over(self, now: datetime) -> bool:
        """Return whether the grace of all of its items is over."""
        return self.quarter + QUARTER + timedelta(seconds=self.grace_seconds) <= now


@dataclass(frozen=True, slots=True)
class OverviewPlace:
    """How far the overview is: of runs started from `read_from` on, it has what they completed.

    None: of all. `is_cut`: more items are in flight than it counts. `begins` is its first quarter
    hour. Minutes are counted from `minutes_from` to `minutes_to`; None: none was.
    """

    read_from: datetime | None
    is_cut: bool
    begins: datetime
    minutes_from: datetime | None
    minutes_to: datetime | None


@dataclass(frozen=True, slots=True)
class OverviewMinute:
    """What runs completed in a minute; None: in the hour.

    `completed` is an estimate where fewer were `sampled`. 99 of 100 were completed within
    `p99_seconds` after they were due, which is at most 9 % too much.
    """

    minute: datetime | None
    completed: float
    sampled: int
    p99_seconds: float


async def add_overview_flows(connection: Connection, *, limit: int) -> int:
    """Let the overview count flows that are new. Returns how many."""
    return await connection.fetchval(statement("add_overview_flows"), limit)


async def read_overview_runs(connection: Connection, *, items_max: int) -> int:
    """Add what the next runs completed, of about so many items. Returns 0 once all are read."""
    return await connection.fetchval(statement("read_overview_runs"), items_max)


async def count_overview_in_flight(connection: Connection, *, items_max: int) -> int:
    """Count the items in flight again. Returns how many were found, at most one more."""
    return await connection.fetchval(statement("count_overview_in_flight"), items_max)


async def count_overview_waiting(
    connection: Connection, *, flows_max: int, items_max: int, is_far: bool
) -> float | None:
    """Count what waits of the flows that were counted longest ago, of each at most so many.

    That is what waits of the last day and the next hour, and what failed; `is_far`: what waits of
    the hours after it. A flow of which more waits is counted on by the next call. Returns the age
    of the oldest count in seconds; None without a flow.
    """
    values = flows_max, items_max, is_far
    return await connection.fetchval(statement("count_overview_waiting"), *values)


async def measure_overview_rates(connection: Connection, *, runs_max: int) -> int:
    """Measure how many items of each flow ended a second, by the latest runs of five minutes.

    Returns of how many flows some did.
    """
    return await connection.fetchval(statement("measure_overview_rates"), runs_max)


async def count_overview_minutes(
    connection: Connection, *, runs_max: int, sampled_runs_max: int, items_max: int
) -> int:
    """Count what was completed in each minute, by the next runs and by those that were open.

    Of more runs than `sampled_runs_max`, and of more items, it counts a sample. Returns by how many
    runs it has gone on; nearly `runs_max`: there may be more.
    """
    values = runs_max, sampled_runs_max, items_max
    return await connection.fetchval(statement("count_overview_minutes"), *values)


async def list_overview_minutes(
    connection: Connection, *, tenants: Sequence[str] | None
) -> list[OverviewMinute]:
    """Return the minutes of the hour that is counted in which something was completed, by time.

    The last is the hour.
    """
    rows = await connection.fetch(statement("list_overview_minutes"), tenants)
    return [OverviewMinute(*row) for row in rows]


async def list_flow_rates(
    connection: Connection, flows: Sequence[tuple[str, str, str]]
) -> list[float | None]:
    """Return how many items ended a second, of each flow by tenant, kind and lane.

    None: it was not measured, as no page was open.
    """
    rates: list[float | None] = [None] * len(flows)
    columns = [[flow[part] for flow in flows] for part in range(3)]
    for row in await connection.fetch(statement("list_flow_rates"), *columns):
        rates[row["ord"] - 1] = row["per_second"]
    return rates


async def list_overview(
    connection: Connection,
    *,
    tenants: Sequence[str] | None,
    flows_max: int,
    first_flow_nos: Sequence[int] = (),
) -> list[OverviewCell]:
    """Return the quarter hours of these flows and then of the worst others, by flow and time."""
    rows = await connection.fetch(statement("list_overview"), tenants, flows_max, first_flow_nos)
    return [OverviewCell(*row) for row in rows]


async def list_flow_overview(
    connection: Connection, tenant: str, kind: str, lane: str
) -> list[OverviewCell]:
    """Return the quarter hours of one flow, by time."""
    rows = await connection.fetch(statement("list_flow_overview"), tenant, kind, lane)
    return [OverviewCell(*row) for row in rows]


async def read_overview_place(connection: Connection) -> OverviewPlace | None:
    """Return how far the overview is; None before its first refresh."""
    row = await connection.fetchrow(statement("read_overview_place"))
    return None if row is None else OverviewPlace(*row)
