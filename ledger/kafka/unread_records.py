"""Records of a topic that a consumer group has not read: how many, and the oldest of them.

The committed offsets of the group are read without joining it, and nothing is committed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from aiokafka import AIOKafkaClient, AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.rejects import stop_client
from dueledger.ledger.kafka.topics import unavailable
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

REQUEST_SECONDS: Final = 10.0
_SECONDS_MAX: Final = 30.0
_POLL_MILLISECONDS: Final = 500
_RECORDS_A_POLL: Final = 100


class UnreadRecords(NamedTuple):
    """What a group has not read of a topic.

    `oldest` is the Kafka timestamp of the oldest record that is retained. `deleted` records were
    removed by retention before they were read.
    """

    unread: int = 0
    oldest: datetime | None = None
    deleted: int = 0


async def find_unread_records(
    settings: KafkaSettings, topic: str, group: str, *, client: str
) -> UnreadRecords:
    """Return what a group has not read. A group without offsets has read nothing.

    Raises Unavailable, and InvalidSetting if a file that the settings name cannot be used.
    """
    connections = AIOKafkaClient(
        **client_arguments(settings),
        client_id=client,
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    consumer = AIOKafkaConsumer(
        **client_arguments(settings),
        client_id=client,
        group_id=group,
        enable_auto_commit=False,
        isolation_level="read_committed",
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            await connections.bootstrap()
            # All topics: a broker may make one that it is asked for by its name.
            cluster = await connections.fetch_all_metadata()
            numbers = cluster.partitions_for_topic(topic) or set[int]()
            if not numbers:
                return UnreadRecords()
            await consumer.start()
            return await _find(consumer, [TopicPartition(topic, each) for each in sorted(numbers)])
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(error) from error
    finally:
        await stop_client(consumer)
        await connections.close()


async def _find(consumer: AIOKafkaConsumer, places: Sequence[TopicPartition]) -> UnreadRecords:
    consumer.assign(places)  # by hand, so that it is no member of the group
    first = await consumer.beginning_offsets(places)
    end = await consumer.end_offsets(places)
    deleted = 0
    unread: dict[TopicPartition, int] = {}
    for place in places:
        committed = await consumer.committed(place)
        reached = first[place] if committed is None else committed
        deleted += max(0, min(first[place], end[place]) - reached)
        if max(reached, first[place]) < end[place]:
            unread[place] = max(reached, first[place])
    if not unread:
        return UnreadRecords(deleted=deleted)
    count, oldest = await _read_first(consumer, unread, end)
    return UnreadRecords(count, oldest, deleted)


async def _read_first(
    consumer: AIOKafkaConsumer,
    unread: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> tuple[int, datetime | None]:
    """Count from the first record of each partition; there may be none but ends of transactions."""
    consumer.assign(list(unread))
    for place, offset in unread.items():
        consumer.seek(place, offset)
    waiting = set(unread)
    count, timestamps = 0, list[int]()
    while waiting:
        found = await consumer.getmany(
            *waiting, timeout_ms=_POLL_MILLISECONDS, max_records=_RECORDS_A_POLL
        )
        for place, records in found.items():
            if records and place in waiting:
                waiting.discard(place)
                count += end[place] - records[0].offset
                timestamps.append(records[0].timestamp)
        for place in list(waiting):
            if await consumer.position(place) >= end[place]:
                waiting.discard(place)
    oldest = datetime.fromtimestamp(min(timestamps) / 1000, UTC) if timestamps else None
    return count, oldest
