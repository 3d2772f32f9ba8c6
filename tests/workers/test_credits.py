"""A worker is given items that it can start soon, and none after its end."""

import asyncio
import signal
from collections.abc import Callable
from datetime import timedelta

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.presence import Presence
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store import Pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.credits import read_credits
from dueledger.ledger.store.processes import ProcessRole
from dueledger.workers.connections import WorkerConnections
from dueledger.workers.kafka_source import KafkaSource
from dueledger.workers.poll import credit_grants
from dueledger.workers.poll.credit_grants import CreditGrants, DrainRate
from dueledger.workers.worker import Worker

from .conftest import Site
from .test_kafka import completing

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]


async def test_a_worker_grants_a_full_pool_from_its_start_and_nothing_once_it_drains(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    began, gate = asyncio.Event(), asyncio.Event()

    @handlers.on(site.kind, concurrency=7)
    async def wait(item: DueItem) -> Verdict:
        del item
        began.set()
        await gate.wait()
        return Completed()

    await site.emit(make_drafts(1))
    await site.allocate()
    stop = await site.work(handlers)
    wanted = await site.eventually(site.credits)
    await began.wait()
    stop.request()

    async def nothing_wanted() -> bool:
        return not await site.credits()

    await site.eventually(nothing_wanted)
    assert await site.open_runs() == 1  # it still works what it has
    gate.set()
    assert list(wanted.values()) == [7]


async def test_a_worker_grants_nothing_before_it_reads_from_kafka(site: Site, pool: Pool) -> None:
    name = "worker:that-starts"
    worker_no = await register_actor(site.connection, name, ActorKind.WORKER)
    source: KafkaSource | None = None

    def make_source(worker: Worker) -> KafkaSource:
        nonlocal source
        source = KafkaSource(site.settings, worker)
        return source

    Worker(
        site.settings,
        completing(site.kind),
        WorkerConnections(
            name,
            worker_no,
            pool,
            None,
            Presence(site.settings.dsn.get_secret_value(), name, ProcessRole.WORKER),
        ),
        make_source,
    )
    assert source is not None
    [grant] = [each.tick for each in source.background_services() if each.name == "worker.credit"]
    await grant()
    before = await site.credits()
    await source.open()
    await grant()
    after = await site.credits()
    await source.close()
    assert before == {}
    assert list(after) == [worker_no]


@pytest.mark.parametrize(("timeout_seconds", "wanted"), [(30, 100), (300, 10), (36_000, 1)])
async def test_g9_a_pool_that_may_take_long_has_few_waiting_until_it_was_measured(
    site: Site, timeout_seconds: float, wanted: int
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=100, timeout_seconds=timeout_seconds)
    async def complete(item: DueItem) -> Verdict:
        del item
        return Completed()

    await site.work(handlers)

    assert list((await site.eventually(site.credits)).values()) == [wanted]


async def test_a_worker_wants_as_much_as_it_drains(site: Site, make_drafts: MakeDrafts) -> None:
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=4)
    async def complete(item: DueItem) -> Verdict:
        del item
        return Completed()

    await site.emit(make_drafts(1_000))
    await site.allocate()
    await site.work(handlers, worker_credit_window_seconds=60)

    async def all_wanted() -> bool:
        return sum((await site.credits()).values()) >= 800  # in steps of a quarter

    await site.eventually(all_wanted)


async def test_a_worker_wants_no_more_than_its_buffer_takes(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(1_000))
    await site.allocate()
    await site.work(
        completing(site.kind), worker_credit_window_seconds=60, worker_buffer_items_max=100
    )

    async def all_completed() -> bool:
        return await site.completed() == 1_000

    async def enough_wanted() -> list[int] | None:
        wanted = list((await site.credits()).values())
        return wanted if sum(wanted) >= 200 else None  # it may be granted after all of them ended

    await site.eventually(all_completed)
    assert await site.eventually(enough_wanted) == [200]


async def test_g9_items_that_a_full_pool_cannot_start_stay_scheduled(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    gate = asyncio.Event()

    @handlers.on(site.kind, concurrency=3)
    async def wait(item: DueItem) -> Verdict:
        del item
        await gate.wait()
        return Completed()

    await site.grant(0)
    await site.emit(make_drafts(100))
    await site.work(handlers)

    async def three_run_and_three_wait() -> bool:
        await site.allocate()
        row = await site.connection.fetchrow(
            "select sum(started), sum(size - started) from ledger.claim"
        )
        return row is not None and tuple(row) == (3, 3)

    await site.eventually(three_run_and_three_wait)
    assert await site.allocate() == 0
    assert len(await site.pending()) == 94
    gate.set()

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 100

    await site.eventually(all_completed)


async def test_g9_no_claim_expires_in_the_queue_of_slow_handlers(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=2)
    async def take_a_moment(item: DueItem) -> Verdict:
        del item
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.5)
        return Completed()

    await site.grant(0)
    await site.emit(make_drafts(40))
    await site.set_kind(queue_seconds=5)  # all at once, the last would wait for twice as long
    await site.work(handlers)

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 40

    await site.eventually(all_completed)
    taken_back = await site.connection.fetchval(
        "select count(*) from ledger.claim where closed_at is not null and started < size"
    )
    assert taken_back == 0


