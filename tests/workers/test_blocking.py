"""A handler that blocks is logged by name, and its items go to other workers."""

import asyncio
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import Stop
from dueledger.workers.process import run_worker
from dueledger.workers.run.stuck_pools import WorkerStuck

from .conftest import Site

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]

LEASE_SECONDS = 3.0


def by_a_handler(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what other programs have blocked, before any handler ran."""
    return [line for line in lines if line.get("handler")]


async def test_g4_g5_a_handler_that_blocks_the_loop_is_named_and_its_worker_comes_back(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    blocked = await site.start_process("block", worker_loop_block_seconds=0.5)

    async def said() -> list[dict[str, Any]]:
        return by_a_handler(blocked.logged(LogEvent.EVENT_LOOP_BLOCKED))

    line = (await site.eventually(said))[0]
    assert line["kind"] == site.kind
    assert str(line["handler"]).endswith("block.<locals>.hold_the_loop")
    run = await site.connection.fetchrow("select run_no, fence from ledger.run")
    assert run is not None
    assert (line["run_no"], line["fence"], line["items"]) == (run["run_no"], run["fence"], 1)
    assert any("hold_the_loop" in place for place in line["stack"])

    await site.advance_machine(timedelta(minutes=5))
    assert (await site.reap()).retried == 1
    # Kafka misses it, too: its partitions go to another member of the same group.
    heir = await site.start_process("batch")

    async def first_completed() -> bool:
        await site.allocate()
        return await site.completed() == 1

    await site.eventually(first_completed)
    heir.send(signal.SIGTERM)
    assert await heir.ended() == 0
    blocked.send(signal.SIGUSR1)
    writes = await site.eventually(site.rejected_writes)
    await site.emit(make_drafts(1, prefix="later"))

    async def second_completed() -> bool:
        await site.allocate()
        return await site.completed() == 2

    await site.eventually(second_completed)
    assert [(write["verb"], write["reason"]) for write in writes] == [("settle", "stale")]
    assert (await site.details())["later-000000"] == {"by": "blocked"}
    resumed = by_a_handler(blocked.logged(LogEvent.EVENT_LOOP_RESUMED))[0]
    assert resumed["handler"] == line["handler"]
    blocked.send(signal.SIGTERM)
    assert await blocked.ended() == 0


async def test_g9_a_loop_that_never_turns_again_takes_its_process_with_it(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    stuck = await site.start_process("block", worker_loop_block_seconds=0.5, worker_stuck_seconds=3)

    assert await stuck.ended() == 1

    async def said() -> list[dict[str, Any]]:
        return stuck.logged(LogEvent.PROCESS_ABORTED)

    assert (await site.eventually(said))[0]["kind"] == site.kind


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "deaf"])
async def test_g9_a_pool_whose_calls_never_end_wants_no_items_and_ends_its_worker(
    site: Site,
    make_drafts: MakeDrafts,
    is_async: bool,  # noqa: FBT001  # what is parametrized
) -> None:
    handlers = Handlers()
    released, heard = threading.Event(), asyncio.Event()

    async def never_ends(item: DueItem) -> Verdict:
        while not heard.is_set():
            try:
                await heard.wait()
            except asyncio.CancelledError:
                continue
        return Completed({"key": item.business_key})

    def hangs(item: DueItem) -> Verdict:
        released.wait()
        return Completed({"key": item.business_key})

    on = handlers.on(site.kind, concurrency=2, timeout_seconds=0.1, backoff_base_seconds=600)
    on(never_ends if is_async else hangs)
    settings = site.settings.model_copy(
        update={"worker_stuck_seconds": 1.0, "worker_drain_seconds": 0.0}
    )
    await site.emit(make_drafts(10))
    await site.grant(0)
    working = asyncio.create_task(run_worker(settings, handlers, Stop()))

    async def wants_nothing() -> bool:
        await site.allocate()
        return working.done() or list((await site.credits()).values()) == [0]

    await site.eventually(wants_nothing)
    try:
        with pytest.raises(WorkerStuck, match=site.kind):
            await working
    finally:
        released.set()
        heard.set()
    assert {names[0] for names in (await site.events()).values()} == {"failed"}
    assert len(await site.events()) == 2
    assert not await site.credits()


async def test_g5_a_plain_function_may_block_for_longer_than_leases_and_sessions_last(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    began, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @handlers.on(site.kind, timeout_seconds=3600)
    def wait(item: DueItem) -> Verdict:
        if item.business_key == "key-000000":
            loop.call_soon_threadsafe(began.set)
            gate.wait()
        return Completed()

    await site.emit(make_drafts(1))
    await site.allocate()
    await site.work(handlers, worker_lease_seconds=LEASE_SECONDS)
    await began.wait()

    async def extended() -> bool:
        return await site.connection.fetchval(
            "select lease_until > started_at + make_interval(secs => $1) from ledger.run",
            2.5 * LEASE_SECONDS,
        )

    try:
        await site.eventually(extended)
        await site.emit(make_drafts(1, prefix="beside"))
        await site.allocate()

        async def beside_completed() -> bool:
            return await site.completed() == 1

        await site.eventually(beside_completed)
        assert (await site.reap()).runs == 0
    finally:
        gate.set()

    async def both_completed() -> bool:
        return await site.completed() == 2

    await site.eventually(both_completed)
    assert not await site.rejected_writes()
