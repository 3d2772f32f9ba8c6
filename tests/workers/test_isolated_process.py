"""The process that isolates suspects: how it starts, is sent to, and how much it is given."""

import asyncio
import json
import pickle
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from time import monotonic
from typing import cast
from uuid import UUID

import pytest
import uvloop

from dueledger import Completed, DueItem, Handlers, Snooze, Verdict
from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.kafka.envelope import WorkHeaders
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome, RunId, StartResult
from dueledger.workers.claim_slices import ClaimSlice
from dueledger.workers.handler_loading import load_handlers
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.open_run import OpenRun, RunPart
from dueledger.workers.run import isolated_calls
from dueledger.workers.run.handler_pool import HandlerPool
from dueledger.workers.run.isolated_messages import Call, Ended, Ping, Program, Ready
from dueledger.workers.run.isolated_pool import IsolatedCalls, IsolatedPool
from dueledger.workers.run.isolated_process import IsolatedProcess
from dueledger.workers.verdict_outcomes import SnoozedUntil, outcome_of_verdict

NOBODY = Program((), tuple(sys.path), "", "worker:test", 1)
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Silent:
    """Listens, and does nothing."""

    def on_items_ended(self, run: OpenRun) -> None:
        del run

    def on_items_completed(self, run: OpenRun, indexes: Sequence[int]) -> None:
        del run, indexes

    def on_call_ended(self) -> None:
        pass


class Outcomes:
    """Collects how items ended, and wakes who waits for that."""

    def __init__(self) -> None:
        self.of: list[tuple[str, Outcome]] = []
        self._more = asyncio.Event()

    def on_items_ended(self, run: OpenRun) -> None:
        ended = [each for each in run.take_unsent() if isinstance(each, Outcome)]
        self.of += [(run.kind, each) for each in ended]
        self._more.set()

    def on_items_completed(self, run: OpenRun, indexes: Sequence[int]) -> None:
        del run, indexes

    def on_call_ended(self) -> None:
        pass

    async def until(self, count: int) -> list[tuple[str, Outcome]]:
        """Wait until so many items have ended."""
        async with asyncio.timeout(60):
            while len(self.of) < count:
                self._more.clear()
                await self._more.wait()
        return self.of


class Isolated:
    """Handlers of a module, and the processes that isolate their suspects."""

    def __init__(self, program: Program) -> None:
        self.ended = Outcomes()
        self.calls = IsolatedCalls(program, self.ended)
        self._pools = {
            handler.kind: IsolatedPool(HandlerPool(handler, self.ended, worker_no=1), self.calls)
            for handler in load_handlers(program.places)
        }

    def start(self, kind: str, count: int = 1, *, suspects_max: int = 64) -> OpenRun:
        """Start a run of suspects."""
        claim_id = new_claim_id(1, NOON)
        start = StartResult(1, 1, count, RunId(1, NOON, NOON), count, closed=True, withdrawn=())
        items = [real_item(kind, position) for position in range(1, count + 1)]
        claim_slice = ClaimSlice(claim_id, kind, 1, 0, [*items], suspects_max=suspects_max)
        run = OpenRun(start, claim_slice, lease_until=float("inf"))
        self._pools[kind].reserve(count)
        self._pools[kind].start_run(run)
        return run


@asynccontextmanager
async def isolating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> AsyncGenerator[Isolated]:
    """Isolate suspects of the handlers of a module until the end."""
    module = f"handlers_{tmp_path.name.replace('-', '_')}"
    imports = "import asyncio\nfrom dueledger import Completed, Handlers\nhandlers = Handlers()\n"
    (tmp_path / f"{module}.py").write_text(imports + source)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    isolated = Isolated(NOBODY._replace(places=(f"{module}:handlers",), search_path=(*sys.path,)))

    async def run_processes(process: isolated_calls.ProcessCalls) -> None:
        while True:
            await process.tick()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_processes(each)) for each in isolated.calls.processes]
        try:
            yield isolated
        finally:
            isolated.calls.close()
            for task in tasks:
                task.cancel()


