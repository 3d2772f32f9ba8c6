"""Sending of poison records to the reject topic, unchanged, with the reason and their origin."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast, final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import (
    KafkaConfigurationError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
)

from dueledger.ledger.errors import InvalidHeader, InvalidInput, InvalidSetting
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.envelope import rejected_headers
from dueledger.ledger.kafka.producer_internals import new_producer
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

STOP_SECONDS: Final = 5.0  # a client may wait without end for a broker that is gone
_BYTES_MAX: Final = 4 * 1024 * 1024 + 64 * 1024  # a large record and the reason
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordTooLargeError)


@final
@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A polled record. An unreadable one has its `fault` and the parts that could be read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    fault: InvalidHeader | None = None

    def is_copy_of(self, other: "ConsumedRecord") -> bool:
        """Return whether the other one is of the same partition and has the same content."""
        return (
            self.value == other.value
            and self.key == other.key
            and self.headers == other.headers
            and self.partition == other.partition
            and self.topic == other.topic
        )

    def raise_if_unreadable(self) -> None:
        """Raise InvalidHeader if the record is unreadable."""
        if self.fault is not None:
            raise self.fault


class RejectedRecord(NamedTuple):
    """A record that is rejected, and its error."""

    record: ConsumedRecord
    error: InvalidInput


class _RejectCopy(NamedTuple):
    """The sent copy of a rejected record. Kafka's client refuses one with neither key nor value."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    reasons: Sequence[tuple[str, bytes | None]]


@final
class RejectSender:
    """Sends poison to a topic. Its producer is built for the first, and again after a failure."""

    def __init__(self, settings: KafkaSettings, topic: str, *, client: str) -> None:
        self._settings = settings
        self._topic = topic
        self._client = client
        self._producer: AIOKafkaProducer | None = None

    async def send(self, rejected: Sequence[RejectedRecord]) -> None:
        """Send poison in order and wait for the acknowledgements. Raises KafkaError or OSError.

        Of successive copies with the same fault one is sent, with their number.
        """
        if self._producer is None:
            self._producer = await self._start_producer()
        try:
            await _send_shrunk(self._producer, self._topic, rejected)
        except BaseException:  # a cancelled send too: its batches would be sent later
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Stop the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_client(producer)

    async def _start_producer(self) -> AIOKafkaProducer:
        try:
            arguments = client_arguments(self._settings)
        except InvalidSetting as error:  # a file is gone since the start: the caller retries
            raise KafkaConfigurationError(str(error)) from error
        producer = new_producer(
            **arguments,
            client_id=self._client,
            # Not idempotent: aiokafka 0.14 counts a record that the broker refuses as too large;
            # every later one is then refused as out of sequence. So one may be sent twice.
            acks="all",
            max_request_size=_BYTES_MAX,
        )
        try:
            await producer.start()
        except BaseException:
            await stop_client(producer)
            raise
        return producer


async def stop_client(client: BatchConsumer | AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Stop a client in bounded time: without a broker it may wait without end.

    It may also end as its cancelled fetch; that must not cancel the caller.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait({stopping}, timeout=STOP_SECONDS)
    finally:
        stopping.cancel()
    if stopping.done() and not stopping.cancelled():
        with suppress(KafkaError):
            stopping.result()


async def _send_shrunk(
    producer: AIOKafkaProducer, topic: str, rejected: Sequence[RejectedRecord]
) -> None:
    """Send records.

    With the reason added, a record may be larger than the broker allows. Then it is sent without
    its value, or with the reason only; the origin still names the original record.
    """
    rest: Sequence[_RejectCopy] = [_copy(first, count) for first, count in _runs(rejected)]
    for shrink in (_whole, _without_value):
        rest = await _send(producer, topic, rest, shrink)
    for refused in await _send(producer, topic, rest, _reasons_only):
        message = f"{topic} rejects even a record of the reasons alone: {refused.reasons!r}"
        raise MessageSizeTooLargeError(message)


async def _send(
    producer: AIOKafkaProducer,
    topic: str,
    copies: Sequence[_RejectCopy],
    shrink: Callable[[_RejectCopy], _RejectCopy],
) -> list[_RejectCopy]:
    """Send each copy after `shrink`; return the copies that are still too large."""
    large: list[_RejectCopy] = []
    sent: list[tuple[_RejectCopy, asyncio.Future[Any]]] = []
    for copy in copies:
        small = shrink(copy)
        # The stubs do not know that a header's value may be null.
        headers = cast("list[tuple[str, bytes]]", [*small.headers, *small.reasons])
        try:
            future = await producer.send(topic, small.value, small.key, headers=headers)
        except _TOO_LARGE:
            large.append(copy)
        else:
            sent.append((copy, future))
    results = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
    for (copy, _), result in zip(sent, results, strict=True):
        if isinstance(result, _TOO_LARGE):
            large.append(copy)
        elif isinstance(result, BaseException):
            raise result
    return large


def _runs(rejected: Sequence[RejectedRecord]) -> Iterator[tuple[RejectedRecord, int]]:
    """Yield the first of each run of copies with the same fault, and their number."""
    first, count = rejected[0], 0
    for each in rejected:
        is_same = each.error is first.error or str(each.error) == str(first.error)
        if not (is_same and each.record.is_copy_of(first.record)):
            yield first, count
            first, count = each, 0
        count += 1
    yield first, count


def _copy(rejected: RejectedRecord, count: int) -> _RejectCopy:
    record, error = rejected
    reasons = rejected_headers(
        (),
        code=error.code,
        field=error.problems[0].field if error.problems else _field(error.fields),
        reason=str(error),
        origin=(record.topic, record.partition, record.offset),
        count=count,
    )
    value = b"" if record.key is None and record.value is None else record.value
    return _RejectCopy(record.key, value, record.headers, reasons)


def _whole(copy: _RejectCopy) -> _RejectCopy:
    return copy


def _without_value(copy: _RejectCopy) -> _RejectCopy:
    return copy._replace(value=b"")


def _reasons_only(copy: _RejectCopy) -> _RejectCopy:
    return _RejectCopy(None, b"", (), copy.reasons)


def _field(fields: Mapping[str, Any]) -> str | None:
    named = fields.get("field")
    return None if named is None else str(named)
