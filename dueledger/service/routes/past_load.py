"""Routes of the past load: the results of the items that were due in the last weeks."""

from datetime import date, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, Field

from dueledger.ledger.schedule.zones import load_zone
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.past_load import DueResults
from dueledger.past_load import (
    DAYS,
    DAYS_MAX,
    KindPlace,
    PastDays,
    PastLoad,
    read_past_load,
)
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import PRINTABLE, Text, written
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "flows")

_KINDS_MAX: Final = 100
_Day = Annotated[date, BeforeValidator(written), Field(ge=date(2000, 1, 1), le=date(2199, 12, 24))]
FirstDay = Annotated[
    _Day | None,
    Query(alias="from", description="the first day; without one, the last ones with today"),
]
Days = Annotated[int, Query(ge=1, le=DAYS_MAX, description="how many days")]
ZoneName = Annotated[
    str,
    Query(
        max_length=100,
        pattern=PRINTABLE,
        description="IANA name of the zone of the days and hours",
    ),
]


class ResultsDocument(BaseModel):
    """How many items were due, and their results when they were counted."""

    due: int
    completed: int
    completed_late: Annotated[int, Field(description="of `completed`, after its SLA")]
    in_review: int
    withdrawn: Annotated[int, Field(description="cancelled, superseded or skipped")]
    written_off: int
    open: Annotated[int, Field(description="not ended, without those in review")]
    had_failures: Annotated[
        int, Field(description="of `due`, those of which an attempt failed, whatever their results")
    ]


class PastDayDocument(ResultsDocument):
    """Results of the items of a kind that were due on a day."""

    day: date


class KindDaysDocument(BaseModel):
    """A kind, and its days that had items, by time."""

    tenant: str
    kind: str
    days: list[PastDayDocument]


class CountedDocument(BaseModel):
    """Items due from `counted_from` to `until` are counted, by the pass of `as_of`.

    Null: no pass of reconciliation has counted yet. Of other times nothing is known.
    """

    as_of: datetime | None
    counted_from: datetime | None
    until: datetime | None


class PastDaysDocument(CountedDocument):
    """A page of kinds, in the order of their names, each with its days."""

    items: list[KindDaysDocument]
    next_cursor: str | None


class PastHourDocument(ResultsDocument):
    """Results of the items that were due in the hour that begins at `since`."""

    since: datetime


class PastHoursDocument(CountedDocument):
    """The hours that had items, by time."""

    items: list[PastHourDocument]


@read.add("GET", "/v1/past-load/days", "listPastDays", PastDaysDocument)
async def list_days(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    zone: ZoneName = "UTC",
    first_day: FirstDay = None,
    days: Days = DAYS,
) -> Response:
    """List the results of the items of each kind that were due on each day, at most 100 kinds.

    Kinds with most items that were completed late or not at all are first, by days in UTC. Of a
    caller with more than 300 kinds they are in the order of their names.
    """
    asked, past = await _asked(call, zone, first_day, days)
    limit = min(page.limit, _KINDS_MAX)
    kinds = await past.page_days(
        call.connection,
        asked,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        after=page.place(KindPlace, int, str, str),
        limit=limit,
    )
    items = [
        {
            **name._asdict(),
            "days": [
                {"day": asked.days[place], **members_of_results(results)}
                for place, results in kinds.days[name].days.items()
            ],
        }
        for name in kinds.names
        if name in kinds.days
    ]
    cursor = page.cursor_after(kinds.next_place)
    return answer({**_counted(past), "items": items, "next_cursor": cursor})


@read.add("GET", "/v1/past-load/hours", "listPastHours", PastHoursDocument)
async def list_hours(
    call: CurrentCall,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    zone: ZoneName = "UTC",
    first_day: FirstDay = None,
    days: Days = DAYS,
) -> Response:
    """List the results of the items of a kind, a tenant or all that were due in each hour."""
    asked, past = await _asked(call, zone, first_day, days)
    found = await past.list_hours(
        call.connection, asked, load_zone(zone), tenants=call.tenants_of(tenant), kind=kind
    )
    items = [{"since": since, **members_of_results(results)} for since, results in found.items()]
    return answer({**_counted(past), "items": items})


async def _asked(
    call: ApiCall, zone: str, first_day: date | None, days: int
) -> tuple[PastDays, PastLoad]:
    """Return the days that are asked for, and what is known. Raises UnknownZone."""
    found = load_zone(zone)
    if first_day is None:
        now = await read_now(call.connection)
        asked = PastDays.until(now, found, days)
    else:
        asked = PastDays.of(first_day, days, found)
    return asked, await read_past_load(call.connection)


def members_of_results(results: DueResults) -> dict[str, int]:
    """Return the counts by the names that documents and downloads have for them."""
    return {
        "due": results.items,
        "completed": results.completed,
        "completed_late": results.completed_late,
        "in_review": results.in_review,
        "withdrawn": results.withdrawn,
        "written_off": results.written_off,
        "open": results.open,
        "had_failures": results.had_failures,
    }


def _counted(past: PastLoad) -> dict[str, Any]:
    count = past.count
    return {
        "as_of": None if count is None else count.as_of,
        "counted_from": None if count is None else count.counted_from,
        "until": past.until,
    }
