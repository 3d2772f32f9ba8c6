"""Calendars by name, read where they are needed: in the transaction that asks, each version once.

A version never changes, so its days are kept by its number; which version is the newest is asked
every time.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from dueledger.ledger.definitions.calendar_document import parse_calendar
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendars import (
    CalendarKey,
    CalendarVersion,
    find_calendars,
    read_calendars,
)

_KEPT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class NamedCalendar:
    """A calendar and which version of it."""

    calendar: Calendar
    version: CalendarVersion


CalendarsByKey = Mapping[CalendarKey, NamedCalendar]


class CalendarCache:
    """The versions of calendars that were read so far."""

    def __init__(self) -> None:
        self._kept: dict[int, Calendar] = {}

    async def newest_versions(
        self, connection: Connection, keys: Collection[CalendarKey]
    ) -> CalendarsByKey:
        """Return the newest version of each; a name that is not there is left out."""
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
        """Return calendars by their numbers, the newest or not.

        One that cannot be read is left out: it is unknown to those who name it, and to no others.
        """
        unread = sorted(set(calendar_nos) - self._kept.keys())
        if len(self._kept) + len(unread) > _KEPT_MAX:
            self._kept.clear()
            unread = sorted(set(calendar_nos))
        if unread:
            for row in await read_calendars(connection, unread):
                source = f"calendar {row.tenant}/{row.name}, version {row.version},"
                with suppress(InvalidInput):
                    document = parse_calendar(row.document, source=source)
                    self._kept[row.calendar_no] = document.calendar(row.name)
        return {number: self._kept[number] for number in calendar_nos if number in self._kept}


def calendar_name_of(document: Mapping[str, Any]) -> str | None:
    """Return the name by which a stored definition asks for a calendar, if it does."""
    calendar = document.get("calendar")
    return None if calendar is None else calendar.get("name")


def calendars_of_tenant(calendars: CalendarsByKey, tenant: str) -> dict[str, Calendar]:
    """Return the calendars that a tenant's definitions may name."""
    return {name: named.calendar for (owner, name), named in calendars.items() if owner == tenant}
