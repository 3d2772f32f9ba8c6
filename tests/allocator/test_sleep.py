"""An allocator without work sleeps, and an item that is emitted wakes it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from dueledger.allocator import Allocator
from dueledger.allocator import allocator as allocator_module
from dueledger.allocator.discover import due_flow_poller
from dueledger.ledger.flows import queue
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Signals, Stop, run_service
from dueledger.ledger.store import Connection
from tests.allocator.conftest import Emit, Eventually

Start = Callable[..., Awaitable[Allocator]]
Drafts = Callable[..., list[ItemDraft]]
SLEEPERS = "select count(*) from ledger.process where sleeps_until is not null"
NEVER_SECONDS = 1e6
ITEMS = 60


@pytest.mark.usefixtures("endless_sleep")
async def test_g9_an_item_emitted_while_an_allocator_sleeps_is_claimed(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    eventually: Eventually,
) -> None:
    stop, signals = Stop(), Signals()
    allocator = await start_allocator(
        stop=stop, signals=signals, allocator_idle_seconds=NEVER_SECONDS
    )
    serving = asyncio.create_task(
        run_service("allocator", allocator.serve, stop=stop, idle_seconds=allocator.wait_for_items)
    )
    await eventually(lambda: connection.fetchval(SLEEPERS))
    claimed = signals.expect("claim.recorded")
    await emit(make_drafts(3))
    assert await claimed == 3
    stop.request()
    await serving


@pytest.mark.usefixtures("endless_sleep")
async def test_g9_an_allocator_that_never_lists_by_itself_is_woken_by_each_of_many_items(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, signals = Stop(), Signals()
    allocator = await start_allocator(
        stop=stop, signals=signals, allocator_idle_seconds=NEVER_SECONDS
    )
    serving = asyncio.create_task(
        run_service("allocator", allocator.serve, stop=stop, idle_seconds=allocator.wait_for_items)
    )
    await eventually(lambda: connection.fetchval(SLEEPERS))
    monkeypatch.setattr(due_flow_poller, "POLL_INTERVAL_SECONDS_MIN", NEVER_SECONDS)
    monkeypatch.setattr(due_flow_poller, "POLL_INTERVAL_SECONDS_MAX", NEVER_SECONDS)
    for number in range(ITEMS):
        claimed = signals.expect("claim.recorded")
        await emit(make_drafts(1, prefix=f"item-{number}"))
        assert await claimed == 1
    stop.request()
    await serving


@pytest.mark.usefixtures("endless_sleep")
async def test_g9_an_item_emitted_while_a_claim_is_on_its_way_to_kafka_is_claimed(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, signals = Stop(), Signals()
    allocator = await start_allocator(
        stop=stop, signals=signals, allocator_idle_seconds=NEVER_SECONDS
    )
    serving = asyncio.create_task(
        run_service("allocator", allocator.serve, stop=stop, idle_seconds=allocator.wait_for_items)
    )
    published = signals.expect("claim.published")
    await emit(make_drafts(1, prefix="first"))
    await published
    await eventually(lambda: connection.fetchval(SLEEPERS))
    for module, name in [
        (due_flow_poller, "POLL_INTERVAL_SECONDS_MIN"),
        (due_flow_poller, "POLL_INTERVAL_SECONDS_MAX"),
        (allocator_module, "_WAIT_SECONDS_MAX"),
    ]:
        monkeypatch.setattr(module, name, NEVER_SECONDS)
    loop = cast("Any", allocator)._light
    loop._publisher._producer._sender.sender_task.cancel()  # nothing is sent any more
    published = signals.expect("claim.published")
    for number in range(3):
        claimed = signals.expect("claim.recorded")
        await emit(make_drafts(1, prefix=f"later-{number}"))
        await asyncio.wait({claimed, published}, return_when=asyncio.FIRST_COMPLETED)
        assert claimed.done()
        assert not published.done()
    stop.request()
    for task in loop.publishing:
        task.cancel()
    serving.cancel()
    await asyncio.wait({serving})


@pytest.mark.usefixtures("endless_sleep")
async def test_items_of_a_flow_that_was_listed_a_moment_ago_are_claimed_without_a_list(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, signals = Stop(), Signals()
    monkeypatch.setattr(queue, "KNOWN_SECONDS", NEVER_SECONDS)
    allocator = await start_allocator(
        stop=stop, signals=signals, allocator_idle_seconds=NEVER_SECONDS
    )
    serving = asyncio.create_task(
        run_service("allocator", allocator.serve, stop=stop, idle_seconds=allocator.wait_for_items)
    )
    for name in ("POLL_INTERVAL_SECONDS_MIN", "POLL_INTERVAL_SECONDS_MAX"):
        monkeypatch.setattr(due_flow_poller, name, NEVER_SECONDS)
    hidden = cast("Any", allocator)

    async def is_asleep() -> bool:
        return hidden._sleep.is_asleep

    listed: list[float] = []
    for number in range(4):
        await eventually(is_asleep)
        claimed = signals.expect("claim.recorded")
        await emit(make_drafts(1, prefix=f"item-{number}"))
        assert await claimed == 1
        listed.append(hidden._poller.polled_at)
    assert len(set(listed[1:])) == 1
    stop.request()
    await serving
