"""Where output goes: data to stdout, messages to stderr. Data is shown as text, never as markup."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from dueledger.ledger.visible_text import escape_json, visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

CELL_CHARS_MAX: Final = 1_000
"""Characters of a value that a table shows; --json has all of them."""

_PIPE_WIDTH: Final = 240  # a file or a pipe has no edge to fold at
_JSON_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


def open_console(*, stderr: bool) -> "Console":
    """Return a console for tables and progress. Only commands that print these import Rich."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def format_document(document: object) -> bytes:
    """Return one JSON document as one line."""
    options = _JSON_OPTIONS | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(document, default=_plain, option=options)
    except orjson.JSONEncodeError:  # half a surrogate pair, as in the name of a file
        return orjson.dumps(_in_utf8(document), default=_plain, option=options)


def document_text(document: object) -> str:
    """Return one JSON document as one line whose characters are visible, without its end."""
    return escape_json(format_document(document).decode().removesuffix("\n"))


def print_document(document: object) -> None:
    """Print one JSON document on one line."""
    print_text(document_text(document) + "\n")


def print_lines(documents: Iterable[object]) -> None:
    """Print a list as one JSON object a line."""
    for document in documents:
        print_document(document)


def print_text(text: str) -> None:
    """Print a text whose characters are visible already."""
    sys.stdout.write(text)
    sys.stdout.flush()


def print_rows(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    *,
    empty: str,
    on_stderr: bool = False,
) -> None:
    """Print rows as a table, or `empty` on stderr if there are none.

    With `on_stderr`, the table goes there too: it describes data that is on stdout. Of a long value
    it shows the first CELL_CHARS_MAX characters.
    """
    if not rows:
        say(empty)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(
            column.replace("_", " "), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(_shortened(_cell(row.get(column)))) for column in columns))
    open_console(stderr=on_stderr).print(table)


def print_list(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    *,
    limit: int,
    as_json: bool,
    empty: str,
    has_more: bool = False,
) -> None:
    """Print the first `limit` rows, as JSON or as a table; say on stderr if there are more.

    Read one row more than the limit, or give `has_more`. A table shows a capped count with a +.
    """
    shown = rows[:limit]
    if as_json:
        print_lines(shown)
    else:
        print_rows([mark_capped(row) for row in shown], columns, empty=empty)
    if has_more or len(rows) > limit:
        say(f"More than {limit:,} were found; only the first {limit:,} are shown (--limit).")


class CappedCount(int):
    """A count that stopped at a limit: there are that many or more."""


def mark_capped(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for people: each NAME with a true NAME_capped beside it is a CappedCount."""
    return {
        name: CappedCount(value) if isinstance(value, int) and row.get(f"{name}_capped") else value
        for name, value in row.items()
        if not name.endswith("_capped")
    }


def count_text(count: int) -> str:
    """Return a count with separators, and with a + if it is capped."""
    return f"{count:,}+" if isinstance(count, CappedCount) else f"{count:,}"


def print_fields(fields: Mapping[str, object]) -> None:
    """Print one document, a line a field."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        print_text(f"{name.replace('_', ' '):<{width}}  {visible(_cell(value))}\n")


def say(message: str) -> None:
    """Print a message of one line, which is not data, on stderr."""
    say_lines(visible(message))


def say_lines(message: str) -> None:
    """Print a message of several lines on stderr."""
    sys.stderr.write(visible_lines(message) + "\n")
    sys.stderr.flush()


def _shortened(text: str) -> str:
    """Return the text of a cell, in characters that can be seen."""
    if len(text) <= CELL_CHARS_MAX:
        return visible(text)
    return f"{visible(text[:CELL_CHARS_MAX])}… ({len(text):,} characters: --json has them all)"


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            utc = value.astimezone(UTC)
            return utc.isoformat(timespec="seconds").replace("+00:00", "Z")
        case int():
            return count_text(value)
        case dict() | list():
            return orjson.dumps(value, default=_plain, option=_JSON_OPTIONS).decode()
        case _:
            return str(value)


def _in_utf8(value: object) -> object:
    """Return a document with an escape for each character that UTF-8 does not have."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            members = cast("dict[object, object]", value)
            return {_in_utf8(name): _in_utf8(member) for name, member in members.items()}
        case list() | tuple():
            return [_in_utf8(member) for member in cast("Sequence[object]", value)]
        case _:
            return value


def _plain(value: object) -> object:
    match value:
        case StrEnum():
            return value.value
        case _:
            return str(value)  # what is exact (Decimal) or opaque stays a text
