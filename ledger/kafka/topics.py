"""Creation of missing topics.

A broker creates an unknown topic when a client asks for its metadata, with the broker's default
number of partitions; aiokafka 0.14 cannot switch that off. So the list of topics is read first.
"""

from collections.abc import Collection
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.log import LogEvent, get_logger

REQUEST_SECONDS: Final = 40.0
_MIN_INSYNC: Final = "min.insync.replicas"


async def make_topics(
    settings: KafkaSettings, topics: Collection[str], *, client: str, role: str
) -> None:
    """Create the `topics` that do not exist, by the settings; log those that the broker refuses.

    An operator may still create a refused topic. Raises Unavailable, and InvalidSetting.
    """
    refused = await make_missing_topics(settings, topics, client=client)
    for topic, reason in refused.items():
        get_logger(role).warning(LogEvent.TOPIC_UNAVAILABLE, topic=topic, reason=reason)


async def make_missing_topics(
    settings: KafkaSettings,
    topics: Collection[str],
    *,
    client: str = "dueledger",
    timeout_seconds: float = REQUEST_SECONDS,
) -> dict[str, str]:
    """Create the `topics` that do not exist; return the refused ones with the broker's reason.

    Idempotent; several processes may call it at once. Raises Unavailable, and InvalidSetting if a
    file that the settings name cannot be used.
    """
    admin = AIOKafkaAdminClient(
        **client_arguments(settings),
        client_id=client,
        request_timeout_ms=int(timeout_seconds * 1000),
    )
    try:
        await admin.start()
        missing = sorted(set(topics) - set(await admin.list_topics()))
        if not missing:
            return {}
        result = await admin.create_topics(
            [
                NewTopic(topic, settings.topic_partitions, settings.topic_replication)
                for topic in missing
            ]
        )
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(error) from error
    finally:
        await admin.close()
    refused: dict[str, str] = {}
    for topic, code, *_ in result.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            refused[topic] = error.__name__
    return refused


async def read_min_insync(settings: KafkaSettings) -> int | None:
    """Return how many replicas must have a record before any broker acknowledges it.

    It is the brokers' default for topics. None if they do not say: it needs DescribeConfigs on the
    cluster. Raises Unavailable.
    """
    admin = AIOKafkaAdminClient(
        **client_arguments(settings),
        client_id="dueledger-doctor",
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    try:
        await admin.start()
        brokers = (await admin.describe_cluster())["brokers"]
        asked = [
            ConfigResource(ConfigResourceType.BROKER, str(each["node_id"]), {_MIN_INSYNC: None})
            for each in brokers
        ]
        answers = await admin.describe_configs(asked)
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(error) from error
    finally:
        await admin.close()
    values = [
        int(entry[1])
        for answer in answers
        for code, _, _, _, entries in answer.resources
        for entry in entries
        if not code and entry[0] == _MIN_INSYNC
    ]
    return max(values, default=None)


def unavailable(error: Exception) -> Unavailable:
    """Return the error for a broker that does not respond."""
    return Unavailable(
        f"Kafka cannot be used: {type(error).__name__}. "
        "Check DUELEDGER_BOOTSTRAP_SERVERS, the DUELEDGER_KAFKA_… settings, and that the brokers "
        "are up; `dueledger doctor` says more.",
        service="kafka",
    )
