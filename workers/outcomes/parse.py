"""Read a reported outcome from a Kafka record: a CloudEvent `dueledger.outcome`, in either mode.

A record that breaks the contract is rejected with the name of the field. Pure.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, NoReturn, cast, final
from uuid import UUID

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from dueledger.ledger.claim_id import ClaimId, parse_claim_id
from dueledger.ledger.errors import InvalidHeader, InvalidOutcome, Problem, shown_value
from dueledger.ledger.intake.parse import BATCHED, STRUCTURED
from dueledger.ledger.kafka import envelope
from dueledger.ledger.schedule.expressions import DUE_YEAR_MAX, DUE_YEAR_MIN, value_error
from dueledger.workers.verdict_outcomes import evidence_problem, make_storable

OUTCOME_TYPE: Final = "dueledger.outcome"
VALUE_BYTES_MAX: Final = 1_048_576
WAIT_MAX: Final = timedelta(days=3_660)

_FENCE_MAX: Final = 2**63 - 1
_POSITION_MAX: Final = 2**31 - 1
_UNREADABLE: Final = "The outcome cannot be read."
_REQUIRED: Final = ("specversion", "id", "source", "type")
_WAIT: Final = re.compile(
    r"P(?:(?P<weeks>\d{1,3})W)?(?:(?P<days>\d{1,4})D)?"
    r"(?:T(?:(?P<hours>\d{1,5})H)?(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,9}(\.\d{1,9})?)S)?)?"
)
_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})"
)
_AFTER_ACCEPTED: Final = "a duration as PT10M, or an instant as 2027-03-01T09:00:00Z"
_ACCEPTED: Final = {
    "item": "the header `ce_dueitem`",
    "fence": "the number in the header `ce_duefence`, not as text",
    "token": "the header `ce_duetoken`",
    "position": "the number in the header `ce_dueposition`, not as text",
    "verdict": "heartbeat, completed, retry, snooze, park, not_due or release",
    "after": _AFTER_ACCEPTED,
    "evidence": "a JSON object",
    "reason": "a text",
}


@final
class ReportedVerdict(StrEnum):
    """The verdicts that a consumer may report about an item."""

    HEARTBEAT = "heartbeat"
    COMPLETED = "completed"
    RETRY = "retry"
    SNOOZE = "snooze"
    PARK = "park"
    NOT_DUE = "not_due"
    RELEASE = "release"


ALIASES: Final = {
    "RUNNING": ReportedVerdict.HEARTBEAT,
    "SUCCESS": ReportedVerdict.COMPLETED,
    "FAILED": ReportedVerdict.RETRY,
}
"""What consumers of other schedulers report."""
_WITHOUT_EVIDENCE: Final = (ReportedVerdict.HEARTBEAT, ReportedVerdict.RELEASE)


@final
@dataclass(frozen=True, slots=True)
class ReportedOutcome:
    """One reported outcome. `detail` is the JSON text that the journal shows of it.

    `claim_id` is None if the outcome has no token, or one that no claim has.
    """

    item: UUID
    fence: int
    position: int
    verdict: ReportedVerdict
    after: timedelta | datetime | None = None
    detail: str | None = None
    claim_id: ClaimId | None = None


def _after(text: object) -> timedelta | datetime:
    """Read a duration or an instant. Digits finer than a microsecond are cut off."""
    if not isinstance(text, str) or not text.isascii():
        raise value_error("must be a text", _AFTER_ACCEPTED)
    if _INSTANT.fullmatch(text):
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            raise value_error("is not an existing date and time", _AFTER_ACCEPTED) from None
        if not DUE_YEAR_MIN <= instant.year <= DUE_YEAR_MAX:
            raise value_error(f"is outside {DUE_YEAR_MIN} to {DUE_YEAR_MAX}", _AFTER_ACCEPTED)
        return instant
    match = _WAIT.fullmatch(text)
    parts = {} if match is None else {k: float(v) for k, v in match.groupdict().items() if v}
    if not parts:
        raise value_error("is neither a duration nor an instant", _AFTER_ACCEPTED)
    wait = timedelta(**parts)
    if wait > WAIT_MAX:
        raise value_error("is longer than ten years", _AFTER_ACCEPTED)
    return wait


def _verdict(text: object) -> object:
    return ALIASES.get(text, text) if isinstance(text, str) else text


class _OutcomeDocument(BaseModel):
    """The members of an outcome. A null counts as missing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    item: Annotated[UUID, Field(strict=False)]
    fence: Annotated[int, Field(ge=1, le=_FENCE_MAX)]
    token: str | None = None
    position: Annotated[int, Field(ge=1, le=_POSITION_MAX)]
    verdict: Annotated[ReportedVerdict, Field(strict=False), BeforeValidator(_verdict)]
    after: Annotated[timedelta | datetime, BeforeValidator(_after)] | None = None
    evidence: dict[str, Any] | None = None
    reason: str | None = None


def parse_outcome(headers: envelope.Headers, value: bytes | None) -> ReportedOutcome:
    """Read one record.

    Raises InvalidHeader if it is not a CloudEvent of this type, InvalidOutcome if its content is
    not an outcome; both name the field.
    """
    if value is None or len(value) > VALUE_BYTES_MAX:
        _refuse("value", "is missing" if value is None else "is larger than 1 MiB")
    attributes = _headers(headers)
    content_type = attributes.get(envelope.CONTENT_TYPE, "")
    if content_type.startswith(BATCHED):
        reason = "batched mode is not defined for Kafka"
        raise InvalidHeader(_UNREADABLE, [Problem(envelope.CONTENT_TYPE, content_type, reason)])
    if content_type.startswith(STRUCTURED):
        document = _object("value", _json(value))
        _check_attributes(document, "")
        members = _object("data", document.get("data"))
        return read_outcome(members, lambda: read_exact(value)["data"]["evidence"])
    _check_attributes(attributes, "ce_")
    members = _object("value", _json(value))
    return read_outcome(members, lambda: read_exact(value)["evidence"])


