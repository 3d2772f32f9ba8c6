"""Records are read as Kafka's own client reads them; unreadable ones are rejected by name."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.errors import InvalidHeader, Problem
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.envelope import parse_work_headers
from dueledger.ledger.kafka.record_batches import KafkaRecord, RecordReader
from dueledger.ledger.kafka.record_format import BATCH_HEADER_BYTES
from dueledger.workers.claim_slices import ClaimSlicer
from dueledger.workers.item import DueItem

from .test_claim_slices import Written, batch_of, claim_id, fetched, record

OTHER_TOKEN = claim_id(7)._replace(token="0" * 16).token_text
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def ordered(written: Written) -> Written:
    """Put headers in the allocator's order, with more at their end."""
    headers = dict(written.headers)
    more = [pair for pair in written.headers if pair[0] not in envelope.WORK_HEADERS]
    return replace(written, headers=[(n, headers[n]) for n in envelope.WORK_HEADERS] + more)


def claim(size: int, **changed: str) -> list[Written]:
    return [ordered(record(place, 7, place + 1, **changed)) for place in range(size)]


def read(batch: bytes, *, first_offset: int = 0) -> list[KafkaRecord]:
    reader = RecordReader(fetched(batch, first_offset=first_offset))
    found: list[KafkaRecord] = []
    while (each := reader.next()) is not None:
        found.append(each)
    return found


def alike(records: Sequence[Written]) -> list[KafkaRecord]:
    """Read the first as any record, the others as the next of its claim."""
    reader = RecordReader(fetched(batch_of(*records)))
    first = reader.next()
    assert first is not None
    headers = first.work_headers()
    return reader.next_of_claim(
        headers.claim_id,
        headers.position + 1,
        headers.kind,
        headers.attempt,
        records_max=len(records),
    )


def headers_or_problems(
    read_headers: Callable[[], envelope.WorkHeaders],
) -> envelope.WorkHeaders | Sequence[Problem]:
    try:
        return read_headers()
    except InvalidHeader as error:
        return error.problems


content = st.none() | st.binary(max_size=20_000)
written = st.builds(
    Written,
    offset=st.just(0),
    headers=st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=200))),
    key=content,
    value=content,
)


@given(st.lists(written, min_size=1, max_size=5))
def test_records_are_read_as_kafkas_own_client_reads_them(records: list[Written]) -> None:
    batch = batch_of(*(replace(each, offset=3 * place) for place, each in enumerate(records)))
    ours = [(each.offset, each.key, each.value, each.headers) for each in read(batch)]
    theirs = [
        (each.offset, each.key, each.value, each.headers) for each in DefaultRecordBatch(batch)
    ]
    assert ours == theirs


@pytest.mark.parametrize("more", [[], [(envelope.TRACEPARENT, TRACEPARENT.encode())]])
@pytest.mark.parametrize("value", [None, b"", b"{}", b"x" * 70, b"x" * 9000])
def test_the_next_of_a_claim_say_what_their_headers_say(
    value: bytes | None, more: list[tuple[str, bytes]]
) -> None:
    records = [
        replace(each, value=value, key=b"k" * place, headers=[*each.headers, *more])
        for place, each in enumerate(claim(200))
    ]
    found = alike(records)
    assert len(found) == 199
    for position, (each, original) in enumerate(zip(found, records[1:], strict=True), 2):
        headers = each.work_headers_at(claim_id(7), position)
        assert headers == each.work_headers() == parse_work_headers(original.headers)
        assert (each.offset, each.key, each.value) == (
            original.offset,
            original.key,
            original.value,
        )


@pytest.mark.parametrize(
    ("time", "due_at"),
    [
        ("2027-01-30T09:00:00.000001Z", "2027-01-30T09:00:00.000001Z"),
        ("2027-01-30T10:00:00+01:00", "2027-01-30T10:00:00+01:00"),
        ("2027-01-30T09:00:01Z", "2027-01-30T09:00:02Z"),
        ("2027-01-30T09:00:01Z", "2027-01-30T09:00:01.5Z"),
        ("2027-13-30T09:00:00Z", "2027-13-30T09:00:00Z"),
        ("2027-01-30T09:00:00", "2027-01-30T09:00:00"),
        ("2027-01-30T09:00:00Z" * 4, "2027-01-30T09:00:00Z" * 4),
        ("", ""),
    ],
)
def test_an_item_with_a_due_time_of_its_own_says_what_its_headers_say(
    time: str, due_at: str
) -> None:
    _ = read(batch_of(*claim(1)))[0].work_headers()  # all but the due time are known
    [original] = claim(1, TIME=time, DUE_AT=due_at, SUBJECT="P-2")
    expected = headers_or_problems(lambda: parse_work_headers(original.headers))
    for _ in range(2):
        [found] = read(batch_of(original))
        assert headers_or_problems(found.work_headers) == expected


