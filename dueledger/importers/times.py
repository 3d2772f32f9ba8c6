"""Times in the files of other schedulers, as bounds of a `when`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from dueledger.importers.import_result import ImportRefusal
from dueledger.ledger.schedule import load_zone, zone_names
from dueledger.ledger.schedule.expressions import local_time_text

_CHARS_MAX = 40
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_UNIX_SECONDS_MAX = 7_258_118_400  # the year 2200
_JAVA_OFFSET: Final = re.compile(r"GMT(?P<sign>[+-])(?P<hours>\d{1,2})(?::?00)?", re.ASCII)


def zone_of_java(name: str) -> str:
    """Return the IANA name of a zone of Java: of `GMT+10` it is `Etc/GMT-10`."""
    if found := _JAVA_OFFSET.fullmatch(name):
        iana = f"Etc/GMT{'-' if found['sign'] == '+' else '+'}{int(found['hours'])}"
        return iana if iana in zone_names() else name
    return name


def local_time_of(text: object, zone: str) -> str | ImportRefusal:
    """Return a time of ISO 8601 as local time of a zone, to the second.

    A time without an offset is one of that zone.
    """
    at = _read(text)
    if at is None:
        return ImportRefusal("a time is not of the form 2027-03-01T09:00:00", "ISO 8601")
    try:
        local = at if at.tzinfo is None else at.astimezone(load_zone(zone)).replace(tzinfo=None)
    except OverflowError:
        return ImportRefusal("a time is too far in the past or future", "years 1970 to 2199")
    return local_time_text(local.replace(microsecond=0, fold=0))


def instant_of_text(text: object, zone: str) -> str | ImportRefusal:
    """Return the same as an instant."""
    at = _read(text)
    if at is None:
        return ImportRefusal("a time is not of the form 2027-03-01T09:00:00", "ISO 8601")
    try:
        at = (at if at.tzinfo else at.replace(tzinfo=load_zone(zone))).astimezone(UTC)
    except OverflowError:
        return ImportRefusal("a time is too far in the past or future", "years 1970 to 2199")
    return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def has_offset(text: object) -> bool:
    """Return whether a time names its offset from UTC."""
    at = _read(text)
    return at is not None and at.tzinfo is not None


def _read(text: object) -> datetime | None:
    if isinstance(text, datetime):  # YAML reads it as one
        return text
    if isinstance(text, int | float) and not isinstance(text, bool):  # an older AWS CLI
        return _UNIX + timedelta(seconds=text) if 0 <= text <= _UNIX_SECONDS_MAX else None
    if not isinstance(text, str) or len(text) > _CHARS_MAX:
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def second_after(local: str) -> str:
    """Return the local time a second later: an exclusive bound for an inclusive one."""
    return local_time_text(datetime.fromisoformat(local) + timedelta(seconds=1))
