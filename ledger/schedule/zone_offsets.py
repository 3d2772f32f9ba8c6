"""The offsets in force around each local day, and the part of a day that is in a window.

On a day with one (constant) offset, that offset resolves every local time: none is skipped or
repeated, and a change on another day cannot affect it. `zoneinfo` does not list its changes, so
offsets are probed every PROBE; tests check against the tz database that no zone changes there and
back in between.
"""

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from dueledger.ledger.schedule.resolution import PROBE, SCAN_MARGIN
from dueledger.ledger.schedule.zones import load_zone

_DAY: Final = timedelta(days=1)
_NONE: Final = timedelta()
_PROBES_A_DAY: Final = _DAY // PROBE
_PROBES_AROUND: Final = 2 * (SCAN_MARGIN // PROBE) + _PROBES_A_DAY


class OffsetRange(NamedTuple):
    """The least and the greatest offset in force within SCAN_MARGIN of a local day."""

    least: timedelta
    most: timedelta

    @property
    def is_constant(self) -> bool:
        """Return whether one offset resolves the whole day."""
        return self.least == self.most


class DayReach(NamedTuple):
    """The part of a local day, as time since midnight, that may resolve into a window."""

    low: timedelta
    high: timedelta  # exclusive
    offset: timedelta | None  # of the whole day; None if a change is near


@lru_cache(maxsize=8192)
def day_offsets(zone_name: str, year: int, month: int) -> tuple[OffsetRange, ...]:
    """Return the offsets in force around each local day of a month, the first at 0."""
    zone = load_zone(zone_name)
    days = monthrange(year, month)[1]
    first = datetime(year, month, 1, tzinfo=UTC) - SCAN_MARGIN
    probed = [
        (first + number * PROBE).astimezone(zone).utcoffset() or _NONE
        for number in range(_PROBES_A_DAY * (days - 1) + _PROBES_AROUND + 1)
    ]
    if probed.count(probed[0]) == len(probed):
        return (OffsetRange(probed[0], probed[0]),) * days
    around = (
        probed[place : place + _PROBES_AROUND + 1]
        for place in range(0, days * _PROBES_A_DAY, _PROBES_A_DAY)
    )
    return tuple(OffsetRange(min(near), max(near)) for near in around)


def day_reach(zone_name: str, day: date, bounds: tuple[datetime, datetime]) -> DayReach | None:
    """Return the part of a local day that may resolve into the half-open `bounds`, or None.

    This holds for all policies: a local time is resolved by one of the offsets around it, or to
    the end of a gap, which is between the instants that two of them give.
    """
    least, most = day_offsets(zone_name, day.year, day.month)[day.day - 1]
    midnight = datetime.combine(day, time.min, UTC)
    low = max(bounds[0] - midnight + least, _NONE)
    high = min(bounds[1] - midnight + most, _DAY)
    return DayReach(low, high, least if least == most else None) if low < high else None
