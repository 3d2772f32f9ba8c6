"""One claim, one record batch, one send, bounded in time.

What aiokafka 0.14 does, and what follows from it here:

- An idempotent producer retries for ever: a batch's future has no time limit, so we set one.
- A batch that finds no leader for the request timeout, or that a broker refuses, has burnt its
  sequence number; every later batch to that partition is then out of order. So a producer that
  failed once is never used again.
- A batch queued behind a silent broker may still leave after we gave up. So the sender is halted
  before anybody is told that a batch never left.
- A broker that no longer remembers an old batch answers "duplicate", and aiokafka reports success
  with offset -1. It was published, we do not know where: ambiguous.
"""

import asyncio
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from dueledger.allocator.publish.outgoing_batch import Compression, OutgoingBatch
from dueledger.allocator.publish.producer_shutdown import close_in_background, stop_sending
from dueledger.ledger.kafka.topics import make_missing_topics, unavailable
from dueledger.ledger.runtime.service import Stop

# The producer itself is sound when one of these is raised before anything was queued.
_NOT_QUEUED: Final = (
    UnknownTopicOrPartitionError,
    TopicAuthorizationFailedError,
    AssertionError,  # how aiokafka says that the topic has no such partition
)


class SendResult(StrEnum):
    """What is known of a batch after its send."""

    ACKNOWLEDGED = "acknowledged"
    NEVER_LEFT = "never_left"
    AMBIGUOUS = "ambiguous"


class OutgoingClaim(Protocol):
    """What the publisher needs of a claim."""

    @property
    def fence(self) -> int:
        """Its number."""
        ...

    @property
    def topic(self) -> str:
        """Where it goes."""
        ...

    @property
    def partition(self) -> int:
        """Which partition of the topic."""
        ...

    @property
    def records(self) -> OutgoingBatch:
        """The batch that holds its records, complete."""
        ...

    @property
    def records_before(self) -> int:
        """How many records of others lie before its own."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """How one claim's send ended. `base_offset` is there exactly when it was acknowledged."""

    fence: int
    topic: str
    outcome: SendResult
    base_offset: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherOptions:
    """How to reach Kafka and how long to wait for it."""

    bootstrap_servers: str
    client_id: str
    topic_partitions: int
    topic_replication: int
    batch_bytes_max: int
    compression: Compression
    request_seconds: float
    send_seconds: float
    drain_seconds: float


