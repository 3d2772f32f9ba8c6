"""Workers without Kafka that stop, die and come back: nothing is lost, no old write counts."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.errors import ConnectionLost
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, open_pool
from dueledger.workers.direct.source import DirectSource
from dueledger.workers.process import run_direct_worker
from dueledger.workers.run import draining
from tests.wire import wire_to

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]

pytestmark = pytest.mark.long

LEASE_OVER = timedelta(minutes=5)
SWEEP = [
    ("direct.claimed", "batch", "public.seen"),
    ("direct.claimed:2", "transaction", "public.effect"),
    ("worker.handled:2", "batch", "public.seen"),
    ("worker.handled:2", "transaction", "public.effect"),
    ("worker.handled:2", "chunk", "public.effect"),
    ("worker.settled", "batch", "public.seen"),
]


def heir(estate: Estate) -> Handlers:
    """Leave a row for each time an item is worked."""
    handlers = Handlers()

    @handlers.on_batch(estate.kind, batch_max=20, concurrency=2)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        async with estate.pool.acquire() as connection:
            await connection.execute(
                "insert into public.seen (item, pid, at)"
                " select i, 0, clock_timestamp() from unnest($1::uuid[]) i",
                [item.id for item in items],
            )
        return [Completed() for _ in items]

    return handlers


def heir_in_transactions(estate: Estate) -> Handlers:
    """Have an effect in the transaction that completes the item."""
    handlers = Handlers()

    @handlers.on_transaction(estate.kind, concurrency=8)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        await connection.execute("insert into public.effect (item) values ($1)", item.id)
        return Completed()

    return handlers


HEIRS = {"batch": heir, "transaction": heir_in_transactions, "chunk": heir_in_transactions}


@pytest.mark.parametrize(("step", "form", "table"), SWEEP)
async def test_g5_g6_killed_at_each_step_every_item_completes_once(
    estate: Estate, step: str, form: str, table: str, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(120))
    victim = await estate.start_process(form, crash_at=step)
    assert await victim.ended() == -signal.SIGKILL
    await estate.advance_machine(LEASE_OVER)
    await estate.reap_dead()
    await estate.work(HEIRS[form](estate))
    await estate.until_completed(120)
    assert await estate.count(f"(select distinct item from {table}) s") == 120  # noqa: S608
    completions = await estate.connection.fetch(
        "select item_no, count(*) from ledger.transition where event = $1 group by 1",
        TransitionEvent.COMPLETED,
    )
    assert [row["count"] for row in completions] == [1] * 120
    assert await estate.reviews() == {}


async def test_g4_zombie_write_is_stale(estate: Estate, make_drafts: MakeDrafts) -> None:
    await estate.emit(make_drafts(8))
    zombie = await estate.start_process("stop")

    async def stopped() -> bool:
        return await estate.count("public.seen") == 8

    await estate.eventually(stopped)
    await estate.advance_machine(LEASE_OVER)
    assert (await estate.reap()).retried == 8
    await estate.work(heir(estate))
    await estate.until_completed(8)
    zombie.send(signal.SIGCONT)

    async def refused() -> list[str]:
        rows = await estate.connection.fetch(
            "select verb || ' ' || reason as write from ledger.rejected_write"
        )
        return [row["write"] for row in rows]

    assert await estate.eventually(refused) == ["settle stale"]
    assert await estate.completed() == 8
    by = await estate.connection.fetchval(
        "select count(*) from ledger.transition where detail ->> 'by' = 'zombie'"
    )
    assert by == 0


async def test_g5_where_no_allocator_runs_workers_take_back_what_a_dead_one_left(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(40))
    handlers = Handlers()

    @handlers.on(estate.kind)
    async def hang(item: DueItem) -> Verdict:
        await asyncio.Event().wait()
        return Completed({"key": item.business_key})

    dead = await estate.employ(handlers)
    await dead.claim()
    for run in dead.runs.values():
        run.cancel_handlers()  # as if its process had ended
    await estate.connection.execute(
        "update ledger.run set lease_until = now() - interval '1 second' where closed_at is null"
    )
    worker = await estate.employ(heir(estate))
    assert (await worker.run_upkeep())["reaped_runs"] == 1
    while await estate.completed() < 40:
        await worker.claim()
        await worker.settle()


async def test_g5_an_item_that_kills_its_process_kills_one_worker_and_parks_alone(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(60), *make_drafts(1, prefix="poison")])
    await estate.set_kind(attempt_max=2, backoff_base_seconds=0.001, backoff_cap_seconds=0.001)
    await estate.advance_machine(LEASE_OVER)
    deaths = 0
    while not await estate.reviews():
        worker = await estate.start_process("die", "--once")
        deaths += await worker.ended() == -signal.SIGKILL
        await estate.reap_dead()
    assert list(await estate.reviews()) == ["poison-000000"]
    assert deaths == 1  # the processes of suspects died from then on
    await estate.work(heir(estate))
    await estate.until_completed(60)


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_suspects_of_handlers_without_a_name_have_one_slot_beside_ordinary_items(
    estate: Estate, ordering: str, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1, prefix="make-the-kind"))
    await estate.set_kind(ordering=ordering)
    await estate.emit([*make_drafts(6, prefix="suspect"), *make_drafts(30, prefix="plain")])
    await estate.connection.execute(
        "update ledger.pending p set batch_max = 8, state = 4, starts = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like 'suspect%'"
    )
    handlers = Handlers()
    together: list[list[str]] = []
    running: set[str] = set()
    both = asyncio.Event()

    @handlers.on(estate.kind, concurrency=20)
    async def work(item: DueItem) -> Verdict:
        running.add(item.business_key)
        together.append([key.partition("-")[0] for key in running])
        if {"suspect", "plain"} <= set(together[-1]):
            both.set()
        if not item.business_key.startswith("make"):
            await both.wait()
        await asyncio.sleep(0)
        running.remove(item.business_key)
        return Completed()

    await estate.work(handlers)
    await estate.until_completed(37)
    assert max(beside.count("suspect") for beside in together) == 1


async def test_g5_a_suspect_is_not_started_before_the_outcome_of_the_last_one_is_in_the_ledger(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    """Else the reaper would blame both, if the second one ends the worker."""
    await estate.emit(make_drafts(2))
    await estate.connection.execute(
        "update ledger.pending set batch_max = 1, state = 4, starts = 1"
    )
    handlers, begun = Handlers(), list[str]()

    @handlers.on(estate.kind)
    async def work(item: DueItem) -> Verdict:
        begun.append(item.business_key)
        return Completed()

    worker = await estate.employ(handlers)

    async def settlement_waits() -> bool:
        await worker.claim()
        return any(run.unsent_count for run in worker.runs.values())

    await estate.eventually(settlement_waits)
    for _ in range(3):
        await worker.claim()
    assert (len(begun), await estate.open_runs()) == (1, 1)

    await worker.settle()
    await estate.eventually(settlement_waits)
    assert sorted(begun) == ["key-000000", "key-000001"]
    await worker.settle()
    assert await estate.completed() == 2


async def test_a_step_of_a_workers_end_that_fails_skips_no_other(
    estate: Estate, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[DirectSource] = []

    async def fail(_: DirectSource) -> None:
        raise NotImplementedError

    async def close(source: DirectSource) -> None:
        closed.append(source)

    monkeypatch.setattr(DirectSource, "stop_taking", fail)
    monkeypatch.setattr(DirectSource, "close", close)
    stop = Stop()
    working = asyncio.create_task(run_direct_worker(estate.settings, heir(estate), stop))

    async def started() -> bool:
        return stop.has_started

    await estate.eventually(started)
    stop.request()
    with pytest.raises(NotImplementedError):
        await working
    assert len(closed) == 1
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("worker.")]


async def test_sigterm_drains_and_leaves_nothing_running(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(500))
    first = await estate.start_process("batch")

    async def some_seen() -> int:
        return await estate.count("public.seen")

    await estate.eventually(some_seen)
    first.send(signal.SIGTERM)
    assert await first.ended() == 0
    assert await estate.open_runs() == 0
    assert await estate.count("public.seen") == await estate.completed()
    await estate.work(heir(estate))
    await estate.until_completed(500)
    assert await estate.count("public.seen") == 500


async def test_what_outlasts_the_drain_and_what_was_withheld_goes_back_at_once(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1, prefix="make-the-kind"))
    await estate.set_kind(ordering="key")
    await estate.emit([*make_drafts(4, prefix="suspect"), *make_drafts(4, prefix="plain")])
    await estate.connection.execute(
        "update ledger.pending p set batch_max = 2, state = 4, starts = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like 'suspect%'"
    )
    handlers = Handlers()
    begun = asyncio.Event()

    @handlers.on(estate.kind, concurrency=20)
    async def work(item: DueItem) -> Verdict:
        if item.business_key.startswith("plain"):
            begun.set()
        await asyncio.Event().wait()
        return Completed()

    stop = await estate.work(handlers, worker_drain_seconds=0.0)
    await begun.wait()
    stop.request()

    async def given_back() -> bool:
        return len(await estate.pending()) == 9

    await estate.eventually(given_back)
    assert await estate.open_runs() == 0
    assert await estate.count("ledger.claim where closed_at is null") == 0
    assert await estate.completed() == 0
    assert {row["attempt"] for row in (await estate.pending()).values()} == {0}


async def test_a_drain_leaves_to_a_thread_only_the_item_that_it_works(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "STOP_SECONDS", 0.1)
    await estate.emit(make_drafts(8))
    await estate.connection.execute("update ledger.pending set state = 4, attempt = 1, starts = 1")
    handlers = Handlers()
    begun, gate = threading.Event(), threading.Event()

    @handlers.on_batch(estate.kind, batch_max=8, concurrency=1, timeout_seconds=60)
    def work(items: list[DueItem]) -> Sequence[Verdict]:  # one by one: they failed before
        begun.set()
        gate.wait()
        return [Completed() for _ in items]

    stop = await estate.work(handlers, worker_drain_seconds=0.0)
    await asyncio.to_thread(begun.wait)
    stop.request()

    async def given_back() -> bool:
        return len(await estate.pending()) == 7

    try:
        await estate.eventually(given_back)
        assert await estate.open_runs() == 1
    finally:
        gate.set()
    assert {row["batch_max"] for row in (await estate.pending()).values()} == {None}


MARK = "LOSE-ME"


@asynccontextmanager
async def losing_an_answer(
    estate: Estate, committed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[str]:
    """Return a DSN at which the first response that contains the mark is lost, after its commit."""
    lost = False

    async def lose(answer: bytes) -> bytes:
        nonlocal lost
        if MARK.encode() not in answer or lost:
            return answer
        await estate.eventually(committed)
        lost = True
        raise ConnectionResetError

    async with wire_to(estate.dsn, forward=lose) as (_, near):
        yield near
        assert lost


async def test_g5_items_claimed_in_a_lost_response_are_released_at_once(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(10, payload=f'{{"mark":"{MARK}"}}'))
    seen: list[str] = []
    handlers = Handlers()

    @handlers.on_batch(estate.kind)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        seen.extend(item.business_key for item in items)
        return [Completed() for _ in items]

    async def committed() -> bool:
        return await estate.open_runs() == 1

    async with (
        losing_an_answer(estate, committed) as near,
        open_pool(near, application_name="cut off") as pool,
    ):
        worker = await estate.employ(handlers, pool=pool)
        with pytest.raises(ConnectionLost):
            await worker.claim()
        assert seen == []
        while await estate.completed() < 10:
            await worker.claim()
            await worker.settle()
    assert sorted(seen) == [f"key-{number:06}" for number in range(10)]
    assert set(map(tuple, (await estate.events()).values())) == {("released", "completed")}
    attempts = await estate.connection.fetch("select distinct attempt from ledger.transition")
    assert [row["attempt"] for row in attempts] == [1]


async def test_any_number_of_workers_beside_each_other_work_each_item_once(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(500), *make_drafts(500, prefix="other", lane="other")])
    seen: list[str] = []
    for _ in range(4):
        handlers = Handlers()

        @handlers.on_batch(estate.kind, batch_max=30, concurrency=2)
        async def work(items: list[DueItem]) -> Sequence[Verdict]:
            seen.extend(item.business_key for item in items)
            await asyncio.sleep(0)
            return [Completed() for _ in items]

        await estate.work(handlers, direct_claim_items_max=40)
    await estate.until_completed(1000)
    assert len(seen) == len(set(seen)) == 1000
