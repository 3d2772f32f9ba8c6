"""An allocator on the test's own database, and the log it wrote to."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from pydantic import SecretStr

from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Signals, Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from tests.claim_ids import run_ids
from tests.databases import DatabasePool, MakeDatabase
from tests.logins import with_login

PARTITIONS = 4
PLENTY = 1_000_000
GRANT_SECONDS = 3600.0
ReadTopic = Callable[[str], Awaitable[list[ConsumerRecord]]]
ReadTopics = Callable[[], Awaitable[set[str]]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Grant = Callable[..., Awaitable[None]]
Limit = Callable[..., Awaitable[None]]
UntilClaimed = Callable[[Allocator], Awaitable[int]]
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture(scope="session")
def make_database(served_database_pool: DatabasePool) -> MakeDatabase:
    return served_database_pool.lease


@pytest.fixture
def settings(database: str, bootstrap_servers: str) -> AllocatorSettings:
    """Reaping at every tick; otherwise as shipped."""
    return AllocatorSettings(
        dsn=SecretStr(with_login(database, "allocator")),
        bootstrap_servers=bootstrap_servers,
        allocator_reap_seconds=1e-6,
        allocator_topic_suspend_seconds=1e-6,
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
def grant(connection: Connection, actor_no: int, kind: str) -> Grant:
    """Want so many items waiting in the kind's topic, as its worker would; 0 seconds is over."""

    async def want(items: int, seconds: float = GRANT_SECONDS) -> None:
        await grant_credits(connection, actor_no, [work_topic(kind)], [items], seconds)

    return want


@pytest.fixture
def emit_unwanted(connection: Connection, actor_no: int) -> Emit:
    """Emit what no worker waits for."""

    async def write(drafts: list[ItemDraft]) -> None:
        await emit_items(connection, drafts, actor_no=actor_no)

    return write


@pytest.fixture
def emit(emit_unwanted: Emit, grant: Grant) -> Emit:
    """Emit fewer items than a worker wants."""

    async def write(drafts: list[ItemDraft]) -> None:
        await emit_unwanted(drafts)
        await grant(PLENTY)

    return write


class PlainWorker:
    """A worker without Kafka: starts and ends all items that were handed out."""

    def __init__(self, connection: Connection, worker_no: int) -> None:
        self._connection = connection
        self._worker_no = worker_no

    async def start(self, items_max: int = PLENTY) -> dict[int, int]:
        """Start items that were handed out, up to a number; return the runs with their sizes."""
        claims = await self._connection.fetch(
            "select fence, claimed_at, token, started, size from ledger.claim"
            " where closed_at is null order by fence"
        )
        parts: list[tuple[ClaimId, int, int]] = []
        for claim in claims:
            items = min(items_max, claim["size"] - claim["started"])
            items_max -= items
            if items:
                claim_id = ClaimId(claim["fence"], claim["claimed_at"], claim["token"])
                parts.append((claim_id, claim["started"] + 1, claim["started"] + items))
        if not parts:
            return {}
        starts = await start_runs(
            self._connection, *zip(*parts, strict=True), worker_no=self._worker_no, lease_seconds=60
        )
        return {
            start.run_no: start.to_position - start.from_position + 1
            for start in starts
            if start.run_no is not None
        }

    async def end(
        self,
        runs: Mapping[int, int],
        event: TransitionEvent = TransitionEvent.COMPLETED,
        *,
        after_seconds: float | None = None,
    ) -> None:
        """End runs, all their items alike."""
        outcome = Outcome(event, '{"reason":"test"}', after_seconds)
        ids = await run_ids(self._connection, runs)
        refused = await settle_runs(
            self._connection,
            [
                Settlement(run, [outcome] * size)
                for run, size in zip(ids, runs.values(), strict=True)
            ],
            self._worker_no,
        )
        assert not refused

    async def handed_out(self) -> list[str]:
        """Return the business keys of items that are handed out and have not ended, in order."""
        rows = await self._connection.fetch(
            "select i.business_key from ledger.open_item o join ledger.due_item i"
            " using (effective_date, item_no) where not exists"
            " (select from ledger.pending p where p.item_no = o.item_no) order by 1"
        )
        return [row["business_key"] for row in rows]


@pytest.fixture
def plain_worker(connection: Connection, actor_no: int) -> PlainWorker:
    return PlainWorker(connection, actor_no)


@pytest.fixture
def limit(connection: Connection, actor_no: int, kind: str) -> Limit:
    """Change the limits of the kind's flows, or of one lane."""

    async def change(lane: str | None = None, **limits: Any) -> None:  # noqa: ANN401 - of FlowLimits
        flows = await set_flow_limits(
            connection, FlowScope("acme", kind, lane), FlowLimits(**limits), actor_no=actor_no
        )
        assert flows

    return change


@pytest.fixture
def until_claimed(eventually: Eventually) -> UntilClaimed:
    """Tick until something is claimed: what limits hold is looked at again within a second."""

    async def tick(allocator: Allocator) -> int:
        async def claimed() -> int:
            return (await allocator.tick())["claimed"]

        return await eventually(claimed)

    return tick


@pytest.fixture
def read_topics(bootstrap_servers: str) -> ReadTopics:
    """Read which topics there are."""

    async def read() -> set[str]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers) as consumer:
            return await consumer.topics()

    return read


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
