"""Work beside the event loop: reads that run ahead, and computations in a thread."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

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
            await asyncio.gather(reading, return_exceptions=True)


@asynccontextmanager
async def reading_beside(
    read: Coroutine[Any, Any, FoundT],
) -> AsyncGenerator["asyncio.Task[FoundT]"]:
    """Let a read run for the length of the block, and cancel it if it has not ended then."""
    task = asyncio.create_task(read)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def run_beside(compute: Callable[[], FoundT]) -> FoundT:
    """Return what a computation in a thread returns. If this is cancelled, it waits for its end."""
    running = asyncio.create_task(asyncio.to_thread(compute))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _started(read: Callable[[KeyT], Awaitable[FoundT]], key: KeyT) -> "asyncio.Task[FoundT]":
    async def run() -> FoundT:
        return await read(key)

    return asyncio.create_task(run())
