"""Records that come twice, late or in any order, and members that come and go."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import Stop

from .checker import COPIED, violations
from .programs import eventually
from .short_times import PARTITIONS
from .site import Site

pytestmark = pytest.mark.faults
POLL_MILLISECONDS = 50
COPIES_MAX = 3
ROUNDS = 6
LEAVING_SHARE = 0.7  # of the members that go; the rest is killed
# One claim of an allocator has several rows, one a partition, in one transaction.
ROUNDS_KEPT = """
create table public.claimed (
  round xid8 not null default pg_current_xact_id(), items integer not null,
  retries integer not null, firsts_wait boolean not null);
create function public.keep_round() returns trigger language plpgsql as $$
begin
  insert into public.claimed (items, retries, firsts_wait) values (
    cardinality(new.item_no), (select count(*) from unnest(new.attempt) a where a > 1),
    exists (select from ledger.pending where state = 1));
  return new;
end $$;
create trigger keep_round after insert on ledger.claim
  for each row execute function public.keep_round();
"""
CROWDED_ROUNDS = """
select sum(items)::integer, sum(retries)::integer from public.claimed
group by round having bool_and(firsts_wait) order by round
"""


@pytest.fixture
def choice() -> Random:
    seed = int(os.environ.get("DUELEDGER_FAULT_SEED") or secrets.randbelow(1 << 32))
    print(f"DUELEDGER_FAULT_SEED={seed}")  # noqa: T201  # shown when the test fails
    return Random(seed)  # noqa: S311  # no secrets


async def copy(producer: AIOKafkaProducer, record: ConsumerRecord) -> None:
    await producer.send(
        record.topic,
        record.value,
        record.key,
        partition=record.partition,
        headers=[*((name, value or b"") for name, value in record.headers), (COPIED, b"1")],
    )


@asynccontextmanager
async def copied(site: Site, topic: str, choice: Random) -> AsyncGenerator[list[ConsumerRecord]]:
    """Publish each record of the topic again, once or more, later and in another order."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    seen: list[ConsumerRecord] = []
    stop = Stop()

    async def relay() -> None:
        async with (
            AIOKafkaConsumer(bootstrap_servers=site.bootstrap_servers) as consumer,
            AIOKafkaProducer(bootstrap_servers=site.bootstrap_servers) as producer,
        ):
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            kept: list[ConsumerRecord] = []
            while kept or not stop.is_requested:
                polled = await consumer.getmany(timeout_ms=POLL_MILLISECONDS)
                for records in polled.values():
                    fresh = [each for each in records if COPIED not in dict(each.headers)]
                    seen.extend(fresh)
                    for record in fresh:
                        kept += [record] * choice.randint(1, COPIES_MAX)
                choice.shuffle(kept)
                now = len(kept) if stop.is_requested else len(kept) // 2
                for record in kept[:now]:
                    await copy(producer, record)
                del kept[:now]
            await producer.flush()

    relaying = asyncio.create_task(relay())
    try:
        yield seen
    finally:
        stop.request()
        await relaying


