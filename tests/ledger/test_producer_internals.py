"""What ends while it waits for a retry ends without errors of the client's own callbacks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import TopicPartition

from dueledger import allocator, ledger, reconciler, workers
from dueledger.ledger.kafka.producer_internals import close_in_background, new_producer

PARTITION = TopicPartition("due.Test", 0)


async def _close(producer: AIOKafkaProducer) -> None:
    inside = cast("Any", producer)
    inside._sender._sender_task = asyncio.ensure_future(asyncio.sleep(0))
    await close_in_background(producer, 1.0)


async def _fail_all(producer: AIOKafkaProducer) -> None:
    cast("Any", producer)._message_accumulator.fail_all(KafkaConnectionError())
    await _close(producer)


def test_every_producer_of_the_processes_is_made_so() -> None:
    folders = [Path(each.__path__[0]) for each in (allocator, ledger, reconciler, workers)]
    made = {
        path.name
        for folder in folders
        for path in folder.rglob("*.py")
        if "AIOKafkaProducer(" in path.read_text(encoding="utf-8")
    }
    assert made == {"producer_internals.py"}


@pytest.mark.parametrize("end", [_fail_all, _close])
def test_g5_a_batch_that_ends_between_two_attempts_leaves_no_error_in_the_loop(
    end: Callable[[AIOKafkaProducer], Any],
) -> None:
    errors: list[dict[str, Any]] = []

    async def end_between_two_attempts() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        producer = new_producer(bootstrap_servers="127.0.0.1:1", enable_idempotence=True)
        inside = cast("Any", producer)
        inside._txn_manager.set_pid_and_epoch(1, 0)
        accumulator = inside._message_accumulator
        builder = producer.create_batch()
        builder.append(key=None, value=b"1", timestamp=None)
        sent = await accumulator.add_batch(builder, PARTITION, 1)
        accumulator.reenqueue(accumulator._pop_batch(PARTITION))

        await end(producer)
        await asyncio.wait({sent})

        inside._closed = True
        assert sent.cancelled() or isinstance(sent.exception(), KafkaConnectionError)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as alone:  # nobody else's errors
        alone.run(end_between_two_attempts())
    assert errors == []
