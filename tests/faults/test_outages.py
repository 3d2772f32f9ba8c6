"""Servers that stop, do not answer or are slow: everything resumes without an operator."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.log import LogEvent
from dueledger.stack.kafka import Kafka
from dueledger.stack.start_progress import StartProgress
from tests.forks import ForkServer
from tests.ledger.test_sleep import open_sleeper

from .checker import violations
from .programs import eventually, moment
from .servers import Servers, open_servers
from .short_times import PARTITIONS, REQUEST_SECONDS
from .site import Site, open_site

pytestmark = pytest.mark.faults
OUTAGE_SECONDS = 2.5 * REQUEST_SECONDS
SLOW_SECONDS = 0.02


async def break_kafka(servers: Servers, outage: str) -> None:
    match outage:
        case "stopped":
            await asyncio.to_thread(servers.stack.kafka.stop)
        case "killed":
            await asyncio.to_thread(servers.stack.kafka.kill)
        case "silent":
            servers.kafka.silence()
        case _:
            servers.kafka.is_refusing = True
            await servers.kafka.reset()


@pytest.mark.parametrize("outage", ["stopped", "killed", "silent", "refusing"])
async def test_g5_a_broker_gone_for_longer_than_the_request_timeout_delays_and_no_more(
    site: Site, outage: str
) -> None:
    kinds = [await site.add_kind("batch"), await site.add_kind("transaction")]
    allocator = await site.start_allocator()
    worker = await site.start_worker()
    for kind in kinds:
        await site.emit(site.drafts(kind, 100))
    await site.finished()
    await break_kafka(site.servers, outage)
    for kind in kinds:
        await site.emit(site.drafts(kind, 300))
    await site.all_logged(
        allocator, LogEvent.TICK_FAILED, LogEvent.CLAIM_AMBIGUOUS, LogEvent.CLAIM_NOT_SENT
    )
    await moment(OUTAGE_SECONDS)
    for kind in kinds:
        await site.emit(site.drafts(kind, 100))
    await site.servers.heal()

    await site.finished()

    assert allocator.running
    assert worker.running
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 1000


@pytest.mark.parametrize("outage", ["stopped", "silent"])
async def test_a_worker_and_an_allocator_end_in_order_though_kafka_is_gone(
    site: Site, outage: str
) -> None:
    kind = await site.add_kind("batch")
    programs = [await site.start_allocator(), await site.start_worker()]
    await site.emit(site.drafts(kind, 100))
    await site.finished()
    await break_kafka(site.servers, outage)
    await site.emit(site.drafts(kind, 10))
    await moment(OUTAGE_SECONDS)

    assert [await program.end() for program in programs] == [0, 0]

    await site.servers.heal()
    programs = [await site.start_allocator(), await site.start_worker()]
    await site.finished()
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 110


async def test_g5_a_partition_without_a_leader_delays_and_no_more(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    """Kafka responds, but the broker that leads the topic is down."""
    async with (
        open_servers() as servers,  # its own: a cluster remembers a broker that is gone
        open_site(servers, tmp_path, fork_server) as site,
        second_broker(servers, tmp_path) as second,
    ):
        kind = await site.add_kind("batch")
        await make_topic_on_second(site, work_topic(kind))
        allocator = await site.start_allocator()
        worker = await site.start_worker()
        await site.emit(site.drafts(kind, 100))
        await site.finished()
        await asyncio.to_thread(second.kill)
        await site.emit(site.drafts(kind, 300))
        await site.all_logged(
            allocator, LogEvent.TICK_FAILED, LogEvent.CLAIM_AMBIGUOUS, LogEvent.CLAIM_NOT_SENT
        )
        await moment(OUTAGE_SECONDS)
        await asyncio.to_thread(second.start)

        await site.finished()

        assert allocator.running
        assert worker.running
        assert await site.end_all() == {}
        assert await violations(site) == []
        assert await site.count_completed() == 400


@asynccontextmanager
async def second_broker(servers: Servers, directory: Path) -> AsyncGenerator[Kafka]:
    broker = Kafka(directory, steps=StartProgress(None), joins=servers.stack.kafka, brief=True)
    await asyncio.to_thread(broker.start)
    try:
        yield broker
    finally:
        await asyncio.to_thread(broker.kill)


async def make_topic_on_second(site: Site, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
    await admin.start()
    try:
        leading = {number: [2] for number in range(PARTITIONS)}
        await admin.create_topics([NewTopic(topic, -1, -1, leading)])
    finally:
        await admin.close()


async def test_g5_g7_postgres_killed_at_once_and_restarted_delays_and_no_more(site: Site) -> None:
    kinds = [await site.add_kind("single"), await site.add_kind("transaction")]
    programs = [await site.start_allocator(), await site.start_worker()]
    postgres = site.servers.stack.postgres
    for _ in range(3):
        for kind in kinds:
            await site.emit(site.drafts(kind, 400))
        before = await site.count_effects()
        await site.effects_beyond(before)
        await asyncio.to_thread(postgres.stop, "immediate")
        failures = [len(program.logged(LogEvent.TICK_FAILED)) for program in programs]
        for program, count in zip(programs, failures, strict=True):
            await site.all_logged(program, LogEvent.TICK_FAILED, count=count + 1)
        await asyncio.to_thread(postgres.start)

    await site.finished()

    assert all(program.running for program in programs)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 2400


async def test_g5_a_slow_postgres_and_a_slow_kafka_only_take_longer(site: Site) -> None:
    kinds = [await site.add_kind(handler) for handler in ("batch", "single", "transaction")]
    site.servers.postgres.delay_seconds = site.servers.kafka.delay_seconds = SLOW_SECONDS
    programs = [await site.start_allocator(), await site.start_worker()]
    for _ in range(2):
        for kind in kinds:
            await site.emit(site.drafts(kind, 60))

    await site.finished()

    assert all(program.running for program in programs)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 360


async def test_g9_a_process_that_slept_when_postgres_crashed_is_woken_again_after_it(
    site: Site,
) -> None:
    kind = await site.add_kind("batch", dispatch="direct")
    async with open_sleeper(site.dsn, kind) as sleeper:
        await sleeper.fall_asleep()
        async with site.connected() as connection:
            await connection.execute("checkpoint")  # its commit waits for no disk
        await asyncio.to_thread(site.servers.stack.postgres.kill)
        await sleeper.woken.wait()  # it polls, since nobody notifies it now
        assert not sleeper.sleep.is_asleep
        await site.servers.heal()
        sleeps_until = "select sleeps_until from ledger.process"
        kept = await site.fetchval(sleeps_until)

        async def has_its_lock() -> bool:
            await sleeper.presence.tick()
            return sleeper.presence.session_no is not None

        await eventually(has_its_lock)
        assert kept is not None
        assert await site.fetchval(sleeps_until) is None  # until it has registered anew
        await sleeper.fall_asleep()
        sleeper.woken.clear()
        await site.emit(site.drafts(kind, 1))
        await sleeper.woken.wait()
