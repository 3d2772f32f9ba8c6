"""When a definition is due: computed with the materialiser's code, without a database."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NotRequired, TypedDict

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.rules.schedule_drafts import draft_window
from dueledger.ledger.schedule import (
    RECURRING,
    AfterCompletion,
    Occurrence,
    Relative,
    ScheduleWindow,
    Skipped,
    due_for,
    expand,
)
from dueledger.ledger.schedule.when import DUE_END, OCCURRENCES_MAX, expand_in_slices

_FIRST_SPAN: Final = timedelta(hours=1)
_INSTANT: Final = timedelta(microseconds=1)
_SKIPPED_MAX: Final = 10_000
"""Nominal times passed over in search of occurrences; a calendar may skip nearly all."""


class PreviewOccurrence(TypedDict):
    """One instant. `local` is its local time, by `utc_offset`; `nominal` is what the rule names.

    `smear_seconds` is the delay of the item, if its schedule smears.
    """

    due_at: str
    local: str
    utc_offset: str
    nominal: str
    decision: str
    smear_seconds: NotRequired[int]


class PreviewSkipped(TypedDict):
    """A nominal local time without an occurrence. `into` is the one into which it is merged."""

    nominal: str
    reason: str
    into: NotRequired[str]


class PreviewDocument(TypedDict):
    """The document of `dueledger preview --json`; its names are stable."""

    occurrences: list[PreviewOccurrence]
    skipped: list[PreviewSkipped]


def preview_definition(
    definition: Definition,
    *,
    since: datetime | None,
    until: datetime | None,
    effective_date: date | None,
    count: int | None = None,
) -> ScheduleWindow:
    """Return the occurrences in [since, until), or for an event rule those of one date.

    `count` limits them from `since` on; `until` is then optional. There may be fewer if ten
    thousand times are skipped before. A fixed delay is shown as if each item ended at the instant
    at which it is due.
    """
    if definition.ended:
        return ScheduleWindow((), ())
    if count is None or isinstance(definition.when, Relative):
        return _window(definition, since, until, effective_date)
    if since is None:
        raise _lacking("--from", "--count needs a start", "2027-03-01T00:00:00Z")
    return _first(definition, since, until or DUE_END, count)


def preview_slices(
    definition: Definition,
    *,
    since: datetime | None,
    until: datetime | None,
    effective_date: date | None,
    count: int | None = None,
) -> Iterator[ScheduleWindow]:
    """Yield the same in windows of some ten thousands of occurrences, if that can be.

    A calendar may end inside the window: then it is expanded at once, and refused at once.
    """
    when = definition.when
    at_once = definition.observance() is not None or count is not None or definition.ended
    if isinstance(when, RECURRING) and since is not None and until is not None and not at_once:
        return expand_in_slices(when, since, until)
    whole = preview_definition(
        definition, since=since, until=until, effective_date=effective_date, count=count
    )
    return iter((whole,))


def preview_smears(definition: Definition, window: ScheduleWindow) -> list[int]:
    """Return the smear of each occurrence of a schedule in seconds; empty without a smear.

    An event rule's smear depends on the business key.
    """
    if definition.smear is None or not definition.is_schedule or not window.occurrences:
        return []
    end = window.occurrences[-1].due_at + _INSTANT
    owed = draft_window(definition, ScheduleWindow(window.occurrences, ()), end)
    return [draft.smear_seconds or 0 for draft in owed.drafts]


def preview_document(window: ScheduleWindow, smears: Sequence[int] = ()) -> PreviewDocument:
    """Return the document that `--json` prints."""
    document = PreviewDocument(
        occurrences=[
            PreviewOccurrence(
                due_at=found.due_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                local=found.local.isoformat(),
                utc_offset=offset_text(found.utc_offset),
                nominal=found.nominal.isoformat(),
                decision=found.decision.value,
            )
            for found in window.occurrences
        ],
        skipped=[
            PreviewSkipped(nominal=found.nominal.isoformat(), reason=found.reason.value)
            for found in window.skipped
        ],
    )
    for skip, found in zip(document["skipped"], window.skipped, strict=True):
        if found.into is not None:
            skip["into"] = found.into.nominal.isoformat()
    for shown, seconds in zip(document["occurrences"], smears, strict=False):
        shown["smear_seconds"] = seconds
    return document


def _window(
    definition: Definition,
    since: datetime | None,
    until: datetime | None,
    effective_date: date | None,
) -> ScheduleWindow:
    if definition.when is None:
        return ScheduleWindow((), ())
    if isinstance(definition.when, Relative):
        if effective_date is None:
            raise _lacking("--effective-date", "its `when` counts from a date", "2027-03-31")
        found = due_for(definition.when, effective_date, definition.observance())
        return ScheduleWindow((found,) if _within(found, since, until) else (), ())
    if since is None or until is None:
        raise _lacking("--from, --to", "a schedule needs a window", "2027-03-01T00:00:00Z")
    if isinstance(definition.when, AfterCompletion):
        return _chain(definition.when, since, until)
    return expand(definition.when, since, until, definition.observance())


def _first(definition: Definition, since: datetime, until: datetime, count: int) -> ScheduleWindow:
    """Expand ever longer windows, each after the one before, until there are enough."""
    if isinstance(definition.when, AfterCompletion):
        return _chain(definition.when, since, until, count)
    occurrences: list[Occurrence] = []
    skipped: list[Skipped] = []
    low, span = since, _FIRST_SPAN
    while low < until and len(occurrences) < count and len(skipped) < _SKIPPED_MAX:
        high = until if until - low <= span else low + span
        window = _window(definition, low, high, None)
        occurrences += window.occurrences
        skipped += window.skipped
        low, span = high, span * 2
    if len(occurrences) > count:
        last = occurrences[count - 1].due_at
        skipped = [one for one in skipped if one.at <= last]
    return ScheduleWindow(tuple(occurrences[:count]), tuple(skipped))


def _chain(
    when: AfterCompletion, since: datetime, until: datetime, count: int = OCCURRENCES_MAX
) -> ScheduleWindow:
    """Expand a fixed delay whose items take no time: the most that it can owe."""
    fitting = -((since - until) // when.after_completion)
    if min(fitting, count) >= OCCURRENCES_MAX:
        problem = Problem(
            "--to", until.isoformat(), "the window has more occurrences than can be shown"
        )
        raise InvalidInput("The window is too long:", [problem])
    instants = (since + n * when.after_completion for n in range(min(fitting, count)))
    return ScheduleWindow(tuple(when.first(instant) for instant in instants), ())


def _within(found: Occurrence, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or found.due_at >= since) and (until is None or found.due_at < until)


def _lacking(option: str, reason: str, accepted: str) -> InvalidInput:
    return InvalidInput("The preview needs an option:", [Problem(option, "", reason, accepted)])


def offset_text(offset: timedelta) -> str:
    """Return an offset in ISO 8601, with seconds only if the zone had them."""
    sign = "-" if offset < timedelta() else "+"
    minutes, seconds = divmod(int(abs(offset).total_seconds()), 60)
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text
