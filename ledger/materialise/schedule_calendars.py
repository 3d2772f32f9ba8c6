"""The calendars that schedules observe while they are materialised, and which version each did."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.rules.calendar_change import draft_overtaken
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import STRETCH_TIMES_MAX
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import Calendars, CalendarShelf, name_in, of_tenant
from dueledger.ledger.store.calendars import (
    CalendarUse,
    list_calendar_uses,
    list_calendar_versions,
    list_last_calendar_uses,
)
from dueledger.ledger.store.definitions import DefinitionVersion, Materialisable

Phases = list[tuple[datetime, Definition]]
"""A definition with each calendar that it has observed, and from when on, in order."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A definition with its calendar. `use` is to be recorded: another version than the last.

    `overtaken` is what that version owes before the watermark and the last was to owe after it.
    """

    definition: Definition
    use: CalendarUse | None = None
    overtaken: list[ItemDraft] = field(default_factory=list[ItemDraft])


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest calendars of one transaction, and those by which definitions were expanded."""

    newest: Calendars
    last: Mapping[int, CalendarUse]
    kept: Mapping[int, Calendar]

    def observe(self, definition: Definition, row: Materialisable) -> Observed:
        """Give a schedule the calendar that it names. UnknownCalendar where there is none.

        A stretch that was begun by one version, and not passed yet, is finished by the same.
        """
        name, last = definition.calendar_name, self.last.get(row.definition_no)
        if name is None or not definition.is_schedule:
            return Observed(definition)
        begun = None
        if last is not None and last.from_at == row.materialised_until:
            begun = self.kept.get(last.calendar_no)
        if begun is not None:
            return Observed(definition.observing({name: begun}))
        observing = definition.observing(of_tenant(self.newest, row.tenant))
        calendar_no = self.newest[row.tenant, name].version.calendar_no
        if last is not None and last.calendar_no == calendar_no:
            return Observed(observing)
        use = CalendarUse(row.definition_no, row.materialised_until, calendar_no)
        before = None if last is None else self.kept.get(last.calendar_no)
        if before is None:
            return Observed(observing, use)
        since, at = row.effective_from, row.materialised_until
        overtaken = draft_overtaken(observing, before, since, at, times_max=STRETCH_TIMES_MAX)
        return Observed(observing, use, overtaken)


class ScheduleCalendars:
    """Reads what a pass needs; keeps the days of each version that it has read."""

    def __init__(self) -> None:
        self._shelf = CalendarShelf()

    async def read(self, connection: Connection, rows: Sequence[Materialisable]) -> Reading:
        """Read the calendars that these definitions name, in their transaction."""
        named = [row.definition_no for row in rows if name_in(row.document) is not None]
        if not named:
            return Reading({}, {}, {})
        newest = await self.newest(connection, ((row.tenant, row.document) for row in rows))
        uses = await list_last_calendar_uses(connection, named)
        kept = await self._shelf.numbered(connection, {use.calendar_no for use in uses})
        return Reading(newest, {use.definition_no: use for use in uses}, kept)

    async def newest(
        self, connection: Connection, documents: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> Calendars:
        """Read the newest version of each calendar that documents of tenants name."""
        keys = {(tenant, name) for tenant, one in documents if (name := name_in(one)) is not None}
        return await self._shelf.newest(connection, keys)


async def read_phases(
    connection: Connection, versions: Sequence[DefinitionVersion]
) -> dict[int, Phases | str]:
    """Read by which calendars versions placed their items, or why that cannot be told.

    A schedule's are those it was expanded by; an event rule's all that there were.
    """
    named = {(each.tenant, name) for each in versions if (name := name_in(each.document))}
    line = await list_calendar_versions(connection, named) if named else []
    numbers = [each.definition_no for each in versions]
    used = await list_calendar_uses(connection, numbers) if named else {}
    days = await CalendarShelf().numbered(connection, {each.calendar_no for each in line})
    found: dict[int, Phases | str] = {}
    for version in versions:
        number, name = version.definition_no, name_in(version.document)
        try:
            definition = parse_definition(version.document, source=version.name, calendars=None)
        except DueledgerError as error:
            found[number] = str(error)
            continue
        if name is None:
            found[number] = [(version.effective_from, definition)]
            continue
        own = [each for each in line if (each.tenant, each.name) == (version.tenant, name)]
        steps = [(each.created_at, each.calendar_no) for each in own]
        if definition.is_schedule:
            uses = [(use.from_at, use.calendar_no) for use in used.get(number, ())]
            steps = uses or [(version.effective_from, each.calendar_no) for each in own[-1:]]
        phases = [
            (from_at, definition.observing({name: days[calendar_no]}))
            for from_at, calendar_no in steps
            if calendar_no in days
        ]
        found[number] = phases or f"calendar {name} cannot be had"
    return found
