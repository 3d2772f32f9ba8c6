"""The last and the next 24 hours as a strip by quarter hour, a row for each of the worst flows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from dueledger.console.cells import NO_STOP, cells_of_row
from dueledger.console.clock import iso
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.ledger.store.overview import QUARTER, OverviewCell, OverviewPlace

FLOWS_MAX: Final = 8
QUARTERS: Final = 193
QUARTERS_TABLE: Final = "quarters"
"""The cells of a flow as numbers; its page has them if it is asked for them."""
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
LATE: Final = Tone("late", "open, late")
SLOW: Final = Tone("slow", "completed late")
OPEN: Final = Tone("open", "due, open")
DONE: Final = Tone("done", "completed")
TONES: Final = (FAILED, LATE, SLOW, OPEN, DONE)


@dataclass(frozen=True, slots=True)
class StripRow:
    """A flow: where its items are listed, the age of its count in words, and its cells.

    `age` is None before it is counted first. `late_due_at` is when its first late item was due, if
    that is before the first cell.
    """

    flow: Row
    href: str
    late_href: str
    age: str | None
    cells: Markup
    late_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class HeatStrip:
    """The rows, the hours above them as (label, quarter hours), and a list of sums by flow.

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
    first rows, also without a cell: their items may have been due before it. Cells are counted by
    the grace of their kind, not by the SLA of each item: of a flow that is late, those from its
    first late item on are late once their grace is over. An item may be claimed long after it was
    due, so its cell does not say so: the cell of the one that waits longest is late, too.
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
        late_due_at = late[name]["late_due_at"] if name in late else None
        waits = next((each.quarter for each in row if each.waiting and each.quarter <= now), None)
        oldest = waits if name in late and late[name]["late_wait"] == "due" else None
        marks = _Marks.of(row, now, late_due_at)
        shown = [_EMPTY] * QUARTERS
        for cell in row:
            at = (cell.quarter - place.begins) // QUARTER
            if 0 <= at < QUARTERS and cell.due:
                shown[at] = _cell(view, cell, href, marks, is_oldest=cell.quarter == oldest)
        age = f"{max(0, round(row[0].age_seconds))} s" if row else None
        before = late_due_at if late_due_at is not None and late_due_at < place.begins else None
        rows.append(
            StripRow(
                *(flow, f"{href}&open=true", f"{href}&late=true", age, cells_of_row(shown), before)
            )
        )
        sums.append({**flow, "is_late": name in late, **_sums(row, now)})
    return HeatStrip(
        rows,
        _ticks(view, quarters),
        _listing(view, sums, quarters[0], now, quarters[-1] + QUARTER),
        place.read_from,
        place.is_cut,
    )


class _Marks(NamedTuple):
    """Up to which quarter hour the grace is over of a flow's items, and after which some are late.

    A row has up to 193 cells: each compares its quarter hour with both.
    """

    over_until: datetime
    late_after: datetime

    @classmethod
    def of(
        cls, row: Sequence[OverviewCell], now: datetime, late_due_at: datetime | None
    ) -> "_Marks":
        grace = timedelta(seconds=row[0].grace_seconds if row else 0)
        return cls(now - grace - QUARTER, now if late_due_at is None else late_due_at - QUARTER)


def _cell(view: View, cell: OverviewCell, href: str, marks: _Marks, *, is_oldest: bool) -> str:
    """Return a cell that has items. Its height and its mark say what its colour does."""
    items, still_open, until = cell.due, cell.open, cell.quarter + QUARTER
    is_over = still_open > 0 and cell.quarter <= marks.over_until
    is_late = is_over and cell.quarter > marks.late_after
    tone = _tone(cell, still_open, is_late=is_late or is_oldest)
    level = 1 + sum(items >= each for each in _LEVELS)
    words = [f"{items:,}{'+' if cell.is_capped else ''} due"]
    if cell.completed:
        late = f" ({cell.completed_late:,} late)" if cell.completed_late else ""
        words.append(f"{cell.completed:,} completed{late}")
    if cell.failed:
        words.append(f"{cell.failed:,} failed or in review")
    if still_open:
        words.append(f"{still_open:,} open{', late' if is_late else ''}")
        if not is_late and (is_oldest or is_over):
            words.append("the oldest late" if is_oldest else "past their grace")
    scope = "&open=true" if tone in {FAILED, LATE} else ""
    zone = view.clock.zone
    begin, end = cell.quarter.astimezone(zone), until.astimezone(zone)
    text = f"{_DAYS[begin.weekday()]} {_minute(begin)}–{_minute(end)}: {', '.join(words)}"
    span = f"&due_from={iso(cell.quarter)}&due_before={iso(until)}{scope}"
    # Items that are late by their due time alone were due before this quarter hour.
    is_by_due_time = is_oldest and not cell.failed and not is_over
    address = escape(href + ("&late=true" if is_by_due_time else span))
    link = f'class="{tone.name} n{level}"{NO_STOP} href="{address}" title="{text}"'
    return f"<td><a {link}></a></td>"


