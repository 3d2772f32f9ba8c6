"""Work beside the event loop: reads that run ahead, computations in a thread, and rests."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

KeyT = TypeVar("KeyT")
FoundT = TypeVar("FoundT")


async def read_ahead(
    keys: Sequence[KeyT], read: Callable[[KeyT], Awaitable[FoundT]], *, share: float = 1.0
) -> AsyncGenerator[tuple[KeyT, FoundT]]:
    """Yield each key with what was read for it. One read at a time; to be closed by the caller.

    `share` is the greatest share of the time in which it reads, or what it yields is used.
    """
    reading: asyncio.Task[FoundT] | None = None
    try:
        async for place, key in paced(enumerate(keys), share):
            found = await (reading or _started(read, key))
            following = keys[place + 1 : place + 2]
            reading = _started(read, following[0]) if following else None
            yield key, found
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def paced(parts: Iterable[KeyT], share: float) -> AsyncGenerator[KeyT]:
    """Yield parts of some work; before each but the first it rests, by the time of the last."""
    ended: float | None = None
    for part in parts:
        if ended is not None:
            await asyncio.sleep(ended * (1 / share - 1))
        began = monotonic()
        yield part
        ended = monotonic() - began


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
