"""Computes an item's outcome from the verdict that a handler returned, or from its error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final, assert_never, cast, final

import orjson

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome
from dueledger.workers.retry import is_delay, own_backoff_seconds, retry_delay_seconds
from dueledger.workers.verdicts import (
    Completed,
    Evidence,
    NotAttempted,
    NotDue,
    Park,
    Retry,
    Snooze,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dueledger.workers.handlers import HandlerOptions
    from dueledger.workers.item import DueItem

EVIDENCE_BYTES_MAX: Final = 262_144
EVIDENCE_REFUSED: Final = "evidence_refused"
_TEXT_LENGTH_MAX: Final = 2_000
# Limits of Postgres's numeric and of its readers. No real number exceeds them.
_DIGITS_MAX: Final = 1_000
_EXPONENT_MAX: Final = 300
_SUSPECT: Final = re.compile(rf"[0-9][eE]|[0-9.]{{{_DIGITS_MAX}}}")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([0-9.]+)(?:[eE]([+-]?[0-9]+))?')
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COMPLETED: Final = TransitionEvent.COMPLETED
# One an item: the named tuple's own constructor takes twice as long.
_AS_OUTCOME: Final = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    Outcome,
)
_COMPLETED_BARE: Final = Outcome(_COMPLETED, None, None)


@final
@dataclass(frozen=True, slots=True)
class SnoozedUntil:
    """A snooze until a business time. Only the database's clock knows how long that is."""

    until: datetime
    detail: str | None


ItemOutcome = Outcome | SnoozedUntil


def outcome_of_verdict(verdict: object, item: DueItem, options: HandlerOptions) -> ItemOutcome:
    """Return the outcome of a handler's return value. A value that is no verdict is parked.

    Reading the value may run the handler's code. If that raises, the item is parked, too.
    """
    try:
        if type(verdict) is Completed:  # nearly all
            return _completed(verdict.evidence)
        if type(verdict) is NotAttempted:
            return released(verdict.reason, after_seconds=verdict.seconds)
        return _outcome_by_type(verdict, item, options)
    except BaseException as error:  # noqa: BLE001  # the handler boundary
        return parked(f"bad verdict: reading it raised {_class_name(error)}")


def outcomes_of_verdicts(
    verdicts: Sequence[object], items: Sequence[DueItem], options: HandlerOptions
) -> list[ItemOutcome]:
    """Return the outcomes of a batch's verdicts, as `outcome_of_verdict` does for each."""
    texts = [verdict.evidence for verdict in verdicts if type(verdict) is Completed]
    if len(texts) == len(verdicts) and all(map(_is_storable, texts)):  # nearly always
        return list(map(_AS_OUTCOME, zip(repeat(_COMPLETED), texts, repeat(None))))
    return [
        outcome_of_verdict(verdict, item, options)
        for verdict, item in zip(verdicts, items, strict=True)
    ]


def outcome_of_error(error: BaseException, item: DueItem, options: HandlerOptions) -> Outcome:
    """Return the outcome of a handler's error: failed, or parked for an InvalidHeader."""
    try:
        if isinstance(error, InvalidHeader):
            return parked(f"malformed record: {error}")
        detail = {"error": _class_name(error), "message": str(error)}
        return _failed(detail, own_backoff_seconds(_attempt(item), options))
    except BaseException:  # noqa: BLE001  # the handler boundary: the error's own code may raise
        return _failed_unread(error, options)


def _failed_unread(error: BaseException, options: HandlerOptions) -> Outcome:
    """Return the outcome of an error whose attributes cannot be read, except its class."""
    detail = {"error": _class_name(error), "message": "the error cannot be read"}
    return _failed(detail, own_backoff_seconds(1, options))


def _class_name(error: BaseException) -> str:
    return str(type.__getattribute__(type(error), "__name__"))  # not the metaclass's attribute


def _outcome_by_type(verdict: object, item: DueItem, options: HandlerOptions) -> ItemOutcome:
    if not isinstance(verdict, Verdict):
        return parked(f"bad verdict: the handler returned {_named(verdict)}")
    match verdict:
        case Completed(evidence=evidence):
            return _completed(evidence)
        case Retry():
            return _retried(verdict, item, options)
        case Snooze():
            return _snoozed(verdict)
        case Park():
            return Outcome(TransitionEvent.PARKED, _detail(verdict), None)
        case NotDue(reason=reason):
            return Outcome(TransitionEvent.CANCELLED, _reason({"reason": f"not due: {reason}"}))
        case _:
            assert_never(verdict)


def parked(reason: str) -> Outcome:
    """Return the outcome that parks an item."""
    return Outcome(TransitionEvent.PARKED, _reason({"reason": reason}), None)


def released(reason: str, *, after_seconds: float = 0.0) -> Outcome:
    """Return the outcome that releases an item. Neither an attempt nor a start is counted."""
    return Outcome(TransitionEvent.RELEASED, _reason({"reason": reason}), after_seconds)


def _completed(evidence: Evidence) -> Outcome:
    if evidence is None:
        return _COMPLETED_BARE
    return _AS_OUTCOME((_COMPLETED, _evidence_text(evidence), None))


