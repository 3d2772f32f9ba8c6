"""The oracle: a brute-force scan of the UTC minutes around offset changes.

It asks the zone only one thing, what local time it shows at an instant, and asks it for every
minute. It shares no code with what it checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
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


@dataclass(frozen=True)
class Shown:
    """A minute of UTC and the local time shown at it."""

    instant: datetime
    local: datetime


@dataclass(frozen=True)
class Neighbourhood:
    """Every minute around one change, the instants of each local time, and what was jumped over."""

    shown: tuple[Shown, ...]
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


def neighbourhood(zone: ZoneInfo, change: datetime, span: timedelta) -> Neighbourhood:
    shown: list[Shown] = []
    instants: dict[datetime, list[datetime]] = {}
    instant = change - span
    while instant < change + span:
        local = local_at(instant, zone)
        shown.append(Shown(instant, local))
        instants.setdefault(local, []).append(instant)
        instant += MINUTE
    gaps = tuple((a, b) for a, b in pairwise(shown) if b.local - a.local > MINUTE)
    return Neighbourhood(tuple(shown), instants, gaps)


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
