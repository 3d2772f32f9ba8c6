"""The results of the last four weeks, and what schedules owe in the next days, by kind and hour."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from fastapi import Response

from dueledger.console.downloads import PART_ROWS
from dueledger.console.forms import Filter
from dueledger.console.hours_by_weekday import coming_by_hour, make_hour_grid
from dueledger.console.kinds_by_day import COMING, coming_by_kind, coming_days, make_kind_grid
from dueledger.console.page_routes import PageRoutes
from dueledger.console.past_grid import PastGrid
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import DueledgerError, WindowTooLarge
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.past_load import DueResults
from dueledger.past_load import DAYS, KindPlace, PastDays, PastLoad, read_past_load
from dueledger.planning.load_plan import OwedQuarters
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage, PageRequest
from dueledger.service.routes.load import DEFINITIONS_MAX, OCCURRENCES_MAX, definitions_of
from dueledger.service.schedule_times import times_of

read = PageRoutes(Scope.READ, "console")

KINDS_SHOWN: Final = 8
KINDS_OF_PART: Final = PART_ROWS // (DAYS + COMING)
"""Kinds that a download reads at a time."""
_KEPT_MAX: Final = 32
"""Of how many readers the hours are kept: by their tenants, filter and zone."""


class ComingLoad(NamedTuple):
    """What schedules owe in these days, from `since` on, and what of it is left out."""

    days: PastDays
    since: datetime
    owed: OwedQuarters | None
    not_said: str


@read.page("/schedules/past")
async def show_past(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
) -> Response:
    """Show how the items of the last four weeks ended, and what schedules owe in the next days."""
    assert view.clock.now is not None  # noqa: S101 - it has a call
    names = {"tenant": tenant or None, "kind": kind or None}
    asked = PastDays.until(view.clock.now, view.clock.zone)
    past = await read_past_load(call.connection)
    coming = await _coming(call, view, past, asked, names)
    by_day = by_hour = None
    table = view.table or "past_days"
    if view.format == "html" or table == "past_days":
        by_day = await _by_day(call, view, page, past, asked=asked, names=names, coming=coming)
    if view.format == "html" or table == "past_hours":
        by_hour = await _by_hour(call, view, past, asked=asked, names=names, coming=coming)
    return view.page(
        "past_calendar.html",
        title="Last four weeks",
        listing=None if view.format == "html" or by_day is None else by_day.listing,
        filters={"tenant": tenant or "", "kind": kind or ""},
        names=await suggest_names(call),
        is_filtered=any((tenant, kind)),
        past=past,
        by_day=by_day,
        by_hour=by_hour,
        past_days=None if by_day is None else by_day.listing,
        past_hours=None if by_hour is None else by_hour.listing,
    )


async def _by_day(
    call: ApiCall,
    view: View,
    page: PageRequest,
    past: PastLoad,
    *,
    asked: PastDays,
    names: dict[str, str | None],
    coming: ComingLoad,
) -> PastGrid:
    """Return a page of kinds by day: those that had items, and those that will have some."""
    limit = min(page.limit, KINDS_SHOWN if view.format == "html" else KINDS_OF_PART)
    ahead = coming_by_kind(coming.days, coming.owed)
    kinds = await past.page_days(
        call.connection,
        asked,
        tenants=call.tenants,
        **names,
        after=page.place(KindPlace, int, str, str),
        limit=limit,
        others=ahead,
    )
    cursor = page.cursor_after(kinds.next_place)
    grid = make_kind_grid(view, asked, past, kinds, ahead, since=coming.since, next_cursor=cursor)
    return replace(grid, not_said=coming.not_said)


async def _coming(
    call: ApiCall, view: View, past: PastLoad, asked: PastDays, names: dict[str, str | None]
) -> ComingLoad:
    """Return what schedules owe of today from where it is counted, and in the days after it."""
    today = asked.begins[-2]
    since = today if past.until is None else max(past.until, today)
    days = coming_days(asked, view.clock.zone)
    times = times_of(view.request)
    found = await definitions_of(call, times, names["tenant"], names["kind"], is_past=False)
    try:
        owed = await times.owed(
            found.definitions, since, days.begins[-1], occurrences_max=OCCURRENCES_MAX
        )
    except WindowTooLarge:
        too_many = f"They owe more than {OCCURRENCES_MAX:,} items: choose a tenant and a kind."
        return ComingLoad(days, since, None, too_many)
    except DueledgerError as error:
        return ComingLoad(days, since, None, str(error))
    cut = f"Of the first {DEFINITIONS_MAX:,} definitions alone." if found.is_cut else ""
    return ComingLoad(days, since, owed, cut)


async def _by_hour(
    call: ApiCall,
    view: View,
    past: PastLoad,
    *,
    asked: PastDays,
    names: dict[str, str | None],
    coming: ComingLoad,
) -> PastGrid:
    """Return the hours by weekday: what happened in them, and what is to come."""
    found = await _past_hours(call, view, past, asked, names)
    ahead = coming_by_hour(coming.days, coming.owed, view.clock.zone)
    return make_hour_grid(view, asked, past, found, names, coming=ahead)


async def _past_hours(
    call: ApiCall, view: View, past: PastLoad, asked: PastDays, names: dict[str, str | None]
) -> Mapping[datetime, DueResults]:
    """Return the results by hour, which are kept until a pass of the reconciler counts anew."""
    state, zone = view.request.app.state, view.clock.zone
    if not hasattr(state, "past_hours"):
        state.past_hours = dict[object, Mapping[datetime, DueResults]]()
    kept: dict[object, Mapping[datetime, DueResults]] = state.past_hours
    tenants, kind = call.tenants_of(names["tenant"]), names["kind"]
    version = None if past.count is None else past.count.version
    key = version, tuple(asked.begins), str(zone), None if tenants is None else tuple(tenants), kind
    if key not in kept:
        found = await past.list_hours(call.connection, asked, zone, tenants=tenants, kind=kind)
        if len(kept) >= _KEPT_MAX:
            del kept[next(iter(kept))]
        kept[key] = found
    return kept[key]
