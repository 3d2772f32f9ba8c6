"""Lists: their columns, as a table of a page, as CSV, and as JSON."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, Literal, Self

from dueledger.console.clock import iso
from dueledger.ledger.errors import InvalidInput, Problem

Row = Mapping[str, Any]
CellKind = Literal[
    "text",
    "id",
    "scope",
    "prose",
    "code",
    "count",
    "number",
    "time",
    "minute",
    "date",
    "state",
    "status",
    "word",
    "flow",
    "flag",
    "action",
]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: a member of each row, what it is called, and how a cell is shown.

    An `id` is a number that says nothing without the label, a `scope` a tenant or a kind, or all. A
    `prose` is a sentence that may take several lines. A `status` is a word that has a badge, a
    `word` one of a closed list, as in code. A `minute` is a time of the last day, shown without it.
    An `action` leads to what can be done, by the words of its label, and is no part of a download.
    `href` returns where a cell leads. `capped` is the member that says that a count is the least
    that it can be. `by` is the member that orders rows, where the text that is shown does not.
    """

    key: str
    label: str
    kind: CellKind = "text"
    href: Callable[[Row], str | None] | None = None
    capped: str | None = None
    by: str | None = None

    @property
    def sorts(self) -> bool:
        """Return whether rows may be sorted by it."""
        return self.kind != "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Rows of a list. `empty` says what to do first where there are none; `note` what is left out.

    `filters` are the parameters of the address that leave rows out. Where one is given and there
    are no rows, the list says `unmatched` in place of `empty`, and leads to itself without them.
    `order` is that of the rows, as they were read by an index: "oldest first". `next_cursor` is
    that of the next page; None: this is the last. Without `downloads` it is the first rows of a
    list that has a page of its own. `table` is its name on its page; None: it is the page's list.
    `sorts` is whether a reader may choose another order, as all rows are there. `turns` is the
    column whose head leads to the other order of an index, the parameter that asks for it, and
    whether it is ascending now.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = "Nothing."
    filters: Sequence[str] = ()
    unmatched: str = "Nothing matches the filter."
    note: str | None = None
    order: str | None = None
    next_cursor: str | None = None
    downloads: bool = True
    table: str | None = None
    sorts: bool = False
    turns: tuple[str, str, bool] | None = None

    @property
    def title(self) -> str:
        """Return the caption with the order."""
        return self.caption if self.order is None else f"{self.caption}, {self.order}"

    def sorted_by(self, sort: str) -> Self:
        """Return the list in the order of a column, `-` before its key for the reverse.

        Raises InvalidInput for a key that no column has.
        """
        key, is_reverse = sort.removeprefix("-"), sort.startswith("-")
        column = next((each for each in self.columns if each.key == key and each.sorts), None)
        if column is None:
            accepted = " | ".join(each.key for each in self.columns if each.sorts)
            problem = Problem("sort", "", "the list has no such column", accepted)
            raise InvalidInput("The list cannot be sorted so.", [problem])
        names = _names(column) if column.by is None else (column.by,)

        def place(row: Row) -> list[tuple[bool, Any]]:
            return [(row[name] is None, row[name]) for name in names]

        return replace(self, rows=sorted(self.rows, key=place, reverse=is_reverse), order=None)

    def csv(self) -> str:
        """Return the rows as CSV (RFC 4180), with a header. No cell is a formula."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([each for column in self.columns for each in _names(column)])
        for row in self.rows:
            writer.writerow([each for column in self.columns for each in _cells(column, row)])
        return text.getvalue()

    def documents(self) -> list[dict[str, Any]]:
        """Return the members of the rows that the columns show."""
        keys = [name for column in self.columns for name in _names(column)]
        return [{key: row[key] for key in keys} for row in self.rows]


def _names(column: Column) -> Sequence[str]:
    if column.kind == "action":
        return ()
    names = ("tenant", "kind", "lane") if column.kind == "flow" else (column.key,)
    return names if column.capped is None else (*names, column.capped)


def _cells(column: Column, row: Row) -> list[object]:
    return [_cell(row[name]) for name in _names(column)]


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime() | date():
            return iso(value)
        case str() if value.startswith(_FORMULA):
            return f"'{value}"
        case _:
            return value
