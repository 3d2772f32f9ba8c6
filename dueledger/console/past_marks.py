"""What a cell of the last four weeks shows: a count, the mark of what is most urgent, words."""

from datetime import datetime
from typing import Final, NamedTuple

from markupsafe import escape

from dueledger.console.cells import NO_STOP
from dueledger.console.clock import iso
from dueledger.ledger.store.past_load import DueResults

UNKNOWN: Final = '<td class="uncounted"><span class="hidden">not counted</span></td>'
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


class CellPlace(NamedTuple):
    """What the cells of a column have in common: words around their counts, and their time."""

    before: str
    query: str
    after: str = ""


def mark_of(results: DueResults) -> Mark:
    """Return the mark of what is most urgent among results."""
    return MARKS[_judged(results)[0]]


def worst_number(mark: Mark, results: DueResults) -> int:
    """Return how many items of a part of results have the mark of all of them; 0: it is of all."""
    if mark is FAILED:
        return results.in_review + results.written_off
    if mark is OPEN:
        return results.open
    if mark is LATE:
        return results.completed_late
    return results.had_failures if mark is RETRIED else 0


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


def cell(address: str, place: CellPlace, results: DueResults | None, coming: str = "") -> str:
    """Return the cell of results, and below them what is to come; None: nothing was due."""
    if results is None:
        return "<td></td>"
    rank, number = _judged(results)
    mark = MARKS[rank]
    sign = f"{mark.sign}{short(number)}" if number else mark.sign
    return (
        f'<td><a class="past {mark.name}"{NO_STOP} href="{address}{place.query}"'
        f' title="{place.before}{_words(results)}{place.after}">'
        f"{short(results.items)}<span>{sign}</span>{coming}</a></td>"
    )


def items_address(href: str) -> str:
    """Return an address to which a cell adds its time, escaped."""
    return f"{escape(href)}{'&amp;' if '?' in href else '?'}"


def span_query(begins: datetime, ends: datetime) -> str:
    """Return a time as the address of a cell has it, escaped."""
    return f"due_from={iso(begins)}&amp;due_before={iso(ends)}"


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
    if still_open := items - completed - in_review - withdrawn - written_off:
        words += f", {still_open:,} still open"
    if had_failures:
        words += f", {had_failures:,} with failed attempts"
    return words


def short(number: int) -> str:
    """Return a number in four characters at most: 999, 1.2k, 45k, 3M."""
    if number < _THOUSAND:
        return str(number)
    for unit, name in _UNITS:
        if number >= unit:
            tenths = number * 10 // unit
            return (
                f"{tenths / 10:g}{name}" if tenths < _SHORT_MAX * 10 else f"{number // unit}{name}"
            )
    return str(number)
