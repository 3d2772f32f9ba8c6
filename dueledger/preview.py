"""When a definition falls due: the same code that materialises, without a database."""

from datetime import UTC, date, datetime, timedelta
from typing import TypedDict

from ledger.definitions import Definition
from ledger.errors import InvalidInput, Problem
from ledger.schedule import Occurrence, Relative, Window, due_for, expand


class PreviewOccurrence(TypedDict):
    """One instant. `nominal` is local, `utc_offset` is the one in force there."""

    due_at: str
    nominal: str
    utc_offset: str
    decision: str


class PreviewSkipped(TypedDict):
    """A nominal local time that gives nothing."""

    nominal: str
    reason: str


class Preview(TypedDict):
    """The document of `dueledger preview --json`; its names are stable."""

    occurrences: list[PreviewOccurrence]
    skipped: list[PreviewSkipped]


def preview_definition(
    definition: Definition,
    *,
    since: datetime | None,
    until: datetime | None,
    effective_date: date | None,
) -> Preview:
    """Return what falls into [since, until), or for an event rule what one date gives."""
    window = _window(definition, since, until, effective_date)
    return Preview(
        occurrences=[
            PreviewOccurrence(
                due_at=found.due_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                nominal=found.nominal.isoformat(),
                utc_offset=_offset_text(found.utc_offset),
                decision=found.decision.value,
            )
            for found in window.occurrences
        ],
        skipped=[
            PreviewSkipped(nominal=found.nominal.isoformat(), reason=found.reason.value)
            for found in window.skipped
        ],
    )


def _window(
    definition: Definition,
    since: datetime | None,
    until: datetime | None,
    effective_date: date | None,
) -> Window:
    if isinstance(definition.when, Relative):
        if effective_date is None:
            raise _lacking("--effective-date", "its `when` hangs on a date", "2027-03-31")
        found = due_for(definition.when, effective_date)
        return Window((found,) if _within(found, since, until) else (), ())
    if since is None or until is None:
        raise _lacking("--from, --to", "a schedule needs a window", "2027-03-01T00:00:00Z")
    return expand(definition.when, since, until)


def _within(found: Occurrence, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or found.due_at >= since) and (until is None or found.due_at < until)


def _lacking(option: str, reason: str, accepted: str) -> InvalidInput:
    return InvalidInput("The preview lacks an option:", [Problem(option, "", reason, accepted)])


def _offset_text(offset: timedelta) -> str:
    """Write an offset as ISO 8601 does, with seconds only where history had them."""
    sign = "-" if offset < timedelta() else "+"
    minutes, seconds = divmod(int(abs(offset).total_seconds()), 60)
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text
