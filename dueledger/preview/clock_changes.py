"""When the clocks of a zone change, found by reading the zone at intervals. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from dueledger.ledger.schedule import load_zone

_PROBE: Final = timedelta(hours=6)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """An instant at which local time changes: from `before` to `after`, both naive."""

    at: datetime
    before: datetime
    after: datetime

    @property
    def jump(self) -> timedelta:
        """Return the difference: forward is positive."""
        return self.after - self.before


def clock_changes(zone_name: str, start: datetime, end: datetime) -> Iterator[ClockChange]:
    """Yield the changes in [start, end), in order. Two within six hours may be seen as one."""
    zone = load_zone(zone_name)
    low = start.astimezone(UTC)
    stop = end.astimezone(UTC)
    offset = _offset(low - _SECOND, zone)
    low -= _SECOND
    while low < stop:
        high = min(low + _PROBE, stop)
        reached = _offset(high, zone)
        if reached != offset:
            at = _first_with(reached, (low, high), zone)
            if at < stop:
                yield ClockChange(at, _naive(at) + offset, _naive(at) + reached)
            offset = reached
        low = high


def _first_with(offset: timedelta, bounds: tuple[datetime, datetime], zone: ZoneInfo) -> datetime:
    low, high = bounds
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        if _offset(middle, zone) == offset:
            high = middle
        else:
            low = middle
    return high


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).replace(tzinfo=None) - _naive(instant)


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)
