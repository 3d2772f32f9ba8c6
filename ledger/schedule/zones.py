"""Time zones from the pinned `tzdata` package, never from the machine's own files.

The two differ at times (measured: 13 zones at once), and an item must be the same on every
machine. `zoneinfo`'s search path is global, so it is left alone: zones are read here, from the
package, once each.
"""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

import tzdata

from dueledger.ledger.errors import Problem, UnknownZone, shown_value

_SUGGESTIONS_MAX: Final = 3


def tzdata_version() -> str:
    """Return the IANA version of the pinned tz database, such as ``2026c``."""
    return tzdata.IANA_VERSION


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all zones of the pinned database."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@cache
def load_zone(name: str) -> ZoneInfo:
    """Return the zone of this exact name, or raise UnknownZone with the nearest names."""
    if name not in zone_names():
        raise UnknownZone(
            f"The time zone {shown_value(name)} is not in tz database {tzdata_version()}.",
            [Problem("timezone", shown_value(name), "unknown time zone", similar_zones(name))],
            zone=name,
        )
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def similar_zones(name: str) -> str:
    """Return the names that may have been meant, as text."""
    spellings = {zone.casefold(): zone for zone in sorted(zone_names())}
    close = get_close_matches(name.casefold(), spellings, n=_SUGGESTIONS_MAX)
    if not close:
        return "an IANA name such as Europe/Berlin, or UTC"
    return " or ".join(spellings[each] for each in close)