def _minute(local: datetime) -> str:
    """Return a time as 09:00; `strftime` takes ten times as long, and a strip has 1,500 cells."""
    return f"{local.hour:02}:{local.minute:02}"


def _tone(cell: OverviewCell, still_open: int, *, is_late: bool) -> Tone:
    if cell.failed:
        return FAILED
    if still_open:
        return LATE if is_late else OPEN
    return SLOW if cell.completed_late else DONE


def _sums(row: Sequence[OverviewCell], now: datetime) -> dict[str, Any]:
    """Return the sums of a flow, and until when its items were due whose grace is over."""
    past = [cell for cell in row if cell.quarter <= now]
    coming = [cell for cell in row if cell.quarter > now]
    is_capped = any(cell.is_capped for cell in past)
    return {
        "due": sum(cell.due for cell in past),
        "completed": sum(cell.completed for cell in past),
        "completed_late": sum(cell.completed_late for cell in past),
        "past_grace": sum(cell.open for cell in past if cell.is_over(now)),
        "grace_ends": now - timedelta(seconds=row[0].grace_seconds) if row else None,
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

    def past_grace(row: Row) -> str:
        return _flow_address(view, row, due_before=row["grace_ends"], open=True)

    def quarters(row: Row) -> str:
        path, lane = f"/flows/{row['tenant']}/{row['kind']}", row["lane"] or None
        return f"{view.url(path, lane=lane, table=QUARTERS_TABLE)}#{QUARTERS_TABLE}"

    past = items(begins, now)
    completed = items(begins, now, state=State.COMPLETED.label)
    still_open = items(begins, now, open=True)
    return Listing(
        caption="Sums of two days by flow",
        columns=(
            Column("kind", "Flow", "flow", items(begins, ends)),
            Column("due", "Due", "count", past, "is_capped"),
            Column("completed", State.COMPLETED.label, "count", completed),
            Column("completed_late", "Completed late", "count", completed),
            Column("is_late", "Late", "flag", late),
            Column("past_grace", "Open past their grace", "count", past_grace, "is_capped"),
            Column("failed", "Failed or in review", "count", still_open),
            Column("open", "Open", "count", still_open, "is_capped"),
            Column("coming", "Next 24 h", "count", items(now, ends, open=True), "coming_capped"),
            Column("kind", "By quarter hour", "action", quarters),
        ),
        rows=rows,
    )


def list_quarters(view: View, cells: Sequence[OverviewCell], now: datetime) -> Listing:
    """Return the cells of a flow as numbers, each quarter hour with its items."""

    def items(**filters: object) -> Any:  # noqa: ANN401 - a function of a row
        def address(row: Row) -> str:
            span = {"due_from": row["since"], "due_before": row["since"] + QUARTER}
            return _flow_address(view, row, **span, **filters)

        return address

    completed = items(state=State.COMPLETED.label)
    still_open = items(open=True)
    return Listing(
        caption="The strip as numbers, by quarter hour",
        order="earliest first",
        columns=(
            Column("since", "Quarter hour", "time", items()),
            Column("due", "Due", "count", items(), "is_capped"),
            Column("completed", State.COMPLETED.label, "count", completed),
            Column("completed_late", "Completed late", "count", completed),
            Column("past_grace", "Open past their grace", "count", still_open, "is_capped"),
            Column("failed", "Failed or in review", "count", still_open),
            Column("open", "Open", "count", still_open, "is_capped"),
        ),
        rows=[
            {
                "tenant": cell.tenant,
                "kind": cell.kind,
                "lane": cell.lane,
                "since": cell.quarter,
                "due": cell.due,
                "completed": cell.completed,
                "completed_late": cell.completed_late,
                "past_grace": cell.open if cell.is_over(now) else 0,
                "failed": cell.failed,
                "open": cell.open,
                "is_capped": cell.is_capped,
            }
            for cell in cells
            if cell.due
        ],
        empty="Nothing was due in the last 24 hours, and nothing is due in the next.",
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