def real_item(kind: str, position: int = 1) -> DueItem:
    """Return an item that can be sent to another process."""
    today = NOON.date()
    headers = WorkHeaders(
        new_claim_id(1, NOON),
        position,
        kind,
        "acme",
        "key",
        "2027",
        today,
        NOON,
        UUID(int=1),
        1,
        "application/json",
        None,
    )
    return DueItem._of_parsed(headers, b"{}")  # pyright: ignore[reportPrivateUsage]


class Item:
    """As much of an item as a pool reads before it is sent."""

    kind = "Batch"


def isolated_pool() -> IsolatedPool:
    handlers = Handlers()

    @handlers.on_batch("Batch", batch_max=10, concurrency=2)
    async def work(items: list[DueItem]) -> list[Verdict]:
        return [Completed() for _ in items]

    (handler,) = handlers
    calls = IsolatedCalls(NOBODY, Silent())
    return IsolatedPool(HandlerPool(handler, Silent(), worker_no=1), calls)


def suspects(count: int) -> OpenRun:
    claim_id = new_claim_id(1, NOON)
    start = StartResult(1, 1, count, RunId(1, NOON, NOON), count, closed=True, withdrawn=())
    items = cast("list[DueItem]", [Item() for _ in range(count)])
    claim_slice = ClaimSlice(claim_id, "Batch", 1, 0, [*items], suspects_max=64)
    return OpenRun(start, claim_slice, lease_until=float("inf"))


def test_g5_a_snooze_of_an_isolated_handler_can_be_sent_whatever_its_zone_is() -> None:
    class OwnZone(tzinfo):
        def utcoffset(self, at: datetime | None) -> timedelta:
            del at
            return timedelta(hours=2)

    until = datetime(2027, 3, 1, 14, 0, 0, 1, tzinfo=OwnZone())
    outcome = outcome_of_verdict(Snooze(until=until), cast("DueItem", Item()), HandlerOptions())
    sent = pickle.loads(pickle.dumps(outcome))  # noqa: S301  # of this test
    assert isinstance(sent, SnoozedUntil)
    assert sent.until == NOON + timedelta(microseconds=1)
    assert type(sent.until.tzinfo) is timezone


def test_suspects_take_no_more_calls_than_their_handler_has() -> None:
    pool = isolated_pool()
    assert pool.free_items == 20
    pool.reserve(1)
    pool.reserve(1)  # of another run: it may be called by itself
    assert pool.free_items == 0
    pool.release(1)
    assert pool.free_items == 10


async def test_a_run_that_is_cancelled_as_soon_as_it_is_opened_waits_for_no_process() -> None:
    pool = isolated_pool()
    run = suspects(15)
    pool.reserve(15)
    pool.start_run(run)
    assert pool.free_items == 0
    run.stop_handlers()
    await asyncio.wait(run.tasks)
    await asyncio.sleep(0)
    assert pool.free_items == 20


async def test_the_working_directory_hides_no_module_of_python_from_an_isolated_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('of the project')")
    (tmp_path / "asyncio.py").write_text("raise RuntimeError('of the project')")
    monkeypatch.chdir(tmp_path)
    process = await IsolatedProcess.start(NOBODY)
    replies = process.replies()
    assert await anext(replies) == Ready()
    await replies.aclose()


async def test_g5_a_request_after_the_end_of_the_process_has_no_effect_on_uvloop_either() -> None:
    async def send_after_end() -> None:
        process = await IsolatedProcess.start(NOBODY)
        replies = process.replies()
        await anext(replies)
        process.kill()
        with pytest.raises(StopAsyncIteration):
            await anext(replies)
        process.send(Ping(1.0))
        await asyncio.sleep(0)
        process.send(Ping(1.0))

    await asyncio.to_thread(uvloop.run, send_after_end())


async def test_a_process_of_newer_code_than_its_worker_parks_no_kind_it_does_not_know() -> None:
    process = await IsolatedProcess.start(NOBODY)
    replies = process.replies()
    assert await anext(replies) == Ready()
    process.send(
        Call(7, "Gone", "due.Gone", RunId(1, NOON, NOON), RunPart(1, [0]), [real_item("Gone")])
    )
    reply = await anext(replies)
    assert isinstance(reply, Ended)
    ((at, outcome),) = reply.outcomes
    assert (reply.call_no, at) == (7, 0)
    assert isinstance(outcome, Outcome)
    assert outcome.event is TransitionEvent.RELEASED
    assert outcome.after_seconds
    await replies.aclose()


