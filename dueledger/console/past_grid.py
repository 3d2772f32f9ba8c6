"""What both grids of the last four weeks have: rows of cells, and the table of their numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from dueledger.console.listing import Column, Listing, Row
from dueledger.console.past_marks import DONE, MARKS, WITHDRAWN, Mark, mark_of
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.ledger.store.past_load import DueResults
from dueledger.service.routes.past_load import members_of_results

SHOWN_MAX: Final = 100
"""Rows of the tables below the grids."""
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
COUNTS: Final = (
    Column("due", "Due", "count"),
    Column("completed", State.COMPLETED.label, "count"),
    Column("completed_late", "Completed late", "count"),
    Column("had_failures", "With failed attempts", "count"),
    Column("in_review", "In review", "count"),
    Column("written_off", "Written off", "count"),
    Column("withdrawn", "Withdrawn", "count"),
    Column("open", "Still open", "count"),
    Column("coming", "Schedules owe", "count"),
)
_NO_COUNTS: Final = dict.fromkeys([*(each.key for each in COUNTS), "is_wrong"])


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


def numbers_of(results: DueResults) -> dict[str, Any]:
    """Return results as the columns of a row."""
    is_wrong = mark_of(results) not in {DONE, WITHDRAWN}
    return {**_NO_COUNTS, **members_of_results(results), "is_wrong": is_wrong}


def owed_numbers(due: int) -> dict[str, Any]:
    """Return what schedules owe as the columns of a row, of which nothing is counted yet."""
    return {**_NO_COUNTS, "coming": due}


def shown_rows(listing: Listing) -> Listing:
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


def items_of(view: View, names: Mapping[str, str | None] | None = None) -> Any:  # noqa: ANN401 - a function of a row
    """Return the address of the items of a row, by its names or these."""

    def address(row: Row) -> str:
        own = {"tenant": row["tenant"], "kind": row["kind"]} if names is None else names
        return view.url("/items", **own, due_from=row["since"], due_before=row["until"])

    return address