@final
class Publisher:
    """Owns the producer: made on demand, thrown away after any failed send."""

    def __init__(self, options: PublisherOptions, *, stop: Stop) -> None:
        self._options = options
        self._stop = stop
        self._producer: AIOKafkaProducer | None = None
        self._topics: set[str] = set()
        self._refused: dict[str, str] = {}
        self._partition_locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def new_batch(self) -> OutgoingBatch:
        """Return an empty batch."""
        return OutgoingBatch(self._options.batch_bytes_max, self._options.compression)

    async def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of each topic, making those that are missing.

        Topics that cannot be had are left out; `refused` says why. Raises Unavailable.
        """
        producer = await self._running_producer()
        unknown = set(topics) - self._topics
        if unknown:
            self._refused = await make_missing_topics(
                self._options.bootstrap_servers,
                unknown,
                partitions=self._options.topic_partitions,
                replication=self._options.topic_replication,
                timeout_seconds=self._options.request_seconds,
            )
            self._topics |= unknown - self._refused.keys()
        counts: dict[str, int] = {}
        for topic in topics:
            if topic not in self._topics:
                continue
            try:
                counts[topic] = len(await producer.partitions_for(topic))
            except KafkaError as error:
                self._topics.discard(topic)
                self._refused[topic] = type(error).__name__
        return counts

    @property
    def unavailable_topics(self) -> dict[str, str]:
        """Topics that could not be had when last asked for, with the reason."""
        return self._refused

    async def publish(self, batches: Sequence[OutgoingClaim]) -> list[Delivery]:
        """Send the batches of claims once each and wait for the brokers; answers in input order.

        Returns within `send_seconds`, or within `drain_seconds` of a stop being asked for. Never
        raises for what Kafka does: each delivery says how it ended.
        """
        producer = self._producer
        if producer is None:
            return [_delivery(batch, SendResult.NEVER_LEFT, "NoProducer") for batch in batches]
        sends = {
            batch.records: asyncio.ensure_future(self._send(producer, batch))
            for batch in {batch.records: batch for batch in batches}.values()
        }
        try:
            await self._wait_for(list(sends.values()))
            failures = {records: _failure(send) for records, send in sends.items()}
            if any(itertools.starmap(_breaks_producer, failures.items())):
                await self._discard(producer)
        finally:
            for send in sends.values():
                send.cancel()
        return [
            _delivery_of(batch, sends[batch.records], failures[batch.records]) for batch in batches
        ]

    async def _send(self, producer: AIOKafkaProducer, batch: OutgoingClaim) -> int:
        """Send a batch, after those that wait for its partition; return its base offset.

        aiokafka 0.14 takes one batch of a partition at a time, and counts the time that others
        wait for their turn more than once: some fifty would be refused within half a second.
        """
        async with self._partition_locks.setdefault((batch.topic, batch.partition), asyncio.Lock()):
            sent = await producer.send_batch(batch.records, batch.topic, partition=batch.partition)
        return (await sent).offset

    async def _wait_for(self, sends: Sequence["asyncio.Future[int]"]) -> None:
        ended = asyncio.ensure_future(asyncio.wait(sends))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait(
                {ended, stopped},
                timeout=self._options.send_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not ended.done() and self._stop.is_requested:
                await asyncio.wait({ended}, timeout=self._options.drain_seconds)
        finally:
            ended.cancel()
            stopped.cancel()

    async def stop(self) -> None:
        """Close the producer; what was queued and not acknowledged is forgotten."""
        if self._producer is not None:
            await self._discard(self._producer)
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._options.drain_seconds)
        for burial in self._closing:
            burial.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _running_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            self._topics.clear()
            self._producer = await self._start()
        return self._producer

    async def _start(self) -> AIOKafkaProducer:
        options = self._options
        producer = AIOKafkaProducer(
            bootstrap_servers=options.bootstrap_servers,
            client_id=options.client_id,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=options.batch_bytes_max,
            request_timeout_ms=int(options.request_seconds * 1000),
        )
        try:
            async with asyncio.timeout(options.request_seconds):
                await producer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await producer.stop()
            raise unavailable(error) from error
        return producer

    async def _discard(self, producer: AIOKafkaProducer) -> None:
        """Make sure that nothing more leaves this producer, and bury it in the background."""
        if self._producer is producer:
            self._producer = None
        if not await stop_sending(producer):
            return
        burial = asyncio.ensure_future(close_in_background(producer, self._options.request_seconds))
        self._closing.add(burial)
        burial.add_done_callback(self._closing.discard)


def _failure(send: "asyncio.Future[int]") -> BaseException | None:
    if not send.done():
        return TimeoutError()
    if send.cancelled():
        return asyncio.CancelledError()
    return send.exception()


def _breaks_producer(records: OutgoingBatch, failure: BaseException | None) -> bool:
    if failure is None:
        return False
    return records.was_sent or not isinstance(failure, _NOT_QUEUED)


def _delivery_of(
    batch: OutgoingClaim, send: "asyncio.Future[int]", failure: BaseException | None
) -> Delivery:
    if failure is not None:
        left = batch.records.was_sent
        outcome = SendResult.AMBIGUOUS if left else SendResult.NEVER_LEFT
        return _delivery(batch, outcome, type(failure).__name__)
    if send.result() < 0:
        return _delivery(batch, SendResult.AMBIGUOUS, "DuplicateSequenceNumber")
    base_offset = send.result() + batch.records_before
    return Delivery(batch.fence, batch.topic, SendResult.ACKNOWLEDGED, base_offset=base_offset)


def _delivery(batch: OutgoingClaim, outcome: SendResult, reason: str) -> Delivery:
    return Delivery(batch.fence, batch.topic, outcome, reason=reason)
