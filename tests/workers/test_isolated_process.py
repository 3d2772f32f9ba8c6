"""The process that isolates suspects: how it starts, is sent to, and how much it is given."""

import asyncio
import pickle
import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import cast

import pytest
import uvloop

from dueledger import Completed, DueItem, Handlers, Snooze, Verdict
from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import RunId, StartResult
from dueledger.workers.claim_slices import ClaimSlice
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.open_run import OpenRun
from dueledger.workers.run.handler_pool import HandlerPool
from dueledger.workers.run.isolated_messages import Ping, Program, Ready
from dueledger.workers.run.isolated_pool import IsolatedCalls, IsolatedPool
from dueledger.workers.run.isolated_process import IsolatedProcess
from dueledger.workers.verdict_outcomes import SnoozedUntil, outcome_of_verdict

NOBODY = Program((), tuple(sys.path), "", "worker:test", 1)
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Silent:
    """Listens, and does nothing."""

    def on_items_ended(self, run: OpenRun) -> None:
        del run

    def on_item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        del run, event

    def on_call_ended(self) -> None:
        pass


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
