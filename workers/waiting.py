"""Waiting for an event, but not longer than a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
