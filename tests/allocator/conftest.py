"""An allocator on the test's own database, and the log it wrote to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from pydantic import SecretStr

from allocator import Allocator, AllocatorSettings, open_allocator
from ledger.drafts import ItemDraft
from ledger.service import Signals, Stop
from ledger.store import Connection
from ledger.store.items import emit_items

PARTITIONS = 4
ReadTopic = Callable[[str], Awaitable[list[ConsumerRecord]]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]


@pytest.fixture
def settings(database: str, bootstrap_servers: str) -> AllocatorSettings:
    """Reaping at every tick; otherwise as shipped."""
    return AllocatorSettings(
        dsn=SecretStr(database),
        bootstrap_servers=bootstrap_servers,
        allocator_reap_seconds=1e-6,
        allocator_rest_seconds=1e-6,
    )


@pytest.fixture
async def start_allocator(
    settings: AllocatorSettings,
) -> AsyncGenerator[Callable[..., Awaitable[Allocator]]]:
    """Start allocators that end with the test; keywords change their settings."""
    async with AsyncExitStack() as running:

        async def start(
            *, stop: Stop | None = None, signals: Signals | None = None, **changed: object
        ) -> Allocator:
            chosen = settings.model_copy(update=changed)
            return await running.enter_async_context(
                open_allocator(chosen, stop=stop or Stop(), signals=signals)
            )

        yield start


@pytest.fixture
def emit(connection: Connection, actor_no: int) -> Emit:
    async def write(drafts: list[ItemDraft]) -> None:
        await emit_items(connection, drafts, actor_no=actor_no)

    return write


@pytest.fixture
def read_topic(bootstrap_servers: str) -> ReadTopic:
    """Read a topic from its beginning to what is its end now."""

    async def read(topic: str) -> list[ConsumerRecord]:
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers, enable_auto_commit=False
        ) as consumer:
            if topic not in await consumer.topics():
                return []
            partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            while sum(ends.values()) > len(records):
                for found in (await consumer.getmany(timeout_ms=200)).values():
                    records.extend(found)
            return records

    return read
