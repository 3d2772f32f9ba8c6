"""What schedules owe when, by hour, with quiet windows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Annotated, Final, NamedTuple

from fastapi import Query, Response
from markupsafe import Markup, escape
from pydantic import BeforeValidator, Field

from dueledger.console.clock import iso
from dueledger.console.forms import Filter, Moment, blank, in_zone
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.schedule_texts import schedule_path
from dueledger.console.pages.schedules import PAUSES_SHOWN
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import list_pauses
from dueledger.planning.load_plan import LoadPlan
from dueledger.planning.schedule_load import QUARTER, LoadSource
from dueledger.service.calls import CurrentCall
from dueledger.service.routes.load import (
    DAYS,
    DEFINITIONS_MAX,
    QUIET_MINUTES,
    QuietMinutes,
    definitions_of,
    due_in,
    plan_week,
    quiet_windows,
)
from dueledger.service.schedule_times import times_of

read = PageRoutes(Scope.READ, "console")

ROWS_SHOWN: Final = 20
"""Rows of a list of the page; its download has all."""
_LEVELS: Final = 4
_WEEK: Final = timedelta(days=DAYS)
_Day = Annotated[date, Field(ge=date(2000, 1, 1), le=date(2199, 12, 24))]
FirstDay = Annotated[
    _Day | None, Query(alias="from", description="the first day"), BeforeValidator(blank)
]


class CalendarHour(NamedTuple):
    """The part of an hour that is within the week: its bounds, and how many items are due in it."""

    start: datetime
    end: datetime
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
    hour: Moment = None,
) -> Response:
    """Show a week by hour, and its quiet windows: the coming one, or that from a day on.

    With `hour`, what schedules owe in that hour, by definition.
    """
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
    chosen = _chosen(view, hours, in_zone(hour, view.clock.zone))
    sources: list[tuple[LoadSource, int]] = []
    if chosen is not None:
        sources = await due_in(times, found, chosen.start, chosen.end)
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
        earlier=view.here(hour=None, **{"from": day - _WEEK}),
        later=view.here(hour=None, **{"from": day + _WEEK}),
        plan=plan,
        problem=problem,
        is_cut=found.is_cut,
        definitions_max=DEFINITIONS_MAX,
        days=_days(view, hours, _names(view)),
        hours=_hour_listing(hours),
        asks_hour=hour is not None,
        chosen=chosen,
        owed=_first_rows(view, _owed_listing(view, sources)),
        listing=_first_rows(view, _quiet_listing(plan, start)),
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
    spans: dict[tuple[date, int], tuple[datetime, datetime]] = {}
    for quarter in plan.quarters:
        key = _hour_of(view, quarter.start)
        due[key] += quarter.due
        first = spans.get(key, (quarter.start, quarter.start))[0]
        spans[key] = first, quarter.start + QUARTER
    return {key: CalendarHour(*span, due[key]) for key, span in spans.items()}


def _hour_of(view: View, instant: datetime) -> tuple[date, int]:
    """Return the day and the hour of an instant in the reader's zone."""
    local = instant.astimezone(view.clock.zone)
    return local.date(), local.hour


def _chosen(
    view: View, hours: Mapping[tuple[date, int], CalendarHour], hour: datetime | None
) -> CalendarHour | None:
    """Return the hour of the week that is asked for; None without one."""
    return None if hour is None else hours.get(_hour_of(view, hour))


def _days(
    view: View, hours: dict[tuple[date, int], CalendarHour], filters: dict[str, str | None]
) -> list[CalendarDay]:
    """Return the days of the window."""
    past = view.url("/items", **filters, due_from="")
    here = view.here(hour=None)
    coming = f"{here}{'&' if '?' in here else '?'}hour="
    due_max = max((each.due for each in hours.values()), default=0)
    days: list[CalendarDay] = []
    for day in sorted({day for day, _ in hours}):
        found = [hours.get((day, hour)) for hour in range(24)]
        cells = [_cell(past, coming, each, due_max, view.clock.now) for each in found]
        total = sum(each.due for each in found if each is not None)
        days.append(CalendarDay(f"{day:%a %d %b}", Markup("").join(cells), total))
    return days


def _hour_listing(hours: dict[tuple[date, int], CalendarHour]) -> Listing:
    """Return the hours as a list, which is a download."""
    columns = Column("start", "From", "time"), Column("due", "Items due", "count")
    rows = [{"start": hour.start, "due": hour.due} for hour in hours.values()]
    return Listing(caption="Items due by hour", columns=columns, rows=rows)


def _cell(
    past: str, coming: str, hour: CalendarHour | None, due_max: int, now: datetime | None
) -> Markup:
    """Return the cell of an hour: one that has begun leads to its items, others to what is owed."""
    if hour is None or not hour.due:
        return Markup("<td></td>")
    start, end, due = hour
    level = -(-_LEVELS * due // due_max)
    if now is not None and start < now:
        address = f"{past}{iso(start)}&due_before={iso(end)}"
    else:
        address = f"{coming}{iso(start)}#owed"
    link = f'<a class="load n{level}" href="{escape(address)}">{due:,}</a>'
    return Markup(f"<td>{link}</td>")  # noqa: S704 - a number, and an address that is escaped


def _owed_listing(view: View, sources: Sequence[tuple[LoadSource, int]]) -> Listing:
    """Return the schedules with items due in an hour, those with most first."""

    def schedule(row: Row) -> str:
        return view.url(schedule_path(row["tenant"], row["definition"]))

    columns = (
        Column("definition", "Schedule", "text", schedule),
        Column("kind", "Flow", "flow"),
        Column("due", "Items due", "count"),
    )
    rows = [
        {
            "definition": source.definition,
            "tenant": source.tenant,
            "kind": source.kind,
            "lane": "",
            "due": due,
        }
        for source, due in sources
    ]
    return Listing(
        caption="What schedules owe in the hour",
        columns=columns,
        rows=rows,
        order="most items first",
        empty="Schedules owe nothing in this hour.",
    )


def _first_rows(view: View, listing: Listing) -> Listing:
    """Return the first rows of a list, and a note if there are more; of a download all."""
    found = len(listing.rows)
    if view.format != "html" or found <= ROWS_SHOWN:
        return listing
    note = f"The first {ROWS_SHOWN} of {found:,}; the download has all."
    return replace(listing, rows=listing.rows[:ROWS_SHOWN], note=note)


def _quiet_listing(plan: LoadPlan | None, since: datetime) -> Listing:
    windows = [] if plan is None else [each for each in quiet_windows(plan) if each.end > since]
    rows = [
        {
            "start": each.start,
            "end": each.end,
            "minutes": round((each.end - each.start).total_seconds() / 60),
            "due": each.due,
        }
        for each in windows
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
