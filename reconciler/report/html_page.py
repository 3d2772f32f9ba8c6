"""The report as one HTML file: without scripts or links, printable, in the reader's theme."""

import re
from datetime import datetime
from typing import Final, TypeGuard, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from dueledger.ledger.states import State
from dueledger.ledger.visible_text import visible
from dueledger.reconciler.find.findings import span
from dueledger.reconciler.report.model import AccountingRow, ReconciliationReport
from dueledger.reconciler.report.row_samples import AGES

RULES_MAX: Final = 100
"""Versions that the page lists; the JSON has all of them."""

_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-_./:])(?=\w)")
"""Where a name such as PolicyRenewalDue or due.PolicyRenewalDue has another word."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", re.ASCII)

_STATES: Final = (
    *(
        (state.name.lower(), state.name.capitalize().replace("_", " "))
        for state in (
            State.COMPLETED,
            State.SKIPPED,
            State.CANCELLED,
            State.SUPERSEDED,
            State.WRITTEN_OFF,
        )
    ),
    ("open", "Open"),
    ("missing", "Missing"),
)


def render_page(report: ReconciliationReport) -> str:
    """Return the page of a report."""
    return _ENVIRONMENT.get_template("report.html.j2").render(
        report=report, states=_STATES, ages=[label for _, label in AGES], rules_max=RULES_MAX
    )


def _number(value: float) -> str:
    return f"{value:,}".replace("-", "−")


def _instant(value: datetime | None) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else "–"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else span(value)  # noqa: PLR2004 — a minute


def _shares(row: AccountingRow) -> list[tuple[str, str, int, float]]:
    """Return the parts of the bar of one kind: class, label, count, percent of the widest sum."""
    counts = {name: int(getattr(row, name)) for name, _ in _STATES}
    total = sum(counts.values()) or 1
    return [
        (name, label, counts[name], round(100 * counts[name] / total, 3))
        for name, label in _STATES
        if counts[name]
    ]


def _fact(value: object) -> object:
    """Return a fact with its instant, if it is one in UTC, as the page writes instants."""
    return f"{value[:10]} {value[11:-6]} UTC" if _is_instant(value) else value


def _is_instant(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _INSTANT.fullmatch(value) is not None


def _word(value: str) -> str:
    return value.replace("_", " ")


def _words(name: str) -> list[str]:
    """Return the words of a name, between which a line may break."""
    return _WORD_ENDS.split(name)


def _visible(value: object) -> object:
    """Return data in characters that can be seen. Markup is the template's own."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("dueledger.reconciler"),
    autoescape=True,
    finalize=_visible,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
cast("dict[str, object]", _ENVIRONMENT.filters).update(
    number=_number,
    instant=_instant,
    seconds=_seconds,
    shares=_shares,
    word=_word,
    words=_words,
    fact=_fact,
    age=span,
)