async def read_to_end(site: Site, topic: str) -> None:
    """Wait until the workers have committed everything that the topic holds."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with AIOKafkaConsumer(bootstrap_servers=site.bootstrap_servers) as consumer:
        consumer.assign(places)
        admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
        await admin.start()
        try:

            async def committed() -> bool:
                ends = await consumer.end_offsets(places)
                done = await admin.list_consumer_group_offsets(site.group)
                return all(
                    end == 0 or (place in done and done[place].offset >= end)
                    for place, end in ends.items()
                )

            await eventually(committed)
        finally:
            await admin.close()


async def test_g4_duplicates_in_any_order_and_late_start_nothing_twice(
    site: Site, choice: Random
) -> None:
    kind = await site.add_kind("batch")
    topic = work_topic(kind)
    await site.start_allocator()
    await site.start_worker()
    await site.emit(site.drafts(kind, 50))
    await site.finished()
    async with copied(site, topic, choice):
        for _ in range(10):
            await site.emit(site.drafts(kind, 100))
            before = await site.count_effects()
            await site.effects_beyond(before - 100)
        await site.finished()

    await read_to_end(site, topic)

    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_effects() == await site.count_completed() == 1050


async def test_g4_g5_records_that_wait_longer_than_their_claims_are_refused_and_handed_out_again(
    site: Site,
) -> None:
    kind = await site.add_kind("batch", queue_seconds=1)
    await site.start_allocator()
    worker = await site.start_worker()
    await site.emit(site.drafts(kind, 20))
    await site.finished()
    await worker.freeze()
    await site.emit(site.drafts(kind, 200))

    async def late() -> bool:
        return await site.fetchval(
            "select exists (select from ledger.claim"
            " where closed_at is not null and started = 0 and base_offset is not null)"
        )

    await eventually(late)
    worker.thaw()
    await site.finished()
    await read_to_end(site, work_topic(kind))

    assert worker.running
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 220
    assert await site.fetchval(
        "select count(*) > 0 from ledger.rejected_write where verb = 'start' and reason = 'stale'"
    )


async def test_g5_members_that_come_and_go_without_end_lose_nothing(
    site: Site, choice: Random
) -> None:
    kind = await site.add_kind("single")
    await site.start_allocator()
    await site.start_worker()
    stop = Stop()

    async def load() -> None:
        while not stop.is_requested:
            await site.emit(site.drafts(kind, 100))
            await stop.wait(0.2)

    loading = asyncio.create_task(load())
    try:
        guests = [await site.start_worker() for _ in range(2)]
        for _ in range(ROUNDS):
            await site.worked_by(choice.choice(guests))
            leaving = guests.pop(choice.randrange(2))
            if choice.random() < LEAVING_SHARE:
                await site.all_logged(leaving, LogEvent.PROCESS_STARTED)
                assert await leaving.end() == 0
            else:
                await leaving.kill()
            guests.append(await site.start_worker())
    finally:
        stop.request()
        await loading

    await site.finished()

    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == len(site.emitted)


async def test_g4_two_allocators_serve_one_flow_and_no_item_is_handed_out_twice(site: Site) -> None:
    kind = await site.add_kind("batch")
    allocators = [await site.start_allocator(), await site.start_allocator()]
    await site.start_worker()

    async def both_claimed() -> bool:
        await site.emit(site.drafts(kind, 200))
        return await site.fetchval("select count(distinct allocator_no) = 2 from ledger.claim")

    await eventually(both_claimed)
    await site.emit(site.drafts(kind, 5000))
    await site.finished()

    assert all(allocator.running for allocator in allocators)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_effects() == await site.count_completed() == len(site.emitted)


async def test_g9_poison_every_thousandth_item_parks_and_delays_no_other(site: Site) -> None:
    kind = await site.add_kind("batch", attempt_max=3)
    # No item of it is released, however long it waits.
    other = await site.add_kind("single", dispatch_seconds=60, queue_seconds=60)
    await site.start_allocator()
    await site.start_worker()
    for _ in range(4):
        await site.emit(site.drafts(kind, 1, prefix="poison"))
        await site.emit(site.drafts(kind, 999))
    await site.emit(site.drafts(other, 500))

    await site.finished()

    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 4496
    assert await site.parked() == [f"poison-{number:06}" for number in range(0, 4000, 1000)]
    assert await site.count_effects() == 4496
    assert await site.fetchval("select max(attempt) from ledger.transition where event = 5") == 1
    assert await site.fetchval("select count(*) from ledger.transition where event = 6") == 8
    claimed = "select sum(size) from ledger.claim where topic = $1"
    assert await site.fetchval(claimed, work_topic(other)) == 500


async def test_g9_poison_has_no_more_of_a_claim_than_the_share_of_retries(site: Site) -> None:
    kind = await site.add_kind("single", attempt_max=3)
    await site.emit(site.drafts(kind, 200, prefix="poison"))
    async with site.connected() as connection:
        await connection.execute(ROUNDS_KEPT)
        await connection.execute("update ledger.pending set state = 4, attempt = 1, starts = 1")
    await site.emit(site.drafts(kind, 1000))
    await site.start_allocator()
    await site.start_worker()

    await site.finished()

    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 1000
    async with site.connected() as connection:
        share = await connection.fetchval("select retry_share from ledger.flow")
        rounds = await connection.fetch(CROWDED_ROUNDS)
    assert share == 0.2
    assert sum(retries for _, retries in rounds) > 0
    assert [(items, retries) for items, retries in rounds if retries > share * items + 1] == []
