"""Items that share a transaction: what one of them does, the others do not notice."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import asyncpg
import orjson
import pytest

from dueledger import Completed, Connection, DueItem, Handlers, Park, Retry, Snooze, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.items import withdraw_items
from dueledger.workers.run import chunk, handler_pool, own_transaction
from dueledger.workers.run.own_transaction import LOSSES_MAX

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]
Misbehave = Callable[[Estate, DueItem, Connection], Awaitable[Verdict]]

ITEMS: Final = 5
SOON: Final = 0.001
LEASE_OVER: Final = timedelta(minutes=5)
TABLES: Final = """
    create table public.work (item uuid unique deferrable initially deferred, transaction xid8);
    grant all on public.work to public
"""
WRITE: Final = "insert into public.work values ($1, pg_current_xact_id())"
TRANSACTIONS: Final = "(select distinct transaction from public.work) t"
LARGEST: Final = """
    select count(*) from public.work group by transaction order by count(*) desc limit 1
"""
EVIDENCE: Final = """
    select t.detail ->> 'key' as key, i.business_key
    from ledger.transition t join ledger.transition_event e using (event)
    join ledger.due_item i using (effective_date, item_no)
    where e.name = 'completed'
"""


async def raises(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item, connection
    raise ValueError("no such policy")


async def is_refused_a_statement(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item
    await connection.execute("select 1 / 0")
    return Completed()


async def ignores_a_refused_statement(
    estate: Estate, item: DueItem, connection: Connection
) -> Verdict:
    del estate, item
    with suppress(asyncpg.DivisionByZeroError):
        await connection.execute("select 1 / 0")
    return Completed()


async def asks_for_a_retry(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item, connection
    return Retry(SOON, reason="not yet")


async def snoozes(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item, connection
    return Snooze(seconds=SOON)


async def parks(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item, connection
    return Park("unclear")


async def violates_a_deferred_constraint(
    estate: Estate, item: DueItem, connection: Connection
) -> Verdict:
    del estate
    await connection.execute(WRITE, item.id)
    return Completed()


async def has_evidence_that_cannot_be_stored(
    estate: Estate, item: DueItem, connection: Connection
) -> Verdict:
    del estate, item, connection
    return Completed({"text": orjson.Fragment(b'"\\ud800"')})  # which is not checked


async def takes_too_long(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item
    await connection.execute("select pg_sleep(3600)")
    return Completed()


async def rolls_back_by_itself(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item
    await connection.execute("rollback")
    return Completed()


async def is_cancelled_and_raises(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del connection
    async with estate.pool.acquire() as other:
        await withdraw_items(
            other,
            [item.id],
            event=TransitionEvent.CANCELLED,
            reason="sold",
            actor_no=estate.actor_no,
        )
    raise ValueError("no such policy")


async def cancels_its_own_task(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item, connection
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return Completed()


async def ends_its_connection(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
    del estate, item
    await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    return Completed()


ALONE: Final[dict[Misbehave, list[str]]] = {
    raises: ["failed", "completed"],
    is_refused_a_statement: ["failed", "completed"],
    ignores_a_refused_statement: ["failed", "completed"],
    asks_for_a_retry: ["failed", "completed"],
    snoozes: ["snoozed", "completed"],
    parks: ["parked"],
    takes_too_long: ["failed", "completed"],
    is_cancelled_and_raises: ["failed", "cancelled"],
    cancels_its_own_task: ["failed", "completed"],
}
"""What the first call does, and the events of its item."""
# Which call misbehaves first, and until which of its own; the events of its item; calls of others.
REFUSED: Final[list[tuple[Misbehave, int, int, list[str], int]]] = [
    (ignores_a_refused_statement, 5, 2, ["failed", "completed"], 2 * (ITEMS - 1)),
    (violates_a_deferred_constraint, 3, 2, ["failed", "completed"], 2 * (ITEMS - 1)),
    (has_evidence_that_cannot_be_stored, 3, 2, ["failed", "completed"], 2 * (ITEMS - 1)),
    (rolls_back_by_itself, 3, 1, ["completed"], ITEMS - 1 + 2),
    (rolls_back_by_itself, 5, 1, ["completed"], 2 * (ITEMS - 1)),
]


class Calls:
    """A handler of which one item misbehaves, in its first calls."""

    def __init__(
        self, estate: Estate, misbehave: Misbehave, bad_at: int = 3, bad_calls: int = 1
    ) -> None:
        self._estate, self._misbehave = estate, misbehave
        self._bad_at, self._bad_calls = bad_at, bad_calls
        self.bad = ""
        self.of: Counter[str] = Counter()

    def handlers(self, *, concurrency: int = 1, timeout_seconds: float = 30.0) -> Handlers:
        handlers = Handlers()

        @handlers.on_transaction(
            self._estate.kind,
            chunk_max=ITEMS,
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            backoff_base_seconds=SOON,
            backoff_cap_seconds=SOON,
        )
        async def work(item: DueItem, connection: Connection) -> Verdict:
            self.of[item.business_key] += 1
            if self.of.total() == self._bad_at:
                self.bad = item.business_key
            await connection.execute(WRITE, item.id)
            if item.business_key == self.bad and self.of[self.bad] <= self._bad_calls:
                return await self._misbehave(self._estate, item, connection)
            return Completed({"key": item.business_key})

        return handlers


@pytest.fixture(autouse=True)
async def _tables(estate: Estate, monkeypatch: pytest.MonkeyPatch) -> None:
    await estate.connection.execute(TABLES)
    monkeypatch.setattr(chunk, "OPEN_SECONDS_MAX", 3600.0)


async def test_g6_of_items_in_one_transaction_those_that_do_not_complete_do_so_alone(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    size = 2 * len(ALONE)
    misbehaves = [each for one in ALONE for each in (one, None)]  # by call; the last completes
    misbehaving: dict[str, Misbehave] = {}
    handlers = Handlers()
    calls: Counter[str] = Counter()

    @handlers.on_transaction(
        estate.kind,
        chunk_max=size,
        concurrency=1,
        timeout_seconds=1.0,
        backoff_base_seconds=SOON,
        backoff_cap_seconds=SOON,
    )
    async def work(item: DueItem, connection: Connection) -> Verdict:
        at = calls.total()
        calls[item.business_key] += 1
        await connection.execute(WRITE, item.id)
        if at < size and (misbehave := misbehaves[at]) is not None:
            misbehaving[item.business_key] = misbehave
            return await misbehave(estate, item, connection)
        return Completed({"key": item.business_key})

    await estate.emit(make_drafts(size))
    await estate.work(handlers)

    async def have_ended() -> bool:
        expected = {f"key-{at:06}": ["completed"] for at in range(size)}
        expected |= {key: ALONE[misbehave] for key, misbehave in misbehaving.items()}
        return len(misbehaving) == len(ALONE) and await estate.events() == expected

    await estate.eventually(have_ended)
    evidence = await estate.connection.fetch(EVIDENCE)
    assert all(row["key"] == row["business_key"] for row in evidence)
    assert await estate.completed() == len(evidence) == await estate.count("public.work")
    assert {calls[key] for key in calls.keys() - misbehaving} == {1}
    assert await estate.connection.fetchval(LARGEST) == size - len(ALONE)


@pytest.mark.parametrize(
    ("misbehave", "bad_at", "bad_calls", "events", "calls"),
    REFUSED,
    ids=[f"{case[0].__name__}-{case[1]}" for case in REFUSED],
)
async def test_g6_where_the_commit_is_refused_each_item_is_called_again_by_itself(
    estate: Estate,
    make_drafts: MakeDrafts,
    misbehave: Misbehave,
    bad_at: int,
    bad_calls: int,
    events: list[str],
    calls: int,
) -> None:
    called = Calls(estate, misbehave, bad_at, bad_calls)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(called.handlers())

    await estate.until_completed(ITEMS)
    ended = await estate.events()
    assert ended.pop(called.bad) == events
    assert list(ended.values()) == [["completed"]] * (ITEMS - 1)
    assert called.of.total() - called.of[called.bad] == calls
    assert await estate.count("public.work") == ITEMS


async def test_g4_g6_a_transaction_whose_run_was_reaped_in_the_middle_leaves_nothing(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    is_called, may_return = asyncio.Event(), asyncio.Event()

    async def waits(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
        del estate, item, connection
        is_called.set()
        await may_return.wait()
        return Completed()

    called = Calls(estate, waits)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(called.handlers())
    await is_called.wait()
    await estate.advance_machine(LEASE_OVER)
    assert (await estate.reap()).retried == ITEMS
    may_return.set()

    await estate.until_completed(ITEMS)
    assert max(called.of.values()) == 2  # once under each fence
    events = await estate.events()
    assert list(events.values()) == [["timed_out", "completed"]] * ITEMS
    assert await estate.count("public.work") == ITEMS


async def test_g5_g9_an_item_that_ends_connections_takes_no_other_with_it_twice(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_transaction, "AGAIN_SECONDS", SOON)
    called = Calls(estate, ends_its_connection, bad_calls=LOSSES_MAX)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(called.handlers())

    await estate.until_completed(ITEMS)
    events = await estate.events()
    assert events.pop(called.bad) == ["released"] * (LOSSES_MAX - 1) + ["failed", "completed"]
    assert list(events.values()) == [["released", "completed"]] * (ITEMS - 1)
    assert await estate.count("public.work") == ITEMS


async def test_g5_items_beside_a_call_that_ignores_its_cancellation_are_worked_elsewhere(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_pool, "CANCEL_GRACE_SECONDS", SOON)
    monkeypatch.setattr(own_transaction, "IDLE_TRANSACTION_SECONDS", SOON)  # it keeps its locks
    may_end = asyncio.Event()

    async def ignores_its_end(estate: Estate, item: DueItem, connection: Connection) -> Verdict:
        del estate, item, connection
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        return Completed()

    called = Calls(estate, ignores_its_end)
    handlers = called.handlers(concurrency=2, timeout_seconds=1.0)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(handlers)

    await estate.until_completed(ITEMS)
    may_end.set()
    events = await estate.events()
    assert events.pop(called.bad) == ["failed", "completed"]
    assert list(events.values()) == [["released", "completed"]] * (ITEMS - 1)


async def test_a_transaction_takes_no_further_item_once_it_is_open_for_long(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "OPEN_SECONDS_MAX", 0.0)
    called = Calls(estate, raises, bad_at=0)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(called.handlers())

    await estate.until_completed(ITEMS)
    assert set(called.of.values()) == {1}
    assert await estate.count(TRANSACTIONS) == ITEMS
