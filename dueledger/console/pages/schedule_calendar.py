"""What schedules owe when, by hour, with quiet windows."""

from collections import Counter
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Query, Response
from markupsafe import Markup, escape
from pydantic import BeforeValidator, Field

from dueledger.console.clock import iso
from dueledger.console.forms import Filter, blank
from dueledger.console.listing import Column, Listing
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.schedules import PAUSES_SHOWN
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import list_pauses
from dueledger.planning.load_plan import LoadPlan
from dueledger.service.calls import CurrentCall
from dueledger.service.routes.load import (
    DAYS,
    DEFINITIONS_MAX,
    QUIET_MINUTES,
    QuietMinutes,
    definitions_of,
    plan_week,
    quiet_windows,
)
from dueledger.service.schedule_times import times_of

read = PageRoutes(Scope.READ, "console")

QUIET_SHOWN: Final = 20
_HOUR: Final = timedelta(hours=1)
_LEVELS: Final = 4
_WEEK: Final = timedelta(days=DAYS)
_Day = Annotated[date, Field(ge=date(2000, 1, 1), le=date(2199, 12, 24))]
FirstDay = Annotated[
    _Day | None, Query(alias="from", description="the first day"), BeforeValidator(blank)
]


class CalendarHour(NamedTuple):
    """An hour: when it begins, and how many items are due in it."""

    start: datetime
    due: int


class CalendarDay(NamedTuple):
    """A day: its name, its cells by hour, and how many items are due."""

    name: str
    cells: Markup
    due: int


@read.page("/schedules/calendar")
async def show_calendar(
    call: CurrentCall,
    view: CurrentView,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    first_day: FirstDay = None,
    quiet: QuietMinutes = QUIET_MINUTES,
) -> Response:
    """Show a week by hour, and its quiet windows: the coming one, or that from a day on."""
    assert view.clock.now is not None  # noqa: S101 - it has a call
    now = view.clock.now
    start = now if first_day is None else datetime.combine(first_day, time(), view.clock.zone)
    times = times_of(view.request)
    found = await definitions_of(call, times, tenant, kind, is_past=start < now)
    day = start.astimezone(view.clock.zone).date()
    try:
        plan = await plan_week(times, found, start, quiet)
        problem = None
    except DueledgerError as error:
        plan, problem = None, error.message.partition("\n")[0]
    hours = {} if plan is None else _hours(view, plan)
    pauses = await list_pauses(
        call.connection, tenant, tenants=call.tenants, kind=kind, limit=PAUSES_SHOWN + 1
    )
    return view.page(
        "schedule_calendar.html",
        title="Calendar",
        pauses=pauses,
        pauses_max=PAUSES_SHOWN,
        filters={"tenant": tenant or "", "kind": kind or "", "quiet": quiet},
        names=await suggest_names(call),
        is_filtered=any((tenant, kind, first_day, quiet != QUIET_MINUTES)),
        first_day=first_day,
        earlier=view.here(**{"from": day - _WEEK}),
        later=view.here(**{"from": day + _WEEK}),
        plan=plan,
        problem=problem,
        is_cut=found.is_cut,
        definitions_max=DEFINITIONS_MAX,
        days=_days(view, hours, _names(view)),
        hours=_hour_listing(hours),
        listing=_quiet_listing(plan, start),
    )


def _names(view: View) -> dict[str, str | None]:
    """Return the tenant and the kind that the page is filtered by."""
    given = view.request.query_params
    return {name: given.get(name) or None for name in ("tenant", "kind")}


def _hours(view: View, plan: LoadPlan) -> dict[tuple[date, int], CalendarHour]:
    """Return the hours of the window by day and hour of the reader's zone; one that is twice once.

    They are in order of time.
    """
    due: Counter[tuple[date, int]] = Counter()
    first: dict[tuple[date, int], datetime] = {}
    for quarter in plan.quarters:
        local = quarter.start.astimezone(view.clock.zone)
        key = local.date(), local.hour
        due[key] += quarter.due
        first.setdefault(key, quarter.start)
    return {key: CalendarHour(start, due[key]) for key, start in first.items()}


def _days(
    view: View, hours: dict[tuple[date, int], CalendarHour], filters: dict[str, str | None]
) -> list[CalendarDay]:
    """Return the days of the window."""
    href = view.url("/items", **filters, due_from="")
    due_max = max((each.due for each in hours.values()), default=0)
    days: list[CalendarDay] = []
    for day in sorted({day for day, _ in hours}):
        found = [hours.get((day, hour)) for hour in range(24)]
        cells = [_cell(href, each, due_max, view.clock.now) for each in found]
        total = sum(each.due for each in found if each is not None)
        days.append(CalendarDay(f"{day:%a %d %b}", Markup("").join(cells), total))
    return days


def _hour_listing(hours: dict[tuple[date, int], CalendarHour]) -> Listing:
    """Return the hours as a list, which is a download."""
    columns = Column("start", "From", "time"), Column("due", "Items due", "count")
    rows = [hour._asdict() for hour in hours.values()]
    return Listing(caption="Items due by hour", columns=columns, rows=rows)


def _cell(href: str, hour: CalendarHour | None, due_max: int, now: datetime | None) -> Markup:
    if hour is None or not hour.due:
        return Markup("<td></td>")
    start, due = hour
    level = -(-_LEVELS * due // due_max)
    scope = "" if now is not None and start < now else "&open=true"
    address = escape(f"{href}{iso(start)}&due_before={iso(start + _HOUR)}{scope}")
    return Markup(f'<td><a class="load n{level}" href="{address}">{due:,}</a></td>')  # noqa: S704 - a number, and an address that is escaped


def _quiet_listing(plan: LoadPlan | None, since: datetime) -> Listing:
    rows: list[dict[str, Any]] = []
    if plan is not None:
        rows = [
            {
                "start": each.start,
                "end": each.end,
                "minutes": round((each.end - each.start).total_seconds() / 60),
                "due": each.due,
            }
            for each in quiet_windows(plan)[:QUIET_SHOWN]
            if each.end > since
        ]
    columns = (
        Column("start", "From", "time"),
        Column("end", "Until", "time"),
        Column("minutes", "Minutes", "count"),
        Column("due", "Items due", "count"),
    )
    return Listing(
        caption="Quiet windows",
        columns=columns,
        rows=rows,
        empty="There is none in that week.",
    )