@pytest.mark.parametrize(
    "other",
    [
        record(5, 8, 6),
        record(5, 7, 7),
        record(5, 7, 5),
        record(5, 7, 6, TYPE="StatementDue"),
        record(5, 7, 6, TYPE="RenewalDueToo"),
        record(5, 7, 6, ATTEMPT="2"),
        record(5, 7, 6, TOKEN=OTHER_TOKEN),
        record(6, 7, 6),
        replace(record(5, 7, 6), headers=[]),
        replace(record(5, 7, 6), headers=[("first", None), *record(5, 7, 6).headers]),
    ],
)
def test_whichever_differs_is_not_the_next_of_the_claim(other: Written) -> None:
    if len(other.headers) == len(envelope.WORK_HEADERS):
        other = ordered(other)
    rest = [replace(each, offset=each.offset + 1) for each in claim(9)[6:]]
    found = alike([*claim(5), other, *rest])
    assert [each.offset for each in found] == [1, 2, 3, 4]


def test_what_was_consumed_before_is_passed_over() -> None:
    batch = batch_of(*(replace(each, offset=2 * each.offset) for each in claim(10)))
    assert [each.offset for each in read(batch, first_offset=7)] == [8, 10, 12, 14, 16, 18]
    assert read(batch, first_offset=19) == []


def test_a_record_that_ends_too_early_is_rejected_with_its_bytes_and_keeps_its_place() -> None:
    records = claim(3)
    batch = bytearray(batch_of(*records))
    # One byte more than there is: of the value, whose length is before it.
    at = batch.index(b"\x04{}", batch.index(b"\x04{}") + 1)
    batch[at] = 6
    cutter = ClaimSlicer()
    _ = [*cutter.cut(fetched(bytes(batch)))]
    [rejected] = cutter.rejected
    assert (rejected.record.offset, rejected.record.key, rejected.record.headers) == (1, None, [])
    assert rejected.record.value is not None
    assert b"P-1" in rejected.record.value
    assert "cannot be read" in str(rejected.error)
    [claim_slice] = cutter.slices
    assert (claim_slice.from_position, claim_slice.to_position) == (1, 3)
    assert [isinstance(item, DueItem) for item in claim_slice.items] == [True, False, True]


def test_behind_a_length_that_is_none_nothing_is_read_and_all_is_rejected_as_one() -> None:
    batch = batch_of(*claim(5))
    third = read(batch)[2].start - 2  # its length takes two bytes
    cut_short = batch[: BATCH_HEADER_BYTES + third] + b"\xff" * 12 + batch[-50:]
    cutter = ClaimSlicer()
    _ = [*cutter.cut(fetched(cut_short))]
    assert [len(claim_slice.items) for claim_slice in cutter.slices] == [2]
    [rejected] = cutter.rejected
    assert rejected.record.offset == 2
    assert rejected.record.value == b"\xff" * 12 + batch[-50:]


def test_a_header_whose_name_is_no_text_is_rejected_with_its_bytes_shown() -> None:
    batch = batch_of(*claim(2), replace(record(2, 7, 3), headers=[("name", b"x")]))
    cutter = ClaimSlicer()
    _ = [*cutter.cut(fetched(batch.replace(b"\x08name\x02x", b"\x08\xff\xfeme\x02x")))]
    [rejected] = cutter.rejected
    assert rejected.record.headers == [(r"\xff\xfeme", b"x")]
    assert (rejected.record.key, rejected.record.value) == (b"key", b"{}")
    assert "not UTF-8" in str(rejected.error)


def test_an_item_whose_rest_is_malformed_names_it_when_asked() -> None:
    batch = batch_of(*claim(3))
    cut = ClaimSlicer()
    _ = [*cut.cut(fetched(batch.replace(b"2027-03-01", b"2027-13-01")))]
    assert len(cut.rejected) == 3
    last = batch.rindex(b"2027-03-01")
    cut = ClaimSlicer()
    _ = [*cut.cut(fetched(batch[:last] + b"2027-13-01" + batch[last + 10 :]))]
    item = cut.slices[0].items[2]
    assert isinstance(item, DueItem)
    assert item.retries == 0
    with pytest.raises(InvalidHeader, match=envelope.EFFECTIVE):
        _ = item.effective_date


@given(st.data())
def test_whatever_a_batch_holds_it_is_gone_through_once_and_only_refused(
    data: st.DataObject,
) -> None:
    body = bytearray(batch_of(*claim(6)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(BATCH_HEADER_BYTES, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    cutter = ClaimSlicer()
    _ = [*cutter.cut(fetched(bytes(body)))]
    for claim_slice in cutter.slices:
        for item in claim_slice.items:
            if isinstance(item, DueItem):
                with suppress(InvalidHeader):
                    _ = (item.business_key, item.payload, item.retries)
    offsets = [each.record.offset for each in cutter.rejected]
    assert offsets == sorted(offsets)
    assert all(0 <= offset < 6 for offset in offsets)
    assert sum(len(claim_slice.items) for claim_slice in cutter.slices) <= 6 + len(offsets)
