"""A reader that begins while the broker goes."""

from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.client_arguments import (
    ClientArguments,
    client_arguments,
    member_arguments,
)
from dueledger.ledger.kafka.topic_reader import started
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

NOBODY = "127.0.0.1:1"


def consumer(arguments: ClientArguments) -> BatchConsumer:
    member = member_arguments("group", session_seconds=10)
    return BatchConsumer(arguments, member, client_id="test")


def producer(arguments: ClientArguments) -> AIOKafkaProducer:
    return AIOKafkaProducer(**arguments)


@pytest.mark.parametrize("make", [consumer, producer])
async def test_a_broker_that_goes_once_topics_are_made_is_unavailable(
    make: Callable[[ClientArguments], BatchConsumer | AIOKafkaProducer],
) -> None:
    client = make(client_arguments(KafkaSettings(bootstrap_servers=NOBODY)))
    with pytest.raises(Unavailable, match="DUELEDGER_BOOTSTRAP_SERVERS"):
        async with started(client):
            pytest.fail("nobody listens there")
