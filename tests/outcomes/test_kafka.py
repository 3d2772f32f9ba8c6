"""Outcomes on a real topic: offsets behind the ledger, poison aside, death at each step."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from dueledger.allocator.publish import Compression, OutgoingBatch
from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX
from dueledger.ledger.kafka.envelope import (
    REJECTED_CODE,
    REJECTED_FIELD,
    REJECTED_ORIGIN,
    REJECTED_REASON,
)
from dueledger.ledger.states import State
from dueledger.workers.outcomes import OutcomeIntakeSettings, open_outcome_intake

from .conftest import Send, StartProcess, WorkTopic, record

ReadRejected = Callable[[int], Awaitable[list[ConsumerRecord]]]
Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


async def committed(settings: OutcomeIntakeSettings, group: str) -> int:
    """Sum up a group's offsets: how many records are settled."""
    async with AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        partitions = [
            TopicPartition(settings.outcome_topic, number)
            for number in range(settings.topic_partitions)
        ]
        return sum([await consumer.committed(partition) or 0 for partition in partitions])


async def test_outcomes_are_settled_poison_is_rejected_and_offsets_follow(
    topic: WorkTopic,
    settings: OutcomeIntakeSettings,
    send: Send,
    read_rejected: ReadRejected,
) -> None:
    handed = await topic.emit_and_claim(60)
    forged = replace(handed[0], position=2)
    poison = [
        record(b'{"item": ', key=b"broken"),
        record(b"{}", ce_type=b"\xff", key=b"header"),
        forged.outcome(),
        record(None, key=b"tombstone"),
    ]
    await send([*(one.outcome() for one in handed[:30]), *poison])
    await send(one.outcome() for one in handed[30:])
    counts: dict[str, int] = {}
    async with open_outcome_intake(settings) as intake:
        while counts.get("settled", 0) + counts.get("rejected", 0) < 64:
            for name, count in (await intake.tick()).items():
                counts[name] = counts.get(name, 0) + count
    assert counts == {
        "settled": 60,
        "heartbeats": 0,
        "duplicates": 0,
        "refused": 1,
        "rejected": 4,
    }
    assert await topic.states() == [State.COMPLETED]
    assert await committed(settings, settings.outcome_group) == 64
    rejected = {record.key: dict(record.headers) for record in await read_rejected(4)}
    assert {key: (one[REJECTED_CODE], one[REJECTED_FIELD]) for key, one in rejected.items()} == {
        b"broken": (b"INVALID_OUTCOME", b"value"),
        b"header": (b"INVALID_HEADER", b"ce_type"),
        b"key": (b"INVALID_OUTCOME", b"item"),
        b"tombstone": (b"INVALID_OUTCOME", b"value"),
    }
    for one in rejected.values():
        assert one[REJECTED_REASON]
        assert one[REJECTED_ORIGIN].startswith(settings.outcome_topic.encode())


async def test_an_outcome_with_a_header_whose_name_is_no_text_is_rejected_and_its_partition_goes_on(
    topic: WorkTopic,
    settings: OutcomeIntakeSettings,
    send: Send,
    read_rejected: ReadRejected,
) -> None:
    handed = await topic.emit_and_claim(40)
    await send(one.outcome() for one in handed[:20])
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        for partition in range(settings.topic_partitions):
            batch = OutgoingBatch(1000, Compression.NONE)
            batch.add([b"\x1a\0\0\0\x06key\0\x02\x04\xff\xfe\0"])
            await (await producer.send_batch(batch, settings.outcome_topic, partition=partition))
    await send(one.outcome() for one in handed[20:])
    settled = rejected = 0
    async with open_outcome_intake(settings) as intake:
        while settled + rejected < 44:
            counts = await intake.tick()
            settled += counts["settled"]
            rejected += counts["rejected"]
    assert (settled, rejected) == (40, 4)
    assert await committed(settings, settings.outcome_group) == 44
    for one in await read_rejected(4):
        headers = dict(one.headers)
        assert headers[r"\xff\xfe"] == b""
        assert b"not UTF-8" in headers[REJECTED_REASON]


async def test_a_few_bytes_that_would_become_too_many_are_rejected_and_their_partition_goes_on(
    topic: WorkTopic,
    settings: OutcomeIntakeSettings,
    send: Send,
    read_rejected: ReadRejected,
) -> None:
    handed = await topic.emit_and_claim(20)
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        compression_type="gzip",
        max_request_size=2 * DECODED_BYTES_MAX,
    ) as producer:
        for partition in range(settings.topic_partitions):
            await producer.send_and_wait(
                settings.outcome_topic, bytes(DECODED_BYTES_MAX + 1), partition=partition
            )
    await send(one.outcome() for one in handed)
    settled = rejected = 0
    async with open_outcome_intake(settings) as intake:
        while settled + rejected < 24:
            counts = await intake.tick()
            settled += counts["settled"]
            rejected += counts["rejected"]
    assert (settled, rejected) == (20, 4)
    assert await committed(settings, settings.outcome_group) == 24
    for one in await read_rejected(4):
        assert len(one.value or b"") < DECODED_BYTES_MAX / 100  # as it came
        assert dict(one.headers)[REJECTED_ORIGIN].startswith(settings.outcome_topic.encode())


async def test_g5_g7_killed_at_each_step_every_outcome_counts_once(
    topic: WorkTopic,
    settings: OutcomeIntakeSettings,
    send: Send,
    run_process: StartProcess,
    eventually: Eventually,
    kind: str,
) -> None:
    """Each process has a group of its own, so that everything comes again to each."""
    handed = await topic.emit_and_claim(120)
    await send(one.outcome(evidence={"key": str(one.item)}) for one in handed)
    await send([record(b"{")])
    for step in ("received", "settled", "recorded"):
        group = f"{kind}-{step}"
        doomed = await run_process(group, crash_at=f"outcomes.{step}")
        assert await doomed.wait() == -signal.SIGKILL
        assert await committed(settings, group) == 0
    survivor = await run_process(kind)

    async def all_committed() -> bool:
        return await committed(settings, kind) == 121

    await eventually(all_committed)
    survivor.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(survivor.wait(), 60) == 0
    assert await topic.states() == [State.COMPLETED]
    assert len(await topic.journal()) == 120
    assert await topic.refused() == []
    await topic.check_balance()
