"""Makes producers whose retries end without errors, and closes one without flushing it.

aiokafka 0.14 has no public way for either: its ``stop()`` waits until every queued batch is
delivered, and an idempotent producer retries for ever. Only this module uses private attributes of
aiokafka's producer.
"""

# ruff: noqa: SLF001 - see above
# pyright: reportPrivateUsage=false

import asyncio
from collections import deque
from itertools import chain
from typing import Any, Protocol, cast, final

from aiokafka import AIOKafkaProducer


class _ProducerBatch(Protocol):
    future: "asyncio.Future[object]"
    _drain_waiter: "asyncio.Future[None]"


class _ProducerAccumulator(Protocol):
    _batches: dict[object, deque[_ProducerBatch]]
    _pending_batches: set[_ProducerBatch]


@final
class _PendingBatches(set[_ProducerBatch]):
    """Batches in requests. A batch that waits for its retry is none of them.

    The client removes each batch when it ends, and would fail for those that end in between: with
    a traceback for each batch of an outage.
    """

    def remove(self, batch: _ProducerBatch, /) -> None:
        self.discard(batch)


class _ProducerSender(Protocol):
    @property
    def sender_task(self) -> "asyncio.Task[None]": ...


class _ProducerClient(Protocol):
    async def close(self) -> None: ...


class _ProducerInternals(Protocol):
    _closed: bool
    _sender: _ProducerSender
    _message_accumulator: _ProducerAccumulator
    client: _ProducerClient


def new_producer(**arguments: Any) -> AIOKafkaProducer:  # noqa: ANN401 - aiokafka's own
    """Return a producer whose batches may end while they wait for a retry."""
    producer = AIOKafkaProducer(**arguments)
    cast("_ProducerInternals", producer)._message_accumulator._pending_batches = _PendingBatches()
    return producer


async def stop_sending(producer: AIOKafkaProducer) -> bool:
    """Stop the producer's sender task. Returns False if it was stopped before."""
    inside = cast("_ProducerInternals", producer)
    if inside._closed:
        return False
    inside._closed = True
    inside._sender.sender_task.cancel()
    await asyncio.sleep(0)  # from here on it only waits for requests that it has made
    return True


async def close_in_background(producer: AIOKafkaProducer, patience_seconds: float) -> None:
    """Wait for requests in flight, cancel batches that still wait, and close the connections."""
    inside = cast("_ProducerInternals", producer)
    sender = inside._sender.sender_task
    try:
        await asyncio.wait({sender}, timeout=patience_seconds)
    finally:
        sender.cancel()  # the second cancellation reaches the request that it waits for
        await asyncio.wait({sender}, timeout=patience_seconds)
        accumulator = inside._message_accumulator
        queued = chain.from_iterable(accumulator._batches.values())
        for batch in [*queued, *accumulator._pending_batches]:
            batch.future.cancel()
            if (waiter := batch._drain_waiter).done() and not waiter.cancelled():
                waiter.exception()  # else the loop would report it, for nobody else asks
        await inside.client.close()
