"""After any failure between claim and mark every item has a state and is claimed again."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord
from aiokafka.structs import RecordMetadata
from pydantic import SecretStr

from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.process import run_allocator
from dueledger.allocator.publish import OutgoingBatch
from dueledger.ledger.claim_id import ClaimId, new_claim_id
from dueledger.ledger.errors import ConnectionLost, Unavailable
from dueledger.ledger.kafka import envelope
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import CRASH_VARIABLE, Signals, Stop, run_service
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    next_fences,
    record_claims,
    release_claims,
)
from dueledger.ledger.store.items import read_accounting
from tests.faults.servers import proxied
from tests.forks import ForkServer

pytestmark = pytest.mark.long

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
ReadTopic = Callable[[str], Awaitable[list[ConsumerRecord]]]
Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]]
ONE_TICK = """
import asyncio
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.runtime.service import Stop

async def main():
    async with open_allocator(AllocatorSettings(), stop=Stop()) as allocator:
        await allocator.tick()

asyncio.run(main())
"""


async def claim_all_due(connection: Connection, actor_no: int) -> ClaimId:
    """Claim everything due in one claim, without publishing it; return its id."""
    async with connection.transaction():
        rows = await claim_items(connection, [1], [1000])
        items = rows.items()
        [fence] = await next_fences(connection, 1)
        claim_id = new_claim_id(fence, rows.claimed_at)
        await record_claims(
            connection,
            [
                Claim(
                    id=claim_id,
                    allocator_no=actor_no,
                    topic="due.x",
                    partition=0,
                    item_nos=[row.item_no for row in items],
                    effective_dates=[row.effective_date for row in items],
                    attempts=[1] * len(rows),
                    starts=[1] * len(rows),
                    queue_seconds=60,
                    dispatch_seconds=30,
                )
            ],
        )
    return claim_id


async def test_an_unreachable_broker_leaves_everything_waiting(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit(make_drafts(5))
    allocator = await start_allocator(
        bootstrap_servers="127.0.0.1:1", allocator_request_seconds=1.0
    )

    with pytest.raises(Unavailable, match="Kafka"):
        await allocator.tick()

    assert await connection.fetchval("select count(*) from ledger.pending") == 5
    assert await connection.fetchval("select count(*) from ledger.claim") == 0


async def test_an_idle_allocator_does_not_need_the_broker(start_allocator: Start) -> None:
    allocator = await start_allocator(bootstrap_servers="127.0.0.1:1")

    assert not any((await allocator.tick()).values())


async def test_a_batch_that_never_left_is_given_back_at_once_and_sent_under_a_higher_fence(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    allocator = await start_allocator(allocator_send_seconds=3.0)
    await emit(make_drafts(3, prefix="first"))
    await allocator.tick()
    producer = cast("Any", allocator)._light._publisher._producer
    producer._sender.sender_task.cancel()
    await emit(make_drafts(8))

    counts = await allocator.tick()

    assert counts["released"] > 0
    while (await allocator.tick())["claimed"]:
        pass
    records = await read_topic(f"due.{kind}")
    published = [envelope.parse_work_headers(record.headers) for record in records]
    assert len({headers.item for headers in published}) == len(published) == 11
    released = await connection.fetch("select fence from ledger.claim where closed_at is not null")
    assert {row["fence"] for row in released}.isdisjoint(headers.fence for headers in published)
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (0, 11)


async def test_g4_an_acknowledgement_that_comes_after_the_claim_closed_is_kept_but_not_counted(
    pool: Pool, emit: Emit, make_drafts: Drafts, connection: Connection, actor_no: int
) -> None:
    await emit(make_drafts(4))
    claim_id = await claim_all_due(connection, actor_no)
    await release_claims(connection, [claim_id], actor_no)
    sends = DeliveryBuffer(pool, actor_no)
    counts: Counter[str] = Counter()

    sends.add_acknowledged(claim_id, 17, 4)
    await sends.write(counts)

    assert counts["published"] == 0
    claim = await connection.fetchrow("select base_offset, closed_at from ledger.claim")
    assert claim is not None
    assert claim["base_offset"] == 17
    assert claim["closed_at"] is not None
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (4, 0)


async def test_marks_that_are_waited_for_wait_for_no_more(
    pool: Pool,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass ends with them: nothing is claimed until they are written."""
    for name in ("URGENT_WAIT_SECONDS", "BATCH_WAIT_SECONDS"):
        monkeypatch.setattr(f"dueledger.allocator.mark.delivery_buffer.{name}", 3_600.0)
    await emit(make_drafts(4))
    sends, counts = DeliveryBuffer(pool, actor_no), Counter[str]()
    for offset in (5, 6):
        sends.add_acknowledged(await claim_all_due(connection, actor_no), offset, 4)
        sends.write_in_background(counts)
        await sends.wait_for_background()
        assert counts["published"] == 4
        await emit(make_drafts(4, prefix=f"after {offset}"))
        counts.clear()


