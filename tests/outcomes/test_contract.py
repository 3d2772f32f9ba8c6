"""The outcome's contract: read alike in both modes, refused by name, as docs/asyncapi.yaml says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.kafka.rejects import ConsumedRecord
from dueledger.workers.outcomes.parse import ReportedOutcome, ReportedVerdict, parse_outcome

from .conftest import HEADERS, record
from .contract import faults

ITEM = "0b8f7f1e-2f53-8c1d-9a64-5b3a0c9d7e21"
CLAIM_ID = ClaimId(42, datetime(2027, 3, 1, 9, 0, 0, 7, UTC), "00c0ffee00c0ffee")
COMPLETED = {
    "item": ITEM,
    "fence": 42,
    "token": CLAIM_ID.token_text,
    "position": 7,
    "verdict": "completed",
}
STRUCTURED = b"application/cloudevents+json; charset=utf-8"


def binary(**members: object) -> ConsumedRecord:
    return record(orjson.dumps({**COMPLETED, **members}))


def structured(**attributes: object) -> ConsumedRecord:
    event = {name[3:]: text.decode() for name, text in HEADERS.items() if name.startswith("ce_")}
    value = orjson.dumps({**event, "data": COMPLETED, **attributes})
    return replace(record(value), headers=[("content-type", STRUCTURED)])


def parse(record: ConsumedRecord) -> ReportedOutcome:
    return parse_outcome(record.headers, record.value)


def reported(verdict: ReportedVerdict, **members: object) -> ReportedOutcome:
    return ReportedOutcome(UUID(ITEM), 42, 7, verdict, claim_id=CLAIM_ID, **members)  # pyright: ignore[reportArgumentType]


ACCEPTED: list[tuple[dict[str, object], ReportedOutcome]] = [
    ({}, reported(ReportedVerdict.COMPLETED)),
    ({"evidence": {"a": [1, None]}}, reported(ReportedVerdict.COMPLETED, detail='{"a":[1,null]}')),
    ({"evidence": None, "reason": None, "after": None}, reported(ReportedVerdict.COMPLETED)),
    ({"verdict": "heartbeat"}, reported(ReportedVerdict.HEARTBEAT)),
    ({"verdict": "retry"}, reported(ReportedVerdict.RETRY)),
    (
        {"verdict": "retry", "after": "PT1H0.5S", "reason": "down"},
        reported(
            ReportedVerdict.RETRY,
            after=timedelta(seconds=3600.5),
            detail='{"reason":"down"}',
        ),
    ),
    ({"verdict": "retry", "after": "PT0S"}, reported(ReportedVerdict.RETRY, after=timedelta())),
    (
        {"verdict": "snooze", "after": "2027-03-01T10:00:00.123456789+01:00"},
        reported(ReportedVerdict.SNOOZE, after=datetime(2027, 3, 1, 9, 0, 0, 123456, UTC)),
    ),
    (
        {"verdict": "park", "reason": "é" * 3000, "evidence": {"code": 7}},
        reported(
            ReportedVerdict.PARK, detail='{"reason":"' + "é" * 2000 + '","evidence":{"code":7}}'
        ),
    ),
    (
        {"verdict": "not_due", "reason": "NUL \x00 in it"},
        reported(ReportedVerdict.NOT_DUE, detail='{"reason":"not due: NUL � in it"}'),
    ),
]


@pytest.mark.parametrize(("members", "expected"), ACCEPTED)
def test_an_outcome_reads_alike_in_both_modes_and_as_the_contract_says(
    members: dict[str, object], expected: ReportedOutcome
) -> None:
    consumed = binary(**members)
    assert parse(consumed) == expected
    assert parse(structured(data={**COMPLETED, **members})) == expected
    assert faults("outcome", consumed) == []


LARGE = {"text": "x" * 262_144}
REFUSED: list[tuple[ConsumedRecord, str, str, str]] = [
    (record(None), "INVALID_OUTCOME", "value", "missing"),
    (record(b""), "INVALID_OUTCOME", "value", "not JSON"),
    (record(b'{"item":'), "INVALID_OUTCOME", "value", "not JSON"),
    (record(b"\xff\xfe"), "INVALID_OUTCOME", "value", "not JSON"),
    (record(b"[" * 5000 + b"]" * 5000), "INVALID_OUTCOME", "value", "not JSON"),
    (record(b"[]"), "INVALID_OUTCOME", "value", "not a JSON object"),
    (record(b" " * 1_048_577), "INVALID_OUTCOME", "value", "1 MiB"),
    (record(b"{}"), "INVALID_OUTCOME", "item", "missing"),
    (binary(item=None), "INVALID_OUTCOME", "item", "UUID"),
    (binary(item="POL-1"), "INVALID_OUTCOME", "item", "UUID"),
    (binary(fence="42"), "INVALID_OUTCOME", "fence", "integer"),
    (binary(fence=42.0), "INVALID_OUTCOME", "fence", "integer"),
    (binary(fence=True), "INVALID_OUTCOME", "fence", "integer"),
    (binary(fence=0), "INVALID_OUTCOME", "fence", "greater"),
    (binary(fence=2**63), "INVALID_OUTCOME", "fence", "less"),
    (binary(token=7), "INVALID_OUTCOME", "token", "string"),
    (binary(position=-1), "INVALID_OUTCOME", "position", "greater"),
    (binary(position=2**31), "INVALID_OUTCOME", "position", "less"),
    (binary(verdict="done"), "INVALID_OUTCOME", "verdict", "heartbeat"),
    (binary(verdict=["completed"]), "INVALID_OUTCOME", "verdict", "heartbeat"),
    (binary(evidnce={"a": 1}), "INVALID_OUTCOME", "evidnce", "not a member"),
    (binary(evidence="B-1"), "INVALID_OUTCOME", "evidence", "dictionary"),
    (binary(evidence=LARGE), "INVALID_OUTCOME", "evidence", "262144"),
    (binary(evidence={"a": "\x00"}), "INVALID_OUTCOME", "evidence", "NUL"),
    (binary(reason="why"), "INVALID_OUTCOME", "reason", "not for completed"),
    (binary(after="PT1S"), "INVALID_OUTCOME", "after", "not to completed"),
    (binary(verdict="heartbeat", evidence={}), "INVALID_OUTCOME", "evidence", "has no evidence"),
    (binary(verdict="park"), "INVALID_OUTCOME", "reason", "missing"),
    (binary(verdict="not_due", reason=""), "INVALID_OUTCOME", "reason", "missing"),
    (binary(verdict="retry", reason=5), "INVALID_OUTCOME", "reason", "string"),
    (binary(verdict="snooze"), "INVALID_OUTCOME", "after", "missing"),
    (binary(verdict="snooze", after=60), "INVALID_OUTCOME", "after", "text"),
    (binary(verdict="snooze", after="P1M"), "INVALID_OUTCOME", "after", "neither"),
    (binary(verdict="snooze", after="P"), "INVALID_OUTCOME", "after", "neither"),
    (binary(verdict="snooze", after="PT-5S"), "INVALID_OUTCOME", "after", "neither"),
    (binary(verdict="snooze", after="P9999D"), "INVALID_OUTCOME", "after", "ten years"),
    (binary(verdict="snooze", after="2027-03-01T09:00:00"), "INVALID_OUTCOME", "after", "neither"),
    (binary(verdict="snooze", after="2027-02-30T09:00Z"), "INVALID_OUTCOME", "after", "existing"),
    (binary(verdict="snooze", after="1066-10-14T09:00Z"), "INVALID_OUTCOME", "after", "1970"),
    (record(b"{}", ce_specversion=None), "INVALID_HEADER", "ce_specversion", "missing"),
    (record(b"{}", ce_specversion=b"0.3"), "INVALID_HEADER", "ce_specversion", "1.0"),
    (record(b"{}", ce_type=b"PolicyActivated"), "INVALID_HEADER", "ce_type", "dueledger.outcome"),
    (record(b"{}", ce_id=b""), "INVALID_HEADER", "ce_id", "missing"),
    (record(b"{}", ce_source=b"\xff"), "INVALID_HEADER", "ce_source", "UTF-8"),
    (
        record(b"[]", content__type=b"application/cloudevents-batch+json"),
        "INVALID_HEADER",
        "content-type",
        "batched",
    ),
    (structured(specversion=1.0), "INVALID_HEADER", "specversion", "text"),
    (structured(type="other"), "INVALID_HEADER", "type", "dueledger.outcome"),
    (structured(data=None), "INVALID_OUTCOME", "data", "not a JSON object"),
    (structured(data={**COMPLETED, "fence": None}), "INVALID_OUTCOME", "fence", "integer"),
]


@pytest.mark.parametrize(("consumed", "code", "field", "reason"), REFUSED)
def test_what_is_no_outcome_is_refused_by_the_name_of_its_field(
    consumed: ConsumedRecord, code: str, field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse(consumed)
    assert refusal.value.code == code
    assert refusal.value.problems[0].field == field
    assert reason in refusal.value.problems[0].reason


def test_evidence_that_jsonb_cannot_hold_is_refused_though_it_is_json() -> None:
    """A double of that size is infinite here, so orjson refuses it; of many digits it is not."""
    for number, why in (("1e400", "not JSON"), ("0." + "1" * 1100, "number"), ("1e-400", "number")):
        consumed = binary(evidence={"rate": 0})
        assert consumed.value is not None
        value = consumed.value.replace(b'"rate":0', b'"rate":' + number.encode())
        with pytest.raises(InvalidInput, match=why):
            parse(record(value))


def test_the_contract_refuses_what_it_does_not_say() -> None:
    """The validator of these tests can fail."""
    assert faults("outcome", binary(fence="42"))
    assert faults("outcome", binary(extra=1))
    assert faults("outcome", binary(verdict="done"))
    assert faults("outcome", binary(verdict="park"))
    assert faults("outcome", record(orjson.dumps(COMPLETED), ce_type=b"other"))
