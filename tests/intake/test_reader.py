"""A reader that begins while the broker goes."""

import pytest
from aiokafka import AIOKafkaProducer

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.topic_reader import started

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("kind", [BatchConsumer, AIOKafkaProducer])
async def test_a_broker_that_goes_once_topics_are_made_is_unavailable(
    kind: type[BatchConsumer | AIOKafkaProducer],
) -> None:
    client = kind(bootstrap_servers=NOBODY)
    with pytest.raises(Unavailable, match="DUELEDGER_BOOTSTRAP_SERVERS"):
        async with started(client):
            pytest.fail("nobody listens there")
