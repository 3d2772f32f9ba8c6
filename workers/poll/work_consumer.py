"""The worker's Kafka consumer: polls work, commits offsets, rejects unreadable records."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from aiokafka import (
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
)

from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.envelope import REJECTED_TOPIC, WORK_TOPIC_PREFIX, rejected_headers
from dueledger.ledger.kafka.topics import make_topics, unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.workers.poll.partition_queue import TopicPartitionKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from dueledger.ledger.kafka.record_batches import FetchedBatch
    from dueledger.workers.claim_slices import RejectedWorkRecord
    from dueledger.workers.settings import WorkerSettings

ALL_WORK: Final = f"^{re.escape(WORK_TOPIC_PREFIX)}"
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
METADATA_SECONDS: Final = 10
FAILURES_MAX: Final = 5
REJECT_AGAIN_SECONDS: Final = 1.0
RETRY_MILLISECONDS: Final = 1_000  # the client's own 100 ms is ten log lines a second, and a fetch
STOP_SECONDS: Final = 5.0  # a client may wait without end for a broker that is gone
# Never assigned. Polling it keeps the consumer alive for Kafka's client, and returns no records.
_NO_PARTITION: Final = TopicPartition("", 0)


log = get_logger("worker")


class _Listener(ConsumerRebalanceListener):
    def __init__(self, revoked: Callable[[Collection[TopicPartitionKey]], Awaitable[None]]) -> None:
        self._revoked = revoked

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        await self._revoked([TopicPartitionKey(*pair) for pair in revoked])

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Do nothing: a partition's queue is made with its first records."""


@final
class WorkConsumer:
    """Consumes the work topics as one member of the group. Only `commit` moves offsets.

    `revoked` is awaited while the partitions are still assigned to this member.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Collection[str],
        *,
        name: str,
        revoked: Callable[[Collection[TopicPartitionKey]], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._topics = sorted(topics)
        self._name = name
        self._revoked = revoked
        self._consumer: BatchConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._failures = 0

    async def start(self) -> None:
        """Make missing topics and join the group. Raises Unavailable."""
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
                await _stop(self._consumer)
        finally:
            if self._producer is not None:
                await _stop(self._producer)

    def assigned(self) -> set[TopicPartitionKey]:
        """Return the partitions that are assigned to this member."""
        if self._consumer is None:
            return set()
        return {TopicPartitionKey(*pair) for pair in self._consumer.assignment()}

    async def poll(
        self, full: Collection[TopicPartitionKey], *, timeout_seconds: float
    ) -> dict[TopicPartitionKey, list[FetchedBatch]]:
        """Return the batches that arrived, except of `full` partitions."""
        if self._consumer is None:
            self._consumer = await self._join()
        open_partitions: list[TopicPartition] = []
        if full:
            open_partitions = [
                pair for pair in self._consumer.assignment() if TopicPartitionKey(*pair) not in full
            ] or [_NO_PARTITION]
        try:
            polled = await self._consumer.getbatches(
                *open_partitions,
                timeout_ms=int(timeout_seconds * 1000),
                records_max=self._settings.worker_poll_records_max,
            )
        except KafkaError:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                await self._leave()
            raise
        self._failures = 0
        return {TopicPartitionKey(*pair): batches for pair, batches in polled.items()}

    async def commit(self, offsets: Mapping[TopicPartitionKey, int]) -> bool:
        """Commit offsets. Returns False if a partition was assigned to another member meanwhile."""
        if self._consumer is None:
            return False
        try:
            await self._consumer.commit(
                {TopicPartition(*partition): offset for partition, offset in offsets.items()}
            )
        except (CommitFailedError, IllegalStateError):
            return False
        return True

    async def reject(self, partition: TopicPartitionKey, rejected: RejectedWorkRecord) -> None:
        """Send an unreadable record to `due-rejected`. Returns when Kafka has acknowledged it.

        It retries without end, because the partition's offsets must not pass the record before.
        """
        record, error = rejected.record, rejected.error
        problem = error.problems[0] if error.problems else None
        headers = rejected_headers(
            record.headers,
            code=error.code,
            field=problem.field if problem else None,
            reason=str(error),
            origin=(partition.topic, partition.partition, record.offset),
        )
        headers_sent = [(header, value or b"") for header, value in headers]
        added_headers = headers_sent[len(record.headers) :]
        key = record.key
        value = record.value if key is not None or record.value is not None else b""
        while True:
            try:
                producer = await self._reject_producer()
                await producer.send_and_wait(REJECTED_TOPIC, value, key, headers=headers_sent)
            except (RecordTooLargeError, MessageSizeTooLargeError):
                # The headers still have the reason and the record's origin.
                if value:
                    value = b"" if key is None else None
                elif key is not None:
                    key, value = None, b""
                else:
                    headers_sent = added_headers
                    await asyncio.sleep(REJECT_AGAIN_SECONDS)
            except (KafkaError, OSError) as failure:
                log.warning(
                    LogEvent.TICK_FAILED, error=type(failure).__name__, topic=REJECTED_TOPIC
                )
                await self._drop_producer()
                await asyncio.sleep(REJECT_AGAIN_SECONDS)
            else:
                return

    async def _reject_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._settings.bootstrap_servers,
                client_id=self._name,
                acks="all",
                enable_idempotence=True,
            )
            try:
                await producer.start()
            except BaseException:
                await _stop(producer)
                raise
            self._producer = producer
        return self._producer

    async def _drop_producer(self) -> None:
        # After a timeout an idempotent producer of aiokafka 0.14 may never send again.
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stop(producer)

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._failures = 0
        if consumer is not None:
            await self._revoked([TopicPartitionKey(*pair) for pair in consumer.assignment()])
            await _stop(consumer)

    async def _join(self) -> BatchConsumer:
        settings = self._settings
        consumer = BatchConsumer(
            bootstrap_servers=settings.bootstrap_servers,
            client_id=self._name,
            group_id=settings.worker_group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            retry_backoff_ms=RETRY_MILLISECONDS,
            max_partition_fetch_bytes=FETCH_BYTES_MAX // 2,
            fetch_max_bytes=FETCH_BYTES_MAX,
            metadata_max_age_ms=METADATA_SECONDS * 1000,
            session_timeout_ms=int(settings.worker_session_timeout_seconds * 1000),
            heartbeat_interval_ms=int(settings.worker_session_timeout_seconds * 1000 / 3),
        )
        listener = _Listener(self._revoked)
        if settings.worker_all_topics:
            consumer.subscribe(pattern=ALL_WORK, listener=listener)
        else:
            consumer.subscribe(self._topics, listener=listener)
        try:
            await consumer.start()
        except BaseException:
            await _stop(consumer)
            raise
        return consumer


async def _stop(client: BatchConsumer | AIOKafkaProducer) -> None:
    """Stop a client in bounded time. If the broker is not reached, the session ends by timeout.

    Without a broker the stop may end as a cancelled fetch; that must not cancel the caller.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait({stopping}, timeout=STOP_SECONDS)
    finally:
        stopping.cancel()
    if stopping.done() and not stopping.cancelled():
        with suppress(KafkaError):
            stopping.result()