def _headers(headers: envelope.Headers) -> dict[str, str]:
    """Decode the headers that are needed; others are ignored."""
    asked = {envelope.CONTENT_TYPE, *(f"ce_{name}" for name in _REQUIRED)}
    found: dict[str, str] = {}
    for header, raw in headers:
        name = header if header.startswith("ce_") else header.lower()
        if raw is None or name not in asked:
            continue
        try:
            found[name] = raw.decode()
        except UnicodeDecodeError:
            problem = Problem(header, shown_value(raw), "is not UTF-8")
            raise InvalidHeader(_UNREADABLE, [problem]) from None
    return found


def _check_attributes(attributes: Mapping[str, object], prefix: str) -> None:
    for name in _REQUIRED:
        text = attributes.get(prefix + name)
        expected = {"specversion": envelope.SPECVERSION, "type": OUTCOME_TYPE}.get(name)
        if not isinstance(text, str) or not text:
            reason = "is missing" if not text else "is not a text"
        elif expected is not None and text != expected:
            reason = f"must be {expected}"
        else:
            continue
        shown = shown_value(text) if text else ""
        raise InvalidHeader(_UNREADABLE, [Problem(prefix + name, shown, reason, expected)])


def _json(value: bytes) -> object:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        _refuse("value", f"is not JSON: {error}")


def _object(field: str, document: object) -> dict[str, object]:
    if not isinstance(document, dict):
        _refuse(field, "is not a JSON object")
    return cast("dict[str, object]", document)


def read_outcome(members: Mapping[str, object], evidence: Callable[[], object]) -> ReportedOutcome:
    """Read the members of an outcome. Raises InvalidOutcome.

    `evidence` returns its evidence with every number as it is written.
    """
    try:
        document = _OutcomeDocument.model_validate(members)
    except ValidationError as error:
        problems = [_problem(details) for details in error.errors(include_url=False)]
        raise InvalidOutcome(_UNREADABLE, problems) from None
    _check_unused_fields(document)
    return ReportedOutcome(
        document.item,
        document.fence,
        document.position,
        document.verdict,
        document.after,
        _detail(document, evidence),
        _claim_id(document),
    )


def _claim_id(document: _OutcomeDocument) -> ClaimId | None:
    try:
        return parse_claim_id(document.fence, document.token or "")
    except ValueError:
        return None


def _problem(details: ErrorDetails) -> Problem:
    field = str(details["loc"][0]) if details["loc"] else "value"
    missing = details["type"] == "missing"
    match details["type"]:
        case "missing":
            reason = "is missing"
        case "extra_forbidden":
            return Problem(field, "", "is not a member of an outcome", ", ".join(_ACCEPTED))
        case _:
            reason = details["msg"]
    shown = "" if missing else shown_value(details["input"])
    return Problem(field, shown, reason, _ACCEPTED.get(field))


def _check_unused_fields(document: _OutcomeDocument) -> None:
    """Reject fields that the verdict does not use: they would be lost silently."""
    verdict = document.verdict
    waits = verdict in (ReportedVerdict.RETRY, ReportedVerdict.SNOOZE)
    if document.after is not None and not waits:
        _refuse("after", f"belongs to retry and snooze, not to {verdict}")
    if document.after is None and verdict is ReportedVerdict.SNOOZE:
        _refuse("after", "is missing: until when is it snoozed?", _AFTER_ACCEPTED)
    if document.evidence is not None and verdict in _WITHOUT_EVIDENCE:
        _refuse("evidence", f"a {verdict} has no evidence", "evidence with what ends the item")
    if document.reason and verdict in (ReportedVerdict.HEARTBEAT, ReportedVerdict.COMPLETED):
        _refuse("reason", f"is for the other verdicts, not for {verdict}", "`evidence`")
    if not document.reason and verdict in (ReportedVerdict.PARK, ReportedVerdict.NOT_DUE):
        _refuse("reason", f"is missing: a person is shown it for {verdict}", _ACCEPTED["reason"])


def _detail(document: _OutcomeDocument, exact: Callable[[], object]) -> str | None:
    """Return the journal's text: the evidence of a completion, or the reason otherwise."""
    evidence = None if document.evidence is None else _evidence_text(document.evidence, exact)
    if document.verdict is ReportedVerdict.COMPLETED:
        return evidence
    detail: dict[str, object] = {}
    if document.reason:
        prefix = "not due: " if document.verdict is ReportedVerdict.NOT_DUE else ""
        detail["reason"] = make_storable(prefix + document.reason)
    if evidence is not None:
        detail["evidence"] = orjson.Fragment(evidence)
    return orjson.dumps(detail).decode() if detail else None


def _evidence_text(evidence: dict[str, Any], exact: Callable[[], object]) -> str:
    try:
        text = orjson.dumps(exact()).decode()
    except (ValueError, TypeError, RecursionError) as error:  # it writes at most 254 levels
        _refuse("evidence", f"cannot be stored: {error}")
    fault = evidence_problem(text, evidence)
    if fault is not None:
        _refuse("evidence", fault)
    return text


def read_exact(value: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Read JSON with every number as it is written.

    A booking number of 20 digits would change if it were read as a float.
    """
    return json.loads(value, parse_int=orjson.Fragment, parse_float=orjson.Fragment)


def _refuse(field: str, reason: str, accepted: str | None = None) -> NoReturn:
    raise InvalidOutcome(_UNREADABLE, [Problem(field, "", reason, accepted)])
