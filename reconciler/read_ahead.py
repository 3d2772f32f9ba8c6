"""Work beside the event loop: reads that run ahead, computations in a thread, and rests."""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

KeyT = TypeVar("KeyT")
FoundT = TypeVar("FoundT")


async def read_ahead(
    keys: Sequence[KeyT], *reads: Callable[[KeyT], Awaitable[FoundT]], share: float = 1.0
) -> AsyncGenerator[tuple[KeyT, FoundT]]:
    """Yield each key with what was read for it, in their order; to be closed by the caller.

    Each of `reads` reads one key at a time, all of them at once. `share` is the greatest share of
    the time in which they read, or what is yielded is used.
    """
    reading = deque(_started(read, key) for read, key in zip(reads, keys, strict=False))
    try:
        async for place, key in paced(enumerate(keys), share):
            found = await reading[0]
            reading.popleft()
            for following in keys[place + len(reads) : place + len(reads) + 1]:
                reading.append(_started(reads[place % len(reads)], following))
            yield key, found
    finally:
        for each in reading:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


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


@asynccontextmanager
async def parts_beside(
    parts: AsyncGenerator[FoundT], parts_max: int
) -> AsyncGenerator[AsyncGenerator[FoundT]]:
    """Read parts for the length of the block, at most so many ahead, and yield what yields them."""
    ahead: asyncio.Queue[FoundT] = asyncio.Queue(parts_max)

    async def read() -> None:
        async with aclosing(parts):
            async for part in parts:
                await ahead.put(part)

    async def found() -> AsyncGenerator[FoundT]:
        while not (reading.done() and ahead.empty()):
            next_part = asyncio.create_task(ahead.get())
            try:
                await asyncio.wait({next_part, reading}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                next_part.cancel()
            if next_part.done():
                yield next_part.result()
        reading.result()

    async with reading_beside(read()) as reading, aclosing(found()) as each:
        yield each


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
