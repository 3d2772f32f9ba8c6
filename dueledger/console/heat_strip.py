"""The last and the next 24 hours as a strip by quarter hour, a row for each of the worst flows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from dueledger.console.clock import iso
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.ledger.store.overview import QUARTER, OverviewCell, OverviewPlace

FLOWS_MAX: Final = 8
QUARTERS: Final = 193
_PAST: Final = 96
_TICK_QUARTERS: Final = 12
_EMPTY: Final = "<td></td>"
_NONE_LATE: Final[Mapping[tuple[str, str, str], Row]] = {}
_LEVELS: Final = (10, 100, 1_000)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Tone(NamedTuple):
    """What a cell is, most urgent first: its class of the style sheet, and the words."""

    name: str
    words: str


FAILED: Final = Tone("failed", "failed or in review")
LATE: Final = Tone("late", "open past its grace")
SLOW: Final = Tone("slow", "completed late")
OPEN: Final = Tone("open", "due, open")
DONE: Final = Tone("done", "completed")
TONES: Final = (FAILED, LATE, SLOW, OPEN, DONE)


@dataclass(frozen=True, slots=True)
class StripRow:
    """A flow: where its items are listed, the age of its count in words, and its cells.

    `late_since` is when its first late item was due, if that is before the first cell.
    """

    flow: Row
    href: str
    late_href: str
    age: str | None
    cells: Markup
    late_since: datetime | None


@dataclass(frozen=True, slots=True)
class HeatStrip:
    """The rows, the hours above them as (label, quarter hours), and the same as a list of sums.

    `since` is from when on all that ended is counted, if that is later than the first cell.
    """

    rows: Sequence[StripRow]
    ticks: Sequence[tuple[str, int]]
    listing: Listing
    since: datetime | None
    is_cut: bool
    tones: Sequence[Tone] = TONES


def make_strip(
    view: View,
    cells: Sequence[OverviewCell],
    place: OverviewPlace,
    now: datetime,
    late: Mapping[tuple[str, str, str], Row] = _NONE_LATE,
) -> HeatStrip:
    """Return the strip of the cells of `list_overview`.

    `late` are the flows of `read_status` with late items, by tenant, kind and lane. They are the
    first rows, also without a cell: their items may have been due before it. An item may be claimed
    long after it was due, so its cell does not say so.
    """
    quarters = [place.begins + QUARTER * number for number in range(QUARTERS)]
    rows: list[StripRow] = []
    sums: list[Row] = []
    given = groupby(cells, key=lambda cell: (cell.tenant, cell.kind, cell.lane))
    counted = {name: list(cells_of_flow) for name, cells_of_flow in given}
    for name in list(dict.fromkeys((*late, *counted)))[:FLOWS_MAX]:
        row = counted.get(name, [])
        flow = {"tenant": name[0], "kind": name[1], "lane": name[2]}
        href = _flow_address(view, flow)
        since = late[name]["late_due_at"] if name in late else None
        waits = next((each.quarter for each in row if each.waiting and each.quarter <= now), None)
        late_quarter = waits if name in late and late[name]["late_wait"] == "due" else None
        shown = [_EMPTY] * QUARTERS
        for cell in row:
            at = (cell.quarter - place.begins) // QUARTER
            if 0 <= at < QUARTERS and cell.due:
                shown[at] = _cell(view, cell, href, now, is_late=cell.quarter == late_quarter)
        age = f"{max(0, round(row[0].age_seconds))} s" if row else None
        cells_of_row = Markup("".join(shown))  # noqa: S704 - each cell is escaped where it is made
        before = since if since is not None and since < place.begins else None
        rows.append(
            StripRow(flow, f"{href}&open=true", f"{href}&late=true", age, cells_of_row, before)
        )
        sums.append({**flow, **_sums(row, now, is_late=since is not None)})
    return HeatStrip(
        rows,
        _ticks(view, quarters),
        _listing(view, sums, quarters[0], now, quarters[-1] + QUARTER),
        place.read_from,
        place.is_cut,
    )


def _cell(view: View, cell: OverviewCell, href: str, now: datetime, *, is_late: bool) -> str:
    """Return a cell that has items. Its height and its mark say what its colour does."""
    items = cell.due
    tone = _tone(cell, now, is_late=is_late)
    level = 1 + sum(items >= each for each in _LEVELS)
    words = [f"{items:,}{'+' if cell.is_capped else ''} due"]
    if cell.completed:
        late = f" ({cell.completed_late:,} late)" if cell.completed_late else ""
        words.append(f"{cell.completed:,} completed{late}")
    if cell.failed:
        words.append(f"{cell.failed:,} failed or in review")
    if cell.open:
        overdue = ", the oldest past its grace" if is_late else ""
        overdue = ", past its grace" if cell.is_over(now) else overdue
        words.append(f"{cell.open:,} open{overdue}")
    scope = "&open=true" if tone in {FAILED, LATE} else ""
    until = cell.quarter + QUARTER
    zone = view.clock.zone
    begin, end = cell.quarter.astimezone(zone), until.astimezone(zone)
    text = f"{_DAYS[begin.weekday()]} {_minute(begin)}–{_minute(end)}: {', '.join(words)}"
    span = f"&due_from={iso(cell.quarter)}&due_before={iso(until)}{scope}"
    # Items that are late by their due time alone were due before this quarter hour.
    is_by_due_time = is_late and not cell.failed and not cell.is_over(now)
    address = escape(href + ("&late=true" if is_by_due_time else span))
    link = f'class="{tone.name} n{level}" tabindex="-1" href="{address}" title="{text}"'
    return f"<td><a {link}></a></td>"


def _minute(local: datetime) -> str:
    """Return a time as 09:00; `strftime` takes ten times as long, and a strip has 1,500 cells."""
    return f"{local.hour:02}:{local.minute:02}"


def _tone(cell: OverviewCell, now: datetime, *, is_late: bool) -> Tone:
    if cell.failed:
        return FAILED
    if cell.open:
        return LATE if is_late or cell.is_over(now) else OPEN
    return SLOW if cell.completed_late else DONE


def _sums(row: Sequence[OverviewCell], now: datetime, *, is_late: bool) -> dict[str, Any]:
    """Return the sums of a flow. `is_late`: at least one of its items is, by its due time."""
    past = [cell for cell in row if cell.quarter <= now]
    coming = [cell for cell in row if cell.quarter > now]
    over = [cell for cell in past if cell.is_over(now)]
    late = sum(cell.open for cell in over)
    is_capped = any(cell.is_capped for cell in past)
    return {
        "due": sum(cell.due for cell in past),
        "completed": sum(cell.completed for cell in past),
        "completed_late": sum(cell.completed_late for cell in past),
        "late": max(late, 1) if is_late else late,
        "late_capped": is_late or is_capped,
        "failed": sum(cell.failed for cell in past),
        "open": sum(cell.open for cell in past),
        "coming": sum(cell.due for cell in coming),
        "is_capped": is_capped,
        "coming_capped": any(cell.is_capped for cell in coming),
    }


def _listing(
    view: View, rows: Sequence[Row], begins: datetime, now: datetime, ends: datetime
) -> Listing:
    def items(since: datetime, until: datetime, **filters: object) -> Any:  # noqa: ANN401 - a function of a row
        def address(row: Row) -> str:
            return _flow_address(view, row, due_from=since, due_before=until, **filters)

        return address

    def late(row: Row) -> str:
        return _flow_address(view, row, due_before=now, late=True)

    past = items(begins, now)
    completed = items(begins, now, state=State.COMPLETED.label)
    still_open = items(begins, now, open=True)
    return Listing(
        caption="The same as numbers",
        columns=(
            Column("kind", "Flow", "flow", items(begins, ends)),
            Column("due", "Due", "count", past, "is_capped"),
            Column("completed", State.COMPLETED.label, "count", completed),
            Column("completed_late", "Completed late", "count", completed),
            Column("late", "Open, late", "count", late, "late_capped"),
            Column("failed", "Failed or in review", "count", still_open),
            Column("open", "Open", "count", still_open, "is_capped"),
            Column("coming", "Next 24 h", "count", items(now, ends, open=True), "coming_capped"),
        ),
        rows=rows,
    )


def _flow_address(view: View, row: Row, **filters: object) -> str:
    lane = {"lane": row["lane"]} if row["lane"] else {"default_lane": True}
    return view.url("/items", tenant=row["tenant"], kind=row["kind"], **lane, **filters)


def _ticks(view: View, quarters: Sequence[datetime]) -> list[tuple[str, int]]:
    """Return every third hour with the quarter hours from it to the next one."""
    starts = [0, *range(_TICK_QUARTERS, len(quarters), _TICK_QUARTERS)]
    ends = [*starts[1:], len(quarters)]
    zone = view.clock.zone
    names = ["now" if at == _PAST else f"{quarters[at].astimezone(zone):%H:%M}" for at in starts]
    return [(name, end - at) for name, at, end in zip(names, starts, ends, strict=True)]
