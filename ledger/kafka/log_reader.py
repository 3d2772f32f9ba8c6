"""A reader of topics outside any consumer group: each retained record batch, by partition.

It commits nothing and makes no topic. One request is out at a time, so what it holds is bounded by
the bytes of one response.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, final

from aiokafka import AIOKafkaClient, AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.partition_reader import PartitionReader
from dueledger.ledger.kafka.rejects import stop_client
from dueledger.ledger.kafka.topics import unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Generator

    from dueledger.ledger.kafka.record_batches import FetchedBatch
    from dueledger.ledger.runtime.kafka_settings import KafkaSettings

FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
REQUEST_SECONDS: Final = 10.0

_WAIT_MILLISECONDS: Final = 500
_BYTES_MIN: Final = 1
_READ_COMMITTED: Final = 1
_NO_LEADER: Final = -1
_ATTEMPTS_MAX: Final = 5
_RETRY_SECONDS: Final = 0.5
_VERSION_WITHOUT_LOG_START: Final = 4
_LEADER_ERRORS: Final = (
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    UnknownTopicOrPartitionError,
)


Place = tuple[str, int]
"""A topic and the number of a partition."""


class LogBounds(NamedTuple):
    """The offsets of a partition: the first that is retained, and the one after the last."""

    first: int
    end: int


class _Fetched(NamedTuple):
    """The answer of a broker: its records, the end of the log, and aborted transactions."""

    records: bytes
    log_end: int
    aborted: Collection[tuple[int, int]]


@final
class LogReader:
    """Reads partitions from given offsets. All methods raise Unavailable."""

    def __init__(self, consumer: AIOKafkaConsumer, client: AIOKafkaClient) -> None:
        self._consumer = consumer
        self._client = client

    async def find_partitions(self, topics: Collection[str]) -> list[Place]:
        """Return the partitions of those of the topics that exist, in order."""
        with _unavailable():
            existing = sorted(set(topics) & await self._consumer.topics())
            if not existing:
                return []
            # A broker may make a topic when it is asked for its metadata, so only existing ones.
            await asyncio.wait_for(self._client.set_topics(existing), REQUEST_SECONDS)
        found: list[Place] = []
        for topic in existing:
            numbers = self._client.cluster.partitions_for_topic(topic) or ()
            found += [(topic, number) for number in sorted(numbers)]
        return found

    async def read_bounds(self, places: Collection[Place]) -> dict[Place, LogBounds]:
        """Return which offsets are retained now; records of open transactions are after the end."""
        if not places:
            return {}
        partitions = [TopicPartition(*each) for each in places]
        with _unavailable():
            async with asyncio.timeout(2 * REQUEST_SECONDS):
                first = await self._consumer.beginning_offsets(partitions)
                end = await self._consumer.end_offsets(partitions)
        return {
            (each.topic, each.partition): LogBounds(first[each], max(first[each], end[each]))
            for each in partitions
        }

    async def read_log_end(self, place: Place, end: int) -> int:
        """Return the offset after the last record, committed or not; it is at least `end`."""
        with _unavailable():
            return max(end, (await self._fetch(TopicPartition(*place), end, bytes_max=0)).log_end)

    async def read(
        self, place: Place, from_offset: int, to_offset: int
    ) -> AsyncGenerator[FetchedBatch]:
        """Yield the batches with offsets of a half-open range; the last may have later ones.

        Offsets that are no longer retained are left out.
        """
        position, empty = from_offset, 0
        while position < to_offset:
            try:
                with _unavailable(OffsetOutOfRangeError):
                    fetched = await self._fetch(
                        TopicPartition(*place), position, bytes_max=FETCH_BYTES_MAX
                    )
            except OffsetOutOfRangeError as error:
                first = (await self.read_bounds([place]))[place].first
                if first <= position:
                    raise unavailable(error) from error
                position = first
                continue
            reader = PartitionReader(fetched.records, position, fetched.aborted)
            while position < to_offset:
                with _unavailable():
                    batch = reader.next()
                if batch is None:
                    break
                position = reader.position
                yield batch
            position = max(position, reader.position)
            empty = 0 if fetched.records else empty + 1
            if empty >= _ATTEMPTS_MAX:
                raise unavailable(KafkaError())

    async def _fetch(self, place: TopicPartition, offset: int, *, bytes_max: int) -> _Fetched:
        """Ask the leader for records from an offset on; ask again where another one leads now."""
        attempt = 0
        while True:
            attempt += 1
            leader = self._client.cluster.leader_for_partition(place)
            try:
                if leader is None or leader == _NO_LEADER:
                    raise LeaderNotAvailableError(place)
                return await self._ask(leader, place, offset, bytes_max)
            except _LEADER_ERRORS:
                if attempt == _ATTEMPTS_MAX:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.wait({self._client.force_metadata_update()}, timeout=REQUEST_SECONDS)

    async def _ask(
        self, leader: int, place: TopicPartition, offset: int, bytes_max: int
    ) -> _Fetched:
        wanted = [(place.topic, [(place.partition, offset, bytes_max)])]
        wait_milliseconds = _WAIT_MILLISECONDS if bytes_max else 0
        request = FetchRequest(wait_milliseconds, _BYTES_MIN, bytes_max, _READ_COMMITTED, wanted)
        response = await self._client.send(leader, request)
        if not response.topics:
            raise for_code(response.error_code)(place)
        _, code, log_end, _, *others = response.topics[0][1][0]
        if (error := for_code(code)) is not NoError:
            raise error(place)
        aborted = others[0 if response.API_VERSION == _VERSION_WITHOUT_LOG_START else 1]
        return _Fetched(others[-1] or b"", log_end, aborted or ())


@contextmanager
def _unavailable(*expected: type[KafkaError]) -> Generator[None]:
    try:
        yield
    except expected:
        raise
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(error) from error


@asynccontextmanager
async def open_log_reader(settings: KafkaSettings, *, client: str) -> AsyncGenerator[LogReader]:
    """Connect a reader. Raises Unavailable, and InvalidSetting if a file cannot be used."""
    arguments = client_arguments(settings)
    consumer = AIOKafkaConsumer(
        **arguments,
        client_id=client,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    connections = AIOKafkaClient(
        **client_arguments(settings),
        client_id=client,
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    try:
        with _unavailable():
            async with asyncio.timeout(2 * REQUEST_SECONDS):
                await connections.bootstrap()
                await consumer.start()
        yield LogReader(consumer, connections)
    finally:
        await stop_client(consumer)
        await connections.close()
