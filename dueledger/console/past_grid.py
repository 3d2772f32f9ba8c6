"""The last four weeks as grids: kinds by day, with what is to come, and hours by weekday."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from itertools import pairwise
from math import ceil
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from dueledger.console.clock import iso
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.ledger.store.past_load import DueResults
from dueledger.past_load import KindName, KindPage, PastDays, PastLoad
from dueledger.planning.load_plan import OwedQuarters
from dueledger.planning.schedule_load import QUARTER
from dueledger.service.routes.past_load import members_of_results

COMING: Final = 7
"""Days from the rest of today on, of which schedules say what is to come."""
SHOWN_MAX: Final = 100
"""Rows of the tables below the grids."""
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNKNOWN: Final = '<td class="uncounted"><span class="hidden">not counted</span></td>'
_THOUSAND: Final = 1_000
_UNITS: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (_THOUSAND, "k"))
_SHORT_MAX: Final = 10


class Mark(NamedTuple):
    """What a cell says beside how many were due: its class, its sign, and the words."""

    name: str
    sign: str
    words: str


FAILED: Final = Mark("failed", "×", "in review or written off")
OPEN: Final = Mark("open", "○", "still open")
LATE: Final = Mark("late", "!", "completed late")
RETRIED: Final = Mark("retried", "~", "with failed attempts")
WITHDRAWN: Final = Mark("withdrawn", "–", "withdrawn, none completed")
DONE: Final = Mark("done", "✓", "all as it should be")
MARKS: Final = (FAILED, OPEN, LATE, RETRIED, WITHDRAWN, DONE)


class GridRow(NamedTuple):
    """A row: its name, where its items are listed, its cells, and how many were due."""

    name: str
    href: str | None
    cells: Markup
    due: int


@dataclass(frozen=True, slots=True)
class PastGrid:
    """The heads of the columns, past and to come, the rows, and the download.

    `shown` are the rows of the table below them, if the page is asked for it; a page has not those
    of the download. `not_said` is what of the coming days is left out.
    """

    heads: Sequence[tuple[str, str]]
    coming: Sequence[tuple[str, str]]
    rows: Sequence[GridRow]
    listing: Listing
    shown: Listing | None
    not_said: str = ""
    marks: Sequence[Mark] = MARKS


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
    coming = [asked.days[-1] + number * _DAY for number in range(COMING)] if ahead else []
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
        own: Mapping[int, DueResults] = by_name.get(name, {})
        owed = ahead.get(name, Counter[date]())
        href = view.url("/items", **name._asdict())
        if view.format == "html":
            address = _address(href)
            cells = [
                _UNKNOWN if place is None else _cell(address, place, own.get(number))
                for number, place in enumerate(places)
            ]
            cells += [
                _coming_cell(address, place, owed[day])
                for day, place in zip(coming, coming_places, strict=True)
            ]
            due = sum(each.items for each in own.values())
            title = f"{name.tenant} {name.kind}"
            rows.append(GridRow(title, href, Markup("".join(cells)), due))  # noqa: S704 - escaped cells
        if has_rows:
            listed += [
                _day_row(name, asked.days[place], spans[place], _members(results))
                for place, results in own.items()
            ]
            listed += [
                _day_row(name, day, _coming_span(view, day, since), {"coming": due})
                for day, due in sorted(owed.items())
            ]
    columns = Column("kind", "Kind", "flow"), Column("day", "Day", "date", _items_of(view))
    listing = Listing(
        caption="Past items by kind and day",
        order="kinds with most items late or not completed first"
        if kinds.is_ranked
        else "kinds by name",
        columns=(*columns, *_COUNTS, Column("coming", "Schedules owe", "count")),
        rows=listed,
        next_cursor=next_cursor,
    )
    return PastGrid(
        [_head(day) for day in asked.days],
        [("rest" if day == asked.days[-1] else _head(day)[0], str(day.day)) for day in coming],
        rows,
        listing,
        _shown(listing) if has_rows else None,
    )


def make_hour_grid(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Mapping[datetime, DueResults],
    names: Mapping[str, str | None],
) -> PastGrid:
    """Return the hours of all days, summed by weekday. A cell leads to its worst hour."""
    has_rows = view.format != "html" or view.table == "past_hours"
    until = past.until or asked.begins[-1]
    listing = Listing(
        caption="Past items by hour",
        columns=(Column("since", "Hour", "time", _items_of(view, names)), *_COUNTS),
        rows=[
            {"since": at, "until": min(at + _HOUR, until), **_members(results)}
            for at, results in found.items()
        ]
        if has_rows
        else (),
    )
    rows = _weekdays(view, asked, past, found, names) if view.format == "html" else ()
    heads = [("", f"{hour:02}") for hour in range(24)]
    return PastGrid(heads, (), rows, listing, _shown(listing) if has_rows else None)


def _weekdays(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Mapping[datetime, DueResults],
    names: Mapping[str, str | None],
) -> list[GridRow]:
    zone, address = view.clock.zone, _address(view.url("/items", **names))
    until = past.until or asked.begins[-1]
    hours: dict[tuple[int, int], list[tuple[int, int, datetime, DueResults]]] = {}
    for at, results in found.items():
        local = at.astimezone(zone)
        rank, number = _judged(results)
        entry = -rank, number, at, results
        hours.setdefault((local.weekday(), local.hour), []).append(entry)
    is_full = len(hours) == len(_WEEKDAYS) * 24
    known = hours.keys() if is_full else _known_places(view, asked, past)
    rows: list[GridRow] = []
    for weekday, name in enumerate(_WEEKDAYS):
        cells: list[str] = []
        due = 0
        for hour in range(24):
            place = weekday, hour
            if place in hours:
                _, _, at, _ = max(hours[place])
                shown = CellPlace(
                    f"{name} {hour:02}:00, four weeks: ",
                    _span_query(at, min(at + _HOUR, until)),
                    f"; the worst was {at.astimezone(zone).date()}",
                )
                results = DueResults.total(each for _, _, _, each in hours[place])
                cells.append(_cell(address, shown, results))
                due += results.items
            else:
                cells.append("<td></td>" if place in known else _UNKNOWN)
        rows.append(GridRow(name, None, Markup("".join(cells)), due))  # noqa: S704 - escaped cells
    return rows


def _known_places(view: View, asked: PastDays, past: PastLoad) -> set[tuple[int, int]]:
    """Return the weekdays and hours of which at least one hour is counted."""
    known: set[tuple[int, int]] = set()
    if past.count is None or past.until is None:
        return known
    at, until = asked.begins[0], min(past.until, asked.begins[-1])
    while at < until:
        if at >= past.count.counted_from:
            local = at.astimezone(view.clock.zone)
            known.add((local.weekday(), local.hour))
        at += _HOUR
    return known


_COUNTS: Final = (
    Column("due", "Due", "count"),
    Column("completed", State.COMPLETED.label, "count"),
    Column("completed_late", "Completed late", "count"),
    Column("had_failures", "With failed attempts", "count"),
    Column("in_review", "In review", "count"),
    Column("written_off", "Written off", "count"),
    Column("withdrawn", "Withdrawn", "count"),
    Column("open", "Still open", "count"),
)


def _day_row(
    name: KindName, day: date, span: tuple[datetime, datetime], counts: Mapping[str, Any]
) -> Row:
    """Return a row of the days of a kind; what is not counted is None."""
    nothing = dict.fromkeys([*(each.key for each in _COUNTS), "coming", "is_wrong"])
    place = {"lane": "", "day": day, "since": span[0], "until": span[1]}
    return {**nothing, **name._asdict(), **place, **counts}


def _members(results: DueResults) -> dict[str, Any]:
    return {**members_of_results(results), "is_wrong": mark_of(results) not in {DONE, WITHDRAWN}}


def _shown(listing: Listing) -> Listing:
    """Return the rows that a page has room for: of many those where not all is as it should be."""
    if len(listing.rows) <= SHOWN_MAX:
        return replace(listing, order=None, empty="Nothing that was counted was due.")
    wrong = [row for row in listing.rows if row["is_wrong"]]
    note = "Those where something was late, failed or is open."
    if len(wrong) > SHOWN_MAX:
        note = f"The first {SHOWN_MAX} of those where something was late, failed or is open."
    return replace(
        listing,
        order=None,
        rows=wrong[:SHOWN_MAX],
        empty="Everything that was counted was completed in time.",
        note=note,
    )


def mark_of(results: DueResults) -> Mark:
    """Return the mark of what is most urgent among results."""
    return MARKS[_judged(results)[0]]


def _judged(results: DueResults) -> tuple[int, int]:
    """Return the place of the mark of results, and how many items have it; 0: it is of all."""
    items, completed, late, in_review, withdrawn, written_off, had_failures = results
    if in_review or written_off:
        return 0, in_review + written_off
    if still_open := items - completed - withdrawn:
        return 1, still_open
    if late:
        return 2, late
    if had_failures:
        return 3, had_failures
    return (5, 0) if completed else (4, 0)


class CellPlace(NamedTuple):
    """What the cells of a column have in common: words around their counts, and their time."""

    before: str
    query: str
    after: str = ""


def _place(
    view: View, day: date, span: tuple[datetime, datetime], past: PastLoad
) -> CellPlace | None:
    """Return the column of a day; None: it is not counted."""
    if not past.knows(span[0]):
        return None
    until = f", until {span[1].astimezone(view.clock.zone):%H:%M}" if span[1] == past.until else ""
    return CellPlace(f"{day:%a %Y-%m-%d}{until}: ", _span_query(*span))


def _coming_place(
    view: View, day: date, span: tuple[datetime, datetime], since: datetime
) -> CellPlace:
    if span[0] == since:
        begins = f"{day:%a %Y-%m-%d}, from {since.astimezone(view.clock.zone):%H:%M}: "
        return CellPlace(begins, _span_query(*span))
    return CellPlace(f"{day:%a %Y-%m-%d}: ", f"{_span_query(*span)}&amp;open=true")


def _address(href: str) -> str:
    """Return an address to which a cell adds its time, escaped."""
    return f"{escape(href)}{'&amp;' if '?' in href else '?'}"


def _span_query(begins: datetime, ends: datetime) -> str:
    return f"due_from={iso(begins)}&amp;due_before={iso(ends)}"


def _cell(address: str, place: CellPlace, results: DueResults | None) -> str:
    if results is None:
        return "<td></td>"
    rank, number = _judged(results)
    mark = MARKS[rank]
    sign = f"{mark.sign}{short(number)}" if number else mark.sign
    return (
        f'<td><a class="past {mark.name}" tabindex="-1" href="{address}{place.query}"'
        f' title="{place.before}{_words(results)}{place.after}">'
        f"{short(results.items)}<span>{sign}</span></a></td>"
    )


def _coming_cell(address: str, place: CellPlace, due: int) -> str:
    if not due:
        return '<td class="ahead"></td>'
    return (
        f'<td class="ahead"><a class="past" tabindex="-1" href="{address}{place.query}"'
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


def _words(results: DueResults) -> str:
    """Return the counts of a cell as words."""
    items, completed, late, in_review, withdrawn, written_off, had_failures = results
    words = f"{items:,} due"
    if completed:
        words += f", {completed:,} completed"
    if late:
        words += f" ({late:,} late)"
    if in_review:
        words += f", {in_review:,} in review"
    if written_off:
        words += f", {written_off:,} written off"
    if withdrawn:
        words += f", {withdrawn:,} withdrawn"
    if still_open := results.open:
        words += f", {still_open:,} still open"
    if had_failures:
        words += f", {had_failures:,} with failed attempts"
    return words


def short(number: int) -> str:
    """Return a number in four characters at most: 999, 1.2k, 45k, 3M."""
    for unit, name in _UNITS:
        if number >= unit:
            tenths = number * 10 // unit
            return (
                f"{tenths / 10:g}{name}" if tenths < _SHORT_MAX * 10 else f"{number // unit}{name}"
            )
    return str(number)


def _items_of(view: View, names: Mapping[str, str | None] | None = None) -> Any:  # noqa: ANN401 - a function of a row
    def address(row: Row) -> str:
        own = {"tenant": row["tenant"], "kind": row["kind"]} if names is None else names
        return view.url("/items", **own, due_from=row["since"], due_before=row["until"])

    return address


def _head(day: date) -> tuple[str, str]:
    return f"{day:%a}"[:2], str(day.day)


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
            if due := sum(quarters[place] for place in range(first, last)):
                counts[day] = due
        if counts:
            found[KindName(*key)] = counts
    return found
