"""Topics are made once, by the first that needs them; topics that a broker refuses are named."""

import pytest
from aiokafka import AIOKafkaProducer
from pydantic import SecretStr
from structlog.testing import capture_logs

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.topics import make_missing_topics, make_topics
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.settings import Settings


async def partitions_of(bootstrap_servers: str, topic: str) -> set[int]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        return await producer.partitions_for(topic)


async def test_a_topic_that_cannot_be_made_is_named_and_the_others_are_made(
    bootstrap_servers: str, kind: str
) -> None:
    good = f"made-{kind}"
    topics = [good, "no good"]
    two = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=2)
    nine = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=9)
    refused = await make_missing_topics(two, topics)
    again = await make_missing_topics(nine, [good])
    assert refused == {"no good": "InvalidTopicError"}
    assert again == {}
    assert await partitions_of(bootstrap_servers, good) == {0, 1}


async def test_a_process_reports_which_of_its_topics_are_refused_and_goes_on(
    bootstrap_servers: str, kind: str
) -> None:
    settings = Settings(
        dsn=SecretStr("postgresql://"), bootstrap_servers=bootstrap_servers, topic_partitions=3
    )
    good = f"made-{kind}"
    with capture_logs() as logs:
        await make_topics(settings, {good, "no good"}, client="test", role="worker")
    (log,) = logs
    assert (log["event"], log["topic"], log["reason"]) == (
        LogEvent.TOPIC_UNAVAILABLE, "no good", "InvalidTopicError",
    )  # fmt: skip
    assert await partitions_of(bootstrap_servers, good) == {0, 1, 2}


async def test_without_a_broker_the_error_names_what_to_check() -> None:
    with pytest.raises(Unavailable, match="DUELEDGER_BOOTSTRAP_SERVERS"):
        await make_missing_topics(KafkaSettings(bootstrap_servers="127.0.0.1:9"), ["any"])
