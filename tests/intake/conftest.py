"""Domain events as an insurer sends them, and intakes to take them in."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from pydantic import SecretStr

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.intake import EventIntakeSettings, open_intake
from dueledger.ledger.intake.apply.events_by_subject import interpret_event
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.intake.record import AppliedEvents, record_batch
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.kafka.topics import make_topics
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.definitions import define, list_event_rules, read_rules_version
from dueledger.ledger.store.partitions import make_event_months, make_partitions
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from dueledger.reconciler import Reconciler, ReconcilerSources
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login
from tests.published_records import nothing_published

SERVE = Path(__file__).with_name("serve.py")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
POLLS_MAX = 400

Take = Callable[..., Awaitable[AppliedEvents]]
Message = tuple[bytes, bytes | None, list[tuple[str, bytes]]]
Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
TakeAtOnce = Callable[..., Awaitable[None]]
Send = Callable[[Sequence[Message]], Awaitable[None]]
TakeAll = Callable[[TopicIntake, int], Awaitable[dict[str, int]]]


def renewal(kind: str, **changed: object) -> dict[str, Any]:
    """Return the rule: a renewal thirty days before a policy expires."""
    return {
        "definition": f"renewal-{kind}",
        "tenant": "insurer",
        "kind": kind,
        "event": "PolicyActivated",
        "business_key": "data.policy",
        "cycle": "data.term",
        "effective_date": "data.expires_on",
        "when": {
            "relative": "P-30D",
            "to": "effective_date",
            "at": "09:00",
            "timezone": "America/New_York",
        },
        "cancel_on": [{"event": "PolicyCancelled", "business_key": "data.policy"}],
        "supersede_on": [{"event": "PolicyAmended", "business_key": "data.policy"}],
    } | changed


def activated(policy: str, *, minute: int = 0, expires_on: str = "2027-03-01") -> DomainEvent:
    return _event("PolicyActivated", policy, minute, expires_on)


def amended(policy: str, *, minute: int, expires_on: str = "2027-04-01") -> DomainEvent:
    return _event("PolicyAmended", policy, minute, expires_on)


def cancelled(policy: str, *, minute: int) -> DomainEvent:
    return _event("PolicyCancelled", policy, minute, "2027-03-01")


def _event(event_type: str, policy: str, minute: int, expires_on: str) -> DomainEvent:
    return DomainEvent(
        "insurer",
        "/insurer/policies",
        f"{event_type}-{policy}-{minute}",
        event_type,
        BEGINNING + timedelta(minutes=minute),
        policy,
        {"policy": policy, "term": "2027", "expires_on": expires_on},
    )


def message(event: DomainEvent, **headers: str | None) -> Message:
    """Return the event's record in binary mode; headers given replace its own, None drops one."""
    attributes: dict[str, str | None] = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": event.source,
        "ce_type": event.type,
        "ce_subject": event.subject,
        "ce_time": event.time.isoformat(),
        "ce_duetenant": event.tenant,
        "content-type": "application/json",
    } | headers
    return (
        (event.subject or "").encode(),
        orjson.dumps(event.data),
        [(name, value.encode()) for name, value in attributes.items() if value is not None],
    )


async def complete_everything(connection: Connection, actor_no: int) -> None:
    """Hand out and complete whatever is due."""
    await make_partitions(connection, ahead=timedelta(0))
    flows = [flow.flow_no for flow in await list_due_flows(connection, 10)]
    async with connection.transaction():
        rows = await claim_items(connection, flows, [100] * len(flows))
        (fence,) = await next_fences(connection, 1)
        claim = Claim(
            new_claim_id(fence, rows.claimed_at),
            actor_no,
            "due.Test",
            0,
            [row.item_no for row in rows.items()],
            [row.effective_date for row in rows.items()],
            [row.attempt + 1 for row in rows.items()],
            [row.starts + 1 for row in rows.items()],
            120,
            30,
        )
        await record_claims(connection, [claim])
    (start,) = await start_runs(
        connection, [claim.id], [1], [len(rows)], worker_no=actor_no, lease_seconds=60
    )
    assert start.run is not None
    outcomes = [Outcome(TransitionEvent.COMPLETED, None)] * len(rows)
    assert await settle_runs(connection, [Settlement(start.run, outcomes)], actor_no) == []


@pytest.fixture
async def settings(database: str, bootstrap_servers: str, kind: str) -> EventIntakeSettings:
    """Topics and a group of the test's own; the topics are made as an intake makes them."""
    settings = EventIntakeSettings(
        dsn=SecretStr(with_login(database, "intake")),
        bootstrap_servers=bootstrap_servers,
        event_topic=f"events-{kind}",
        rejected_topic=f"rejected-{kind}",
        intake_group=f"intake-{kind}",
        intake_batch_events=50,
        intake_session_seconds=6,
    )
    topics = {settings.event_topic, settings.rejected_topic}
    await make_topics(settings, topics, client="test", role="test")
    return settings