async def test_g7_a_lost_connection_forgets_neither_marks_nor_releases(
    pool: Pool,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    actor_no: int,
    eventually: Eventually,
) -> None:
    await emit(make_drafts(4))
    marked = await claim_all_due(connection, actor_no)
    await emit(make_drafts(2, prefix="second"))
    unsent = await claim_all_due(connection, actor_no)
    sends = DeliveryBuffer(pool, actor_no)
    sends.add_acknowledged(marked, 5, 4)
    sends.add_unsent([unsent])
    counts: Counter[str] = Counter()

    async def cut_off_the_writer() -> bool:
        return await connection.fetchval(
            "select coalesce(bool_or(pg_terminate_backend(pid)), false) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )

    async with connection.transaction():
        await connection.execute("select from ledger.claim for update")
        writing = asyncio.create_task(sends.write(counts))
        await eventually(cut_off_the_writer)
        with pytest.raises(ConnectionLost):
            await writing
    await sends.write(counts)

    assert (counts["published"], counts["released"]) == (4, 2)
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (2, 4)


async def test_g5_items_of_a_small_claim_whose_answer_is_lost_are_claimed_again_at_once(
    settings: AllocatorSettings, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit([*make_drafts(6), *make_drafts(2, tenant="globex")])
    async with AsyncExitStack() as opened:
        dsn = settings.dsn.get_secret_value()
        proxy, near = await opened.enter_async_context(proxied(dsn))
        behind = settings.model_copy(update={"dsn": SecretStr(near)})
        allocator = await opened.enter_async_context(open_allocator(behind, stop=Stop()))
        cut = proxy.hold("claim_few_items", answered=True)
        claiming = asyncio.create_task(allocator.tick())
        await cut.reached
        cut.decide(passes=False)
        with pytest.raises(ConnectionLost):
            await claiming
        lost = await connection.fetch("select fence from ledger.claim where closed_at is null")
        assert lost

        counts = await allocator.tick()

    assert (counts["released"], counts["claimed"], counts["published"]) == (8, 8, 8)
    rows = await connection.fetch("select fence, attempt from ledger.claim where closed_at is null")
    assert min(row["fence"] for row in rows) > max(row["fence"] for row in lost)
    assert {attempt for row in rows for attempt in row["attempt"]} == {1}


async def test_a_stop_finishes_what_was_claimed_and_claims_no_more(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit(make_drafts(500))
    stop, signals = Stop(), Signals()
    allocator = await start_allocator(
        stop=stop, signals=signals, allocator_batch_items_max=50, allocator_publishing_max=1
    )
    recorded = signals.expect("claim.recorded")
    recorded.add_done_callback(lambda _: stop.request())

    await run_service("allocator", allocator.tick, stop=stop, idle_seconds=allocator.idle_seconds)

    unmarked = await connection.fetchval(
        "select count(*) from ledger.claim where closed_at is null and published_at is null"
    )
    assert unmarked == 0
    [account] = await read_accounting(connection)
    assert account.handed_out > 0
    assert account.pending == 500 - account.handed_out > 0


async def test_a_stop_releases_at_once_what_was_never_sent(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    stop, signals = Stop(), Signals()
    allocator = await start_allocator(stop=stop, signals=signals, allocator_drain_seconds=0.1)
    await emit(make_drafts(3, prefix="first"))
    await allocator.tick()
    await emit(make_drafts(8))

    def halt(_: object) -> None:
        cast("Any", allocator)._light._publisher._producer._sender.sender_task.cancel()
        stop.request()

    signals.expect("claim.recorded").add_done_callback(halt)
    counts = await allocator.tick()

    assert (counts["claimed"], counts["published"], counts["released"]) == (8, 0, 8)
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (8, 3)


async def test_the_service_publishes_items_emitted_after_it_went_idle(
    settings: AllocatorSettings,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    eventually: Eventually,
) -> None:
    stop = Stop()
    service = asyncio.create_task(run_allocator(settings, stop))
    await emit(make_drafts(5))

    async def published() -> bool:
        return (
            await connection.fetchval(
                "select coalesce(sum(size), 0) from ledger.claim where published_at is not null"
            )
            == 5
        )

    await eventually(published)
    stop.request()
    await service


@pytest.mark.parametrize(
    ("point", "records_left"),
    [
        ("allocator.claimed", 0),
        ("allocator.recorded", 0),
        ("allocator.published", 30),
        ("allocator.marked", 30),
    ],
)
async def test_g5_g7_kill_at_each_step_loses_nothing_and_everything_is_handed_out_again(
    point: str,
    records_left: int,
    fork_server: ForkServer,
    settings: AllocatorSettings,
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
    eventually: Eventually,
) -> None:
    await emit(make_drafts(30))

    process = await fork_server.start(
        "-c",
        ONE_TICK,
        env={
            **os.environ,
            "DUELEDGER_DSN": settings.dsn.get_secret_value(),
            "DUELEDGER_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            CRASH_VARIABLE: point,
        },
    )
    assert await process.wait() == -signal.SIGKILL

    [account] = await read_accounting(connection)
    assert account.items == account.pending + account.handed_out == 30
    assert len(await read_topic(f"due.{kind}")) == records_left
    await connection.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1s'"
    )
    allocator = await start_allocator()

    async def all_handed_out_again() -> bool:
        await allocator.tick()
        [account] = await read_accounting(connection)
        return account.pending == 0

    await eventually(all_handed_out_again)  # after the backoff of what was in Kafka already
    open_fences = {
        row["fence"]
        for row in await connection.fetch("select fence from ledger.claim where closed_at is null")
    }
    published = [
        envelope.parse_work_headers(record.headers) for record in await read_topic(f"due.{kind}")
    ]
    valid = [headers.item for headers in published if headers.fence in open_fences]
    assert len(valid) == len(set(valid)) == 30
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (0, 30)


async def test_a_broker_that_says_duplicate_may_have_the_batch_at_an_unknown_offset(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send_batch = AIOKafkaProducer.send_batch

    async def send_and_forget_where(
        producer: AIOKafkaProducer, batch: OutgoingBatch, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        sent = await (await send_batch(producer, batch, topic, partition=partition))
        acknowledged: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        acknowledged.set_result(sent._replace(offset=-1))
        return acknowledged

    await emit(make_drafts(6))
    allocator = await start_allocator()
    with monkeypatch.context() as patched:
        patched.setattr(AIOKafkaProducer, "send_batch", send_and_forget_where)
        counts = await allocator.tick()

    assert (counts["claimed"], counts["published"], counts["released"]) == (6, 0, 0)
    assert len(await read_topic(f"due.{kind}")) == 6
    open_claims = "select count(*) from ledger.claim where closed_at is null"
    unmarked = f"{open_claims} and published_at is null and base_offset is null"
    assert await connection.fetchval(unmarked) == await connection.fetchval(open_claims) > 0

    await connection.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1s'"
    )
    assert (await allocator.tick())["published"] == 6
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out, account.difference) == (0, 6, 0)


@pytest.mark.faults
async def test_a_send_that_a_silent_broker_may_have_taken_is_left_to_its_deadline(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
    bootstrap_servers: str,
) -> None:
    signals = Signals()
    allocator = await start_allocator(
        signals=signals, allocator_request_seconds=3.0, allocator_send_seconds=4.0
    )
    await emit(make_drafts(3, prefix="first"))
    await allocator.tick()
    await emit(make_drafts(6))
    broker = listening_process(int(bootstrap_servers.rpartition(":")[2]))
    recorded = signals.expect("claim.recorded")
    recorded.add_done_callback(lambda _: freeze(broker))
    try:
        counts = await allocator.tick()
    finally:
        broker.resume()

    assert (counts["claimed"], counts["published"], counts["released"]) == (6, 0, 0)
    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (0, 9)
    await connection.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1s'"
        " where published_at is null"
    )
    assert (await allocator.tick())["published"] == 6
    published = [
        envelope.parse_work_headers(record.headers) for record in await read_topic(f"due.{kind}")
    ]
    highest = {
        item: max(headers.fence for headers in published if headers.item == item)
        for item in {headers.item for headers in published}
    }
    open_fences = await connection.fetch("select fence from ledger.claim where closed_at is null")
    assert len(highest) == 9
    assert set(highest.values()) == {row["fence"] for row in open_fences}


def freeze(process: psutil.Process) -> None:
    """Stop a process; return when each of its threads has stopped."""
    process.suspend()
    threads = Path(f"/proc/{process.pid}/task")
    while any(
        " T " not in (thread / "stat").read_text().rpartition(")")[2][:3]
        for thread in threads.iterdir()
    ):
        pass


def listening_process(port: int) -> psutil.Process:
    for listener in psutil.net_connections("tcp"):
        if listener.status == psutil.CONN_LISTEN and cast("Any", listener.laddr).port == port:
            return psutil.Process(listener.pid)
    pytest.skip("the broker is no process of this machine")
