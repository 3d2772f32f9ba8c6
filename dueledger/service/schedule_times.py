"""What definitions owe next, and in a week. It is computed once, and kept while it holds.

A version never changes, nor does a version of a calendar: what one owes follows from both alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain, repeat
from typing import Final, NamedTuple, final

import orjson
from fastapi import Request

from dueledger.definitions.named_calendars import add_ledger_calendars
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import DueledgerError, UnknownCalendar
from dueledger.ledger.schedule import RECURRING, Calendar, Occurrence, ScheduleWindow, Skipped
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import CalendarCache, calendars_of_tenant
from dueledger.ledger.store.definitions import DefinitionVersion
from dueledger.planning.load_plan import LoadPlan, OwedQuarters, make_plan, owed_by_kind
from dueledger.planning.schedule_load import (
    QUARTER,
    DefinitionInForce,
    LoadSource,
    expand_days,
)
from dueledger.preview.clock_changes import ClockChange, clock_changes
from dueledger.preview.occurrences import preview_definition, preview_smears
from dueledger.preview.wording import change_rows, decision_words, skip_words, smear_words

OCCURRENCES: Final = 10
SKIPPED_SHOWN: Final = 20
DAYS_AHEAD: Final = timedelta(days=3_660)
"""Occurrences are looked for so far ahead."""
_KEPT_MAX: Final = 1_024
_PLANS_KEPT_MAX: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_FIRST_SPAN: Final = timedelta(hours=1)
_SPAN_FACTOR: Final = 8
_DAYS_BACK: Final = timedelta(days=1_000)
"""The last occurrence is looked for in windows that grow until they are longer."""
_CLOCK_CHANGES_AHEAD: Final = timedelta(days=366)
_BESIDE: Final = timedelta(hours=26)


@dataclass(frozen=True, slots=True)
class Coming:
    """What a definition owes from an instant on, and what clock changes do to it.

    `smears` are the delays of its items in seconds, if it smears. `problem` is why that cannot be
    said.
    """

    occurrences: Sequence[Occurrence] = ()
    smears: Sequence[int] = ()
    passed_over: Sequence[Skipped] = ()
    zone: str = "UTC"
    clock_changes: Sequence[dict[str, object]] = ()
    problem: str | None = None

    @property
    def rows(self) -> list["ComingTime"]:
        """Return the occurrences and the nominal times that are skipped, in order of time."""
        pairs = zip(self.occurrences, chain(self.smears, repeat(0)), strict=False)
        found = [
            (each.due_at, ComingTime(each.due_at, each.local, each.utc_offset, _note(each, smear)))
            for each, smear in pairs
        ]
        found += [
            (each.at, ComingTime(None, each.nominal, None, skip_words(each)))
            for each in self.passed_over
        ]
        return [each for _, each in sorted(found, key=lambda one: one[0])]

    @property
    def shown(self) -> list["ComingTime"]:
        """Return the rows of a page: of the times that are skipped, the first."""
        return replace(self, passed_over=self.passed_over[:SKIPPED_SHOWN]).rows

    @property
    def left_out(self) -> int:
        """Return how many times that are skipped a page leaves out."""
        return max(0, len(self.passed_over) - SKIPPED_SHOWN)


class ComingTime(NamedTuple):
    """A time of a schedule, and what is special about it. Without `due_at` it is skipped."""

    due_at: datetime | None
    local: datetime
    utc_offset: timedelta | None
    note: str


class _LastDue(NamedTuple):
    """When a schedule was due last, which holds from one instant to another."""

    begins: datetime
    ends: datetime
    due_at: datetime | None


@final
class ScheduleTimes:
    """Reads definitions with their calendars, and computes what they owe."""

    def __init__(self) -> None:
        self._calendars = CalendarCache()
        self._next: dict[tuple[Definition, int], tuple[datetime, ScheduleWindow]] = {}
        self._last: dict[tuple[Definition, datetime], _LastDue] = {}

    async def read(
        self, connection: Connection, versions: Sequence[DefinitionVersion]
    ) -> list[Definition | None]:
        """Return the definitions of versions; None for one that cannot be read, or expanded."""
        definitions: list[Definition | None] = []
        for each in versions:
            try:
                definitions.append(read_definition(each))
            except DueledgerError:
                definitions.append(None)
        named = {
            (each.tenant, each.calendar_name)
            for each in definitions
            if each is not None and each.calendar_name is not None
        }
        found = await self._calendars.newest_versions(connection, named)
        calendars = {tenant: calendars_of_tenant(found, tenant) for tenant, _ in named}
        return [
            None if each is None else _observing(each, calendars.get(each.tenant, {}))
            for each in definitions
        ]

    async def observe(self, connection: Connection, definition: Definition) -> Definition:
        """Return a definition with its calendar. Raises as `add_ledger_calendars`."""
        (observing,) = await add_ledger_calendars(
            connection, [definition], calendars=self._calendars
        )
        return observing

    async def coming(
        self, connection: Connection, definition: Definition, since: datetime
    ) -> Coming:
        """Return what a definition owes from an instant on. Raises what its calendar does."""
        observing = await self.observe(connection, definition)
        if not observing.is_schedule or observing.ended:
            return Coming()
        return await asyncio.to_thread(self._coming, observing, since)

    async def next_due(
        self, schedules: Sequence[tuple[Definition | None, datetime]]
    ) -> list[datetime | None]:
        """Return when each definition is due first from its instant on, all in one thread."""
        return await asyncio.to_thread(lambda: [self._first(*each) for each in schedules])

    async def last_due(
        self, schedules: Sequence[tuple[Definition | None, datetime]], now: datetime
    ) -> list[datetime | None]:
        """Return when each definition was due last before now, since its instant.

        None for one that was not due in the last years, or of which that cannot be computed.
        """
        return await asyncio.to_thread(
            lambda: [self._last_due(definition, since, now) for definition, since in schedules]
        )

    async def plan(
        self,
        definitions: Sequence[DefinitionInForce],
        start: datetime,
        days: int,
        *,
        quiet_for: timedelta,
        occurrences_max: int,
    ) -> LoadPlan:
        """Return what schedules owe in the days from an instant on. Raises as `expand_days`."""
        begins = quarter_of(start)
        asked = tuple(definitions), begins, begins + days * _DAY, quiet_for, occurrences_max
        return await asyncio.to_thread(_plan, *asked)

    async def due_by_source(
        self,
        definitions: Sequence[DefinitionInForce],
        start: datetime,
        end: datetime,
        *,
        occurrences_max: int,
    ) -> list[tuple[LoadSource, int]]:
        """Return the schedules with items due in a window, those with most first.

        Raises as `expand_days`.
        """
        asked = tuple(definitions), start, end, occurrences_max
        return await asyncio.to_thread(_due_by_source, *asked)

    async def owed(
        self,
        definitions: Sequence[DefinitionInForce],
        start: datetime,
        until: datetime,
        *,
        occurrences_max: int,
    ) -> OwedQuarters:
        """Return what schedules owe of each kind until an instant. Raises as `expand_days`."""
        asked = tuple(definitions), quarter_of(start), until, occurrences_max
        return await asyncio.to_thread(_owed, *asked)

    def _coming(self, definition: Definition, since: datetime) -> Coming:
        zone: str = getattr(definition.when, "timezone", "UTC")
        window = self._window(definition, since, OCCURRENCES)
        changes: list[dict[str, object]] = []
        if isinstance(definition.when, RECURRING):
            for change in _clock_changes(zone, since.date()):
                if since <= change.at:
                    changes += _effects(definition, zone, change)
        passed_over = [each for each in window.skipped if since <= each.at]
        smears = preview_smears(definition, window)
        return Coming(window.occurrences, smears, passed_over, zone, changes)

    def _first(self, definition: Definition | None, since: datetime) -> datetime | None:
        if definition is None or not definition.is_schedule or definition.ended:
            return None
        try:
            found = self._window(definition, since, 1).occurrences
        except DueledgerError:
            return None
        return found[0].due_at if found else None

    def _last_due(
        self, definition: Definition | None, since: datetime, now: datetime
    ) -> datetime | None:
        if definition is None or not isinstance(definition.when, RECURRING) or now <= since:
            return None
        kept = self._last.get((definition, since))
        if kept is not None and kept.begins <= now <= kept.ends:
            return kept.due_at
        try:
            due_at = _search_last(definition, since, now)
        except DueledgerError:
            return None
        next_at = self._first(definition, now)
        if len(self._last) >= _KEPT_MAX:
            self._last.clear()
        ends = now + _DAY if next_at is None else min(next_at, now + _DAY)
        self._last[definition, since] = _LastDue(now, ends, due_at)
        return due_at

    def _window(self, definition: Definition, since: datetime, count: int) -> ScheduleWindow:
        """Return the next times of a schedule; they hold until the first of them is past."""
        kept = self._next.get((definition, count))
        if kept is not None and _holds(*kept, since):
            return kept[1]
        until = since + DAYS_AHEAD
        window = preview_definition(
            definition, since=since, until=until, effective_date=None, count=count
        )
        if isinstance(definition.when, RECURRING):
            if len(self._next) >= _KEPT_MAX:
                self._next.clear()
            self._next[definition, count] = since, window
        return window


def read_definition(version: DefinitionVersion) -> Definition:
    """Return the definition of a version, without its calendar. Raises InvalidDefinition."""
    return _parsed(orjson.dumps(version.document))


def _holds(begins: datetime, window: ScheduleWindow, since: datetime) -> bool:
    """Return whether the next times from `begins` on are those from `since` on."""
    ends = begins + _DAY  # as far as is looked ahead moves with it
    if window.occurrences:
        ends = min(ends, window.occurrences[0].due_at)
    return begins <= since <= ends


def _search_last(definition: Definition, since: datetime, now: datetime) -> datetime | None:
    """Return the last occurrence in [since, now), looked for in longer and longer windows."""
    span = _FIRST_SPAN
    while True:
        start = max(since, now - span)
        window = preview_definition(definition, since=start, until=now, effective_date=None)
        if window.occurrences:
            return window.occurrences[-1].due_at
        if start == since or span > _DAYS_BACK:
            return None
        span *= _SPAN_FACTOR


def _note(found: Occurrence, smear: int) -> str:
    """Return how a time was found, and how its item is smeared; empty for the rule's own time."""
    return ", ".join(filter(None, (decision_words(found), smear_words(smear))))


