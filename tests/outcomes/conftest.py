"""Claims settled by topic, and the records of the outcomes that its consumers report."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from pydantic import SecretStr

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.kafka.rejects import ConsumedRecord
from dueledger.ledger.kafka.topics import make_topics
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    list_due_flows,
    mark_published,
    next_fences,
    reap_claims,
    reap_runs,
    record_claims,
)
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.items import emit_items, read_accounting, show_item
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.workers.outcomes import OutcomeIntakeSettings
from dueledger.workers.outcomes.record import OutcomeIntakeResult, OutcomeRecorder
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login

OUTCOME_TOPIC = "due-outcomes"
HEADERS: dict[str, bytes] = {
    "ce_specversion": b"1.0",
    "ce_id": b"answer-1",
    "ce_source": b"/consumers/test",
    "ce_type": b"dueledger.outcome",
    "content-type": b"application/json",
}


@dataclass(frozen=True, slots=True)
class Handed:
    """An item as its consumer reads it off the work topic."""

    item: UUID
    fence: int
    position: int
    token: str = ""

    def outcome(self, verdict: str = "completed", **members: object) -> ConsumedRecord:
        """Return the record of an outcome; the given members replace its own, None included."""
        document = {
            "item": str(self.item),
            "fence": self.fence,
            "token": self.token,
            "position": self.position,
        }
        return record(orjson.dumps({**document, "verdict": verdict, **members}))


def record(
    value: bytes | None, *, offset: int = 0, key: bytes | None = b"key", **headers: bytes | None
) -> ConsumedRecord:
    """Return a record of the outcome topic; headers given replace its own, None drops one."""
    names = {**HEADERS, **{name.replace("__", "-"): text for name, text in headers.items()}}
    kept = [(name, text) for name, text in names.items() if text is not None]
    return ConsumedRecord(OUTCOME_TOPIC, 0, offset, key, value, kept)


@dataclass
class WorkTopic:
    """A topic whose consumers settle its claims, with the ledger and the intake of outcomes."""

    connection: Connection
    settler: OutcomeRecorder
    actor_no: int
    topic_actor_no: int
    make_drafts: Callable[..., list[ItemDraft]]
    kind: str
    made: int = 0

    async def put_policy(
        self,
        *,
        attempt_max: int | None = None,
        run_seconds: float | None = None,
        backoff_seconds: float | None = None,
        outcome_topic: str | None = None,
        compression: str | None = None,
    ) -> None:
        policy = KindPolicy(
            "acme",
            self.kind,
            settled_by="topic",
            lease_seconds=600,
            attempt_max=attempt_max,
            run_seconds=run_seconds,
            backoff_base_seconds=backoff_seconds,
            backoff_cap_seconds=backoff_seconds,
            outcome_topic=outcome_topic,
            compression=compression,
        )
        await put_kind_policy(self.connection, policy)

    async def emit_and_claim(
        self, count: int = 1, *, published: bool = True, by_topic: bool = True
    ) -> list[Handed]:
        """Emit items and hand them out in one claim."""
        self.made += 1
        drafts = self.make_drafts(count, prefix=f"batch-{self.made}")
        await emit_items(self.connection, drafts, actor_no=self.actor_no)
        return await self.claim(published=published, by_topic=by_topic)

    async def claim(self, *, published: bool = True, by_topic: bool = True) -> list[Handed]:
        """Hand out pending items, under a fence."""
        flows = [
            flow for flow in await list_due_flows(self.connection, 1000) if flow.kind == self.kind
        ]
        async with self.connection.transaction():
            rows = await claim_items(
                self.connection,
                [flow.flow_no for flow in flows],
                [10_000],
                measured=[True],
            )
            (fence,) = await next_fences(self.connection, 1)
            claim = Claim(
                new_claim_id(fence, rows.claimed_at),
                self.actor_no,
                f"due.{self.kind}",
                0,
                [row.item_no for row in rows.items()],
                [row.effective_date for row in rows.items()],
                [row.attempt + 1 for row in rows.items()],
                [row.starts + 1 for row in rows.items()],
                queue_seconds=60,
                dispatch_seconds=30,
                flow_no=flows[0].flow_no,
                topic_actor_no=self.topic_actor_no if by_topic else None,
                lease_seconds=flows[0].lease_seconds,
                run_seconds=flows[0].run_seconds,
            )
            await record_claims(self.connection, [claim])
        if published:
            await mark_published(self.connection, [claim.id], [0])
        return [
            Handed(row.id, fence, place, claim.id.token_text)
            for place, row in enumerate(rows.items(), 1)
        ]

    async def take(self, *records: ConsumedRecord) -> OutcomeIntakeResult:
        return await self.settler.record(records)

    async def state_of(self, handed: Handed) -> State:
        shown = await show_item(self.connection, handed.item)
        assert shown is not None
        return next(state for state in State if state.label == shown["state"])

    async def states(self) -> list[State]:
        """The distinct states of all items."""
        rows = await self.connection.fetch("select id from ledger.due_item")
        found = {await self.state_of(Handed(row["id"], 0, 0)) for row in rows}
        return sorted(found)

    async def journal(self) -> list[tuple[int, Any]]:
        """Every transition as event and detail."""
        rows = await self.connection.fetch(
            "select event, detail from ledger.transition order by at"
        )
        return [(row["event"], row["detail"]) for row in rows]

    async def refused(self) -> list[tuple[str, str]]:
        """Every refused outcome, as reason and verdict."""
        rows = await self.connection.fetch(
            "select verb, reason, detail from ledger.rejected_write order by rejected_no"
        )
        assert {row["verb"] for row in rows} <= {"report"}
        return [(row["reason"], row["detail"]["verdict"]) for row in rows]

    async def lease_seconds_left(self) -> float:
        return await self.connection.fetchval(
            "select extract(epoch from max(lease_until) - ledger.machine_now())::float8"
            " from ledger.run where closed_at is null"
        )

    async def pass_machine_seconds(self, seconds: float) -> None:
        """Move the clock of leases on, for what this connection asks."""
        now = await self.connection.fetchval("select ledger.machine_now()")
        await set_machine_clock(self.connection, now + timedelta(seconds=seconds), 1)

    async def reap(self) -> None:
        await reap_runs(self.connection, 100, self.actor_no)
        await reap_claims(self.connection, 100, self.actor_no)

    async def check_balance(self) -> None:
        for account in await read_accounting(self.connection):
            assert account.difference == 0, account


@pytest.fixture
async def topic(
    connection: Connection,
    pool: Pool,
    actor_no: int,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> WorkTopic:
    topic_actor_no = await register_actor(connection, f"topic:due.{kind}", ActorKind.SERVICE)
    settler = OutcomeRecorder(pool, actor_no=actor_no)
    topic = WorkTopic(connection, settler, actor_no, topic_actor_no, make_drafts, kind)
    await topic.put_policy()
    return topic


Send = Callable[[Iterable[ConsumedRecord]], Awaitable[None]]
StartProcess = Callable[..., Awaitable[ForkedProcess]]


@pytest.fixture
async def settings(database: str, bootstrap_servers: str, kind: str) -> OutcomeIntakeSettings:
    """Topics and a group of the test's own; the topics are made as the process makes them."""
    settings = OutcomeIntakeSettings(
        dsn=SecretStr(with_login(database, "outcome_intake")),
        bootstrap_servers=bootstrap_servers,
        outcome_topic=f"outcomes-{kind}",
        rejected_topic=f"rejected-{kind}",
        outcome_group=f"outcomes-{kind}",
        outcome_batch_records=50,
        outcome_session_seconds=6,
    )
    topics = {settings.outcome_topic, settings.rejected_topic}
    await make_topics(settings, topics, client="test", role="test")
    return settings


