"""Calendars, their versions, and the calendar version that each schedule was expanded with."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

CalendarKey = tuple[str, str]
"""Tenant and name."""

_PAGE: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CalendarPutResult:
    """The result of putting a calendar. `changed` is False if the newest version is the same."""

    calendar_no: int
    version: int
    changed: bool


@dataclass(frozen=True, slots=True)
class CalendarVersion:
    """One version of a calendar, without its days. `is_changed`: in place, since it was put."""

    tenant: str
    name: str
    calendar_no: int
    version: int
    valid_to: date
    source: str | None
    created_at: datetime
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """One version of a calendar. `document` is its normalised form, `source` its origin."""

    calendar_no: int
    tenant: str
    name: str
    version: int
    document: dict[str, Any]
    valid_to: date
    source: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ListedCalendar:
    """The newest version of a calendar, its actor, and how many definitions name it."""

    tenant: str
    name: str
    calendar_no: int
    version: int
    valid_to: date
    source: str | None
    created_at: datetime
    actor: str
    definitions: int


@dataclass(frozen=True, slots=True)
class CalendarDefinition:
    """A definition whose newest version names a calendar. An event rule is not materialised."""

    definition_no: int
    name: str
    version: int
    kind: str
    event_type: str | None
    roll: str | None
    materialised_until: datetime | None


@dataclass(frozen=True, slots=True)
class CalendarUse:
    """From `from_at` on, a definition's occurrences were expanded with this calendar version."""

    definition_no: int
    from_at: datetime
    calendar_no: int


async def put_calendar(
    connection: Connection,
    document: dict[str, Any],
    *,
    tenant: str,
    name: str,
    valid_to: date,
    source: str | None,
    actor_no: int,
) -> CalendarPutResult:
    """Store a calendar's first or next version. The same document again changes nothing."""
    async with connection.transaction():
        await connection.fetch(statement("lock_calendar"), tenant, name)
        rows = await connection.fetch(
            statement("put_calendar"), tenant, name, document, valid_to, source, actor_no
        )
    return CalendarPutResult(**rows[0])


async def find_calendars(
    connection: Connection, keys: Collection[CalendarKey]
) -> list[CalendarVersion]:
    """Find the newest version of each calendar; unknown ones are left out."""
    rows = await connection.fetch(statement("find_calendars"), *_columns(keys))
    return [CalendarVersion(**row) for row in rows]


async def read_calendars(connection: Connection, calendar_nos: Sequence[int]) -> list[CalendarRow]:
    """Read calendar versions with their days."""
    rows = await connection.fetch(statement("read_calendars"), calendar_nos)
    return [CalendarRow(**row) for row in rows]


async def find_calendar_version(
    connection: Connection, tenant: str, name: str, version: int | None = None
) -> CalendarRow | None:
    """Find one version of a calendar; without `version` the newest."""
    row = await connection.fetchrow(statement("find_calendar_version"), tenant, name, version)
    return CalendarRow(**row) if row else None


async def list_calendars(
    connection: Connection,
    *,
    tenant: str | None = None,
    limit: int,
    tenants: Sequence[str] | None = None,
    after: CalendarKey | None = None,
) -> list[ListedCalendar]:
    """List calendars by tenant and name, those after one; `tenants` limits who asks."""
    values = tenants, tenant, *(after or (None, None)), limit
    rows = await connection.fetch(statement("list_calendars"), *values)
    return [ListedCalendar(**row) for row in rows]


async def list_calendar_versions(
    connection: Connection, keys: Collection[CalendarKey]
) -> list[CalendarVersion]:
    """List the versions of calendars, oldest first."""
    rows = await connection.fetch(statement("list_calendar_versions"), *_columns(keys))
    return [CalendarVersion(**row) for row in rows]


async def list_calendar_definitions(
    connection: Connection, tenant: str, name: str, *, limit: int
) -> list[CalendarDefinition]:
    """List the definitions whose newest version names a calendar."""
    rows = await connection.fetch(statement("list_calendar_definitions"), tenant, name, limit)
    return [CalendarDefinition(**row) for row in rows]


async def count_items_on_days(
    connection: Connection,
    definition_nos: Sequence[int],
    days: Sequence[date],
    between: tuple[datetime, datetime],
    limit: int,
) -> dict[int, int]:
    """Count pending items not due yet whose local day, or day before a roll, is in `days`.

    Counts items due `between` two instants, the second exclusive, and at most `limit` in all.
    """
    rows = await connection.fetch(
        statement("count_items_on_days"), definition_nos, days, *between, limit
    )
    return {row["definition_no"]: row["items"] for row in rows}


async def list_last_calendar_uses(
    connection: Connection, definition_nos: Sequence[int]
) -> list[CalendarUse]:
    """List the calendar version each definition was expanded with last, if any."""
    rows = await connection.fetch(statement("list_last_calendar_uses"), definition_nos)
    return [CalendarUse(**row) for row in rows]


async def list_calendar_uses(
    connection: Connection, definition_nos: Sequence[int] | None = None
) -> dict[int, list[CalendarUse]]:
    """Return the calendar uses of these definitions, or of all, in time order."""
    found: dict[int, list[CalendarUse]] = {}
    after = (0, _EPOCH)
    while True:
        rows = await connection.fetch(
            statement("list_calendar_uses"), definition_nos, *after, _PAGE
        )
        for row in rows:
            found.setdefault(row["definition_no"], []).append(CalendarUse(**row))
        if len(rows) < _PAGE:
            return found
        after = rows[-1]["definition_no"], rows[-1]["from_at"]


async def record_calendar_uses(
    connection: Connection, uses: Sequence[CalendarUse], *, actor_no: int
) -> None:
    """Record the calendars that definitions are expanded with. Repeating it changes nothing.

    The caller has locked the definitions' watermarks.
    """
    await connection.execute(
        statement("record_calendar_uses"),
        [use.definition_no for use in uses],
        [use.from_at for use in uses],
        [use.calendar_no for use in uses],
        actor_no,
    )


def _columns(keys: Collection[CalendarKey]) -> tuple[list[str], list[str]]:
    return [tenant for tenant, _ in keys], [name for _, name in keys]