@pytest.fixture
async def set_rule(connection: Connection) -> Callable[..., Awaitable[int]]:
    """Put an event rule in force, by default since long ago."""

    async def bring(document: Mapping[str, Any], effective_from: datetime = BEGINNING) -> int:
        definition = parse_definition(document)
        defined = await define(
            connection,
            definition.normalised(),
            tenant=definition.tenant,
            name=definition.definition,
            kind=definition.kind,
            event_type=definition.event,
            effective_from=effective_from,
            actor_no=await register_actor(connection, "author", ActorKind.PERSON),
        )
        return defined.definition_no

    return bring


@pytest.fixture
def take(connection: Connection, actor_no: int) -> Take:
    """Apply a batch in a transaction of its own, by the rules in force."""

    async def apply(*events: DomainEvent, on: Connection = connection) -> AppliedEvents:
        async with on.transaction():
            rules = RulesInForce(await read_rules_version(on), await list_event_rules(on))
            reads = [
                interpret_event(rules, event, orjson.dumps(event.data).decode()) for event in events
            ]
            await make_event_months(on, (event.time.date() for event in events))
            return await record_batch(on, rules, reads, actor_no=actor_no)

    return apply


@pytest.fixture
async def take_at_once(
    database: str, connection: Connection, take: Take, eventually: Eventually
) -> AsyncGenerator[TakeAtOnce]:
    """Apply two events in two transactions: the second one waits until the first commits.

    `between` is what happens after the first was recorded, and before the second is.
    """
    other = await connect(database, application_name="other", profile=PlanProfile.ANALYTIC)
    watcher = await connect(database, application_name="watcher")

    async def second_waits() -> object:
        return await watcher.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )

    async def apply(
        first: DomainEvent,
        second: DomainEvent,
        between: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        await make_event_months(connection, [BEGINNING.date()])  # before anybody waits
        async with other.transaction():
            await take(first, on=other)
            if between is not None:
                await between()
            waiting = asyncio.ensure_future(take(second))
            await eventually(second_waits)
        await waiting

    yield apply
    await other.close()
    await watcher.close()


@pytest.fixture
async def open_one(
    settings: EventIntakeSettings,
) -> AsyncGenerator[Callable[[], Awaitable[TopicIntake]]]:
    """Open intakes on the test's topics; they close with the test."""
    async with AsyncExitStack() as opened:

        async def another() -> TopicIntake:
            return await opened.enter_async_context(open_intake(settings))

        yield another


@pytest.fixture
async def intake(open_one: Callable[[], Awaitable[TopicIntake]]) -> TopicIntake:
    return await open_one()


@pytest.fixture
async def send(settings: EventIntakeSettings) -> AsyncGenerator[Send]:
    """Send records to the event topic and wait until the broker has them, in their order."""
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        max_request_size=8 << 20,
    ) as producer:

        async def send_all(messages: Sequence[Message]) -> None:
            sent = [
                await producer.send(settings.event_topic, key=key, value=value, headers=headers)
                for key, value, headers in messages
            ]
            await asyncio.gather(*sent)

        yield send_all


@pytest.fixture
def take_all() -> TakeAll:
    """Tick until this many records are recorded or rejected; return the sums of the counts."""

    async def take(intake: TopicIntake, records: int) -> dict[str, int]:
        sums: dict[str, int] = {}
        for _ in range(POLLS_MAX):
            for name, count in (await intake.tick()).items():
                sums[name] = sums.get(name, 0) + count
            if sums.get("events", 0) + sums.get("rejected", 0) >= records:
                return sums
        pytest.fail(f"{records} records never came: {sums}")

    return take


@pytest.fixture
async def read_rejected(
    settings: EventIntakeSettings,
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
    settings: EventIntakeSettings, fork_server: ForkServer
) -> AsyncGenerator[Callable[..., Awaitable[ForkedProcess]]]:
    """Start an intake process; what still runs dies with the test."""
    started: list[ForkedProcess] = []

    async def start(
        *, crash_at: str = "", bootstrap_servers: str = settings.bootstrap_servers
    ) -> ForkedProcess:
        environment = os.environ | {
            "DUELEDGER_DSN": settings.dsn.get_secret_value(),
            "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
            "DUELEDGER_EVENT_TOPIC": settings.event_topic,
            "DUELEDGER_REJECTED_TOPIC": settings.rejected_topic,
            "DUELEDGER_INTAKE_GROUP": settings.intake_group,
            "DUELEDGER_INTAKE_BATCH_EVENTS": str(settings.intake_batch_events),
            "DUELEDGER_INTAKE_SESSION_SECONDS": str(settings.intake_session_seconds),
            CRASH_VARIABLE: crash_at,
        }
        process = await fork_server.start(str(SERVE), env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def read_states(connection: Connection) -> Callable[[], Awaitable[dict[str, str]]]:
    """Read the state of each item, by business key and effective date: its end, or `open`."""

    async def read() -> dict[str, str]:
        rows = await connection.fetch(
            """
            select i.business_key || ' ' || i.effective_date as item,
              coalesce(e.name, 'open') as state
            from ledger.due_item i
            left join ledger.transition t using (effective_date, item_no)
            left join ledger.transition_event e on e.event = t.event
            order by 1
            """
        )
        return {row["item"]: row["state"] for row in rows}

    return read


@pytest.fixture
async def reconciler(connection: Connection, database: str) -> AsyncGenerator[Reconciler]:
    actor_no = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Reconciler(pool, ReconcilerSources(), actor_no, record_index=nothing_published())