async def test_a_process_of_another_version_than_its_worker_is_never_ready() -> None:
    process = await IsolatedProcess.start(NOBODY._replace(version="0.0.1"))
    assert [reply async for reply in process.replies()] == []
    assert process.describe_end() == "ended with code 2"


TOGETHER = """
running = 0

@handlers.on("Counted")
async def count_together(item):
    global running
    running += 1
    together = running
    await asyncio.sleep(0)
    together = max(together, running)
    running -= 1
    return Completed({"together": together})
"""


@pytest.mark.parametrize(("bytes_max", "together"), [(5, 2), (1, 1)])
async def test_a_process_is_sent_no_more_bytes_than_it_may_have_or_one_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int, together: int
) -> None:
    monkeypatch.setattr(isolated_calls, "BYTES_MAX", bytes_max)
    async with isolating(tmp_path, monkeypatch, TOGETHER) as isolated:
        isolated.start("Counted", 4)
        ended = await isolated.ended.until(4)
    assert max(json.loads(each.detail or "")["together"] for _, each in ended) == together


ONE_WAITS = """
@handlers.on("Slow", timeout_seconds=3600)
async def wait(item):
    await asyncio.Event().wait()

@handlers.on("Quick")
async def complete(item):
    return Completed()
"""


ONE_BY_ONE = """
@handlers.on_batch("Batch", batch_max=2, timeout_seconds=3600)
async def fail_or_wait(items):
    if len(items) > 1:
        raise ValueError
    await asyncio.Event().wait()
"""


async def test_g9_a_worker_knows_which_items_their_handler_has_in_another_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
) -> None:
    async with isolating(tmp_path, monkeypatch, ONE_BY_ONE) as isolated:
        run = isolated.start("Batch", 2)

        async def one_is_alone() -> bool:
            return run.bits_in_call() == [True, False]

        await eventually(one_is_alone)
        run.release_unbegun()
        assert run.open_count == 2  # the other one was in a call before


async def test_suspects_of_a_slow_handler_do_not_delay_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_calls, "WAIT_SECONDS_MAX", 0.0)
    async with isolating(tmp_path, monkeypatch, ONE_WAITS) as isolated:
        isolated.start("Slow", 2, suspects_max=1)
        isolated.start("Quick", 3, suspects_max=1)
        ended = await isolated.ended.until(3)
        isolated.start("Quick")
        await isolated.ended.until(4)
    assert {kind for kind, _ in ended} == {"Quick"}


SECOND_CALL_ENDS_IT = """
import os
was_called = False

@handlers.on("Second")
async def complete_once(item):
    global was_called
    if was_called:
        os._exit(1)
    was_called = True
    return Completed()
"""


async def test_g5_an_item_is_not_blamed_for_a_process_that_had_another_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with isolating(tmp_path, monkeypatch, SECOND_CALL_ENDS_IT) as isolated:
        isolated.start("Second", 2, suspects_max=1)
        ended = await isolated.ended.until(2)
    assert {each.event for _, each in ended} == {TransitionEvent.COMPLETED}


WAITS_UNLESS_OPEN = """
from pathlib import Path

@handlers.on("Once", timeout_seconds=3600)
async def wait_unless_open(item):
    if not Path(__file__).with_name("open").exists():
        await asyncio.Event().wait()
    return Completed()
"""


async def test_g5_an_item_whose_process_ended_for_want_of_a_lease_waits_and_is_not_blamed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
) -> None:
    async with isolating(tmp_path, monkeypatch, WAITS_UNLESS_OPEN) as isolated:
        run = isolated.start("Once")

        async def is_in_call() -> bool:
            return run.bits_in_call() == [True]

        async def waits_again() -> bool:
            return run.bits_in_call() == [False]

        await eventually(is_in_call)
        run.extend_lease(monotonic(), 0)
        await eventually(waits_again)
        (tmp_path / "open").touch()
        run.extend_lease(monotonic(), float("inf"))
        [(_, outcome)] = await isolated.ended.until(1)
    assert outcome.event is TransitionEvent.COMPLETED
