"""What was completed in each minute of the last hour, and how long after it was due."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.store import Connection
from dueledger.ledger.store.overview import (
    OverviewMinute,
    list_overview_minutes,
    read_overview_place,
)

MINUTES: Final = 60
MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ThroughputSpan:
    """What runs completed from `since` on, in a minute or in the hour.

    `completed` is an estimate if fewer items were looked at, `sampled`. 99 of 100 were completed
    within `p99_seconds` after they were due, or in up to 9 % less; None: none was completed.
    """

    since: datetime
    completed: int
    sampled: int
    p99_seconds: float | None

    @property
    def is_estimate(self) -> bool:
        """Return whether fewer items were looked at than were completed."""
        return self.sampled < self.completed


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last hour that is counted, up to a full minute, and each minute of it by time.

    After a time in which nothing was counted, on a ledger with very many runs, it may be shorter.
    """

    until: datetime
    hour: ThroughputSpan
    minutes: Sequence[ThroughputSpan]


async def read_throughput(
    connection: Connection, *, tenants: Sequence[str] | None
) -> Throughput | None:
    """Return what was completed for these tenants; None: for all. None before the first count."""
    place = await read_overview_place(connection)
    if place is None or place.minutes_from is None or place.minutes_to is None:
        return None
    until = place.minutes_to.replace(second=0, microsecond=0)
    rows = await list_overview_minutes(connection, tenants=tenants)
    found = {row.minute: row for row in rows}
    begins = [until - (MINUTES - number) * MINUTE for number in range(MINUTES)]
    begins = [begin for begin in begins if begin >= place.minutes_from]
    return Throughput(
        until,
        _completed(begins[0] if begins else until, found.get(None)),
        [_completed(begin, found.get(begin)) for begin in begins],
    )


def _completed(since: datetime, row: OverviewMinute | None) -> ThroughputSpan:
    if row is None:
        return ThroughputSpan(since, 0, 0, None)
    return ThroughputSpan(since, round(row.completed), row.sampled, row.p99_seconds)
