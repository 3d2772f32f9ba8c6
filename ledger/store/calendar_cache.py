"""A cache of calendar versions by number.

A version never changes, so it is read once. The newest version of a name is looked up every time,
in the caller's transaction.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from dueledger.ledger.definitions.calendar_document import CalendarDocument, parse_calendar
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendars import (
    CalendarKey,
    CalendarRow,
    CalendarVersion,
    find_calendars,
    read_calendars,
)

_KEPT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class NamedCalendar:
    """A calendar and its version."""

    calendar: Calendar
    version: CalendarVersion


CalendarsByKey = Mapping[CalendarKey, NamedCalendar]


class CalendarCache:
    """The calendar versions read so far, at most `_KEPT_MAX`."""

    def __init__(self) -> None:
        self._kept: dict[int, Calendar] = {}

    async def newest_versions(
        self, connection: Connection, keys: Collection[CalendarKey]
    ) -> CalendarsByKey:
        """Return the newest version of each calendar; unknown names are left out."""
        if not keys:
            return {}
        versions = await find_calendars(connection, keys)
        days = await self.by_number(connection, {version.calendar_no for version in versions})
        return {
            (version.tenant, version.name): NamedCalendar(days[version.calendar_no], version)
            for version in versions
            if version.calendar_no in days
        }

    async def by_number(
        self, connection: Connection, calendar_nos: Collection[int]
    ) -> Mapping[int, Calendar]:
        """Return calendars by the numbers of their versions, the newest or older ones.

        A calendar that cannot be parsed is left out: only definitions that name it fail.
        """
        unread = sorted(set(calendar_nos) - self._kept.keys())
        if len(self._kept) + len(unread) > _KEPT_MAX:
            self._kept.clear()
            unread = sorted(set(calendar_nos))
        if unread:
            for row in await read_calendars(connection, unread):
                with suppress(InvalidInput):
                    self._kept[row.calendar_no] = parse_stored(row).calendar(row.name)
        return {number: self._kept[number] for number in calendar_nos if number in self._kept}


def parse_stored(row: CalendarRow) -> CalendarDocument:
    """Read a version's document. Raises InvalidInput, which names the version and wrong fields."""
    source = f"calendar {row.tenant}/{row.name}, version {row.version},"
    return parse_calendar(row.document, source=source)


def calendar_name_of(document: Mapping[str, Any]) -> str | None:
    """Return the name of the calendar that a stored definition uses, or None."""
    calendar = document.get("calendar")
    return None if calendar is None else calendar.get("name")


def calendars_of_tenant(calendars: CalendarsByKey, tenant: str) -> dict[str, Calendar]:
    """Return the calendars of one tenant by name."""
    return {name: named.calendar for (owner, name), named in calendars.items() if owner == tenant}
