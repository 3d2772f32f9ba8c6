"""Reads that run ahead: the next one while the results of the one before are used."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

KeyT = TypeVar("KeyT")
FoundT = TypeVar("FoundT")


async def read_ahead(
    keys: Sequence[KeyT], read: Callable[[KeyT], Awaitable[FoundT]]
) -> AsyncGenerator[tuple[KeyT, FoundT]]:
    """Yield each key with what was read for it. One read at a time; to be closed by the caller."""
    reading: asyncio.Task[FoundT] | None = None
    try:
        for place, key in enumerate(keys):
            found = await (reading or _started(read, key))
            following = keys[place + 1 : place + 2]
            reading = _started(read, following[0]) if following else None
            yield key, found
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})


def _started(read: Callable[[KeyT], Awaitable[FoundT]], key: KeyT) -> "asyncio.Task[FoundT]":
    async def run() -> FoundT:
        return await read(key)

    return asyncio.create_task(run())
