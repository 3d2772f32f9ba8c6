"""The bytes of one response are read batch by batch, and damaged ones are fetched again."""

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.kafka.partition_reader import PartitionReader
from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord, RecordReader


def all_of(reader: PartitionReader) -> list[FetchedBatch]:
    return list(iter(reader.next, None))


def records_of(batches: list[FetchedBatch]) -> list[KafkaRecord]:
    found: list[KafkaRecord] = []
    for batch in batches:
        reader = RecordReader(batch)
        while (record := reader.next()) is not None:
            found.append(record)
    return found


def written(*values: bytes, offset: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    for number, value in enumerate(values):
        builder.append(number, 0, None, value, [])
    return offset.to_bytes(8) + bytes(builder.build())[8:]


def test_bytes_that_changed_on_their_way_are_fetched_again() -> None:
    good, bad = written(b"one", b"two"), bytearray(written(b"three", offset=2))
    bad[-3] ^= 1
    reader = PartitionReader(good + bytes(bad), 0)
    first = reader.next()
    assert first is not None
    assert first.size == 2
    for _ in range(2):
        with pytest.raises(CorruptRecordException):
            reader.next()
        assert reader.position == 2


@pytest.mark.parametrize("length", [0, 4, 5, 48, 1 << 20])
def test_a_batch_whose_length_changed_on_its_way_is_fetched_again(length: int) -> None:
    bad = bytearray(written(b"one"))
    bad[8:12] = length.to_bytes(4)
    reader = PartitionReader(bytes(bad), 0)
    with pytest.raises(CorruptRecordException):
        reader.next()
    assert reader.position == 0


def test_a_batch_that_was_cut_off_waits_for_the_next_fetch() -> None:
    good, cut_off = written(b"one"), written(b"two", offset=1)
    for missing in (1, len(cut_off) - 30, len(cut_off) - 5):
        reader = PartitionReader(good + cut_off[:-missing], 0)
        assert [batch.base_offset for batch in all_of(reader)] == [0]
        assert reader.position == 1


def test_what_cannot_be_decompressed_is_one_record_that_cannot_be_read() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    builder.append(0, 0, None, b"not compressed at all", [])
    batch = bytearray(builder.build())
    for codec in range(1, 8):
        batch[22] = codec
        reader = PartitionReader(_with_crc(batch) + written(b"next", offset=1), 0)
        first, second = all_of(reader)
        [record] = records_of([first])
        assert record.read_best_effort().headers == []
        assert b"not compressed at all" in (record.read_best_effort().value or b"")
        assert [record.value for record in records_of([second])] == [b"next"]


def test_a_batch_of_a_format_without_headers_is_one_record_that_cannot_be_read() -> None:
    old = (5).to_bytes(8) + (20).to_bytes(4) + bytes(4) + b"\x01" + bytes(15)
    first, second = all_of(PartitionReader(old + written(b"next", offset=6), 5))
    assert [record.offset for record in records_of([first])] == [5]
    assert records_of([first])[0].read_best_effort().headers == []
    assert [record.value for record in records_of([second])] == [b"next"]


def _with_crc(batch: bytearray) -> bytes:
    batch[17:21] = calc_crc32c(batch[21:]).to_bytes(4)
    return bytes(batch)
