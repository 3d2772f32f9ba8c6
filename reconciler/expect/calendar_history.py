"""Which version of a calendar was used when: by a schedule as recorded, by an event at receipt.

A new version changes nothing that is materialised. So expectations are computed with the version
that was in use at the time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.rules.calendar_change import change_reach
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import CalendarCache
from dueledger.ledger.store.calendars import (
    CalendarKey,
    CalendarUse,
    CalendarVersion,
    list_calendar_uses,
    list_calendar_versions,
)


@dataclass(frozen=True, slots=True)
class CalendarPeriod:
    """From `from_at` on a definition used this calendar, and `before` until then."""

    from_at: datetime
    definition: Definition
    before: Calendar | None = None

    def may_occur_twice(self, instant: datetime) -> bool:
        """Return whether an occurrence this near may also occur on the other side of the change."""
        if self.before is None:
            return False
        return abs(instant - self.from_at) <= change_reach(self.definition, self.before)


@dataclass(frozen=True, slots=True)
class CalendarHistory:
    """Every version of the calendars that definitions name, and which version was used when."""

    versions: Mapping[CalendarKey, list[CalendarVersion]]
    uses: Mapping[int, list[CalendarUse]]
    days: Mapping[int, Calendar]

    def of_tenant(self, tenant: str) -> dict[str, Calendar]:
        """Return the newest versions of a tenant's calendars."""
        return {
            name: self.days[versions[-1].calendar_no]
            for (owner, name), versions in self.versions.items()
            if owner == tenant and versions[-1].calendar_no in self.days
        }

    def is_changed(self, tenant: str, name: str | None) -> bool:
        """Return whether a version of a calendar was changed in place."""
        versions = () if name is None else self.versions.get((tenant, name), ())
        return any(version.is_changed for version in versions)

    def periods(
        self, definition: Definition, definition_no: int, materialised_until: datetime | None
    ) -> tuple[CalendarPeriod, ...]:
        """Return the calendars that a definition observed, in order; none where it names none."""
        if definition.calendar_name is None:
            return ()
        versions = self.versions[definition.tenant, definition.calendar_name]
        if definition.is_schedule:
            steps = [(use.from_at, use.calendar_no) for use in self.uses.get(definition_no, ())]
            newest = versions[-1].calendar_no
            if steps and materialised_until is not None and steps[-1][1] != newest:
                steps.append((materialised_until, newest))
        else:
            steps = [(version.created_at, version.calendar_no) for version in versions]
        periods: list[CalendarPeriod] = []
        before: Calendar | None = None
        for from_at, calendar_no in steps:
            calendar = self.days.get(calendar_no)
            if calendar is None:
                continue
            observing = definition.with_calendar({calendar.name: calendar})
            periods.append(
                CalendarPeriod(from_at, observing, before if definition.is_schedule else None)
            )
            before = calendar
        return tuple(periods)


async def read_history(connection: Connection, named: Collection[CalendarKey]) -> CalendarHistory:
    """Read the history of these calendars."""
    if not named:
        return CalendarHistory({}, {}, {})
    versions: dict[CalendarKey, list[CalendarVersion]] = {}
    for version in await list_calendar_versions(connection, named):
        versions.setdefault((version.tenant, version.name), []).append(version)
    numbers = {each.calendar_no for each_calendar in versions.values() for each in each_calendar}
    days = await CalendarCache().by_number(connection, numbers)
    return CalendarHistory(versions, await list_calendar_uses(connection), days)
