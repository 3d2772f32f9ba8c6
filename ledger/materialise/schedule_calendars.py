"""The calendar versions that schedules are materialised with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.rules.calendar_change import drafts_moved_before
from dueledger.ledger.rules.schedule_drafts import ScheduleDrafts
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import (
    CalendarCache,
    CalendarsByKey,
    calendar_name_of,
    calendars_of_tenant,
)
from dueledger.ledger.store.calendars import (
    CalendarUse,
    list_calendar_uses,
    list_calendar_versions,
    list_last_calendar_uses,
)
from dueledger.ledger.store.definitions import DefinitionToMaterialise, DefinitionVersion

CalendarPeriods = list[tuple[datetime, Definition]]
"""A definition with each calendar version it observed, and from when on, in time order."""


@dataclass(frozen=True, slots=True)
class ObservingDefinition:
    """A definition with its calendar. `use` is to be recorded if the version is a new one.

    `moved_before` is what the new version has before the watermark and the last one after it.
    """

    definition: Definition
    use: CalendarUse | None = None
    moved_before: ScheduleDrafts = field(default_factory=lambda: ScheduleDrafts([], []))


@dataclass(frozen=True, slots=True)
class CalendarSnapshot:
    """The newest calendars of one transaction, and those that definitions were expanded with."""

    newest: CalendarsByKey
    last: Mapping[int, CalendarUse]
    kept: Mapping[int, Calendar]

    def observe(self, definition: Definition, row: DefinitionToMaterialise) -> ObservingDefinition:
        """Return a schedule with the calendar it names. Raises UnknownCalendar if there is none.

        A window that was begun with one calendar version is finished with the same, and a version
        that ended keeps its last.
        """
        name, last = definition.calendar_name, self.last.get(row.definition_no)
        if name is None or not definition.is_schedule:
            return ObservingDefinition(definition)
        begun = None
        ended = row.until <= row.materialised_until
        if last is not None and (ended or last.from_at == row.materialised_until):
            begun = self.kept.get(last.calendar_no)
        if begun is not None:
            return ObservingDefinition(definition.with_calendar({name: begun}))
        observing = definition.with_calendar(calendars_of_tenant(self.newest, row.tenant))
        calendar_no = self.newest[row.tenant, name].version.calendar_no
        if last is not None and last.calendar_no == calendar_no:
            return ObservingDefinition(observing)
        use = CalendarUse(row.definition_no, row.materialised_until, calendar_no)
        before = None if last is None else self.kept.get(last.calendar_no)
        if before is None:
            return ObservingDefinition(observing, use)
        since, at = row.effective_from, row.materialised_until
        moved_before = drafts_moved_before(observing, before, since, at)
        return ObservingDefinition(observing, use, moved_before)


class ScheduleCalendars:
    """Reads the calendars of a pass; caches the days of each version."""

    def __init__(self) -> None:
        self._cache = CalendarCache()

    async def read(
        self, connection: Connection, rows: Sequence[DefinitionToMaterialise]
    ) -> CalendarSnapshot:
        """Read the calendars that these definitions name, in the caller's transaction."""
        named = [row.definition_no for row in rows if calendar_name_of(row.document) is not None]
        if not named:
            return CalendarSnapshot({}, {}, {})
        newest = await self.newest(connection, ((row.tenant, row.document) for row in rows))
        uses = await list_last_calendar_uses(connection, named)
        kept = await self._cache.by_number(connection, {use.calendar_no for use in uses})
        return CalendarSnapshot(newest, {use.definition_no: use for use in uses}, kept)

    async def newest(
        self, connection: Connection, documents: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> CalendarsByKey:
        """Read the newest version of each calendar that these documents name."""
        keys = {
            (tenant, name)
            for tenant, one in documents
            if (name := calendar_name_of(one)) is not None
        }
        return await self._cache.newest_versions(connection, keys)


async def read_calendar_periods(
    connection: Connection, versions: Sequence[DefinitionVersion]
) -> dict[int, CalendarPeriods | str]:
    """Read the calendars that versions computed their items with, or why they are unknown.

    For a schedule: the calendars it was expanded with. For an event rule: all versions.
    """
    named = {(each.tenant, name) for each in versions if (name := calendar_name_of(each.document))}
    existing = await list_calendar_versions(connection, named) if named else []
    numbers = [each.definition_no for each in versions]
    used = await list_calendar_uses(connection, numbers) if named else {}
    days = await CalendarCache().by_number(connection, {each.calendar_no for each in existing})
    found: dict[int, CalendarPeriods | str] = {}
    for version in versions:
        number, name = version.definition_no, calendar_name_of(version.document)
        try:
            definition = parse_definition(version.document, source=version.name, calendars=None)
        except DueledgerError as error:
            found[number] = str(error)
            continue
        if name is None:
            found[number] = [(version.effective_from, definition)]
            continue
        own = [each for each in existing if (each.tenant, each.name) == (version.tenant, name)]
        steps = [(each.created_at, each.calendar_no) for each in own]
        if definition.is_schedule:
            uses = [(use.from_at, use.calendar_no) for use in used.get(number, ())]
            steps = uses or [(version.effective_from, each.calendar_no) for each in own[-1:]]
        periods = [
            (from_at, definition.with_calendar({name: days[calendar_no]}))
            for from_at, calendar_no in steps
            if calendar_no in days
        ]
        found[number] = periods or f"calendar {name} cannot be read"
    return found
