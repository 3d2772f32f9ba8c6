"""The last four weeks as grids: kinds by day, with what is to come, and hours by weekday."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from dueledger.console.clock import iso
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.ledger.store.past_load import DueResults
from dueledger.past_load import KindDays, KindName, PastDays, PastLoad
from dueledger.planning.load_plan import LoadPlan
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
    """The heads of the columns, past and to come, the rows, and the table with its download."""

    heads: Sequence[tuple[str, str]]
    coming: Sequence[tuple[str, str]]
    rows: Sequence[GridRow]
    listing: Listing
    shown: Listing
    marks: Sequence[Mark] = MARKS


def make_kind_grid(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Sequence[KindDays],
    ahead: Mapping[KindName, Counter[date]],
    *,
    names: Sequence[KindName],
    next_cursor: str | None,
) -> PastGrid:
    """Return the kinds of these names by day; `ahead` is what schedules owe on days to come."""
    by_name = {each.name: each.days for each in found}
    coming = [asked.days[-1] + number * _DAY for number in range(COMING)] if ahead else []
    rows: list[GridRow] = []
    listed: list[Row] = []
    for name in names:
        own: Mapping[int, DueResults] = by_name.get(name, {})
        owed = ahead.get(name, Counter[date]())
        href = view.url("/items", **name._asdict())
        cells = [
            _cell(view, href, span, own.get(place)) if past.knows(span[0]) else _UNKNOWN
            for place, span in enumerate(_spans(asked.begins))
        ]
        cells += [_coming_cell(view, href, day, owed[day]) for day in coming]
        due = sum(each.items for each in own.values())
        title = f"{name.tenant} {name.kind}"
        rows.append(GridRow(title, href, Markup("".join(cells)), due))  # noqa: S704 - escaped cells
        listed += [
            _day_row(name, asked.days[place], _spans(asked.begins)[place], _members(results))
            for place, results in own.items()
        ]
        listed += [
            _day_row(name, day, _span_of(view, day), {"coming": due})
            for day, due in sorted(owed.items())
        ]
    columns = Column("kind", "Kind", "flow"), Column("day", "Day", "date", _items_of(view))
    listing = Listing(
        caption="Past items by kind and day",
        columns=(*columns, *_COUNTS, Column("coming", "Schedules owe", "count")),
        rows=listed,
        next_cursor=next_cursor,
    )
    return PastGrid(
        [_head(day) for day in asked.days],
        [("rest" if day == asked.days[-1] else _head(day)[0], str(day.day)) for day in coming],
        rows,
        listing,
        _shown(listing),
    )


def make_hour_grid(
    view: View,
    asked: PastDays,
    past: PastLoad,
    found: Mapping[datetime, DueResults],
    names: Mapping[str, str | None],
) -> PastGrid:
    """Return the hours of all days, summed by weekday. A cell leads to its worst hour."""
    zone, href = view.clock.zone, view.url("/items", **names)
    places = {at: _weekly(at, view) for at in found}
    sums: dict[tuple[int, int], DueResults] = {}
    worst: dict[tuple[int, int], datetime] = {}
    for at, results in found.items():
        place = places[at]
        sums[place] = sums.get(place, DueResults()) + results
        if place not in worst or _badness(results) >= _badness(found[worst[place]]):
            worst[place] = at
    known = {
        _weekly(begin + hour * _HOUR, view)
        for begin in asked.begins[:-1]
        for hour in range(24)
        if past.knows(begin + hour * _HOUR)
    }
    rows: list[GridRow] = []
    for weekday, name in enumerate(_WEEKDAYS):
        cells: list[str] = []
        for hour in range(24):
            place = weekday, hour
            if place in worst:
                at = worst[place]
                sentence = (
                    f"{name} {hour:02}:00, four weeks: ",
                    f"; the worst was {at.astimezone(zone):%Y-%m-%d}",
                )
                cells.append(_cell(view, href, (at, at + _HOUR), sums[place], sentence))
            else:
                cells.append("<td></td>" if place in known else _UNKNOWN)
        due = sum(each.items for (day, _), each in sums.items() if day == weekday)
        rows.append(GridRow(name, None, Markup("".join(cells)), due))  # noqa: S704 - escaped cells
    listing = Listing(
        caption="Past items by hour",
        columns=(Column("since", "Hour", "time", _items_of(view, names)), *_COUNTS),
        rows=[
            {"since": at, "until": at + _HOUR, **_members(results)} for at, results in found.items()
        ],
    )
    return PastGrid([("", f"{hour:02}") for hour in range(24)], (), rows, listing, _shown(listing))


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
        return Listing(
            caption=listing.caption,
            columns=listing.columns,
            rows=listing.rows,
            empty="Nothing that was counted was due.",
        )
    wrong = [row for row in listing.rows if row["is_wrong"]]
    note = "Those where something was late, failed or is open."
    if len(wrong) > SHOWN_MAX:
        note = f"The first {SHOWN_MAX} of those where something was late, failed or is open."
    return Listing(
        caption=listing.caption,
        columns=listing.columns,
        rows=wrong[:SHOWN_MAX],
        empty="Everything that was counted was completed in time.",
        note=note,
    )


def mark_of(results: DueResults) -> Mark:
    """Return the mark of what is most urgent among results."""
    if results.in_review or results.written_off:
        return FAILED
    if results.open:
        return OPEN
    if results.completed_late:
        return LATE
    if results.had_failures:
        return RETRIED
    return DONE if results.completed else WITHDRAWN


def _marked(results: DueResults, mark: Mark) -> int:
    """Return how many items have a mark; 0: it is of all."""
    counts = {
        FAILED: results.in_review + results.written_off,
        OPEN: results.open,
        LATE: results.completed_late,
        RETRIED: results.had_failures,
    }
    return counts.get(mark, 0)


def _badness(results: DueResults) -> tuple[int, int]:
    mark = mark_of(results)
    return -MARKS.index(mark), _marked(results, mark)


def _cell(
    view: View,
    href: str,
    span: tuple[datetime, datetime],
    results: DueResults | None,
    around: tuple[str, str] | None = None,
) -> str:
    """Return a cell; `around` is said before and after its counts, instead of its day."""
    if results is None:
        return "<td></td>"
    mark = mark_of(results)
    begins, ends = span
    before, after = around or (f"{begins.astimezone(view.clock.zone):%a %Y-%m-%d}: ", "")
    text = f"{before}{_words(results)}{after}"
    number = _marked(results, mark)
    sign = f"{mark.sign}{short(number) if number else ''}"
    address = escape(f"{href}{_joint(href)}due_from={iso(begins)}&due_before={iso(ends)}")
    link = f'class="past {mark.name}" tabindex="-1" href="{address}" title="{text}"'
    return f"<td><a {link}>{short(results.items)}<span>{sign}</span></a></td>"


def _coming_cell(view: View, href: str, day: date, due: int) -> str:
    if not due:
        return '<td class="ahead"></td>'
    begins, ends = _span_of(view, day)
    text = f"{day:%a %Y-%m-%d}: schedules owe {due:,}"
    span = f"due_from={iso(begins)}&due_before={iso(ends)}&open=true"
    address = escape(f"{href}{_joint(href)}{span}")
    link = f'class="past" tabindex="-1" href="{address}" title="{text}"'
    return f'<td class="ahead"><a {link}>{short(due)}</a></td>'


def _span_of(view: View, day: date) -> tuple[datetime, datetime]:
    begins, ends = PastDays.of(day, 1, view.clock.zone).begins
    return begins, ends


def _joint(href: str) -> str:
    return "&" if "?" in href else "?"


def _words(results: DueResults) -> str:
    """Return the counts of a cell as words."""
    late = f" ({results.completed_late:,} late)" if results.completed_late else ""
    counts = (
        (results.completed, f"completed{late}"),
        (results.in_review, "in review"),
        (results.written_off, "written off"),
        (results.withdrawn, "withdrawn"),
        (results.open, "still open"),
        (results.had_failures, "with failed attempts"),
    )
    said = [f"{number:,} {words}" for number, words in counts if number]
    return ", ".join([f"{results.items:,} due", *said])


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


def _spans(begins: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    return list(pairwise(begins))


def _head(day: date) -> tuple[str, str]:
    return f"{day:%a}"[:2], str(day.day)


def _weekly(at: datetime, view: View) -> tuple[int, int]:
    local = at.astimezone(view.clock.zone)
    return local.weekday(), local.hour


def coming_by_kind(
    view: View, asked: PastDays, plan: LoadPlan | None
) -> dict[KindName, Counter[date]]:
    """Return what schedules owe of each kind on each day from the last of these days on."""
    found: dict[KindName, Counter[date]] = {}
    if plan is None:
        return found
    last = asked.days[-1] + COMING * _DAY
    days = [each.start.astimezone(view.clock.zone).date() for each in plan.quarters]
    for key, quarters in plan.kinds.items():
        counts = Counter[date]()
        for place, due in quarters.items():
            if days[place] < last:
                counts[days[place]] += due
        if counts:
            found[KindName(*key)] = counts
    return found