def _is_storable(evidence: Evidence) -> bool:
    """Return whether evidence is a text that can be stored, if few steps show that."""
    if type(evidence) is not str or len(evidence) > EVIDENCE_BYTES_MAX or "\\u0000" in evidence:
        return False
    try:
        value = orjson.loads(evidence)
    except ValueError:
        return False
    if type(value) is not dict:
        return False
    for each in cast("dict[str, object]", value).values():  # noqa: SIM110 - `all` takes as long again
        if type(each) is not str:  # there may be a number
            return False
    return True


def _evidence_text(evidence: Mapping[str, object] | str) -> str:
    """Return the JSON text of evidence, or of the reason why it cannot be stored.

    The verdict counts in both cases: bad evidence must not cause a second execution.
    """
    try:
        if isinstance(evidence, str):
            # Checked, not encoded again: one bad text would fail the statement of thousands.
            text, value = evidence, orjson.loads(evidence)
        else:
            text = orjson.dumps(evidence).decode()
            value = evidence
        problem = evidence_problem(text, value)
    except (TypeError, ValueError) as error:
        return _reason({EVIDENCE_REFUSED: f"is not JSON: {error}"})
    except BaseException as error:  # noqa: BLE001  # the handler boundary: a mapping of its own
        return _reason({EVIDENCE_REFUSED: f"cannot be read: {_class_name(error)}"})
    return text if problem is None else _reason({EVIDENCE_REFUSED: problem})


def evidence_problem(text: str, value: object) -> str | None:
    """Return why the JSON text of this value cannot be stored as evidence, or None if it can."""
    if len(text) > EVIDENCE_BYTES_MAX:
        return f"has {len(text)} characters, more than {EVIDENCE_BYTES_MAX}"
    if not isinstance(value, dict):
        return f"is {_named(value)}, not a JSON object"
    if "\\u0000" in text and b"\x00" in _characters(orjson.loads(text)):
        return "contains a NUL, which Postgres cannot store"
    for each in cast("dict[str, object]", value).values():
        if type(each) is not str:  # there may be a number: searching the text for one costs more
            number = _excessive_number(text) if _SUSPECT.search(text) else None
            if number is not None:
                return f"contains the number {number}, which Postgres cannot store"
            break
    return None


def _excessive_number(text: str) -> str | None:
    """Return the beginning of the first number of a JSON text that jsonb may refuse."""
    for token in _TOKEN.finditer(text):
        digits, exponent = token.group(1), (token.group(2) or "0").lstrip("+-0")
        if digits and (
            len(digits) > _DIGITS_MAX
            or len(exponent) > len(str(_EXPONENT_MAX))
            or int(exponent or 0) > _EXPONENT_MAX
        ):
            return token.group()[:40]
    return None


def _retried(verdict: Retry, item: DueItem, options: HandlerOptions) -> Outcome:
    try:
        after_seconds = retry_delay_seconds(verdict, _attempt(item), options)
    except ValueError:
        return parked(f"bad verdict: Retry(after_seconds={_named(verdict.after_seconds)})")
    return Outcome(TransitionEvent.FAILED, _detail(verdict), after_seconds)


def _detail(verdict: Retry | Park) -> str:
    """Return the JSON text of a reason and its evidence."""
    evidence = None if verdict.evidence is None else _evidence_text(verdict.evidence)
    return _reason({"reason": verdict.reason}, evidence=evidence)


def _attempt(item: DueItem) -> int:
    try:
        return item.attempt
    except InvalidHeader:
        return 1


def _failed(detail: dict[str, str], after_seconds: float | None) -> Outcome:
    return Outcome(TransitionEvent.FAILED, _reason(detail), after_seconds)


def _snoozed(verdict: Snooze) -> ItemOutcome:
    detail = _reason({"reason": verdict.reason}) if verdict.reason else None
    match verdict:
        case Snooze(until=None, seconds=seconds) if is_delay(seconds):
            return Outcome(TransitionEvent.SNOOZED, detail, float(seconds))
        case Snooze(until=datetime() as until, seconds=None) if until.tzinfo is not None:
            # Of no class of the handler's: it is compared later, and may go to another process.
            since = until - _EPOCH
            plain = timedelta(since.days, since.seconds, since.microseconds)
            return SnoozedUntil(_EPOCH + plain, detail)
        case _:
            return parked(
                "bad verdict: Snooze needs either `until`, an aware time, or `seconds`, not "
                f"{_named(verdict.until)} and {_named(verdict.seconds)}"
            )


def _reason(detail: dict[str, str], *, evidence: str | None = None) -> str:
    document: dict[str, object] = {name: make_storable(text) for name, text in detail.items()}
    if evidence is not None:
        document["evidence"] = orjson.Fragment(evidence)
    return orjson.dumps(document).decode()


def make_storable(text: object) -> str:
    """Return a text that can be stored: short, without NUL and without lone surrogates."""
    plain = str(text)[:_TEXT_LENGTH_MAX].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return plain.encode("utf-8", "replace").decode()


def _named(value: object) -> str:
    if value is None:
        return "None"
    return f"{type(value).__name__} {make_storable(repr(value))[:200]}"


def _characters(value: object) -> bytes:
    match value:
        case str():
            return value.encode("utf-8", "replace")
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return b"".join(_characters(part) for pair in pairs for part in pair)
        case list():
            return b"".join(map(_characters, cast("list[object]", value)))
        case _:
            return b""
