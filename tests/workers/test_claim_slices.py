"""Records become claim slices: contiguous, of one claim and kind, without unreadable records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_batches import FetchedBatch
from dueledger.ledger.kafka.record_format import BATCH_HEADER_BYTES, read_batch_header
from dueledger.workers.claim_slices import (
    RECORDS_TOGETHER,
    ClaimSlice,
    ClaimSlicer,
    UnreadableItem,
)
from dueledger.workers.item import DueItem

ITEM = "0f1e2d3c-4b5a-8697-8899-aabbccddeeff"


@dataclass
class Written:
    offset: int
    headers: Sequence[tuple[str, bytes | None]]
    key: bytes | None = b"key"
    value: bytes | None = b"{}"


def claim_id(fence: int) -> ClaimId:
    return ClaimId(fence, datetime(2027, 1, 30, 9, tzinfo=UTC), "00c0ffee00c0ffee")


def record(offset: int, fence: int, position: int, **changed: str) -> Written:
    texts = {
        envelope.FENCE: str(fence),
        envelope.TOKEN: claim_id(fence).token_text,
        envelope.POSITION: str(position),
        envelope.SPECVERSION_HEADER: "1.0",
        envelope.ID: f"{ITEM}:{fence}",
        envelope.SOURCE: "/dueledger/acme",
        envelope.TYPE: "RenewalDue",
        envelope.SUBJECT: "P-1",
        envelope.TIME: "2027-01-30T09:00:00Z",
        envelope.CONTENT_TYPE: "application/json",
        envelope.TENANT: "acme",
        envelope.CYCLE: "2027",
        envelope.EFFECTIVE: "2027-03-01",
        envelope.DUE_AT: "2027-01-30T09:00:00Z",
        envelope.ITEM: ITEM,
        envelope.ATTEMPT: "1",
    } | {getattr(envelope, name): value for name, value in changed.items()}
    return Written(offset, [(name, value.encode()) for name, value in texts.items()])


def broken(offset: int) -> Written:
    return Written(offset, [("content-type", b"text/plain")])


def batch_of(*records: Written) -> bytes:
    """Have Kafka's own client write the records into one batch."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000_000)
    for each in records:
        place = each.offset - records[0].offset
        builder.append(place, 1_700_000_000_000, each.key, each.value, list(each.headers))
    return records[0].offset.to_bytes(8) + bytes(builder.build())[8:]


def fetched(batch: bytes, *, first_offset: int = 0) -> FetchedBatch:
    return FetchedBatch(read_batch_header(batch), batch[BATCH_HEADER_BYTES:], first_offset)


def cut(*records: Written) -> tuple[list[tuple[int, str, int, int, int]], ClaimSlicer]:
    cutter = ClaimSlicer()
    _ = [*cutter.cut(fetched(batch_of(*records)))]
    return [shape(claim_slice) for claim_slice in cutter.slices], cutter


def shape(claim_slice: ClaimSlice) -> tuple[int, str, int, int, int]:
    return (
        claim_slice.fence,
        claim_slice.kind,
        claim_slice.from_position,
        claim_slice.to_position,
        claim_slice.first_offset,
    )


def test_a_claim_in_order_is_one_slice() -> None:
    shapes, cutter = cut(*(record(40 + n, 7, n) for n in range(1, 6)))
    assert shapes == [(7, "RenewalDue", 1, 5, 41)]
    assert [item.position for item in cutter.slices[0].items if isinstance(item, DueItem)] == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip


def test_a_new_claim_kind_or_position_opens_a_new_slice() -> None:
    shapes, _ = cut(
        record(0, 7, 1),
        record(1, 7, 2),
        record(2, 7, 3, TYPE="StatementDue"),
        record(3, 8, 1),
        record(4, 8, 1),  # delivered twice
        record(5, 8, 5),  # shuffled
        record(9, 8, 6),  # offsets lost
        record(10, 8, 7, TOKEN=claim_id(8)._replace(token="0" * 16).token_text),
    )
    assert shapes == [
        (7, "RenewalDue", 1, 2, 0),
        (7, "StatementDue", 3, 3, 2),
        (8, "RenewalDue", 1, 1, 3),
        (8, "RenewalDue", 1, 1, 4),
        (8, "RenewalDue", 5, 5, 5),
        (8, "RenewalDue", 6, 6, 9),
        (8, "RenewalDue", 7, 7, 10),
    ]


