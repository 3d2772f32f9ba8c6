"""A reader of topics in a consumer group: polls, rejects poison, commits offsets last.

The caller polls, writes to the ledger, rejects unusable records, and only then commits. After a
crash in between, the records are polled again.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias, final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.client_arguments import client_arguments, member_arguments
from dueledger.ledger.kafka.fetcher import FetchLimits
from dueledger.ledger.kafka.record_batches import FetchedBatch, RecordReader
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord, RejectSender, stop_client
from dueledger.ledger.kafka.topics import make_topics, unavailable
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.log import LogEvent, get_logger

REJECT_SECONDS_MAX: Final = 30.0
COMMIT_SECONDS_MAX: Final = 10.0
"""Kafka's client asks an absent broker forever and does not react to a stop."""

_FETCH_WAIT_MS: Final = 100

PolledRecords: TypeAlias = Mapping[TopicPartition, Sequence[ConsumedRecord]]


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """First topic, group and limits of a reader. Poison goes to `rejected_topic`."""

    topic: str
    rejected_topic: str
    group: str
    session_seconds: float
    poll_seconds: float
    records_max: int


@final
class TopicReader:
    """Polls one consumer, and alone moves its offsets.

    A fetched batch may have hundreds of thousands of records. Those that a poll does not return
    wait here for the next one, so that no poll takes long and offsets are committed in between.
    """

    def __init__(
        self, consumer: BatchConsumer, rejects: RejectSender, options: ReaderOptions
    ) -> None:
        self._consumer = consumer
        self._rejects = rejects
        self._options = options
        self._unread: dict[TopicPartition, Iterator[ConsumedRecord]] = {}
        """Records that were fetched and not polled yet."""
        self._log = get_logger("intake")
        self.subscribe({options.topic})

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it reads."""
        return self._topics

    def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics, and no others, from the next assignment on."""
        self._topics = frozenset(topics)
        self._consumer.subscribe(topics, revoked=self._drop_unread)

    async def _drop_unread(self, revoked: Collection[TopicPartition]) -> None:
        """Drop what was fetched of them: the next reader begins at the committed offset."""
        for partition in revoked:
            self._unread.pop(partition, None)

    async def poll(self) -> PolledRecords:
        """Return at most `records_max` records, in order, with a share for each partition."""
        fetched = await self._consumer.getbatches(
            timeout_ms=0 if self._unread else int(self._options.poll_seconds * 1000),
            records_max=self._options.records_max,
            without=self._unread,
        )
        self._unread |= {each: _records(each, fetched[each]) for each in fetched}
        return self._take_shares()

    def _take_shares(self) -> PolledRecords:
        polled: dict[TopicPartition, list[ConsumedRecord]] = {}
        left = self._options.records_max
        for waiting, (partition, unread) in zip(
            range(len(self._unread), 0, -1), list(self._unread.items()), strict=True
        ):
            share = left // waiting
            records = list(islice(unread, share))
            left -= len(records)
            if records:
                polled[partition] = records
            if len(records) < share:
                del self._unread[partition]
        return polled

    def rewind(self, polled: PolledRecords) -> None:
        """Seek back to the first polled record of each partition that is still assigned."""
        assigned = self._consumer.assignment()
        for partition, records in polled.items():
            self._unread.pop(partition, None)
            if partition in assigned:
                self._consumer.seek(partition, records[0].offset)

    async def reject(self, rejected: Sequence[RejectedRecord]) -> None:
        """Send poison to the reject topic, unchanged, and wait for the acknowledgement."""
        async with asyncio.timeout(REJECT_SECONDS_MAX):
            await self._rejects.send(rejected)

    async def commit(self, polled: PolledRecords) -> None:
        """Commit the offsets. If that fails, the records are polled again as duplicates."""
        assigned = self._consumer.assignment()
        offsets = {
            partition: records[-1].offset + 1
            for partition, records in polled.items()
            if partition in assigned
        }
        if not offsets:
            return
        try:
            async with asyncio.timeout(COMMIT_SECONDS_MAX):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            self._log.warning(LogEvent.OFFSET_COMMIT_FAILED, error=type(error).__name__)


@asynccontextmanager
async def open_reader(
    settings: KafkaSettings, options: ReaderOptions, *, client: str
) -> AsyncGenerator[TopicReader]:
    """Open a reader in its group and create its topics.

    Raises Unavailable without Kafka, and InvalidSetting if a file that the settings name cannot be
    used.
    """
    topics = {options.topic, options.rejected_topic}
    await make_topics(settings, topics, client=client, role="intake")
    consumer = BatchConsumer(
        client_arguments(settings),
        member_arguments(options.group, session_seconds=options.session_seconds),
        client_id=client,
        limits=FetchLimits(wait_milliseconds=_FETCH_WAIT_MS),
    )
    rejects = RejectSender(settings, options.rejected_topic, client=client)
    reader = TopicReader(consumer, rejects, options)
    async with started(consumer), aclosing(rejects):
        yield reader


@asynccontextmanager
async def started(client: BatchConsumer | AIOKafkaProducer) -> AsyncGenerator[None]:
    """Start and stop a client. Raises Unavailable if the broker does not answer."""
    try:
        try:
            await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            raise unavailable(error) from error
        yield
    finally:
        await stop_client(client)


def _records(
    partition: TopicPartition, batches: Sequence[FetchedBatch]
) -> Iterator[ConsumedRecord]:
    """Yield the records. An unreadable one has its fault and does not stop the others."""
    for batch in batches:
        reader = RecordReader(batch)
        while (found := reader.next()) is not None:
            fault = None
            try:
                record = found.read_all()
            except InvalidHeader as error:
                record, fault = found.read_best_effort(), error
            yield ConsumedRecord(
                partition.topic,
                partition.partition,
                record.offset,
                record.key,
                record.value,
                record.headers,
                fault,
            )
