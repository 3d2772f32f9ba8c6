"""The hours of the last four weeks by weekday, with what schedules owe in the coming days."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from itertools import groupby, pairwise
from math import ceil
from typing import Final, NamedTuple

from dueledger.console.cells import NO_STOP, cells_of_row
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.past_grid import (
    COUNTS,
    DAY,
    HOUR,
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
    Mark,
    cell,
    items_address,
    mark_of,
    short,
    span_query,
    worst_number,
)
from dueledger.console.view import View
from dueledger.ledger.store.past_load import DueResults
from dueledger.past_load import PastDays, PastLoad, hour_of
from dueledger.planning.load_plan import OwedQuarters
from dueledger.planning.schedule_load import QUARTER

_HOURS: Final = 24
_QUARTERS: Final = HOUR // QUARTER
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class ComingHour(NamedTuple):
    """An hour to come, by the day and hour that clocks show, and what schedules owe in it.

    `place` is that of its cell, counted from Monday at midnight.
    """

    day: date
    hour: int
    since: datetime
    until: datetime
    due: int
    place: int


def make_hour_grid(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Mapping[datetime, DueResults],
    names: Mapping[str, str | None],
    *,
    coming: Sequence[ComingHour],
) -> PastGrid:
    """Return the hours of all days, summed by weekday. A cell leads to its worst hour."""
    has_rows = view.format != "html" or view.table == "past_hours"
    until = past.until or asked.begins[-1]
    listed: list[Row] = []
    if has_rows:
        listed += [
            {"since": at, "until": min(at + HOUR, until), **numbers_of(results)}
            for at, results in found.items()
        ]
        listed += [
            {"since": each.since, "until": each.until, **owed_numbers(each.due)} for each in coming
        ]
    listing = Listing(
        caption="Past items by hour",
        columns=(Column("since", "Hour", "time", items_of(view, names)), *COUNTS),
        rows=listed,
    )
    rows: Sequence[GridRow] = ()
    if view.format == "html" and (past.until is not None or coming):
        rows = _weekdays(view, asked, past, found, names, coming=coming)
    heads = [("", f"{hour:02}") for hour in range(_HOURS)]
    return PastGrid(heads, (), rows, listing, shown_rows(listing) if has_rows else None)


def coming_by_hour(coming: PastDays, owed: OwedQuarters | None, zone: tzinfo) -> list[ComingHour]:
    """Return the hours of these days in which schedules owe something, by time."""
    found: list[ComingHour] = []
    if owed is None:
        return found
    quarters = owed.all_kinds.tolist()
    for day, (begins, ends) in zip(coming.days, pairwise(coming.begins), strict=True):
        start = ceil((begins - owed.start) / QUARTER)
        midnight = day.weekday() * _HOURS
        for hour, first, last in _hours_of(begins, ends, zone):
            low, high = max(start + first, 0), start + last
            if high > low and (due := sum(quarters[low:high])):
                since, until = owed.start + low * QUARTER, owed.start + high * QUARTER
                found.append(ComingHour(day, hour, since, until, due, midnight + hour))
    return found


def _hours_of(begins: datetime, ends: datetime, zone: tzinfo) -> Iterator[tuple[int, int, int]]:
    """Yield the hours of a day as clocks show them, each with its first quarter and its end."""
    if ends - begins == DAY:
        yield from ((hour, hour * _QUARTERS, (hour + 1) * _QUARTERS) for hour in range(_HOURS))
        return
    quarters = range((ends - begins) // QUARTER)
    for at, within in groupby(quarters, key=lambda place: hour_of(begins + place * QUARTER, zone)):
        places = list(within)
        yield at.astimezone(zone).hour, places[0], places[-1] + 1


def _weekdays(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Mapping[datetime, DueResults],
    names: Mapping[str, str | None],
    *,
    coming: Sequence[ComingHour],
) -> list[GridRow]:
    zone, address = view.clock.zone, items_address(view.url("/items", **names))
    until = past.until or asked.begins[-1]
    hours: list[list[tuple[datetime, DueResults]]] = [[] for _ in range(len(_WEEKDAYS) * _HOURS)]
    for at, results in found.items():
        local = at.astimezone(zone)
        hours[local.weekday() * _HOURS + local.hour].append((at, results))
    known = range(len(hours)) if all(hours) else _known_places(view, asked, past)
    ahead = _by_place(coming)
    rows: list[GridRow] = []
    for weekday, name in enumerate(_WEEKDAYS):
        cells: list[str] = []
        due = 0
        for hour in range(_HOURS):
            place = weekday * _HOURS + hour
            owed = ahead.get(place)
            if within := hours[place]:
                total = DueResults.total([each for _, each in within])
                at = _worst(within, mark_of(total))
                after = f"; the worst was {at.astimezone(zone).date()}"
                shown = CellPlace(
                    f"{name} {hour:02}:00, four weeks: ",
                    span_query(at, min(at + HOUR, until)),
                    after if owed is None else f"{after}; {_words(owed)}",
                )
                line = "" if owed is None else f"<span>+{short(owed.due)}</span>"
                cells.append(cell(address, shown, total, line))
                due += total.items
            elif owed is not None:
                cells.append(_coming_cell(address, owed, is_known=place in known))
            else:
                cells.append("<td></td>" if place in known else UNKNOWN)
        rows.append(GridRow(name, None, cells_of_row(cells), due))
    return rows


def _worst(hours: Sequence[tuple[datetime, DueResults]], mark: Mark) -> datetime:
    """Return the hour with most items of the mark of all; of equal ones the last."""
    at, _ = max(reversed(hours), key=lambda each: worst_number(mark, each[1]))
    return at


def _by_place(coming: Sequence[ComingHour]) -> dict[int, ComingHour]:
    """Return the coming hours by their cells; one that clocks show twice is one."""
    found: dict[int, ComingHour] = {}
    for each in coming:
        first = found.get(each.place)
        found[each.place] = (
            each if first is None else each._replace(since=first.since, due=first.due + each.due)
        )
    return found


def _words(owed: ComingHour) -> str:
    return f"schedules owe {owed.due:,} on {owed.day}"


def _coming_cell(address: str, owed: ComingHour, *, is_known: bool) -> str:
    """Return the cell of an hour in which nothing was due, or of which that is not known."""
    mark = "" if is_known else '<span class="hidden">not counted</span>'
    return (
        f'<td class="{"ahead" if is_known else "uncounted"}">{mark}<a class="past"{NO_STOP}'
        f' href="{address}{span_query(owed.since, owed.until)}&amp;open=true"'
        f' title="{_WEEKDAYS[owed.day.weekday()]} {owed.hour:02}:00: {_words(owed)}">'
        f"+{short(owed.due)}</a></td>"
    )


def _known_places(view: View, asked: PastDays, past: PastLoad) -> set[int]:
    """Return the cells of which at least one hour is counted."""
    known: set[int] = set()
    if past.count is None or past.until is None:
        return known
    at, until = asked.begins[0], min(past.until, asked.begins[-1])
    while at < until:
        if at >= past.count.counted_from:
            local = at.astimezone(view.clock.zone)
            known.add(local.weekday() * _HOURS + local.hour)
        at += HOUR
    return known
