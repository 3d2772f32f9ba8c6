"""The Kafka contract: what is published is what docs/asyncapi.yaml says, and is read back so."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
import yaml
from aiokafka import AIOKafkaProducer, ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st

from dueledger.allocator import Allocator
from dueledger.ledger.claim_id import parse_claim_id
from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.partitioner import murmur2, partition_of, partitions_of
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.store import Connection

CONTRACT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "asyncapi.yaml").read_text()
)
ITEM = "0b8f7f1e-2f53-8c1d-9a64-5b3a0c9d7e21"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WORK: dict[str, bytes] = {
    envelope.FENCE: b"42",
    envelope.TOKEN: b"0006415aa4c7a80700c0ffee00c0ffee",
    envelope.POSITION: b"7",
    envelope.SPECVERSION_HEADER: b"1.0",
    envelope.ID: f"{ITEM}:42".encode(),
    envelope.SOURCE: b"/dueledger/acme",
    envelope.TYPE: b"PolicyRenewalDue",
    envelope.SUBJECT: "P-1 Zürich".encode(),
    envelope.TIME: b"2027-03-01T09:00:00Z",
    envelope.CONTENT_TYPE: b"application/json",
    envelope.TENANT: b"acme",
    envelope.CYCLE: b"2027",
    envelope.EFFECTIVE: b"2027-03-31",
    envelope.DUE_AT: b"2027-03-01T09:00:00Z",
    envelope.ITEM: ITEM.encode(),
    envelope.ATTEMPT: b"2",
}
FORMATS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "uuid": UUID,
}


def faults(schema: dict[str, Any], headers: dict[str, str]) -> list[str]:
    """Hold headers against the part of JSON Schema that the contract uses."""
    found = [f"{name} is missing" for name in schema["required"] if name not in headers]
    for name, value in headers.items():
        rule = schema["properties"].get(name)
        if rule is None:
            found.append(f"{name} is not in the contract")
            continue
        assert rule.keys() <= {
            "const", "description", "format", "maxLength", "minLength", "pattern", "type",
        }  # fmt: skip
        if "const" in rule and value != rule["const"]:
            found.append(f"{name} is not {rule['const']}")
        if "pattern" in rule and not re.search(rule["pattern"], value):
            found.append(f"{name} breaks its pattern")
        if not rule.get("minLength", 0) <= len(value) <= rule.get("maxLength", len(value)):
            found.append(f"{name} has the wrong length")
        try:
            FORMATS.get(rule.get("format", ""), str)(value)
        except ValueError:
            found.append(f"{name} is no {rule['format']}")
    return found


async def test_a_published_record_is_what_the_contract_says(
    start_allocator: Callable[..., Awaitable[Allocator]],
    emit: Callable[[list[ItemDraft]], Awaitable[None]],
    make_drafts: Callable[..., list[ItemDraft]],
    read_topic: Callable[[str], Awaitable[list[ConsumerRecord]]],
    kind: str,
) -> None:
    due = datetime(2026, 3, 29, 1, 30, 0, 123, tzinfo=timezone(timedelta(hours=2)))
    payload = '{ "b":1.10, "a":"ü"}'
    [draft] = make_drafts(1, due_at=due, payload=payload)
    draft = replace(draft, business_key="P-1 Zürich", traceparent=TRACEPARENT)
    await emit([draft])

    await (await start_allocator()).tick()

    [record] = await read_topic(f"due.{kind}")
    headers = {name: value.decode() for name, value in record.headers}
    message = CONTRACT["components"]["messages"]["dueItem"]
    assert len(headers) == len(record.headers)
    assert faults(message["headers"], headers) == []
    assert record.value == payload.encode()
    assert envelope.parse_work_headers(record.headers) == envelope.WorkHeaders(
        claim_id=parse_claim_id(int(headers["ce_duefence"]), headers["ce_duetoken"]),
        position=1,
        kind=kind,
        tenant="acme",
        business_key="P-1 Zürich",
        cycle="2027",
        effective_date=date(2027, 3, 1),
        due_at=due.astimezone(UTC),
        item=draft.id,
        attempt=1,
        content_type="application/json",
        traceparent=TRACEPARENT,
    )


def test_the_contract_check_itself_finds_faults() -> None:
    schema = CONTRACT["components"]["messages"]["dueItem"]["headers"]
    good = {name: value.decode() for name, value in WORK.items()}
    assert faults(schema, good) == []
    assert faults(schema, {**good, "ce_duefence": "0"}) == ["ce_duefence breaks its pattern"]
    assert faults(schema, {**good, "extra": ""}) == ["extra is not in the contract"]
    assert faults(schema, {**good, "ce_dueeffective": "2027-02-30"}) == [
        "ce_dueeffective is no date"
    ]
    del good["ce_dueitem"]
    assert faults(schema, good) == ["ce_dueitem is missing"]


def test_the_contract_names_the_topics_the_code_names() -> None:
    addresses = {name: channel["address"] for name, channel in CONTRACT["channels"].items()}
    assert addresses == {
        "work": envelope.work_topic("{kind}"),
        "outcomes": envelope.OUTCOME_TOPIC,
        "events": envelope.EVENT_TOPIC,
        "repairs": envelope.REPAIR_TOPIC,
        "rejected": envelope.REJECTED_TOPIC,
    }


def test_the_order_of_headers_means_nothing_and_unknown_ones_are_ignored() -> None:
    headers = list(WORK.items())
    expected = envelope.parse_work_headers(headers)
    assert envelope.parse_work_headers(headers[::-1]) == expected
    assert envelope.parse_work_headers([("x", None), *headers]) == expected
    assert (expected.fence, expected.position) == (42, 7)
    traced = envelope.parse_work_headers([*headers, (envelope.TRACEPARENT, TRACEPARENT.encode())])
    assert traced == expected._replace(traceparent=TRACEPARENT)


@pytest.mark.parametrize("header", envelope.WORK_HEADERS)
def test_a_missing_header_is_named(header: str) -> None:
    headers = [(name, value) for name, value in WORK.items() if name != header]

    with pytest.raises(InvalidHeader, match="is missing") as refusal:
        envelope.parse_work_headers(headers)

    assert [problem.field for problem in refusal.value.problems] == [header]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (envelope.FENCE, b"-1"),
        (envelope.FENCE, b""),
        (envelope.FENCE, b"1_0"),
        (envelope.FENCE, "٤٢".encode()),
        (envelope.TOKEN, b""),
        (envelope.TOKEN, b"0006415AA4C7A80700C0FFEE00C0FFEE"),
        (envelope.TOKEN, b"0006415aa4c7a80700c0ffee00c0ffee0"),
        (envelope.TOKEN, b"f" * 32),
        (envelope.POSITION, b" 7"),
        (envelope.ATTEMPT, b"two"),
        (envelope.SPECVERSION_HEADER, b"0.3"),
        (envelope.ID, f"{ITEM}:41".encode()),
        (envelope.ITEM, b"not-a-uuid"),
        (envelope.EFFECTIVE, b"31.03.2027"),
        (envelope.DUE_AT, b"2027-03-01T09:00:00"),
        (envelope.DUE_AT, b"tomorrow"),
        (envelope.SUBJECT, b"\xff"),
        (envelope.CYCLE, b"\xc3"),
        (envelope.TRACEPARENT, b"\xff"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_malformed_header_is_named(header: str, value: bytes, *, reverse: bool) -> None:
    headers = list({**WORK, header: value}.items())
    if reverse:
        headers.reverse()

    with pytest.raises(InvalidHeader) as refusal:
        envelope.parse_work_headers(headers)

    assert [problem.field for problem in refusal.value.problems] == [header]


def test_a_rejected_record_keeps_its_headers_and_says_why_and_from_where() -> None:
    headers = envelope.rejected_headers(
        [("ce_id", b"1")],
        code="INVALID_HEADER",
        field="ce_type",
        reason="is missing",
        origin=("domain-events", 3, 17),
    )

    assert headers[0] == ("ce_id", b"1")
    texts = {name: (value or b"").decode() for name, value in headers}
    schema = CONTRACT["components"]["messages"]["rejected"]["headers"]
    assert set(schema["required"]) <= texts.keys()
    assert texts[envelope.REJECTED_ORIGIN] == "domain-events/3/17"
    assert texts[envelope.REJECTED_FIELD] == "ce_type"


# The vectors of Apache Kafka's own UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_kafkas_vectors(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.lists(st.binary(max_size=12), max_size=200), st.integers(1, 50))
def test_keys_hashed_together_have_the_partitions_of_each_alone(
    keys: list[bytes], partitions: int
) -> None:
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]


async def test_another_producer_with_the_same_key_chooses_the_same_partition(
    bootstrap_servers: str, kind: str
) -> None:
    topic = f"copartitioned-{kind}"
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=6)
    refused = await make_missing_topics(settings, [topic], timeout_seconds=10)
    keys = [f"policy-{number}".encode() for number in range(50)]

    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        sent = [await producer.send_and_wait(topic, orjson.dumps({}), key=key) for key in keys]

    assert refused == {}
    assert [record.partition for record in sent] == partitions_of(keys, 6)


async def test_upkeep_keeps_keys_of_events_for_as_long_as_is_set(
    start_allocator: Callable[..., Awaitable[Allocator]], connection: Connection
) -> None:
    await connection.execute(
        "insert into ledger.event_key (tenant, source, id, occurred_at, received_at)"
        " values ('acme', '/policies', '1', now(), now() - interval '31 days')"
    )
    allocator = await start_allocator(event_key_days=30)
    assert (await allocator.run_upkeep())["event_keys"] == 1
