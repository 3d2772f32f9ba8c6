"""Reading CloudEvents: both modes alike, and each fault by the attribute's name."""

from datetime import UTC, datetime

import orjson
import pytest

from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.intake.parse import parse_event
from dueledger.ledger.rules.event_rules import DomainEvent

DATA = {"policy": "P-1", "premium": 12}
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/insurer/policies",
    "type": "PolicyActivated",
    "time": "2027-03-01T09:00:00.5+01:00",
    "subject": "P-1",
    "duetenant": "acme",
}
EXPECTED = DomainEvent(
    "acme",
    "/insurer/policies",
    "e-1",
    "PolicyActivated",
    datetime(2027, 3, 1, 8, 0, 0, 500_000, tzinfo=UTC),
    "P-1",
    DATA,
)
VALUE = orjson.dumps(DATA)
TYPE = ("content-type", b"application/json")
STRUCTURED = ("content-type", b"application/cloudevents+json; charset=UTF-8")


def binary(**changed: str | None) -> list[tuple[str, bytes | None]]:
    attributes = ATTRIBUTES | changed
    return [
        *((f"ce_{name}", text.encode()) for name, text in attributes.items() if text is not None),
        TYPE,
    ]


def structured(**changed: object) -> bytes:
    return orjson.dumps(ATTRIBUTES | {"data": DATA} | changed)


def test_binary_and_structured_mode_give_the_same_event() -> None:
    assert parse_event(binary(), VALUE) == EXPECTED
    assert parse_event([STRUCTURED], structured()) == EXPECTED


def test_traceparent_is_carried_in_either_mode() -> None:
    trace = ("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")
    for event in (
        parse_event([*binary(), trace], VALUE),
        parse_event([STRUCTURED, trace], structured()),
    ):
        assert event.traceparent == trace[1].decode()


@pytest.mark.parametrize(
    ("source", "tenant"),
    [
        ("/insurer/policies", "insurer"),
        ("/insurer", "insurer"),
        ("/dueledger/acme", "acme"),
    ],
)
def test_without_the_extension_a_path_like_source_names_the_tenant(
    source: str, tenant: str
) -> None:
    assert parse_event(binary(duetenant=None, source=source), VALUE).tenant == tenant


def test_an_event_may_come_without_data() -> None:
    assert parse_event(binary(), None).data is None
    assert parse_event([STRUCTURED], structured(data=None)).data is None


def test_unknown_headers_and_attributes_are_ignored() -> None:
    headers = [*binary(), ("ce_partitionkey", b"\xff"), ("x-own", None)]
    assert parse_event(headers, VALUE) == EXPECTED
    assert parse_event([STRUCTURED], structured(partitionkey="x")) == EXPECTED


@pytest.mark.parametrize(
    ("changed", "field", "reason"),
    [
        ({"specversion": None}, "ce_specversion", "is missing"),
        ({"specversion": "0.3"}, "ce_specversion", "must be 1.0"),
        ({"id": None}, "ce_id", "is missing"),
        ({"id": ""}, "ce_id", "is missing"),
        ({"id": "a\x00b"}, "ce_id", "NUL"),
        ({"id": "x" * 1025}, "ce_id", "over 1024 bytes"),
        ({"source": None}, "ce_source", "is missing"),
        ({"source": "ü" * 513}, "ce_source", "over 1024 bytes"),
        ({"type": None}, "ce_type", "is missing"),
        ({"time": None}, "ce_time", "is missing"),
        ({"time": "yesterday"}, "ce_time", "Invalid isoformat"),
        ({"time": "2027-03-01T09:00:00"}, "ce_time", "without an offset"),
        ({"time": "1969-12-31T23:59:59Z"}, "ce_time", "outside 1970-2199"),
        ({"time": "2200-01-01T00:00:00Z"}, "ce_time", "outside 1970-2199"),
        ({"duetenant": "two words"}, "ce_duetenant", "must be 1 to 100"),
        ({"duetenant": None, "source": "urn:x"}, "ce_duetenant", "names no tenant"),
    ],
)
def test_a_faulty_attribute_is_refused_by_name(
    changed: dict[str, str | None], field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        parse_event(binary(**changed), VALUE)
    assert refusal.value.problems[0].field == field


@pytest.mark.parametrize(
    ("headers", "value", "field", "reason"),
    [
        (binary(), b"{", "data", "is not JSON"),
        (binary(), b'{"policy":"\\u0000"}', "data", "NUL"),
        (binary(), b'{"\\u0000":1}', "data", "NUL"),
        (binary(), b"\xff", "data", "is not JSON"),
        (binary(), b'"' + b"x" * 262_144 + b'"', "data", "larger than 256 KiB"),
        ([*binary()[:-1], ("ce_id", b"\xff")], VALUE, "ce_id", "not UTF-8"),
        ([STRUCTURED], b"[]", "value", "not a JSON object"),
        ([STRUCTURED], None, "value", "is not JSON"),
        ([STRUCTURED], structured(data_base64="AAAA"), "data_base64", "send `data`"),
        ([STRUCTURED], structured(source={}), "source", "must be a scalar"),
        ([("content-type", b"application/cloudevents-batch+json")], b"[]", "content-type", "batch"),
        ([], VALUE, "ce_specversion", "is missing"),
    ],
)
def test_a_faulty_record_is_refused_by_name(
    headers: list[tuple[str, bytes | None]], value: bytes | None, field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        parse_event(headers, value)
    assert refusal.value.problems[0].field == field


def test_text_that_only_looks_like_an_escaped_nul_is_taken() -> None:
    event = parse_event(binary(), b'{"note":"write \\\\u0000"}')
    assert event.data == {"note": "write \\u0000"}
