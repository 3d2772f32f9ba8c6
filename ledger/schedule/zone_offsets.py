"""Which offsets are in force around each local day, and what of a day a window can reach.

On a day with one offset, a steady one, that offset settles every local time: none is skipped or
repeated, and nothing that a change elsewhere moves can reach it. `zoneinfo` does not tell its
changes, so it is asked every PROBE; the tests hold against the tz database itself that no zone
changes there and back in between.
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
        """Return whether one offset settles the whole day."""
        return self.least == self.most


class DayReach(NamedTuple):
    """What of a local day, in time since its midnight, may resolve into a window of instants."""

    low: timedelta
    high: timedelta  # exclusive
    offset: timedelta | None  # of the whole day; None where a change is near


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
    """Return what of a local day may resolve into the half-open `bounds`, None where nothing may.

    Whatever the policies: a local time is resolved by one of the offsets around it, or to the end
    of a gap, which lies between the instants that two of them give.
    """
    least, most = day_offsets(zone_name, day.year, day.month)[day.day - 1]
    midnight = datetime.combine(day, time.min, UTC)
    low = max(bounds[0] - midnight + least, _NONE)
    high = min(bounds[1] - midnight + most, _DAY)
    return DayReach(low, high, least if least == most else None) if low < high else None
