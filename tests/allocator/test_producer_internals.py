"""What ends while it waits for a retry ends without errors of the client's own callbacks."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import TopicPartition

from dueledger.allocator.publish.producer_internals import (
    allow_end_before_retry,
    close_in_background,
)

PARTITION = TopicPartition("due.Test", 0)


async def _fail_all(producer: AIOKafkaProducer) -> None:
    cast("Any", producer)._message_accumulator.fail_all(KafkaConnectionError())


async def _close(producer: AIOKafkaProducer) -> None:
    inside = cast("Any", producer)
    inside._sender._sender_task = asyncio.ensure_future(asyncio.sleep(0))
    await close_in_background(producer, 1.0)


@pytest.mark.parametrize("end", [_fail_all, _close])
async def test_g5_a_batch_that_ends_between_two_attempts_leaves_no_error_in_the_loop(
    end: Callable[[AIOKafkaProducer], Any],
) -> None:
    errors: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", enable_idempotence=True)
    allow_end_before_retry(producer)
    inside = cast("Any", producer)
    inside._txn_manager.set_pid_and_epoch(1, 0)
    accumulator = inside._message_accumulator
    builder = producer.create_batch()
    builder.append(key=None, value=b"1", timestamp=None)
    sent = await accumulator.add_batch(builder, PARTITION, 1)
    accumulator.reenqueue(accumulator._pop_batch(PARTITION))

    await end(producer)
    await asyncio.wait({sent})

    assert sent.cancelled() or isinstance(sent.exception(), KafkaConnectionError)
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert errors == []
    inside._closed = True