def _observing(definition: Definition, calendars: Mapping[str, Calendar]) -> Definition | None:
    try:
        return definition.with_calendar(calendars)
    except UnknownCalendar:
        return None


@lru_cache(maxsize=_KEPT_MAX)
def _parsed(document: bytes) -> Definition:
    return parse_definition(orjson.loads(document), calendars=None)


@lru_cache(maxsize=_KEPT_MAX)
def _clock_changes(zone: str, day: date) -> Sequence[ClockChange]:
    """Return the clock changes of a zone in the year from a day on."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return tuple(clock_changes(zone, start, start + _CLOCK_CHANGES_AHEAD))


@lru_cache(maxsize=_KEPT_MAX)
def _effects(definition: Definition, zone: str, change: ClockChange) -> Sequence[dict[str, object]]:
    """Return what a clock change does to a schedule, as rows."""
    first, last = change.at - _BESIDE, change.at + _BESIDE
    window = preview_definition(definition, since=first, until=last, effective_date=None)
    return change_rows(window, zone, first, last)


@lru_cache(maxsize=_PLANS_KEPT_MAX)
def _plan(
    definitions: Sequence[DefinitionInForce],
    start: datetime,
    end: datetime,
    quiet_for: timedelta,
    occurrences_max: int,
) -> LoadPlan:
    schedules = expand_days(definitions, start, end, occurrences_max=occurrences_max)
    return make_plan(schedules, quiet_for=quiet_for)


@lru_cache(maxsize=_PLANS_KEPT_MAX)
def _due_by_source(
    definitions: Sequence[DefinitionInForce], start: datetime, end: datetime, occurrences_max: int
) -> list[tuple[LoadSource, int]]:
    found = expand_days(definitions, start, end, occurrences_max=occurrences_max)
    counts = [(each.source, len(each.as_defined)) for each in found.times if each.as_defined]
    return sorted(counts, key=lambda each: (-each[1], each[0].tenant, each[0].definition or ""))


@lru_cache(maxsize=_PLANS_KEPT_MAX)
def _owed(
    definitions: Sequence[DefinitionInForce], start: datetime, end: datetime, occurrences_max: int
) -> OwedQuarters:
    return owed_by_kind(expand_days(definitions, start, end, occurrences_max=occurrences_max))


def quarter_of(instant: datetime) -> datetime:
    """Return when the quarter of an hour of an instant begins."""
    return instant - (instant - _EPOCH) % QUARTER


def times_of(request: Request) -> ScheduleTimes:
    """Return what computes when schedules are due, with what it has computed."""
    state = request.app.state
    if not hasattr(state, "schedule_times"):
        state.schedule_times = ScheduleTimes()
    times: ScheduleTimes = state.schedule_times
    return times