def test_an_unreadable_record_keeps_its_place_between_readable_ones_of_its_claim() -> None:
    shapes, cutter = cut(record(10, 7, 1), broken(11), broken(12), record(13, 7, 4))
    assert shapes == [(7, "RenewalDue", 1, 4, 10)]
    assert [type(item) for item in cutter.slices[0].items] == [
        DueItem, UnreadableItem, UnreadableItem, DueItem,
    ]  # fmt: skip
    assert [each.record.offset for each in cutter.rejected] == [11, 12]


def test_an_unreadable_record_before_a_claim_belongs_to_it_only_if_its_offset_does() -> None:
    shapes, _ = cut(broken(9), broken(10), record(11, 7, 2))
    assert shapes == [(7, "RenewalDue", 1, 2, 10)]
    shapes, _ = cut(broken(10), record(11, 7, 1))
    assert shapes == [(7, "RenewalDue", 1, 1, 11)]


def test_headers_in_another_order_are_read_by_name() -> None:
    first, second = record(0, 7, 1), record(1, 7, 2)
    second.headers = list(reversed(second.headers))
    shapes, cutter = cut(first, second, record(2, 7, 3))
    assert shapes == [(7, "RenewalDue", 1, 3, 0)]
    item = cutter.slices[0].items[1]
    assert isinstance(item, DueItem)
    assert item.business_key == "P-1"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"FENCE": "seven"}, envelope.FENCE),
        ({"FENCE": "9" * 30}, envelope.FENCE),
        ({"TOKEN": "0" * 31}, envelope.TOKEN),
        ({"POSITION": "0"}, envelope.POSITION),
        ({"POSITION": str(2**31)}, envelope.POSITION),
        ({"EFFECTIVE": "tomorrow"}, envelope.EFFECTIVE),
        ({"ATTEMPT": "first"}, envelope.ATTEMPT),
    ],
)
def test_a_malformed_header_is_refused_by_name(changed: dict[str, str], field: str) -> None:
    shapes, cutter = cut(record(0, 7, 1, **changed))
    assert shapes == []
    assert cutter.rejected[0].error.problems[0].field in {field, envelope.ID}


def test_an_item_with_a_broken_header_names_it_when_asked() -> None:
    item = DueItem(record(0, 7, 1, EFFECTIVE="soon"), claim_id(7), 1)
    with pytest.raises(InvalidHeader, match=envelope.EFFECTIVE):
        _ = item.effective_date


def test_a_slice_splits_at_the_given_position() -> None:
    _, cutter = cut(*(record(40 + n, 7, n) for n in range(1, 6)))
    rest = cutter.slices[0]
    head = rest.split(2)
    assert shape(head) == (7, "RenewalDue", 1, 2, 41)
    assert shape(rest) == (7, "RenewalDue", 3, 5, 43)


def of_one_claim(offset: int) -> Written:
    return record(offset, 7, offset + 1)


@pytest.mark.parametrize("make", [broken, of_one_claim])
def test_a_batch_of_many_records_is_read_in_parts(make: Callable[[int], Written]) -> None:
    """One batch may have 250,000 records: a worker that reads them at once keeps no lease."""
    slicer = ClaimSlicer()
    size = 2 * RECORDS_TOGETHER + 500
    done = [0]
    for _ in slicer.cut(fetched(batch_of(*(make(offset) for offset in range(size))))):
        items = sum(len(claim_slice.items) for claim_slice in slicer.slices)
        done.append(items + len(slicer.rejected))
    assert done == [0, RECORDS_TOGETHER, 2 * RECORDS_TOGETHER]
    assert len(slicer.slices) <= 1
    assert sum(len(one.items) for one in slicer.slices) + len(slicer.take_rejected()) == size
    assert slicer.take_rejected() == []
