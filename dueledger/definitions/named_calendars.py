"""Resolve the calendars that definitions name, or refuse them with the reason."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from dueledger.definitions.files import SINGLE_FILE, DefinitionFiles, location_of
from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import (
    BeyondCalendar,
    InvalidDefinition,
    InvalidInput,
    Problem,
    UnknownCalendar,
)
from dueledger.ledger.rules.schedule_drafts import (
    ROLLED_MAX,
    expand_schedule,
    rolled_onto_one_day,
)
from dueledger.ledger.schedule import RECURRING, Calendar, load_zone
from dueledger.ledger.schedule.observance import nearest_first
from dueledger.ledger.schedule.when import DUE_END
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import CalendarCache, calendars_of_tenant, parse_stored
from dueledger.ledger.store.calendars import find_calendar_version, list_calendars

_KNOWN_MAX: Final = 1_000
_SPAN_MIN: Final = timedelta(hours=1)
_INSTANT: Final = timedelta(microseconds=1)
_NO_CALENDAR: Final = "the calendar first: dueledger calendar import NAME FILE"
_ANOTHER_VERSION: Final = "its next version: dueledger calendar import NAME FILE"


async def add_ledger_calendars(
    connection: Connection,
    definitions: Sequence[Definition],
    sources: DefinitionFiles = SINGLE_FILE,
    *,
    calendars: CalendarCache | None = None,
) -> list[Definition]:
    """Return definitions with the newest versions of the calendars that they name.

    `calendars` are those of the ledger that were read before. Raises InvalidDefinition with each
    name that is unknown, and the names that exist, or whose calendar cannot be read, and why.
    """
    named = {(one.tenant, one.calendar_name) for one in definitions if one.calendar_name}
    if not named:
        return list(definitions)
    found = await (calendars or CalendarCache()).newest_versions(
        connection, {(tenant, name or "") for tenant, name in named}
    )
    by_tenant = {tenant: calendars_of_tenant(found, tenant) for tenant, _ in named}
    observing: list[Definition] = []
    problems: list[Problem] = []
    for one in definitions:
        try:
            observing.append(one.with_calendar(by_tenant.get(one.tenant, {})))
        except UnknownCalendar:
            problems.append(await _unknown(connection, one, sources))
    if problems:
        raise InvalidDefinition("A calendar cannot be used:", problems)
    return observing


async def _unknown(
    connection: Connection, definition: Definition, sources: DefinitionFiles
) -> Problem:
    name = definition.calendar_name or ""
    field = f"{location_of(definition, sources)}.calendar.name"
    if (row := await find_calendar_version(connection, definition.tenant, name)) is not None:
        try:
            parse_stored(row)
        except InvalidInput as error:
            reason = "; ".join(map(str, error.problems))
            reason = f"version {row.version} in the ledger cannot be read: {reason}"
            return Problem(field, repr(name), reason, _ANOTHER_VERSION)
    known = await list_calendars(connection, tenant=definition.tenant, limit=_KNOWN_MAX)
    near = nearest_first(name, [each.name for each in known])
    accepted = " or ".join(near) if near else _NO_CALENDAR
    reason = f"tenant {definition.tenant} does not have this calendar"
    return Problem(field, repr(name), reason, accepted)


def add_given_calendars(
    definitions: Sequence[Definition], calendars: Mapping[str, Calendar]
) -> list[Definition]:
    """Return definitions with calendars by name. Those that name another do not change."""
    return [
        one.with_calendar(calendars) if one.calendar_name in calendars else one
        for one in definitions
    ]


def check_reach(
    definitions: Sequence[Definition],
    since: datetime,
    now: datetime,
    sources: DefinitionFiles = SINGLE_FILE,
) -> None:
    """Refuse definitions that need a day after the last known day of their calendar.

    Needed are the first occurrence from `since` on, the first from now on, and their `end`. Raises
    InvalidDefinition, which says until when each can owe items.
    """
    starts = sorted({since, max(since, now)})
    problems = [
        problem
        for one in definitions
        for problem in _beyond(one, starts, location_of(one, sources))
    ]
    if problems:
        raise InvalidDefinition("A calendar ends too early:", problems)


def check_rolls(definitions: Sequence[Definition], sources: DefinitionFiles = SINGLE_FILE) -> None:
    """Refuse definitions whose calendar rolls more occurrences onto a day than can be recorded."""
    problems = [
        Problem(
            f"{location_of(one, sources)}.calendar.roll",
            "",
            f"rolls about {rolled:,} occurrences onto one day, more than {ROLLED_MAX:,}",
            "`skip`, or a schedule that is due less often",
        )
        for one in definitions
        if not one.ended and (rolled := rolled_onto_one_day(one)) > ROLLED_MAX
    ]
    if problems:
        raise InvalidDefinition("A calendar rolls too many occurrences:", problems)


async def describe_reach(connection: Connection, definitions: Sequence[Definition]) -> list[str]:
    """Return one sentence for each definition: until when its calendar allows items."""
    return [
        f"{one.definition}: calendar {one.calendar_name} ends on {last}; after that nothing is "
        "owed until a newer version is imported"
        for one in await add_ledger_calendars(connection, definitions)
        if one.calendar_name is not None
        and not one.ended
        and (last := _known_until(one)) is not None
    ]


def _known_until(definition: Definition) -> date | None:
    observance = definition.observance()
    return None if observance is None else observance.calendar.last_day


def _beyond(definition: Definition, starts: Sequence[datetime], named: str) -> Iterator[Problem]:
    observance, last = definition.observance(), _known_until(definition)
    if observance is None or definition.ended:
        return
    place, when = f"{named}.calendar", definition.when
    zone = load_zone(getattr(when, "timezone", "UTC"))
    accepted = "a calendar that ends later"
    end = getattr(when, "end", None)
    if last is not None and end is not None and (end - _INSTANT).date() > last:
        yield Problem(
            f"{named}.when.end",
            end.isoformat(),
            f"calendar {observance.calendar.name} ends on {last}: until then it can owe",
            f"an `end` not after it, or {accepted}",
        )
        return
    if not isinstance(when, RECURRING):
        if last is not None and starts[-1].astimezone(zone).date() > last:
            reason = f"calendar {observance.calendar.name} ended on {last}"
            yield Problem(place, "", reason, accepted)
        return
    for start in starts:
        try:
            _find_first(definition, start)
        except BeyondCalendar as error:
            reason = f"{error.problems[0].reason}: its first occurrence needs a day outside"
            yield Problem(place, error.problems[0].value, reason, error.problems[0].accepted)
            return


def _find_first(definition: Definition, start: datetime) -> None:
    """Expand until an occurrence is found. Raises BeyondCalendar if the calendar ends first."""
    low, span = start.astimezone(UTC), _SPAN_MIN
    growing = True
    while low < DUE_END:
        high = DUE_END if DUE_END - low <= span else low + span
        try:
            found = expand_schedule(definition, low, high)
        except BeyondCalendar:
            if span <= _SPAN_MIN:
                raise
            span, growing = span / 2, False
            continue
        if found.occurrences:
            return
        low, span = high, span * 2 if growing else span
