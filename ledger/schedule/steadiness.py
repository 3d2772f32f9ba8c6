"""Which local days lie so far from every change of offset that one offset settles all of them.

On such a day no local time is skipped or repeated, and nothing that a change elsewhere moves can
reach it. `zoneinfo` does not tell its changes, so it is asked every PROBE; the tests hold against
the tz database itself that no zone changes there and back in between.
"""

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from ledger.schedule.resolution import SCAN_MARGIN
from ledger.schedule.zones import load_zone

PROBE: Final = timedelta(hours=6)
_PROBES_A_DAY: Final = timedelta(days=1) // PROBE
_PROBES_AROUND: Final = 2 * (SCAN_MARGIN // PROBE) + _PROBES_A_DAY

DayOffsets = tuple[timedelta | None, ...]
"""The offset of each day of a month, the first at 0; None where a change is near."""


@lru_cache(maxsize=8192)
def steady_offsets(zone_name: str, year: int, month: int) -> DayOffsets:
    """Return the offset in force on each local day of a month, None within reach of a change."""
    zone = load_zone(zone_name)
    days = monthrange(year, month)[1]
    first = datetime(year, month, 1, tzinfo=UTC) - SCAN_MARGIN
    probed = [
        (first + number * PROBE).astimezone(zone).utcoffset()
        for number in range(_PROBES_A_DAY * (days - 1) + _PROBES_AROUND + 1)
    ]
    if probed.count(probed[0]) == len(probed):
        return (probed[0],) * days
    around = (
        probed[place : place + _PROBES_AROUND + 1]
        for place in range(0, days * _PROBES_A_DAY, _PROBES_A_DAY)
    )
    return tuple(near[0] if near.count(near[0]) == len(near) else None for near in around)
