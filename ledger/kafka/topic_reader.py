"""Reading one topic as a member of a group: polls, poison sent away, offsets moved last.

Whoever polls writes to the ledger, has what cannot be taken in rejected, and only then commits.
Whatever dies in between is polled again.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.record_batches import FetchedBatch, RecordReader
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord, send_rejected
from dueledger.ledger.kafka.topics import make_topics, unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.settings import Settings

REJECT_SECONDS_MAX: Final = 30.0
OFFSET_SECONDS_MAX: Final = 10.0
"""Kafka's client asks a broker that is gone for offsets without end, deaf to a stop."""

_STOP_SECONDS_MAX: Final = 5.0
_REJECT_BYTES_MAX: Final = 4 * 1024 * 1024 + 64 * 1024  # a large record and the reason
_FETCH_WAIT_MS: Final = 100

PolledRecords: TypeAlias = Mapping[TopicPartition, Sequence[ConsumedRecord]]


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """What to read, as whom, and how much at a time; `rejected_topic` is where poison goes."""

    topic: str
    rejected_topic: str
    group: str
    session_seconds: float
    poll_seconds: float
    records_max: int


@final
class TopicReader:
    """Reads what one consumer polls. The consumer's offsets are this object's to move."""

    def __init__(
        self, consumer: BatchConsumer, producer: AIOKafkaProducer, options: ReaderOptions
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._options = options
        self._positions_known = True
        self._failed_partitions: list[TopicPartition] = []
        self._log = get_logger("intake")

    async def poll(self) -> PolledRecords:
        """Poll all partitions, or after a failure each alone, so that it holds up only its own.

        A poll that raises over one partition has moved past what it read of the others. What is
        polled ends with a record batch: there may be more records than are taken in at a time.
        """
        if not self._positions_known:
            async with asyncio.timeout(OFFSET_SECONDS_MAX):
                await self._seek_committed()
            self._failed_partitions = sorted(self._consumer.assignment())
        only = [self._failed_partitions.pop()] if self._failed_partitions else []
        self._positions_known = bool(only)
        polled = await self._consumer.getbatches(
            *only,
            timeout_ms=int(self._options.poll_seconds * 1000),
            records_max=self._options.records_max,
        )
        read = {place: list(_records(place, batches)) for place, batches in polled.items()}
        self._positions_known = True
        return {place: records for place, records in read.items() if records}

    def parts(self, polled: PolledRecords) -> Iterator[list[ConsumedRecord]]:
        """Cut what was polled into what is taken in at a time, in order."""
        records = [record for partition in polled.values() for record in partition]
        size = self._options.records_max
        for start in range(0, len(records), size):
            yield records[start : start + size]

    async def _seek_committed(self) -> None:
        for partition in self._consumer.assignment():
            offset = await self._consumer.committed(partition)
            if offset is None:
                await self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, offset)

    def rewind(self, polled: PolledRecords) -> None:
        """Read again what was polled and not settled; a partition lost meanwhile is another's."""
        assigned = self._consumer.assignment()
        for partition, records in polled.items():
            if partition in assigned:
                self._consumer.seek(partition, records[0].offset)

    async def reject(self, rejected: Sequence[RejectedRecord]) -> None:
        """Send poison to the reject topic, unchanged, and wait until it is acknowledged there."""
        async with asyncio.timeout(REJECT_SECONDS_MAX):
            await send_rejected(self._producer, self._options.rejected_topic, rejected)

    async def commit(self, polled: PolledRecords) -> None:
        """Move the offsets. Where that fails the records come again, and are known by then."""
        assigned = self._consumer.assignment()
        offsets = {
            partition: records[-1].offset + 1
            for partition, records in polled.items()
            if partition in assigned
        }
        if not offsets:
            return
        try:
            async with asyncio.timeout(OFFSET_SECONDS_MAX):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            self._log.warning(LogEvent.OFFSET_COMMIT_FAILED, error=type(error).__name__)


@asynccontextmanager
async def open_reader(
    settings: Settings, options: ReaderOptions, *, client: str
) -> AsyncGenerator[TopicReader]:
    """Have a reader in its group, its topics made. Raises Unavailable without Kafka."""
    topics = {options.topic, options.rejected_topic}
    await make_topics(settings, topics, client=client, role="intake")
    consumer = BatchConsumer(
        options.topic,
        bootstrap_servers=settings.bootstrap_servers,
        client_id=client,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=int(options.session_seconds * 1000),
        heartbeat_interval_ms=int(options.session_seconds * 1000 / 3),
        fetch_max_wait_ms=_FETCH_WAIT_MS,
        isolation_level="read_committed",  # what a sender's transaction took back never was
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=client,
        # Not idempotent: aiokafka 0.14 counts a record that the broker refuses as too large, and is
        # refused ever after as out of sequence. What was rejected may stand there twice.
        acks="all",
        max_request_size=_REJECT_BYTES_MAX,
    )
    async with started(consumer), started(producer):
        yield TopicReader(consumer, producer, options)


@asynccontextmanager
async def started(client: BatchConsumer | AIOKafkaProducer) -> AsyncGenerator[None]:
    """Start and stop a client. Raises Unavailable where the broker does not answer.

    Where the broker is gone its stop waits for it without end, or ends as a fetch it cancelled.
    """
    try:
        try:
            await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            raise unavailable(error) from error
        yield
    finally:
        stopping = asyncio.create_task(client.stop())
        await asyncio.wait([stopping], timeout=_STOP_SECONDS_MAX)
        if not stopping.done():
            stopping.cancel()
        elif not stopping.cancelled():
            stopping.result()


def _records(place: TopicPartition, batches: Sequence[FetchedBatch]) -> Iterator[ConsumedRecord]:
    """Read records; one that cannot be read is told with its fault, and holds nothing up."""
    for batch in batches:
        reader = RecordReader(batch)
        while (found := reader.next()) is not None:
            fault = None
            try:
                told = found.read_all()
            except InvalidHeader as error:
                told, fault = found.read_best_effort(), error
            yield ConsumedRecord(
                place.topic, place.partition, told.offset, told.key, told.value, told.headers, fault
            )
