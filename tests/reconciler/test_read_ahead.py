"""Work beside the event loop ends with the task that asked for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from threading import Event

import pytest

from dueledger.reconciler import read_ahead as read_ahead_module
from dueledger.reconciler.read_ahead import paced, parts_beside, read_ahead, run_beside


async def test_a_cancelled_computation_has_ended_when_its_task_has() -> None:
    started, proceed, ended = Event(), Event(), Event()

    def compute() -> None:
        started.set()
        proceed.wait()
        ended.set()

    task = asyncio.create_task(run_beside(compute))
    await asyncio.to_thread(started.wait)
    task.cancel()
    _, waiting = await asyncio.wait({task}, timeout=0)
    assert waiting == {task}
    proceed.set()
    with suppress(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_rests_so_that_it_takes_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, rested = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        rested.append(seconds)

    monkeypatch.setattr(read_ahead_module, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    for share, expected in ((0.25, [12.0, 3.0]), (1.0, [0.0, 0.0])):
        rested.clear()
        async for seconds in paced([4.0, 1.0, 7.0], share):
            now += seconds
        assert rested == expected


@pytest.mark.parametrize("readers", [1, 2])
async def test_the_next_reads_run_while_the_one_before_is_used_and_are_cancelled_with_it(
    readers: int,
) -> None:
    begun: list[int] = []
    hanging = asyncio.Event()

    async def read(key: int) -> int:
        begun.append(key)
        if key == 3:
            await hanging.wait()
        return key * 10

    found: list[tuple[int, int]] = []
    reads = read_ahead([1, 2, 3, 4], *[read] * readers)
    async with aclosing(reads):
        async for key, value in reads:
            await asyncio.to_thread(bool)
            found.append((key, value))
            assert begun == list(range(1, key + readers + 1))
            if key == 2:
                break
    assert found == [(1, 10), (2, 20)]
    assert not hanging.is_set()
    assert [each async for each in read_ahead(list[int](), read)] == []
    with pytest.raises(ZeroDivisionError):
        await run_beside(lambda: 1 // 0)


@pytest.mark.parametrize("failing", [False, True])
async def test_parts_are_read_beside_up_to_a_bound_and_an_error_comes_after_them(
    *, failing: bool
) -> None:
    begun: list[int] = []
    is_full = asyncio.Event()

    async def parts() -> AsyncGenerator[int]:
        for part in range(5):
            begun.append(part)
            if part == 2:
                is_full.set()
            if failing and part == 4:
                raise OSError
            yield part

    found: list[int] = []
    async with parts_beside(parts(), 2) as ahead:
        await is_full.wait()
        assert begun == [0, 1, 2]
        with suppress(OSError):
            while (part := await anext(ahead, None)) is not None:
                found.append(part)
            assert not failing
    assert found == [*range(4 if failing else 5)]


async def test_parts_that_nobody_wants_any_more_are_not_read() -> None:
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    async with parts_beside(parts(), 2) as ahead:
        assert await anext(ahead) == 1
    assert ended.is_set()
