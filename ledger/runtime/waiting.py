"""Waits that end at a time limit or at a stop request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dueledger.ledger.runtime.service import Stop

CANCEL_SECONDS: Final = 5.0  # time for cancelled work to end


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event, at most `seconds` if they are given."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def run_unless_stopped(work: Coroutine[None, None, None], stop: Stop) -> bool:
    """Run the work and cancel it when a stop is requested; return whether it finished."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if task.cancelled() or not task.done():
        return False
    task.result()
    return True


async def forward_stop(stop: Stop, to: Stop) -> None:
    """Wait for a request to `stop`, then request `to`."""
    await stop.wait()
    to.request()
