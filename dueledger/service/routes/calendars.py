"""Routes of calendars: list, read, and put their versions."""

from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import Body, Path, Query, Response
from pydantic import BaseModel, Field

from dueledger.audited_changes import version_detail
from dueledger.calendars.import_calendar import changes_document, import_calendar
from dueledger.calendars.source_calendar import SourceCalendar
from dueledger.ledger.definitions.calendar_document import parse_calendar
from dueledger.ledger.errors import NotFound, PreconditionFailed
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.calendars import find_calendar_version, list_calendars
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import members_of
from dueledger.service.pages import CurrentPage, Page
from dueledger.service.routes.fields import Name, Text
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.service.versions import IfMatch, IfNoneMatch, answer_version, check_match

read = ScopedRoutes(Scope.READ, "calendars")
operate = ScopedRoutes(Scope.OPERATE, "calendars")

VERSION_MAX = 2**31 - 1
_PATH = "/v1/calendars/{tenant}/{name}"

TenantPath = Annotated[Name, Path(description="tenant that owns the calendar")]
NamePath = Annotated[Name, Path(description="as in `calendar: {name: …}` of definitions")]

EXAMPLE: dict[str, Any] = {
    "weekend": ["sat", "sun"],
    "holidays": ["2027-01-01"],
    "first_day": "2027-01-01",
    "last_day": "2027-12-31",
    "names": {"2027-01-01": "New Year"},
}


class CalendarSummary(BaseModel):
    """The newest version of a calendar, without its days, and how many definitions name it."""

    tenant: str
    name: str
    version: int
    valid_to: date
    source: str | None
    created_at: datetime
    actor: str
    definitions: int


class CalendarPage(Page[CalendarSummary]):
    """A page of calendars."""


class CalendarDetail(BaseModel):
    """A version of a calendar with its days."""

    tenant: str
    name: str
    version: int
    valid_to: date
    source: str | None
    created_at: datetime
    document: dict[str, Any]


class NamedDay(BaseModel):
    """A holiday."""

    day: date
    name: str | None


class DayRanges(BaseModel):
    """The first and last day that a calendar covers, before and after."""

    from_: Annotated[list[date], Field(alias="from")]
    to: list[date]


class CalendarChanges(BaseModel):
    """How the days of a calendar change. `changed_days` are now worked, or no longer."""

    added: list[NamedDay]
    removed: list[NamedDay]
    workdays_added: list[date]
    workdays_removed: list[date]
    renamed: int
    weekend: list[list[str]]
    range: DayRanges
    changed_days: list[date]


class CalendarChange(BaseModel):
    """The version that a calendar has now, and what changed; items that exist do not change."""

    tenant: str
    name: str
    version: int
    changed: bool
    difference: CalendarChanges | None
    definitions: list[str]


@read.add("GET", "/v1/calendars", "listCalendars", CalendarPage)
async def list_all(
    call: CurrentCall, page: CurrentPage, tenant: Annotated[str | None, Text] = None
) -> Response:
    """List the newest version of each calendar, by tenant and name."""
    after = None if page.cursor is None else page.after(str, str)
    listed = await list_calendars(
        call.connection,
        tenant=tenant,
        limit=page.rows_max,
        tenants=call.tenants,
        after=None if after is None else (after[0], after[1]),
    )
    rows = [asdict(each) for each in listed]
    return page.answer_rows(CalendarSummary, rows, "tenant", "name")


@read.add("GET", _PATH, "getCalendar", CalendarDetail)
async def get_calendar(
    call: CurrentCall,
    tenant: TenantPath,
    name: NamePath,
    version: Annotated[
        int | None, Query(ge=1, le=VERSION_MAX, description="default: the newest")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Read a version of a calendar with its days. The ETag of the newest is what a change names."""
    row = await find_calendar_version(call.connection, tenant, name, version)
    if row is None:
        message = f"There is no calendar {tenant}/{name}."
        raise NotFound(message, tenant=tenant, calendar=name)
    return answer_version(members_of(CalendarDetail, asdict(row)), row.version, if_none_match)


@operate.add("PUT", _PATH, "putCalendar", CalendarChange)
async def put_calendar(
    call: CurrentCall,
    tenant: TenantPath,
    name: NamePath,
    document: Annotated[dict[str, Any], Body(examples=[EXAMPLE])],
    if_match: IfMatch = None,
) -> Response:
    """Put a calendar's first version, or the next. The same days again change nothing."""
    row = await find_calendar_version(call.connection, tenant, name)
    version = None if row is None else row.version
    check_match(if_match, version)
    found = SourceCalendar(parse_calendar(document, source="body"), call.caller.name)
    put = await import_calendar(
        call.connection,
        found,
        tenant=tenant,
        name=name,
        actor_no=call.caller.actor_no,
        counts_items=False,
    )
    if put.version not in {version, (version or 0) + 1}:
        raise PreconditionFailed("Somebody changed it at the same time. Read it again.")
    call.note_change(is_changed=put.changed, **version_detail(put.version))
    return answer_version(
        {
            "tenant": tenant,
            "name": name,
            "version": put.version,
            "changed": put.changed,
            "difference": None if put.difference is None else changes_document(put.difference),
            "definitions": [each.definition.name for each in put.concerned],
        },
        put.version,
    )