@pytest.fixture
async def send(settings: OutcomeIntakeSettings) -> AsyncGenerator[Send]:
    """Send records to the outcome topic and wait until the broker has them."""
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:

        async def send_all(records: Iterable[ConsumedRecord]) -> None:
            sent = [
                await producer.send(
                    settings.outcome_topic,
                    one.value,
                    one.key,
                    headers=[(name, value or b"") for name, value in one.headers],
                )
                for one in records
            ]
            await asyncio.gather(*sent)

        yield send_all


@pytest.fixture
async def read_rejected(
    settings: OutcomeIntakeSettings,
) -> AsyncGenerator[Callable[[int], Awaitable[list[ConsumerRecord]]]]:
    """Read this many records of the reject topic."""
    async with AIOKafkaConsumer(
        settings.rejected_topic,
        bootstrap_servers=settings.bootstrap_servers,
        auto_offset_reset="earliest",
        group_id=None,
    ) as consumer:

        async def read(count: int) -> list[ConsumerRecord]:
            return [await consumer.getone() for _ in range(count)]

        yield read


@pytest.fixture
async def run_process(
    settings: OutcomeIntakeSettings, fork_server: ForkServer
) -> AsyncGenerator[StartProcess]:
    """Start `dueledger work --outcomes`; what still runs dies with the test."""
    started: list[ForkedProcess] = []

    async def start(group: str, *, crash_at: str = "") -> ForkedProcess:
        environment = os.environ | {
            "DUELEDGER_DSN": settings.dsn.get_secret_value(),
            "DUELEDGER_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "DUELEDGER_OUTCOME_TOPIC": settings.outcome_topic,
            "DUELEDGER_REJECTED_TOPIC": settings.rejected_topic,
            "DUELEDGER_OUTCOME_GROUP": group,
            "DUELEDGER_OUTCOME_BATCH_RECORDS": str(settings.outcome_batch_records),
            CRASH_VARIABLE: crash_at,
        }
        process = await fork_server.start("-m", "dueledger", "work", "--outcomes", env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()
