"""An allocator without work sleeps, and an item that is emitted wakes it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dueledger.allocator import Allocator
from dueledger.allocator.discover import due_flow_poller
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Signals, Stop, run_service
from dueledger.ledger.store import Connection
from tests.allocator.conftest import Emit, Eventually

Start = Callable[..., Awaitable[Allocator]]
Drafts = Callable[..., list[ItemDraft]]
SLEEPERS = "select count(*) from ledger.process where sleeps_until is not null"
NEVER_SECONDS = 1e6
ITEMS = 60


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
