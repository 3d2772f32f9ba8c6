"""The cells of tables, and what a page shows as they do: times, badges, flows.

A page has hundreds of cells; a macro of a template took 13 microseconds for each.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup, escape

from dueledger.console.clock import PageClock, iso
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.states import STATE_BADGES, STATUS_BADGES
from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.visible_text import visible

NO_STOP: Final = ' tabindex="-1"'
"""Of a link that arrow keys reach, from the one of its row that Tab reaches."""
_NOTHING: Final = '<span class="quiet">–</span>'
_SHOWS_NONE: Final = frozenset({"flow", "flag", "scope"})
_LONG_NAME: Final = re.compile(r"[\w/-]{15,}")
_WITHIN_NAME: Final = re.compile(r"(?<=\w)[/_](?=\w)")
_ZERO: Final = '<span class="quiet">0</span>'
_OF_MINUTE: Final = slice(len("2027-03-01 "), len("2027-03-01 09:00"))

Show = Callable[[Any, Row], str]
"""Returns the HTML of a value of a row, which is not None unless the cell is of a flow."""


def rows_of(clock: PageClock, listing: Listing, rows: Sequence[Row]) -> Markup:
    """Return the rows of a table: the first cell of each is its header."""
    shows = [
        (column, _begin(column, place), _show(column, clock))
        for place, column in enumerate(listing.columns)
    ]
    parts: list[str] = []
    for row in rows:
        parts.append("<tr>\n")
        for column, (tag, begin, begin_of_nil), show in shows:
            value = row[column.key]
            href = column.href(row) if column.href is not None and value else None
            is_empty = value is None and column.kind not in _SHOWS_NONE
            inner = _NOTHING if is_empty else show(value, row)
            if href:
                inner = f'<a href="{escape(href)}">{inner}</a>'
            parts.append(f"{begin if value else begin_of_nil}{inner}</{tag}>\n")
        parts.append("</tr>\n")
    return Markup("".join(parts))  # noqa: S704 - each part is escaped where it is made


def _begin(column: Column, place: int) -> tuple[str, str, str]:
    """Return the tag of a column's cells, and how each begins, with a value and without one."""
    label = f'data-label="{escape(column.label)}"'
    if place == 0:
        named = f" {label}" if column.kind == "id" else ""
        return (
            "th",
            f'<th class="c-{column.kind}" scope="row"{named}>',
            f'<th class="c-{column.kind} nil" scope="row"{named}>',
        )
    return (
        "td",
        f'<td class="c-{column.kind}" {label}>',
        f'<td class="c-{column.kind} nil" {label}>',
    )


def cells_of_row(parts: Sequence[str]) -> Markup:
    """Return the cells of a row of a strip or calendar: Tab reaches the first link of it."""
    return Markup("".join(parts).replace(NO_STOP, "", 1))  # noqa: S704 - each is escaped where it is made


def time_of(
    clock: PageClock, instant: datetime | None, *, to_second: bool = False, words: str | None = None
) -> str:
    """Return a time: how long ago, and the exact one beside it, to the minute if it fits so.

    `words` are those for how long ago it was, if the clock is another one.
    """
    if instant is None:
        return _NOTHING
    utc = iso(instant)
    exact, brief = clock.exact_and_brief(instant)
    if to_second:
        brief = clock.to_second(instant)
    others = clock.in_other_zones(instant) if clock.other_zones else utc
    return (
        f'<time datetime="{utc}" title="{exact} · {others}">{words or clock.relative(instant)}'
        f'</time> <span class="exact">{brief}</span>'
    )


def pointed_at(clock: PageClock, instant: datetime) -> str:
    """Return a time for who points at it: exact, in the reader's other zones, and in UTC."""
    return f"{clock.exact(instant)} · {clock.in_other_zones(instant)}"


