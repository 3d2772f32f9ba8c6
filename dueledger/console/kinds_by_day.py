"""The last four weeks of each kind by day, with what schedules owe in the days to come."""

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from itertools import pairwise
from math import ceil
from typing import Any, Final

from dueledger.console.cells import NO_STOP, cells_of_row
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.past_grid import (
    COUNTS,
    DAY,
    GridRow,
    PastGrid,
    items_of,
    numbers_of,
    owed_numbers,
    shown_rows,
)
from dueledger.console.past_marks import (
    UNKNOWN,
    CellPlace,
    cell,
    items_address,
    short,
    span_query,
)
from dueledger.console.view import View
from dueledger.past_load import KindName, KindPage, PastDays, PastLoad
from dueledger.planning.load_plan import OwedQuarters
from dueledger.planning.schedule_load import QUARTER

COMING: Final = 7
"""Days from the rest of today on, of which schedules say what is to come."""


def make_kind_grid(
    view: View,
    asked: PastDays,
    past: PastLoad,
    kinds: KindPage,
    ahead: Mapping[KindName, Counter[date]],
    *,
    since: datetime,
    next_cursor: str | None,
) -> PastGrid:
    """Return a page of kinds by day; `ahead` is what schedules owe from `since` on."""
    by_name = {name: each.days for name, each in kinds.days.items()}
    spans = _counted_spans(asked, past)
    coming = [asked.days[-1] + number * DAY for number in range(COMING)] if ahead else []
    coming_spans = [_coming_span(view, day, since) for day in coming]
    places = [_place(view, day, span, past) for day, span in zip(asked.days, spans, strict=True)]
    coming_places = [
        _coming_place(view, day, span, since)
        for day, span in zip(coming, coming_spans, strict=True)
    ]
    has_rows = view.format != "html" or view.table == "past_days"
    rows: list[GridRow] = []
    listed: list[Row] = []
    for name in kinds.names:
        own = by_name.get(name, {})
        owed = ahead.get(name, Counter[date]())
        href = view.url("/items", **name._asdict())
        if view.format == "html":
            address = items_address(href)
            cells = [
                UNKNOWN if place is None else cell(address, place, own.get(number))
                for number, place in enumerate(places)
            ]
            cells += [
                _coming_cell(address, place, owed[day])
                for day, place in zip(coming, coming_places, strict=True)
            ]
            due = sum(each.items for each in own.values())
            title = f"{name.tenant} {name.kind}"
            rows.append(GridRow(title, href, cells_of_row(cells), due))
        if has_rows:
            listed += [
                _day_row(name, asked.days[place], spans[place], numbers_of(results))
                for place, results in own.items()
            ]
            listed += [
                _day_row(name, day, _coming_span(view, day, since), owed_numbers(due))
                for day, due in sorted(owed.items())
            ]
    columns = Column("kind", "Kind", "flow"), Column("day", "Day", "date", items_of(view))
    listing = Listing(
        caption="Past items by kind and day",
        order="kinds with most items late or not completed first"
        if kinds.is_ranked
        else "kinds by name",
        columns=(*columns, *COUNTS),
        rows=listed,
        next_cursor=next_cursor,
    )
    return PastGrid(
        [_head(day) for day in asked.days],
        [("rest" if day == asked.days[-1] else _head(day)[0], str(day.day)) for day in coming],
        rows,
        listing,
        shown_rows(listing) if has_rows else None,
    )


def coming_days(asked: PastDays, zone: tzinfo) -> PastDays:
    """Return the days from the last of these on, of which it is said what schedules owe."""
    return PastDays.of(asked.days[-1], COMING, zone)


def coming_by_kind(coming: PastDays, owed: OwedQuarters | None) -> dict[KindName, Counter[date]]:
    """Return what schedules owe of each kind on each of these days."""
    found: dict[KindName, Counter[date]] = {}
    if owed is None:
        return found
    bounds = [0, *(ceil((each - owed.start) / QUARTER) for each in coming.begins[1:])]
    for key, quarters in owed.kinds.items():
        counts = Counter[date]()
        for day, (first, last) in zip(coming.days, pairwise(bounds), strict=True):
            if due := sum(quarters[first:last]):
                counts[day] = due
        if counts:
            found[KindName(*key)] = counts
    return found


def _day_row(
    name: KindName, day: date, span: tuple[datetime, datetime], numbers: Mapping[str, Any]
) -> Row:
    place = {"lane": "", "day": day, "since": span[0], "until": span[1]}
    return {**name._asdict(), **place, **numbers}


def _place(
    view: View, day: date, span: tuple[datetime, datetime], past: PastLoad
) -> CellPlace | None:
    """Return the column of a day; None: it is not counted."""
    if not past.knows(span[0]):
        return None
    until = f", until {span[1].astimezone(view.clock.zone):%H:%M}" if span[1] == past.until else ""
    return CellPlace(f"{day:%a %Y-%m-%d}{until}: ", span_query(*span))


def _coming_place(
    view: View, day: date, span: tuple[datetime, datetime], since: datetime
) -> CellPlace:
    if span[0] == since:
        begins = f"{day:%a %Y-%m-%d}, from {since.astimezone(view.clock.zone):%H:%M}: "
        return CellPlace(begins, span_query(*span))
    return CellPlace(f"{day:%a %Y-%m-%d}: ", f"{span_query(*span)}&amp;open=true")


def _coming_cell(address: str, place: CellPlace, due: int) -> str:
    if not due:
        return '<td class="ahead"></td>'
    return (
        f'<td class="ahead"><a class="past"{NO_STOP} href="{address}{place.query}"'
        f' title="{place.before}schedules owe {due:,}">{short(due)}</a></td>'
    )


def _coming_span(view: View, day: date, since: datetime) -> tuple[datetime, datetime]:
    begins, ends = PastDays.of(day, 1, view.clock.zone).begins
    return max(begins, since), ends


def _counted_spans(asked: PastDays, past: PastLoad) -> list[tuple[datetime, datetime]]:
    """Return the days, of which the last ends where the past load does."""
    until = past.until
    return [
        (begins, until if until is not None and begins < until < ends else ends)
        for begins, ends in pairwise(asked.begins)
    ]


def _head(day: date) -> tuple[str, str]:
    return f"{day:%a}"[:2], str(day.day)
