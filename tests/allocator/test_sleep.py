"""An allocator without work sleeps, and an item that is emitted wakes it."""

import asyncio
from collections.abc import Awaitable, Callable

from dueledger.allocator import Allocator
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Signals, Stop, run_service
from dueledger.ledger.store import Connection
from tests.allocator.conftest import Emit, Eventually

Start = Callable[..., Awaitable[Allocator]]
Drafts = Callable[..., list[ItemDraft]]
SLEEPERS = "select count(*) from ledger.process where sleeps_until is not null"
NEVER_SECONDS = 1e6


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
