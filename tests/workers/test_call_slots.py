"""Call slots of a handler pool: short calls are started ahead, and no waiting item is forgotten."""

import asyncio
from collections.abc import Callable

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.workers.run.call_slots import AHEAD_CALLS_MAX, AHEAD_SECONDS, CallSlots

from .conftest import Site

LONG = 30.0


def places(count: int, seconds: float) -> CallSlots:
    one = CallSlots(count, goes_ahead=True)
    one.record_duration(seconds)
    return one


@pytest.mark.parametrize(
    ("seconds", "ahead"),
    [(0.0, AHEAD_CALLS_MAX), (AHEAD_SECONDS / 10, 80), (AHEAD_SECONDS, 8), (AHEAD_SECONDS * 9, 0)],
    ids=["at once", "short", "as long as the time ahead", "long"],
)
def test_what_is_started_ahead_is_a_matter_of_time(seconds: float, ahead: int) -> None:
    assert places(8, seconds).ahead_calls == ahead


def test_nothing_is_started_ahead_of_calls_that_were_never_seen_or_may_not() -> None:
    assert CallSlots(8, goes_ahead=True).ahead_calls == 0
    never = CallSlots(8, goes_ahead=False)
    never.record_duration(0.0)
    assert never.ahead_calls == 0


def test_the_mean_follows_calls_that_become_long() -> None:
    one = places(8, 0.001)
    for _ in range(50):
        one.record_duration(60.0)
    assert one.ahead_calls == 0


def test_there_is_capacity_once_half_of_those_ahead_have_begun() -> None:
    one = places(8, AHEAD_SECONDS / 5)  # 40 ahead
    assert [one.startable_calls(busy) for busy in (0, 28, 29, 48)] == [48, 20, 0, 0]
    assert CallSlots(8, goes_ahead=False).startable_calls(7) == 1


async def test_call_slots_are_given_in_the_order_of_requests() -> None:
    one = places(1, 0.0)
    assert await one.acquire(LONG)
    waiting = [asyncio.ensure_future(one.acquire(LONG)) for _ in range(3)]
    await asyncio.sleep(0)
    for turn in range(3):
        assert [each.done() for each in waiting] == [number < turn for number in range(3)]
        one.release()
        await waiting[turn]


async def test_who_waits_longer_than_calls_were_gives_up_and_nothing_more_is_ahead() -> None:
    one = places(1, 0.0)
    assert await one.acquire(LONG)

    assert not await one.acquire(0.001)

    assert one.ahead_calls == 0
    one.release()
    assert await one.acquire(LONG)


async def test_a_call_slot_given_to_a_cancelled_call_goes_to_the_next() -> None:
    one = places(1, 0.0)
    assert await one.acquire(LONG)
    first, second = (asyncio.ensure_future(one.acquire(LONG)) for _ in range(2))
    await asyncio.sleep(0)

    one.release()
    first.cancel()

    assert await second
    assert first.cancelled()


async def test_a_call_slot_that_a_call_keeps_is_not_given() -> None:
    one = places(1, 0.0)
    one.acquire_overdue()
    waiting = asyncio.ensure_future(one.acquire(LONG))
    await asyncio.sleep(0)
    assert (one.ahead_calls, waiting.done()) == (AHEAD_CALLS_MAX, False)

    one.acquire_overdue()
    assert one.ahead_calls == 0
    one.release()
    await asyncio.sleep(0)
    assert not waiting.done()
    one.release()
    assert await waiting


async def test_g5_what_was_started_ahead_of_a_call_that_hangs_goes_back_as_never_attempted(
    site: Site, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    handlers, gate, calls = Handlers(), asyncio.Event(), list[str]()

    @handlers.on(kind, concurrency=1, timeout_seconds=3600)
    async def hang_once(item: DueItem) -> Verdict:
        calls.append(item.business_key)
        if len(calls) == 3:
            await gate.wait()
        return Completed()

    await site.emit(make_drafts(20))
    await site.allocate()
    await site.work(handlers)

    async def returned() -> dict[str, list[str]] | None:
        events = await site.events()
        running = await site.connection.fetchval(
            "select count(*) from ledger.open_item where state = $1", State.RUNNING
        )
        # How many were started ahead is for the worker to decide: by how long the first calls took.
        is_alone = running == 1 and any("released" in each for each in events.values())
        return events if is_alone else None

    events = await site.eventually(returned)
    assert all(each == ["released"] for key, each in events.items() if key not in calls)
    assert {row["attempt"] for key, row in (await site.pending()).items() if key not in calls} == {
        0
    }

    gate.set()

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 20

    await site.eventually(all_completed)
    assert sorted(calls) == sorted(set(calls))
