"""Kafka's effects on a worker: bad and repeated records, reassigned partitions, a full buffer."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator.publish import Compression, OutgoingBatch
from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.items import withdraw_items
from dueledger.workers.claim_slices import RejectedWorkRecord
from dueledger.workers.poll.work_consumer import WorkConsumer
from dueledger.workers.settings import WorkerSettings
from dueledger.workers.start.partition_queue import TopicPartitionKey

from .conftest import Site
from .test_claim_slices import Written

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]
RejectedHeaders = dict[str, bytes]


@pytest.fixture
async def producer(bootstrap_servers: str) -> AsyncGenerator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        yield producer


def completing(kind: str, seen: list[str] | None = None) -> Handlers:
    handlers = Handlers()

    @handlers.on_batch(kind, batch_max=50)
    async def complete(items: list[DueItem]) -> list[Verdict]:
        if seen is not None:
            seen.extend(item.business_key for item in items)
        return [Completed() for _ in items]

    return handlers


async def nothing_revoked() -> None:
    pass


async def rejected_of(
    producer: AIOKafkaProducer, servers: str, topic: str
) -> list[RejectedHeaders]:
    """Return the headers of the records that were rejected from a topic."""
    found: list[RejectedHeaders] = []
    partitions = [
        TopicPartition(envelope.REJECTED_TOPIC, number)
        for number in await producer.partitions_for(envelope.REJECTED_TOPIC)
    ]
    async with AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for record in (await consumer.getmany(partition, timeout_ms=200)).get(
                    partition, ()
                ):
                    headers = dict(record.headers)
                    if headers[envelope.REJECTED_ORIGIN].startswith(topic.encode()):
                        found.append(headers)
    return found


async def test_a_malformed_record_is_rejected_and_the_rest_goes_on(
    site: Site, make_drafts: MakeDrafts, producer: AIOKafkaProducer, bootstrap_servers: str
) -> None:
    topic = envelope.work_topic(site.kind)
    await site.emit(make_drafts(40))
    await site.allocate()
    for partition in range(4):
        await producer.send_and_wait(topic, b"who knows", partition=partition)
        await producer.send_and_wait(
            topic, b"{}", partition=partition, headers=[(envelope.FENCE, b"minus one")]
        )
    await site.emit(make_drafts(40, prefix="later"))
    await site.allocate()
    await site.work(completing(site.kind))

    async def all_completed() -> bool:
        return await site.completed() == 80

    await site.eventually(all_completed)

    async def all_rejected() -> list[RejectedHeaders] | None:
        found = await rejected_of(producer, bootstrap_servers, topic)
        return found if len(found) == 8 else None

    rejected = await site.eventually(all_rejected)
    assert {headers[envelope.REJECTED_FIELD] for headers in rejected} == {b"ce_duefence"}
    assert all(headers[envelope.REJECTED_REASON] for headers in rejected)


async def test_a_few_bytes_that_would_become_too_many_delay_no_other_record(
    site: Site, make_drafts: MakeDrafts, producer: AIOKafkaProducer, bootstrap_servers: str
) -> None:
    topic = envelope.work_topic(site.kind)
    await site.emit(make_drafts(40))
    await site.allocate()
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type="zstd",
        max_request_size=2 * DECODED_BYTES_MAX,
    ) as hostile:
        for partition in range(4):
            await hostile.send_and_wait(topic, bytes(DECODED_BYTES_MAX + 1), partition=partition)
    await site.emit(make_drafts(40, prefix="later"))
    await site.allocate()
    await site.work(completing(site.kind))

    async def all_completed() -> bool:
        return await site.completed() == 80

    await site.eventually(all_completed)

    async def all_rejected() -> bool:
        return len(await rejected_of(producer, bootstrap_servers, topic)) == 4

    await site.eventually(all_rejected)


async def test_a_header_whose_name_is_no_text_delays_no_other_record(
    site: Site, make_drafts: MakeDrafts, producer: AIOKafkaProducer, bootstrap_servers: str
) -> None:
    topic = envelope.work_topic(site.kind)
    await site.emit(make_drafts(40))
    await site.allocate()
    for partition in range(4):
        batch = OutgoingBatch(1000, Compression.NONE)
        batch.add([b"\x1a\0\0\0\x06key\0\x02\x04\xff\xfe\0"])
        await (await producer.send_batch(batch, topic, partition=partition))
    await site.emit(make_drafts(40, prefix="later"))
    await site.allocate()
    await site.work(completing(site.kind))

    async def all_completed() -> bool:
        return await site.completed() == 80

    await site.eventually(all_completed)

    async def all_rejected() -> list[RejectedHeaders] | None:
        found = await rejected_of(producer, bootstrap_servers, topic)
        return found if len(found) == 4 else None

    for headers in await site.eventually(all_rejected):
        assert headers[r"\xff\xfe"] == b""
        assert b"not UTF-8" in (headers[envelope.REJECTED_REASON] or b"")


@pytest.mark.parametrize("size", [0, 2_000_000])
async def test_a_record_that_cannot_be_copied_whole_is_rejected_without_what_cannot_be_sent(
    settings: WorkerSettings, kind: str, producer: AIOKafkaProducer, size: int
) -> None:
    # Neither key nor value, or both too large: other clients may write the one, brokers take both.
    content = b"x" * size or None
    error = InvalidHeader("ce_duefence is missing", [])
    consumer = WorkConsumer(settings, [f"due.{kind}"], name="test", revoked=nothing_revoked)
    await consumer.start()
    try:
        await consumer.reject(
            TopicPartitionKey(f"due.{kind}", 0),
            [RejectedWorkRecord(Written(0, [], content, content), error)],
        )
    finally:
        await consumer.stop()

    assert len(await rejected_of(producer, settings.bootstrap_servers, f"due.{kind}/")) == 1


async def test_g4_records_delivered_again_are_not_worked_again(
    site: Site, make_drafts: MakeDrafts
) -> None:
    seen: list[str] = []
    await site.emit(make_drafts(200))
    await site.work(completing(site.kind, seen))
    await site.allocate()

    async def all_completed() -> bool:
        return await site.completed() == 200

    await site.eventually(all_completed)
    # Another group reads everything again. A later record proves that it has read the others.
    await site.work(completing(site.kind, seen), worker_group_id=f"again-{site.kind}")
    await site.emit(make_drafts(50, prefix="later"))
    await site.allocate()

    async def later_completed() -> bool:
        return await site.completed() == 250

    await site.eventually(later_completed)
    assert len(seen) == len(set(seen)) == 250
    runs = await site.open_runs()
    assert runs == 0


async def test_partitions_that_move_while_items_run_are_worked_once_and_by_who_has_them(
    site: Site, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers: list[WorkConsumer] = []
    start = WorkConsumer.start

    async def noted(consumer: WorkConsumer) -> None:
        consumers.append(consumer)
        await start(consumer)

    monkeypatch.setattr(WorkConsumer, "start", noted)
    seen: tuple[list[str], list[str]] = ([], [])
    gates = (asyncio.Event(), asyncio.Event())
    await site.emit(make_drafts(100))
    await site.allocate()
    for each, gate in zip(seen, gates, strict=True):
        handlers = Handlers()

        @handlers.on(site.kind, concurrency=10)
        async def wait(
            item: DueItem, each: list[str] = each, gate: asyncio.Event = gate
        ) -> Verdict:
            each.append(item.business_key)
            await gate.wait()
            return Completed()

        async def ten_run(each: list[str] = each) -> bool:
            return len(each) == 10

        # The second worker has every partition revoked and dealt out anew, while ten items run.
        await site.work(handlers)
        await site.eventually(ten_run)

    async def are_dealt_out() -> bool:
        first, second = (each.assigned() for each in consumers)
        return first.isdisjoint(second) and len(first | second) == 4

    await site.eventually(are_dealt_out)
    kept = [partition for _, partition in consumers[0].assigned()]
    rows = await site.connection.fetch(
        "select i.business_key from ledger.claim c cross join unnest(c.item_no) u (no)"
        " join ledger.due_item i on i.item_no = u.no where c.partition = any ($1)",
        kept,
    )
    of_first = {row["business_key"] for row in rows} | set(seen[0])
    assert 20 < len(of_first) < 80
    gates[0].set()

    async def first_completed_its_own() -> bool:
        return await site.completed() >= len(of_first)

    await site.eventually(first_completed_its_own)
    assert set(seen[0]) == of_first
    gates[1].set()

    async def all_completed() -> bool:
        return await site.completed() == 100

    await site.eventually(all_completed)
    assert len(seen[0]) + len(seen[1]) == len({*seen[0], *seen[1]}) == 100
    assert not await site.rejected_writes()


async def test_a_worker_that_lost_partitions_while_it_cut_their_records_commits_the_others(
    site: Site,
    make_drafts: MakeDrafts,
    producer: AIOKafkaProducer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = envelope.work_topic(site.kind)
    partitions = [TopicPartition(topic, number) for number in range(4)]
    polled, gate = asyncio.Event(), asyncio.Event()
    reject = WorkConsumer.reject

    async def wait_at_the_first(consumer: WorkConsumer, *rejected: Any) -> None:  # noqa: ANN401 - as the original's
        if not polled.is_set():
            polled.set()
            await gate.wait()
        await reject(consumer, *rejected)

    monkeypatch.setattr(WorkConsumer, "reject", wait_at_the_first)
    await site.emit(make_drafts(40))
    await site.allocate()
    for partition in range(4):  # whichever is polled first has a record to reject
        await producer.send_and_wait(topic, b"malformed", partition=partition)
    await site.work(completing(site.kind))
    await polled.wait()
    await site.work(completing(site.kind))

    async def both_have_partitions() -> bool:
        return len(await site.credits()) == 2

    await site.eventually(both_have_partitions)
    gate.set()
    async with AIOKafkaConsumer(
        bootstrap_servers=site.settings.bootstrap_servers,
        group_id=site.settings.worker_group_id,
        enable_auto_commit=False,
    ) as watcher:
        ends = await watcher.end_offsets(partitions)

        async def all_committed() -> bool:
            return ends == {each: await watcher.committed(each) for each in partitions}

        await site.eventually(all_committed)
    assert await site.completed() == 40


async def test_a_commit_leaves_out_a_partition_that_is_not_assigned(
    settings: WorkerSettings, kind: str
) -> None:
    assigned, other = TopicPartitionKey(f"due.{kind}", 0), TopicPartitionKey(f"due.{kind}", 9)
    consumer = WorkConsumer(settings, [assigned.topic], name="test", revoked=nothing_revoked)
    assert await consumer.commit({assigned: 0}) == {}
    await consumer.start()
    try:
        assert await consumer.commit({assigned: 0, other: 7}) == {assigned: 0}
        assert await consumer.commit({other: 7}) == {}
    finally:
        await consumer.stop()


async def test_offsets_are_committed_after_the_ledger_and_stop_at_what_is_unsettled(
    site: Site, make_drafts: MakeDrafts
) -> None:
    gate = asyncio.Event()
    handlers = Handlers()

    @handlers.on(site.kind)
    async def wait(item: DueItem) -> Verdict:
        if item.business_key == "key-000000":
            await gate.wait()
        return Completed()

    await site.emit(make_drafts(40))
    await site.allocate()
    await site.work(handlers)

    async def all_but_one() -> bool:
        return await site.completed() == 39

    await site.eventually(all_but_one)
    topic = envelope.work_topic(site.kind)
    async with AIOKafkaConsumer(
        bootstrap_servers=site.settings.bootstrap_servers,
        group_id=site.settings.worker_group_id,
        enable_auto_commit=False,
    ) as watcher:
        partitions = [TopicPartition(topic, number) for number in range(4)]
        watcher.assign(partitions)

        async def uncommitted() -> int:
            ends = await watcher.end_offsets(partitions)
            committed = [await watcher.committed(partition) or 0 for partition in partitions]
            return sum(ends.values()) - sum(committed)

        async def some_committed() -> bool:
            return 0 < await uncommitted() < 40

        await site.eventually(some_committed)
        gate.set()

        async def all_committed() -> bool:
            return await uncommitted() == 0

        await site.eventually(all_committed)
    assert await site.completed() == 40


async def test_a_full_buffer_holds_no_more_than_it_may_and_everything_is_worked(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(600))
    await site.allocate()
    await site.work(completing(site.kind), worker_buffer_items_max=8, worker_poll_records_max=5)

    async def all_completed() -> bool:
        return await site.completed() == 600

    await site.eventually(all_completed)


@pytest.mark.parametrize("event", [TransitionEvent.CANCELLED, TransitionEvent.SUPERSEDED])
async def test_what_was_withdrawn_after_publishing_is_not_worked(
    site: Site, make_drafts: MakeDrafts, event: TransitionEvent
) -> None:
    seen: list[str] = []
    drafts = make_drafts(20)
    await site.emit(drafts)
    await site.allocate()
    await withdraw_items(
        site.connection,
        [draft.id for draft in drafts[:5]],
        event=event,
        reason="lapsed",
        actor_no=site.actor_no,
    )
    await site.work(completing(site.kind, seen))

    async def all_ended() -> bool:
        return len(await site.events()) == 20

    await site.eventually(all_ended)
    events = await site.events()
    assert [events[draft.business_key] for draft in drafts[:5]] == [[event.label]] * 5
    assert sorted(seen) == [draft.business_key for draft in drafts[5:]]
    assert await site.completed() == 15


async def test_a_drain_finishes_what_runs_starts_nothing_and_gives_back_what_outlasts_it(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    gate = asyncio.Event()
    seen: list[str] = []

    @handlers.on(site.kind, concurrency=4)
    async def wait(item: DueItem) -> Verdict:
        seen.append(item.business_key)
        await (gate.wait() if len(seen) % 2 else asyncio.Event().wait())
        return Completed()

    await site.emit(make_drafts(12))
    await site.allocate()
    stop = await site.work(handlers, worker_drain_seconds=3.0)

    async def four_running() -> bool:
        return len(seen) == 4

    await site.eventually(four_running)
    stop.request()
    gate.set()

    async def given_back() -> bool:
        return len(await site.events()) == 4

    await site.eventually(given_back)
    events = await site.events()
    assert sorted(map(tuple, events.values())) == [("completed",)] * 2 + [("released",)] * 2
    assert {row["attempt"] for row in (await site.pending()).values()} == {0}
    assert len(seen) == 4
    running = await site.open_runs()
    assert running == 0
