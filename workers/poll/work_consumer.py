"""The worker's Kafka consumer: polls work, commits offsets, rejects unreadable records."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError

from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.client_arguments import client_arguments, member_arguments
from dueledger.ledger.kafka.envelope import REJECTED_TOPIC, WORK_TOPIC_PREFIX
from dueledger.ledger.kafka.fetcher import FetchLimits
from dueledger.ledger.kafka.rejects import (
    ConsumedRecord,
    RejectedRecord,
    RejectSender,
    stop_client,
)
from dueledger.ledger.kafka.topics import make_topics, unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.workers.start.partition_queue import TopicPartitionKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from dueledger.ledger.kafka.fetch_position import FetchPosition
    from dueledger.ledger.kafka.record_batches import FetchedBatch
    from dueledger.workers.claim_slices import RejectedWorkRecord
    from dueledger.workers.settings import WorkerSettings

ALL_WORK: Final = f"^{re.escape(WORK_TOPIC_PREFIX)}"
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
FAILURES_MAX: Final = 5
REJECT_AGAIN_SECONDS: Final = 1.0
ENDS_SECONDS: Final = 5.0
RETRY_MILLISECONDS: Final = 1_000  # the default, 100 ms, is ten log lines a second

log = get_logger("worker")


@final
class WorkConsumer:
    """Consumes the work topics as one member of the group. Only `commit` moves offsets.

    `revoked` is awaited while the partitions are still assigned to this member. All of them are
    revoked at each rebalance.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Collection[str],
        *,
        name: str,
        revoked: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._topics = sorted(topics)
        self._name = name
        self._revoked = revoked
        self._consumer: BatchConsumer | None = None
        self._rejects = RejectSender(settings, REJECTED_TOPIC, client=name)
        self._failures = 0
        self._must_rejoin = False

    async def start(self) -> None:
        """Make missing topics and join the group. Raises Unavailable, and InvalidSetting."""
        topics = {REJECTED_TOPIC, *self._topics}
        await make_topics(self._settings, topics, client=self._name, role="worker")
        try:
            self._consumer = await self._join()
        except (KafkaError, OSError) as error:
            raise unavailable(error) from error

    async def stop(self) -> None:
        """Leave the group."""
        try:
            if self._consumer is not None:
                await stop_client(self._consumer)
        finally:
            await self._rejects.aclose()

    def assigned(self) -> set[TopicPartitionKey]:
        """Return the partitions that are assigned to this member."""
        if self._consumer is None:
            return set()
        return {TopicPartitionKey(*pair) for pair in self._consumer.assignment()}

    def positions(self) -> dict[TopicPartitionKey, FetchPosition]:
        """Return the position in each assigned partition. It makes no request."""
        if self._consumer is None:
            return {}
        positions = self._consumer.positions()
        return {TopicPartitionKey(*pair): position for pair, position in positions.items()}

    async def read_ends(
        self, partitions: Collection[TopicPartitionKey]
    ) -> dict[TopicPartitionKey, int]:
        """Ask for the ends of partitions on a connection of its own. Empty without an answer."""
        pairs = [TopicPartition(*partition) for partition in partitions]
        consumer = AIOKafkaConsumer(
            **client_arguments(self._settings), client_id=self._name, enable_auto_commit=False
        )
        try:
            async with asyncio.timeout(ENDS_SECONDS):
                await consumer.start()
                ends = await consumer.end_offsets(pairs)
        except (KafkaError, OSError, TimeoutError):
            return {}
        finally:
            await stop_client(consumer)
        return {TopicPartitionKey(*pair): end for pair, end in ends.items()}

    def rejoin(self) -> None:
        """Leave the group and join it anew at the next poll, with new connections."""
        self._must_rejoin = True

    async def poll(
        self, full: Collection[TopicPartitionKey], *, timeout_seconds: float
    ) -> dict[TopicPartitionKey, list[FetchedBatch]]:
        """Return the batches that arrived, except of `full` partitions."""
        if self._must_rejoin:
            await self._leave()
        if self._consumer is None:
            self._consumer = await self._join()
        try:
            polled = await self._consumer.getbatches(
                timeout_ms=int(timeout_seconds * 1000),
                records_max=self._settings.worker_poll_records_max,
                without={TopicPartition(*partition) for partition in full},
            )
        except KafkaError:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                await self._leave()
            raise
        self._failures = 0
        return {TopicPartitionKey(*pair): batches for pair, batches in polled.items()}

    async def commit(
        self, offsets: Mapping[TopicPartitionKey, int]
    ) -> Mapping[TopicPartitionKey, int]:
        """Commit the offsets of assigned partitions, and return them.

        Kafka's client would refuse all for one that is not assigned. Returns none if the group
        rebalances meanwhile.
        """
        assigned = self.assigned()
        offsets = {each: offset for each, offset in offsets.items() if each in assigned}
        if self._consumer is None or not offsets:
            return {}
        try:
            await self._consumer.commit({TopicPartition(*each): at for each, at in offsets.items()})
        except CommitFailedError:
            return {}
        return offsets

    async def reject(
        self, partition: TopicPartitionKey, rejected: Sequence[RejectedWorkRecord]
    ) -> None:
        """Send unreadable records to `due-rejected`. Returns when Kafka has acknowledged them.

        It retries without end, because the partition's offsets must not pass the records before.
        """
        copies = [_copy(partition, each) for each in rejected]
        while True:
            try:
                await self._rejects.send(copies)
            except (KafkaError, OSError) as failure:
                log.warning(
                    LogEvent.TICK_FAILED, error=type(failure).__name__, topic=REJECTED_TOPIC
                )
                await asyncio.sleep(REJECT_AGAIN_SECONDS)
            else:
                return

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._failures, self._must_rejoin = 0, False
        if consumer is not None:
            await self._revoked()
            await stop_client(consumer)

    async def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        del partitions
        await self._revoked()

    async def _join(self) -> BatchConsumer:
        settings = self._settings
        consumer = BatchConsumer(
            client_arguments(settings),
            member_arguments(
                settings.worker_group_id,
                session_seconds=settings.worker_session_timeout_seconds,
                retry_milliseconds=RETRY_MILLISECONDS,
            ),
            client_id=self._name,
            limits=FetchLimits(bytes_max=FETCH_BYTES_MAX, partition_bytes_max=FETCH_BYTES_MAX // 2),
        )
        if settings.worker_all_topics:
            consumer.subscribe(pattern=ALL_WORK, revoked=self._revoke)
        else:
            consumer.subscribe(self._topics, revoked=self._revoke)
        try:
            await consumer.start()
        except BaseException:
            await stop_client(consumer)
            raise
        return consumer


def _copy(partition: TopicPartitionKey, rejected: RejectedWorkRecord) -> RejectedRecord:
    record = rejected.record
    copied = ConsumedRecord(*partition, record.offset, record.key, record.value, record.headers)
    return RejectedRecord(copied, rejected.error)
