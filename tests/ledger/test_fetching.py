"""Records are fetched in batches, without those of aborted transactions and unreadable ones.

These tests fail if a new aiokafka has other internals.
"""

# pyright: reportPrivateUsage=false

from collections.abc import AsyncGenerator
from typing import Literal

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import batch_consumer
from dueledger.ledger.kafka.batch_consumer import (
    BatchConsumer,
    _bound,
    _FetchBudget,
    _FetchedPartition,
    _PartitionBatches,
)
from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX
from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord, RecordReader
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.runtime.kafka_settings import KafkaSettings


@pytest.fixture
async def place(kind: str, bootstrap_servers: str) -> TopicPartition:
    topic = f"due.{kind}"
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=1)
    await make_missing_topics(settings, [topic])
    return TopicPartition(topic, 0)


@pytest.fixture
async def consumer(place: TopicPartition, bootstrap_servers: str) -> AsyncGenerator[BatchConsumer]:
    async with BatchConsumer(
        bootstrap_servers=bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign([place])
        yield consumer


async def take(consumer: BatchConsumer, end: int, *, records_max: int = 1000) -> list[FetchedBatch]:
    """Take batches until the position has come to `end`."""
    found: list[FetchedBatch] = []
    [place] = consumer.assignment()
    while await consumer.position(place) < end:
        for batches in (
            await consumer.getbatches(timeout_ms=200, records_max=records_max)
        ).values():
            found += batches
    return found


def records_of(batches: list[FetchedBatch]) -> list[KafkaRecord]:
    found: list[KafkaRecord] = []
    for batch in batches:
        reader = RecordReader(batch)
        while (record := reader.next()) is not None:
            found.append(record)
    return found


async def send(producer: AIOKafkaProducer, place: TopicPartition, *values: bytes) -> None:
    """Send values as one batch."""
    batch = producer.create_batch()
    for value in values:
        batch.append(timestamp=None, key=None, value=value, headers=[])
    batch.close()
    await (await producer.send_batch(batch, place.topic, partition=place.partition))


def written(*values: bytes, offset: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    for number, value in enumerate(values):
        builder.append(number, 0, None, value, [])
    return offset.to_bytes(8) + bytes(builder.build())[8:]


def iterate(data: bytes, *, offset: int = 0) -> _PartitionBatches:
    return _PartitionBatches(
        TopicPartition("due.Renewal", 0),
        _FetchedPartition(data),
        aborted_transactions=[],
        fetch_offset=offset,
        key_deserializer=None,
        value_deserializer=None,
        check_crcs=True,
        isolation_level=READ_COMMITTED,
        budget=_FetchBudget(),
    )


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_batches_come_whole_however_they_are_compressed(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None,
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type=compression
    ) as producer:
        for number in range(3):
            await send(producer, place, *(b"%d.%d" % (number, each) * 50 for each in range(20)))
    batches = await take(consumer, 60)
    assert [(batch.base_offset, batch.next_offset, batch.size) for batch in batches] == [
        (0, 20, 20), (20, 40, 20), (40, 60, 20),
    ]  # fmt: skip
    found = records_of(batches)
    assert [record.offset for record in found] == list(range(60))
    assert [record.value for record in found] == [
        b"%d.%d" % (number, each) * 50 for number in range(3) for each in range(20)
    ]


async def test_what_a_transaction_took_back_is_never_seen_and_holds_nothing_up(
    consumer: BatchConsumer, place: TopicPartition, kind: str, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id=kind
    ) as producer:
        for number, is_kept in enumerate([True, False, True, False]):
            await producer.begin_transaction()
            await send(producer, place, b"%d" % number)
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    found = records_of(await take(consumer, 8))
    assert [(record.offset, record.value) for record in found] == [(0, b"0"), (4, b"2")]


async def test_a_position_within_a_batch_is_where_its_records_begin(
    consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, *(b"%d" % number for number in range(10)))
    consumer.seek(place, 7)
    [batch] = await take(consumer, 10)
    assert batch.size == 3
    assert [record.value for record in records_of([batch])] == [b"7", b"8", b"9"]


async def test_batches_are_taken_until_their_records_are_enough(
    consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(30):
            await send(producer, place, *(b"%d" % number for number in range(10)))
    await consumer.position(place)
    taken: list[int] = []
    while sum(taken) < 300:
        fetched = await consumer.getbatches(timeout_ms=200, records_max=25)
        taken += [sum(batch.size for batch in batches) for batches in fetched.values()]
    assert max(taken) == 30
    assert sum(taken) == 300


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_what_decompresses_to_too_much_is_never_had_whole_and_holds_nothing_up(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    compression: Literal["gzip", "snappy", "lz4", "zstd"],
) -> None:
    bombs = 3
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=compression,
        max_batch_size=2 * DECODED_BYTES_MAX,
        max_request_size=2 * DECODED_BYTES_MAX,
    ) as producer:
        for _ in range(bombs):
            await send(producer, place, bytes(DECODED_BYTES_MAX + 1))
        await send(producer, place, b"innocent")
    batches = await take(consumer, bombs + 1)
    assert [batch.base_offset for batch in batches] == list(range(bombs + 1))
    assert max(len(batch.body) for batch in batches) < DECODED_BYTES_MAX / 8
    *unreadable, innocent = records_of(batches)
    for record in unreadable:
        assert record.read_best_effort().headers == []
        with pytest.raises(InvalidHeader):
            record.read_all()
    assert innocent.value == b"innocent"


async def test_batches_are_taken_until_their_bytes_are_enough_and_none_is_lost(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value, together = bytes(10_000), 35_000
    monkeypatch.setattr(batch_consumer, "TOGETHER_BYTES_MAX", together)
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type="zstd"
    ) as producer:
        for _ in range(30):
            await send(producer, place, value)
    sizes: list[int] = []
    offsets: list[int] = []
    while len(offsets) < 30:
        fetched = await consumer.getbatches(timeout_ms=200, records_max=1000)
        for batches in fetched.values():
            sizes.append(sum(len(batch.body) for batch in batches))
            offsets += [batch.base_offset for batch in batches]
    assert offsets == list(range(30))
    assert together <= max(sizes) < together + 2 * len(value)


def test_bytes_that_changed_on_their_way_are_fetched_again() -> None:
    good, bad = written(b"one", b"two"), bytearray(written(b"three", offset=2))
    bad[-3] ^= 1
    batches = iterate(good + bytes(bad))
    assert next(batches).size == 2
    with pytest.raises(CorruptRecordException):
        next(batches)
    assert batches.next_fetch_offset == 2


def test_a_batch_that_was_cut_off_waits_for_the_next_fetch() -> None:
    good, cut_off = written(b"one"), written(b"two", offset=1)
    for missing in (1, len(cut_off) - 30, len(cut_off) - 5):
        batches = iterate(good + cut_off[:-missing])
        assert [batch.base_offset for batch in batches] == [0]
        assert batches.next_fetch_offset == 1
    assert not _FetchedPartition(cut_off[:-1]).has_next()


def test_what_cannot_be_decompressed_is_one_record_that_cannot_be_read() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    builder.append(0, 0, None, b"not compressed at all", [])
    batch = bytearray(builder.build())
    for codec in range(1, 8):
        batch[22] = codec
        batches = iterate(_with_crc(batch) + written(b"next", offset=1))
        first, second = list(batches)
        [record] = records_of([first])
        assert record.read_best_effort().headers == []
        assert b"not compressed at all" in (record.read_best_effort().value or b"")
        assert [record.value for record in records_of([second])] == [b"next"]


def test_a_batch_of_a_format_without_headers_is_one_record_that_cannot_be_read() -> None:
    old = (5).to_bytes(8) + (20).to_bytes(4) + bytes(4) + b"\x01" + bytes(15)
    first, second = list(iterate(old + written(b"next", offset=6), offset=5))
    assert [record.offset for record in records_of([first])] == [5]
    assert records_of([first])[0].read_best_effort().headers == []
    assert [record.value for record in records_of([second])] == [b"next"]


def test_an_aiokafka_of_other_insides_is_refused_by_name() -> None:
    def fetch() -> object:
        return object()

    with pytest.raises(ImportError, match="fetch of this aiokafka does not use MemoryRecords"):
        _bound(fetch, MemoryRecords=_FetchedPartition)


def _with_crc(batch: bytearray) -> bytes:
    batch[17:21] = calc_crc32c(batch[21:]).to_bytes(4)
    return bytes(batch)
