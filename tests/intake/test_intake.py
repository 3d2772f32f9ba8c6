"""The intake on a real topic: poison, late rules, rebalances, and death at each step."""

import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from dueledger.ledger.intake import EventIntakeSettings
from dueledger.ledger.kafka.envelope import (
    REJECTED_CODE,
    REJECTED_FIELD,
    REJECTED_ORIGIN,
    REJECTED_REASON,
)
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.store import Connection
from dueledger.stack.kafka import Kafka
from dueledger.stack.start_progress import StartProgress
from tests.forks import ForkedProcess

from .conftest import Send, TakeAll, activated, cancelled, message, renewal

SetRule = Callable[[Mapping[str, Any]], Awaitable[int]]
States = Callable[[], Awaitable[dict[str, str]]]
ReadRejected = Callable[[int], Awaitable[list[ConsumerRecord]]]
StartProcess = Callable[..., Awaitable[ForkedProcess]]
Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


async def test_events_become_items_and_offsets_follow_the_ledger(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    settings: EventIntakeSettings,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await send([message(activated(f"P-{number:03}")) for number in range(120)])
    await send([message(cancelled("P-007", minute=5))])
    sums = await take_all(intake, 121)
    assert (sums["events"], sums["emitted"], sums["withdrawn"]) == (121, 120, 1)
    states = await read_states()
    assert states.pop("P-007 2027-03-01") == "cancelled"
    assert set(states.values()) == {"open"}
    assert await _committed(settings) == 121


async def test_poison_is_rejected_with_its_reason_and_the_rest_of_the_batch_goes_on(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    read_rejected: ReadRejected,
    settings: EventIntakeSettings,
    connection: Connection,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    key, _, headers = message(activated("P-3"))
    await send(
        [
            message(activated("P-1")),
            (key, b'{"policy": ', headers),
            message(activated("P-3"), ce_time=None),
            message(activated("P-3", expires_on="2027-02-30")),
            (key, b'{"policy":"P-3","expires_on":"2027-03-01"}', headers),
            message(activated("P-2")),
        ]
    )
    sums = await take_all(intake, 6)
    assert (sums["events"], sums["rejected"], sums["emitted"]) == (2, 4, 2)
    assert set(await read_states()) == {"P-1 2027-03-01", "P-2 2027-03-01"}
    assert await connection.fetchval("select count(*) from ledger.event") == 2, "nothing half-way"
    rejected = await read_rejected(4)
    headers = [dict(record.headers) for record in rejected]
    assert [(one[REJECTED_CODE], one[REJECTED_FIELD]) for one in headers] == [
        (b"INVALID_EVENT", b"data"),
        (b"INVALID_HEADER", b"ce_time"),
        (b"INVALID_EVENT", b"data.expires_on (as effective_date)"),
        (b"INVALID_EVENT", b"data.term (as cycle)"),
    ]
    assert all(one[REJECTED_REASON] for one in headers)
    assert all(one[REJECTED_ORIGIN].startswith(settings.event_topic.encode()) for one in headers)
    assert rejected[0].value == b'{"policy": ', "the value is as it came"
    assert headers[2]["ce_id"] == b"PolicyActivated-P-3-0", "so are its headers"
    assert await _committed(settings) == 6


async def test_a_rule_that_comes_into_force_is_followed_by_the_next_batch(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    kind: str,
) -> None:
    await send([message(activated("P-1"))])
    before = await take_all(intake, 1)
    await set_rule(renewal(kind))
    await send([message(activated("P-2"))])
    after = await take_all(intake, 1)
    await set_rule(renewal(kind, event="PolicyBound"))
    await send([message(activated("P-3"))])
    last = await take_all(intake, 1)
    assert (before["unmatched"], after["unmatched"], last["unmatched"]) == (1, 0, 1)
    assert set(await read_states()) == {"P-2 2027-03-01"}


async def test_a_batch_that_fails_is_polled_again(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    connection: Connection,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await send([message(activated("P-1"))])
    await connection.execute("alter table ledger.event rename to event_away")
    with pytest.raises(Exception, match=r"ledger\.event"):
        await take_all(intake, 1)
    await connection.execute("alter table ledger.event_away rename to event")
    await take_all(intake, 1)
    assert await read_states() == {"P-1 2027-03-01": "open"}


@pytest.mark.parametrize("step", ["intake.received", "intake.recorded"])
async def test_g5_an_intake_killed_at_any_step_loses_nothing_and_doubles_nothing(
    step: str,
    send: Send,
    set_rule: SetRule,
    read_states: States,
    read_rejected: ReadRejected,
    run_process: StartProcess,
    settings: EventIntakeSettings,
    eventually: Eventually,
    connection: Connection,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await send([message(activated(f"P-{number:03}")) for number in range(200)])
    await send([message(activated("P-999"), ce_id=None)])
    doomed = await run_process(crash_at=f"{step}:2")
    assert await doomed.wait() == -signal.SIGKILL
    await run_process()

    async def all_committed() -> bool:
        return await _committed(settings) == 201

    await eventually(all_committed)
    states = await read_states()
    assert len(states) == 200
    assert set(states.values()) == {"open"}
    assert await connection.fetchval("select count(*) from ledger.event") == 200
    (rejected,) = await read_rejected(1)
    assert dict(rejected.headers)[REJECTED_FIELD] == b"ce_id"


@pytest.mark.faults
async def test_an_intake_ends_when_asked_though_kafka_is_gone(
    run_process: StartProcess,
    settings: EventIntakeSettings,
    connection: Connection,
    eventually: Eventually,
    tmp_path: Path,
) -> None:
    kafka = Kafka(tmp_path, steps=StartProgress(None), brief=True)
    kafka.start()
    try:
        process = await run_process(bootstrap_servers=kafka.bootstrap_servers)
        key, value, headers = message(activated("P-1"))
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send_and_wait(settings.event_topic, value, key, headers=headers)

        async def taken_in() -> object:
            return await connection.fetchval("select count(*) from ledger.event")

        await eventually(taken_in)
    finally:
        kafka.kill()
    process.send_signal(signal.SIGTERM)

    async def ended() -> bool:
        return process.returncode is not None

    await eventually(ended)
    assert process.returncode == 0


async def _committed(settings: EventIntakeSettings) -> int:
    """Sum up the group's offsets: how many records are settled."""
    async with AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.intake_group,
        enable_auto_commit=False,
    ) as consumer:
        partitions = [
            TopicPartition(settings.event_topic, number)
            for number in range(settings.topic_partitions)
        ]
        offsets = [await consumer.committed(partition) for partition in partitions]
    return sum(offset or 0 for offset in offsets)
