"""The calendars that schedules observe while they are materialised, and which version each did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledger.calendar_change import draft_overtaken
from ledger.calendar_shelf import Calendars, CalendarShelf, name_in, of_tenant
from ledger.definition_model import Definition
from ledger.drafts import ItemDraft
from ledger.schedule import Calendar
from ledger.store import Connection
from ledger.store.calendars import CalendarUse, list_last_calendar_uses
from ledger.store.definitions import Materialisable


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
        """Give a definition the calendar that it names. UnknownCalendar where there is none."""
        if definition.calendar_name is None:
            return Observed(definition)
        observing = definition.observing(of_tenant(self.newest, row.tenant))
        calendar_no = self.newest[row.tenant, definition.calendar_name].version.calendar_no
        last = self.last.get(row.definition_no)
        if last is not None and last.calendar_no == calendar_no:
            return Observed(observing)
        use = CalendarUse(row.definition_no, row.materialised_until, calendar_no)
        before = None if last is None else self.kept.get(last.calendar_no)
        if before is None:
            return Observed(observing, use)
        since, at = row.effective_from, row.materialised_until
        return Observed(observing, use, draft_overtaken(observing, before, since, at))


class ScheduleCalendars:
    """Reads what a pass needs; keeps the days of each version that it has read."""

    def __init__(self) -> None:
        self._shelf = CalendarShelf()

    async def read(self, connection: Connection, rows: Sequence[Materialisable]) -> Reading:
        """Read the calendars that these definitions name, in their transaction."""
        named = {
            row.definition_no: (row.tenant, name)
            for row in rows
            if (name := name_in(row.document)) is not None
        }
        if not named:
            return Reading({}, {}, {})
        newest = await self._shelf.newest(connection, set(named.values()))
        uses = await list_last_calendar_uses(connection, list(named))
        kept = await self._shelf.numbered(connection, {use.calendar_no for use in uses})
        return Reading(newest, {use.definition_no: use for use in uses}, kept)
