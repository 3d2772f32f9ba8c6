"""Commands to the domain, published to `due-repairs`: repairs that only the domain can make."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.producer_internals import new_producer
from dueledger.ledger.kafka.topic_reader import started
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

REPAIR_TYPE: Final = "dueledger.repair"
_SEND_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class RepairCommand:
    """One command to the domain. `id` is the repair's: use it as the idempotency key."""

    id: str
    tenant: str
    business_key: str
    at: datetime
    body: bytes
    item: str | None = None
    cycle: str | None = None
    effective_date: str | None = None


class RepairPublisher(Protocol):
    """Publishes commands and returns when all of them are durable in Kafka."""

    async def publish(self, commands: Sequence[RepairCommand]) -> None:
        """Publish all of them. Raises Unavailable; some may then have been published."""
        ...


class KafkaRepairPublisher:
    """Publish commands as CloudEvents in binary mode, keyed by business key."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def publish(self, commands: Sequence[RepairCommand]) -> None:
        """Send all and wait for all. Raises Unavailable; some may then have been published."""
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                sent = [
                    await self._producer.send(
                        envelope.REPAIR_TOPIC,
                        value=command.body,
                        key=command.business_key.encode(),
                        headers=_headers(command),
                    )
                    for command in commands
                ]
                await asyncio.gather(*sent)
        except (KafkaError, TimeoutError) as error:
            raise _unavailable(type(error).__name__) from error


@asynccontextmanager
async def open_publisher(
    settings: KafkaSettings,
) -> AsyncGenerator[KafkaRepairPublisher]:
    """Connect a producer and make the repair topic where it is missing.

    Raises Unavailable, and InvalidSetting if a file that the settings name cannot be used.
    """
    refused = await make_missing_topics(settings, [envelope.REPAIR_TOPIC])
    for reason in refused.values():
        raise _unavailable(reason)
    producer = new_producer(**client_arguments(settings), acks="all", enable_idempotence=True)
    async with started(producer):
        yield KafkaRepairPublisher(producer)


def _headers(command: RepairCommand) -> list[tuple[str, bytes]]:
    headers = [
        (envelope.SPECVERSION_HEADER, envelope.SPECVERSION_BYTES),
        (envelope.ID, command.id.encode()),
        (envelope.SOURCE, f"{envelope.SOURCE_PREFIX}{command.tenant}".encode()),
        (envelope.TYPE, REPAIR_TYPE.encode()),
        (envelope.SUBJECT, command.business_key.encode()),
        (envelope.TIME, envelope.format_instant(command.at)),
        (envelope.CONTENT_TYPE, envelope.CONTENT_TYPE_JSON),
        (envelope.TENANT, command.tenant.encode()),
    ]
    extensions = (
        (envelope.ITEM, command.item),
        (envelope.CYCLE, command.cycle),
        (envelope.EFFECTIVE, command.effective_date),
    )
    headers += [(name, value.encode()) for name, value in extensions if value is not None]
    return headers


def _unavailable(reason: str) -> Unavailable:
    return Unavailable(
        f"Repairs cannot be published to {envelope.REPAIR_TOPIC}: {reason}. "
        "Check DUELEDGER_BOOTSTRAP_SERVERS and the DUELEDGER_KAFKA_… settings; nothing is lost, "
        "the next pass publishes them.",
        service="kafka",
    )
