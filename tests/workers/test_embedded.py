"""A worker inside a program works like one in a process of its own, and changes nothing else."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict, worker
from dueledger.ledger.errors import InvalidSetting, NotPermitted
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.workers.run.stuck_pools import WorkerStuck
from tests.logins import with_login

from .conftest import SESSION_SECONDS, Site
from .test_kafka import completing

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]

WRONG = "worker_lease_second: there is no such setting. Write: worker_lease_seconds."
PROGRAM = Path(__file__).with_name("embedding_program.py")


async def until_completed(site: Site, count: int) -> None:
    async def done() -> bool:
        return await site.completed() == count

    await site.eventually(done)


@pytest.fixture
def direct_dsn(database: str) -> str:
    return with_login(database, "direct_worker")


async def test_items_arrive_from_kafka_in_the_program(site: Site, make_drafts: MakeDrafts) -> None:
    await site.emit(make_drafts(20))
    await site.allocate()

    async with worker(
        completing(site.kind),
        dsn=site.settings.dsn.get_secret_value(),
        bootstrap_servers=site.settings.bootstrap_servers,
        worker_group_id=f"group-{site.kind}",
        worker_session_timeout_seconds=SESSION_SECONDS,
    ):
        await until_completed(site, 20)

    assert not await site.credits()


async def test_two_workers_of_one_program_claim_directly(
    site: Site, make_drafts: MakeDrafts, direct_dsn: str
) -> None:
    other = f"{site.kind}Other"
    await site.emit([*make_drafts(20), *make_drafts(20, kind=other)])

    async with (
        worker(completing(site.kind), dsn=direct_dsn, direct=True),
        worker(completing(other), dsn=direct_dsn, direct=True),
    ):
        await until_completed(site, 40)


@pytest.mark.parametrize("by", ["return", "error", "cancellation"])
async def test_g5_the_end_of_the_block_lets_running_items_end_however_it_is_left(
    by: str, site: Site, make_drafts: MakeDrafts, direct_dsn: str
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    handlers = Handlers()

    @handlers.on(site.kind)
    async def complete(item: DueItem) -> Verdict:
        del item
        begun.set()
        await may_end.wait()
        return Completed()

    async def serve() -> None:
        async with worker(handlers, dsn=direct_dsn, direct=True):
            await begun.wait()
            asyncio.get_running_loop().call_soon(may_end.set)
            match by:
                case "error":
                    raise ConnectionResetError
                case "cancellation":
                    serving.cancel()
                    await asyncio.Event().wait()
                case _:
                    pass

    await site.emit(make_drafts(1))
    serving = asyncio.create_task(serve())
    await asyncio.wait({serving})

    assert await site.completed() == 1
    assert serving.cancelled() is (by == "cancellation")
    if not serving.cancelled():
        assert type(serving.exception()) is (ConnectionResetError if by == "error" else type(None))


async def test_g5_items_that_do_not_end_in_time_are_released_and_count_no_attempt(
    site: Site, make_drafts: MakeDrafts, direct_dsn: str
) -> None:
    begun = asyncio.Event()
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=1)
    async def wait(item: DueItem) -> Verdict:
        del item
        begun.set()
        await asyncio.Event().wait()
        return Completed()

    await site.emit(make_drafts(2))
    async with worker(handlers, dsn=direct_dsn, direct=True, worker_drain_seconds=0):
        await begun.wait()

    rows = await site.pending()
    assert len(rows) == 2


async def test_a_worker_whose_calls_never_end_cancels_the_block_and_raises(
    site: Site, make_drafts: MakeDrafts, direct_dsn: str
) -> None:
    may_end = asyncio.Event()
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=1, timeout_seconds=0.05)
    async def ignore_cancellation(item: DueItem) -> Verdict:
        del item
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return Completed()

    await site.emit(make_drafts(1))
    task = asyncio.current_task()
    assert task is not None
    try:
        with pytest.raises(WorkerStuck):
            async with worker(
                handlers,
                dsn=direct_dsn,
                direct=True,
                worker_stuck_seconds=0.05,
                worker_drain_seconds=0,
            ):
                await asyncio.Event().wait()
    finally:
        may_end.set()
    assert not task.cancelling()


async def test_settings_that_do_not_exist_are_refused_with_the_nearest(direct_dsn: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(WRONG)):
        async with worker(completing("Any"), dsn=direct_dsn, worker_lease_second=5):
            pass


async def test_a_worker_without_handlers_is_refused(direct_dsn: str) -> None:
    with pytest.raises(InvalidSetting, match="nothing to work"):
        async with worker(Handlers(), dsn=direct_dsn, direct=True):
            pass


async def test_a_login_without_the_roles_is_refused_at_entry(database: str) -> None:
    with pytest.raises(NotPermitted, match="lacks ledger_allocator"):
        async with worker(completing("Any"), dsn=with_login(database, "worker"), direct=True):
            pass


def test_the_program_keeps_its_signals_its_log_and_its_loop(
    direct_dsn: str,
) -> None:
    """The program asserts what it had before, beside a worker and after it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DUELEDGER_")}
    ran = subprocess.run(  # noqa: S603  # this interpreter, on a file of the tests
        [sys.executable, str(PROGRAM)],
        env=environment | {"DUELEDGER_DSN": direct_dsn},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the program's own line\n", "")
