"""Records and batches that we write are those that Kafka's own format and client know."""

# pyright: reportPrivateUsage=false

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint, encode_varint
from hypothesis import given
from hypothesis import strategies as st

from dueledger.allocator.claim.claim_batches import ClaimBatchBuilder
from dueledger.allocator.publish import Compression, OutgoingBatch, Publisher, PublisherOptions
from dueledger.allocator.publish.record_writer import RecordWriter
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import BATCH_HEADER_BYTES, read_varint
from dueledger.ledger.kafka.record_format import encode_varint as varint
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store.claimed_rows import ClaimedRow, ClaimedRows, RowValues
from dueledger.ledger.store.claims import DueFlow

ITEM = UUID("0b8f7f1e-2f53-8c1d-9a64-5b3a0c9d7e21")
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
FLOWS = {
    number: DueFlow(
        number, f"tenant-{number}", "RenewalDue", "", "due.RenewalDue", 1, 120, 30, None, 60
    )
    for number in (1, 2)
}
FENCE = 41
CODECS = {Compression.NONE: 0, Compression.GZIP: 1, Compression.LZ4: 3}
DUE_AT = (854_614_800_000_000).to_bytes(8)  # 30 January 2027, 9:00, in microseconds since 2000
LATER = (854_614_801_000_000).to_bytes(8)
CLAIM_ID = ClaimId(FENCE, datetime(2027, 1, 30, 9, 0, 1, 2, tzinfo=UTC), "00c0ffee00c0ffee")


def row(
    business_key: str = "P-1",
    *,
    flow_no: int = 1,
    partition_key: str | None = None,
    payload: str = "{}",
    traceparent: str | None = None,
    attempt: int = 0,
    batch_max: int | None = None,
    due_at: bytes = DUE_AT,
) -> RowValues:
    """Make what claim_items gives, column by column."""
    item = ClaimedRow(
        item_no=7,
        id=ITEM,
        effective_date=date(2027, 3, 1),
        flow_no=flow_no,
        business_key=business_key.encode(),
        partition_key=None if partition_key is None else partition_key.encode(),
        cycle="2027",
        due_at=due_at,
        payload=payload.encode(),
        traceparent=traceparent,
        attempt=attempt,
        starts=attempt,
        batch_max=batch_max,
        fence=None,
    )
    return tuple(item)


def write(rows: Sequence[RowValues], *, bytes_max: int = 1_000_000) -> list[bytes]:
    writer = RecordWriter()
    keys = [each[4] if each[5] is None else each[5] for each in rows]
    return writer.write(rows, keys, CLAIM_ID, writer.flow_headers(FLOWS), bytes_max)


def sealed(records: Sequence[bytes], compression: Compression = Compression.NONE) -> bytes:
    batch = OutgoingBatch(1_000_000, compression)
    batch.add(records)
    batch._set_producer_state(77, 3, 5)
    return bytes(batch._build())


def read(batch: bytes) -> DefaultRecordBatch:
    records = MemoryRecords(batch)
    found = records.next_batch()
    assert isinstance(found, DefaultRecordBatch)
    assert not records.has_next()
    assert found.validate_crc()
    return found


@pytest.mark.parametrize("compression", Compression)
def test_kafkas_own_client_reads_every_record_of_a_batch_as_it_was_written(
    compression: Compression,
) -> None:
    rows = [
        row("P-1 Zürich", payload='{ "b":1.10, "a":"ü"}'),
        row("P-2", partition_key="household 9", flow_no=2, attempt=4),
        row("P-3", traceparent=TRACEPARENT, batch_max=8),
        row("P-4", traceparent=TRACEPARENT, batch_max=1),
        row("P-5", batch_max=1, due_at=LATER, payload=f'"{"x" * 100_000}"'),
    ]
    batch = read(sealed(write(rows), compression))
    assert (batch.base_offset, batch.next_offset, batch.magic) == (0, 5, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 5)
    assert batch.compression_type == CODECS[compression]
    found = list(batch)
    assert [record.offset for record in found] == [0, 1, 2, 3, 4]
    assert [record.key for record in found] == [
        "P-1 Zürich".encode(), b"household 9", b"P-3", b"P-4", b"P-5",
    ]  # fmt: skip
    assert [record.value for record in found] == [each[8] for each in rows]
    more = [(), (), *[(envelope.TRACEPARENT, envelope.SUSPECT)] * 2, (envelope.SUSPECT,)]
    for record, headers in zip(found, more, strict=True):
        assert tuple(name for name, _ in record.headers) == (*envelope.WORK_HEADERS, *headers)
    headers = [envelope.parse_work_headers(record.headers) for record in found]
    assert [each.position for each in headers] == [1, 2, 3, 4, 5]
    assert [each.business_key for each in headers] == ["P-1 Zürich", "P-2", "P-3", "P-4", "P-5"]
    assert [each.tenant for each in headers] == [
        "tenant-1", "tenant-2", "tenant-1", "tenant-1", "tenant-1",
    ]  # fmt: skip
    assert [each.attempt for each in headers] == [1, 5, 1, 1, 1]
    assert [each.suspects_max for each in headers] == [None, None, 8, 1, 1]
    assert [each.traceparent for each in headers] == [None, None, TRACEPARENT, TRACEPARENT, None]
    assert {(each.claim_id, each.item, each.cycle) for each in headers} == {
        (CLAIM_ID, ITEM, "2027")
    }
    nine = datetime(2027, 1, 30, 9, tzinfo=UTC)
    assert [each.due_at - nine for each in headers] == [timedelta(0)] * 4 + [timedelta(seconds=1)]


