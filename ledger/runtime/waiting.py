"""Waiting, but not longer than a while, and not when asked to stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dueledger.ledger.runtime.service import Stop

CANCEL_SECONDS: Final = 5.0  # in which work that was given up must end


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def run_unless_stopped(work: Coroutine[None, None, None], stop: Stop) -> bool:
    """Finish the work, or give it up when asked to stop; tell whether it finished."""
    task = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if task.cancelled() or not task.done():
        return False
    task.result()
    return True


async def forward_stop(stop: Stop, to: Stop) -> None:
    """Ask `to` once `stop` is asked."""
    await stop.wait()
    to.request()