async def test_what_is_due_stays_scheduled_once_its_worker_stopped(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.grant(0)
    stop = await site.work(completing(site.kind))
    await site.emit(make_drafts(5))

    async def five_completed() -> bool:
        await site.allocate()
        return await site.completed() == 5

    await site.eventually(five_completed)
    stop.request()

    async def nothing_wanted() -> bool:
        return not await site.credits()

    await site.eventually(nothing_wanted)
    await site.emit(make_drafts(5, prefix="later"))

    assert await site.allocate() == 0
    assert {row["state"] for row in (await site.pending()).values()} == {State.SCHEDULED}


async def test_kinds_without_a_handler_are_wanted_too(site: Site) -> None:
    await site.work(Handlers(), worker_topics=(work_topic(site.kind),))

    assert list((await site.eventually(site.credits)).values()) == [4_000]


async def test_g5_the_credit_of_a_killed_worker_ends(site: Site) -> None:
    worker = await site.start_process("transaction")
    await site.eventually(site.credits)
    worker.send(signal.SIGKILL)
    await worker.ended()

    await site.advance_machine(timedelta(seconds=6))

    assert not await site.credits()


async def test_a_topic_that_was_revoked_is_withdrawn_and_one_that_came_is_granted(
    pool: Pool, actor_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credit_grants, "IDLE_CHECK_SECONDS", 3_600.0)  # each tick below is woken
    floors = {"due.A": 3, "due.B": 5}
    credits_ = CreditGrants(
        pool, worker_no=actor_no, window_seconds=60, items_max=1_000, floors=lambda: floors
    )

    async def granted() -> list[int]:
        async with pool.acquire() as connection:
            found = await read_credits(connection, ["due.A", "due.B", "due.C"])
        return [credit.granted for credit in found]

    credits_.wake()
    await credits_.tick()
    assert await granted() == [3, 5, 0]
    floors = {"due.B": 5, "due.C": 2}
    credits_.wake()
    await credits_.tick()
    assert await granted() == [0, 5, 2]
    credits_.add_ended("due.B", 900)
    await credits_.tick()
    assert await granted() == [0, 900, 2]
    floors = {"due.B": 5, "due.C": 900}
    await credits_.tick()
    assert await granted() == [0, 500, 500]  # no more in all than it may


def test_what_drains_is_forgotten_after_two_windows_but_not_after_one() -> None:
    drain = DrainRate()
    drain.add(100)
    drain.next_window(1)
    drain.add(10)
    assert drain.items == 100
    drain.next_window(1)
    assert drain.items == 10
    drain.next_window(2)
    assert drain.items == 0


async def test_a_worker_wants_less_by_what_lies_in_front_of_it_beyond_its_credit(
    pool: Pool, actor_no: int
) -> None:
    backlogs: dict[str, int] = {}
    credits_ = CreditGrants(
        pool,
        worker_no=actor_no,
        window_seconds=60,
        items_max=1_000,
        floors=lambda: {"due.A": 100, "due.B": 100},
        backlogs=lambda: backlogs,
    )

    async def granted(**lying: int) -> list[int]:
        backlogs.update({f"due.{name}": items for name, items in lying.items()})
        await credits_.tick()
        async with pool.acquire() as connection:
            found = await read_credits(connection, ["due.A", "due.B"])
        assert [credit.workers for credit in found] == [1, 1]
        return [credit.granted for credit in found]

    assert await granted() == [100, 100]
    assert await granted(A=100) == [100, 100]  # its own credit, not used up
    assert await granted(A=5_000) == [0, 100]
    assert await granted(A=160) == [40, 100]
    assert await granted(A=0) == [100, 100]


@pytest.mark.parametrize("reads_all", [False, True])
async def test_a_worker_wants_less_by_what_it_has_not_read_and_by_what_it_buffers(
    site: Site, make_drafts: MakeDrafts, *, reads_all: bool
) -> None:
    few = {} if reads_all else {"worker_buffer_items_max": 25, "worker_poll_records_max": 1}
    handlers, gate = Handlers(), asyncio.Event()

    @handlers.on(site.kind, concurrency=50, timeout_seconds=30)
    async def wait(item: DueItem) -> Verdict:
        del item
        await gate.wait()
        return Completed()

    for number in range(5):  # of one partition: the small buffer takes one of them at a time
        await site.emit(make_drafts(50, prefix=f"batch-{number}", partition_key="one"))
        await site.allocate()
    await site.work(handlers, **few)

    async def wants_none() -> bool:
        return list((await site.credits()).values()) == [0]

    await site.eventually(wants_none)
    gate.set()

    async def wants_again() -> bool:
        return await site.completed() == 250 and min((await site.credits()).values()) > 0

    await site.eventually(wants_again)