def test_what_compression_would_not_make_smaller_is_sent_as_it_is() -> None:
    batch = read(sealed([b"\x0c\0\0\0\x01\x01\0"], Compression.LZ4))
    assert batch.compression_type == 0
    assert [(record.key, record.value) for record in batch] == [(None, None)]


def claim_builder() -> ClaimBatchBuilder:
    options = PublisherOptions(
        kafka=KafkaSettings(),
        client_id="test",
        batch_bytes_max=1_000_000,
        compression=Compression.LZ4,
        request_seconds=1,
        send_seconds=1,
        drain_seconds=1,
    )
    return ClaimBatchBuilder(7, Publisher(options, stop=Stop()).new_batch)


async def draw_fences(count: int) -> list[int]:
    return list(range(count))


@pytest.mark.parametrize(("named", "codec"), [("gzip", Compression.GZIP), (None, Compression.LZ4)])
async def test_a_batch_has_the_codec_that_the_kind_names_or_that_of_the_settings(
    named: str | None, codec: Compression
) -> None:
    rows = ClaimedRows([row(payload=f'"{"x" * 300}"')], CLAIM_ID.claimed_at)
    flows = {1: FLOWS[1]._replace(compression=named)}

    (batch,) = await claim_builder().build(rows, flows, {"due.RenewalDue": 1}, draw_fences)

    assert read(bytes(batch.records._build())).compression_type == CODECS[codec]


async def test_a_claim_counts_the_attempts_of_each_of_its_items() -> None:
    rows = ClaimedRows([row(attempt=attempt) for attempt in (0, 2, 0)], CLAIM_ID.claimed_at)

    (batch,) = await claim_builder().build(rows, FLOWS, {"due.RenewalDue": 1}, draw_fences)

    assert batch.claim.attempts == batch.claim.starts == [1, 3, 1]


@pytest.mark.parametrize(
    ("changed", "flow_nos"),
    [
        ({}, [[1, 2]]),
        ({"lease_seconds": 90}, [[1], [2]]),
        ({"is_counted": True}, [[1], [2]]),
    ],
)
async def test_flows_share_a_claim_unless_they_are_counted_or_have_other_deadlines(
    changed: dict[str, Any], flow_nos: list[list[int]]
) -> None:
    rows = ClaimedRows([row("P-1", flow_no=1), row("P-2", flow_no=2)], CLAIM_ID.claimed_at)
    flows = {1: FLOWS[1], 2: FLOWS[2]._replace(**changed)}

    batches = await claim_builder().build(rows, flows, {"due.RenewalDue": 1}, draw_fences)

    assert [batch.claim.flow_nos for batch in batches] == flow_nos
    assert [len(batch.claim.item_nos) for batch in batches] == list(map(len, flow_nos))


def test_a_batch_takes_as_many_records_as_its_bytes_allow_and_never_none() -> None:
    rows = [row(payload=f'"{"x" * 300}"') for _ in range(20)]
    one = len(write(rows[:1])[0])
    batch = OutgoingBatch(BATCH_HEADER_BYTES + 7 * one, Compression.NONE)
    batch.add(write(rows, bytes_max=batch.bytes_left))
    assert batch.record_count() == 7
    assert batch.size() == len(batch._build()) <= BATCH_HEADER_BYTES + 7 * one
    assert len(write(rows, bytes_max=1)) == 1


def test_a_batch_is_sealed_once_and_tells_that_it_was_handed_over() -> None:
    batch = OutgoingBatch(1_000_000, Compression.LZ4)
    batch.add(write([row()] * 3))
    assert not batch.was_sent
    first = batch._build()
    assert batch.was_sent
    assert batch._build() is first
    assert batch.size() == len(first)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_numbers_are_written_and_read_as_kafkas_client_does(number: int) -> None:
    theirs = bytearray()
    encode_varint(number, theirs.append)
    assert varint(number) == bytes(theirs)
    assert read_varint(b"\xff" + varint(number), 1) == (number, 1 + len(theirs))
    assert decode_varint(theirs, 0) == (number, len(theirs))


def test_a_number_that_does_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)