def minute_of(clock: PageClock, instant: datetime) -> str:
    """Return a minute of the last hours; the day is not said."""
    utc, exact = iso(instant), clock.exact(instant)
    others = clock.in_other_zones(instant) if clock.other_zones else utc
    return f'<time datetime="{utc}" title="{exact} · {others}">{exact[_OF_MINUTE]}</time>'


def shown(value: object) -> str:
    """Return a value as text, with what cannot be seen in it escaped; empty for None."""
    return "" if value is None else str(escape(visible(str(value))))


def badge_of(icon: str, words: str, tone: str) -> str:
    """Return an icon with words, in a tone of the style sheet."""
    sprite = f'<svg class="icon" aria-hidden="true"><use href="#i-{icon}"/></svg>'
    return f'<span class="badge {tone}">{sprite}{shown(words)}</span>'


_STATES: Final = {label: badge_of(*badge) for label, badge in STATE_BADGES.items()}
_STATUSES: Final = {word: badge_of(*badge) for word, badge in STATUS_BADGES.items()}


def status_of(word: str) -> str:
    """Return the badge of a word; another word as it is."""
    return _STATUSES.get(word) or shown(word)


def state_of(label: str) -> str:
    """Return the badge of a state by its label."""
    return _STATES[label]


def flow_of(row: Row) -> str:
    """Return the name of a flow: its tenant, kind and lane."""
    lane = f' <span class="lane">{shown(row["lane"])}</span>' if row["lane"] else ""
    tenant = f'<span class="tenant">{shown(row["tenant"])}</span>'
    return f'<span class="flow">{tenant} {shown(row["kind"])}{lane}</span>'


def code_of(text: str) -> str:
    """Return a text whose parts in backticks are code."""
    return _code_of(str(escape(visible(text))))


def prose_of(text: str) -> str:
    """Return a text as `code_of` does; lines may end within long names, after `/` and `_`."""
    escaped = str(escape(visible(text)))
    return _code_of(_LONG_NAME.sub(lambda name: _WITHIN_NAME.sub(r"\g<0><wbr>", name[0]), escaped))


def _code_of(escaped: str) -> str:
    parts = escaped.split("`")
    return "".join(
        f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)
    )


def scope_of(name: str | None) -> str:
    """Return the name of a tenant or kind; `all` for what is of no single one."""
    return "all" if name in {None, WHOLE_LEDGER} else shown(name)


def count_of(value: float | None, *, capped: bool = False) -> str:
    """Return a count with separators, and + if it is the least that it can be."""
    if value is None:
        return "–"
    number = f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"
    return f"{number}{'+' if capped else ''}"


def _show(column: Column, clock: PageClock) -> Show:
    """Return what shows the values of a column."""
    match column.kind:
        case "flow":
            return lambda _, row: flow_of(row)
        case "count":
            return _counting(column)
        case "time" | "minute" as kind:
            show_time = time_of if kind == "time" else minute_of
            return lambda value, _: show_time(clock, value)
        case "action":
            return _acting(column)
        case "flag":
            flag = badge_of("warn", column.label, "bad")
            return lambda value, _: flag if value else ""
        case kind:
            show = _PLAIN[kind]
            return lambda value, _: show(value)


def _counting(column: Column) -> Show:
    capped = column.capped

    def show(value: Any, row: Row) -> str:  # noqa: ANN401 - a number
        if not value:
            return _ZERO
        return count_of(value, capped=capped is not None and row[capped])

    return show


def _acting(column: Column) -> Show:
    leads = column.href
    label = str(escape(column.label))
    return lambda _, row: label if leads is not None and leads(row) else ""


_PLAIN: Final[dict[str, Callable[[Any], str]]] = {
    "text": shown,
    "id": shown,
    "scope": scope_of,
    "date": shown,
    "prose": lambda value: prose_of(str(value)),
    "code": lambda value: f"<code>{shown(value)}</code>",
    "number": "{:g}".format,
    "state": state_of,
    "status": status_of,
    "word": lambda value: shown(str(value).replace("_", " ").capitalize()),
}
