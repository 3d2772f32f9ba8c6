"""The oracle: a brute-force scan of the UTC minutes around offset changes.

It asks the zone only one thing, what local time it shows at an instant, and asks it for every
minute. It shares no code with what it checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dueledger.ledger.schedule import Fold, Gap, load_zone

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
SCAN_START = datetime(2000, 1, 1, tzinfo=UTC)
SCAN_END = datetime(2038, 1, 1, tzinfo=UTC)

# One of each sort of change that zones of our time have made.
INTERESTING = (
    "America/New_York",  # an hour
    "Europe/Dublin",  # winter time as negative daylight saving
    "Africa/Casablanca",  # negative daylight saving, twice in some years
    "Australia/Lord_Howe",  # half an hour
    "Antarctica/Troll",  # two hours
    "America/Sao_Paulo",  # gaps at midnight
    "Africa/Cairo",  # gaps at midnight, four changes in 2010 and 2014
    "Pacific/Apia",  # a day that never was
    "Asia/Pyongyang",  # the standard time itself moved by half an hour
    "America/Caracas",  # the same, both ways
    "Asia/Kathmandu",  # an odd offset that never changes
)


class Shown(NamedTuple):
    """A minute of UTC and the local time shown at it."""

    instant: datetime
    local: datetime


@dataclass(frozen=True)
class Neighbourhood:
    """The instants of each local time around one change, and the local times that are missing."""

    instants: dict[datetime, list[datetime]]
    gaps: tuple[tuple[Shown, Shown], ...]


def local_at(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


@cache
def changes(name: str) -> tuple[datetime, ...]:
    """Find the first minute of every new offset from 2000 to 2037."""
    zone = load_zone(name)
    found: list[datetime] = []
    low = SCAN_START
    while low < SCAN_END:
        high = low + 12 * HOUR
        first, last = low, high
        if first.astimezone(zone).utcoffset() != last.astimezone(zone).utcoffset():
            while last - first > MINUTE:
                middle = first + (last - first) // MINUTE // 2 * MINUTE
                same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
                first, last = (middle, last) if same else (first, middle)
            found.append(last)
        low = high
    return tuple(found)


def neighbourhood(zone: ZoneInfo, low: datetime, high: datetime) -> Neighbourhood:
    """Scan every minute from `low` to `high`."""
    instants: dict[datetime, list[datetime]] = {}
    gaps: list[tuple[Shown, Shown]] = []
    instant, previous = low, local_at(low - MINUTE, zone)
    while instant < high:
        local = local_at(instant, zone)
        instants.setdefault(local, []).append(instant)
        if instant > low and local - previous > MINUTE:
            gaps.append((Shown(instant - MINUTE, previous), Shown(instant, local)))
        instant += MINUTE
        previous = local
    return Neighbourhood(instants, tuple(gaps))


def expected_instants(
    near: Neighbourhood, nominal: datetime, gap: Gap, fold: Fold
) -> list[datetime] | None:
    """Return the instants that a local time means, [] where it is skipped, None where unknown."""
    real = near.instants.get(nominal, [])
    if real:
        return {Fold.FIRST: real[:1], Fold.SECOND: real[-1:], Fold.BOTH: real}[fold]
    for before, after in near.gaps:
        if before.local < nominal < after.local:
            as_if = after.instant + (nominal - before.local - MINUTE)
            return {Gap.SKIP: [], Gap.GAP_END: [after.instant], Gap.SHIFT_FORWARD: [as_if]}[gap]
    return None


def minutes_between(low: datetime, high: datetime) -> Iterator[datetime]:
    while (low := low + MINUTE) < high:
        yield low
