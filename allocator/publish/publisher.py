"""The publisher of claims: one record batch, one send, bounded in time.

aiokafka 0.14 behaves as follows:

- An idempotent producer retries for ever, and a batch's future has no time limit. The publisher
  sets one.
- A batch that finds no leader within the request timeout, or that a broker refuses, has used up
  its sequence number; every later batch of that partition is then out of order. So a producer that
  failed once is never used again.
- A batch queued for a broker that does not answer may still be sent after the time limit. So the
  sender is stopped before a batch is reported as never sent.
- A broker that no longer remembers an old batch answers "duplicate", and aiokafka reports success
  with offset -1. The batch was published at an unknown offset: the claim is ambiguous.
"""

import asyncio
import itertools
from collections.abc import Collection, Sequence
from contextlib import suppress
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
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.producer_internals import (
    close_in_background,
    new_producer,
    stop_sending,
)
from dueledger.ledger.kafka.topics import make_missing_topics, unavailable
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import Stop

# The producer can be used again if one of these is raised: nothing was queued.
_NOT_QUEUED: Final = (
    UnknownTopicOrPartitionError,
    TopicAuthorizationFailedError,
    AssertionError,  # how aiokafka says that the topic has no such partition
)


class SendResult(StrEnum):
    """What is certain about a batch after its send."""

    ACKNOWLEDGED = "acknowledged"
    NEVER_LEFT = "never_left"
    AMBIGUOUS = "ambiguous"


class OutgoingClaim(Protocol):
    """A claim, as the publisher needs it."""

    @property
    def fence(self) -> int:
        """Number of the claim."""
        ...

    @property
    def topic(self) -> str:
        """Topic that it is sent to."""
        ...

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        ...

    @property
    def records(self) -> OutgoingBatch:
        """The batch that holds its records, complete."""
        ...

    @property
    def records_before(self) -> int:
        """Number of records of other claims before its own in the batch."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """How one claim's send ended. `base_offset` is set exactly if it was acknowledged."""

    fence: int
    topic: str
    outcome: SendResult
    base_offset: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherOptions:
    """How to reach Kafka, the sizes of batches and the time limits."""

    kafka: KafkaSettings
    client_id: str
    batch_bytes_max: int
    compression: Compression
    request_seconds: float
    send_seconds: float
    drain_seconds: float


@final
class Publisher:
    """Owns the producer: starts one on demand, and discards it after any failed send."""

    def __init__(self, options: PublisherOptions, *, stop: Stop) -> None:
        self._options = options
        self._stop = stop
        self._producer: AIOKafkaProducer | None = None
        self._topics: set[str] = set()
        self._unavailable: dict[str, str] = {}
        self._partition_locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._limits: set[asyncio.Timeout] = set()
        stop.on_request(self._shorten_limits)

    def new_batch(self, compression: str | None) -> OutgoingBatch:
        """Return an empty batch with this codec, or with that of the options."""
        codec = self._options.compression if compression is None else Compression(compression)
        return OutgoingBatch(self._options.batch_bytes_max, codec)

    async def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of each topic, making those that are missing.

        Unavailable topics are left out; `unavailable_topics` has the reasons. Raises Unavailable.
        """
        producer = await self._running_producer()
        unknown = set(topics) - self._topics
        if unknown:
            self._unavailable = await make_missing_topics(
                self._options.kafka, unknown, timeout_seconds=self._options.request_seconds
            )
            self._topics |= unknown - self._unavailable.keys()
        counts: dict[str, int] = {}
        for topic in topics:
            if topic not in self._topics:
                continue
            try:
                counts[topic] = len(await producer.partitions_for(topic))
            except KafkaError as error:
                self._topics.discard(topic)
                self._unavailable[topic] = type(error).__name__
        return counts

    @property
    def unavailable_topics(self) -> dict[str, str]:
        """Topics that were unavailable when last asked for, with the reason."""
        return self._unavailable

    async def publish(self, batches: Sequence[OutgoingClaim]) -> list[Delivery]:
        """Send each claim's batch once, wait for the brokers, and return results in input order.

        Returns within `send_seconds`, or within `drain_seconds` after a stop was requested. Does
        not raise Kafka's errors: each Delivery has its result.
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
        """Send a batch after the earlier ones of its partition; return its base offset.

        aiokafka 0.14 takes one batch of a partition at a time, and counts the time that others
        wait more than once: about fifty waiting batches would time out within half a second.
        """
        async with self._partition_locks.setdefault((batch.topic, batch.partition), asyncio.Lock()):
            sent = await producer.send_batch(batch.records, batch.topic, partition=batch.partition)
        return (await sent).offset

    async def _wait_for(self, sends: Sequence["asyncio.Future[int]"]) -> None:
        options = self._options
        seconds = options.drain_seconds if self._stop.is_requested else options.send_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                self._limits.add(limit)
                try:
                    await asyncio.wait(sends)
                finally:
                    self._limits.remove(limit)

    def _shorten_limits(self) -> None:
        drained_at = asyncio.get_running_loop().time() + self._options.drain_seconds
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(min(limit.when() or drained_at, drained_at))

    async def stop(self) -> None:
        """Close the producer; batches that were queued and not acknowledged are dropped."""
        if self._producer is not None:
            await self._discard(self._producer)
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._options.drain_seconds)
        for closing in self._closing:
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _running_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            self._topics.clear()
            self._producer = await self._start()
        return self._producer

    async def _start(self) -> AIOKafkaProducer:
        options = self._options
        producer = new_producer(
            **client_arguments(options.kafka),
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
        """Stop this producer from sending, and close it in the background."""
        if self._producer is producer:
            self._producer = None
        if not await stop_sending(producer):
            return
        closing = asyncio.ensure_future(
            close_in_background(producer, self._options.request_seconds)
        )
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


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
        was_sent = batch.records.was_sent
        outcome = SendResult.AMBIGUOUS if was_sent else SendResult.NEVER_LEFT
        return _delivery(batch, outcome, type(failure).__name__)
    if send.result() < 0:
        return _delivery(batch, SendResult.AMBIGUOUS, "DuplicateSequenceNumber")
    base_offset = send.result() + batch.records_before
    return Delivery(batch.fence, batch.topic, SendResult.ACKNOWLEDGED, base_offset=base_offset)


def _delivery(batch: OutgoingClaim, outcome: SendResult, reason: str) -> Delivery:
    return Delivery(batch.fence, batch.topic, outcome, reason=reason)
