"""A worker that no longer holds a run stops its handlers, and does so before the lease is over."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import connect

from .conftest import Site

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]
LEASE_SECONDS = 3.0


class Waiting:
    """A handler that waits for ever and signals when it is stopped."""

    def __init__(self, kind: str) -> None:
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.gate = asyncio.Event()
        self.handlers = Handlers()

        @self.handlers.on(kind, timeout_seconds=3600)
        async def wait(item: DueItem) -> Verdict:
            del item
            self.began.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return Completed()


@pytest.fixture
def waiting(kind: str) -> Waiting:
    return Waiting(kind)


async def test_g4_handlers_of_a_run_that_was_taken_away_are_stopped(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    await site.work(waiting.handlers, worker_lease_seconds=LEASE_SECONDS)
    await waiting.began.wait()
    await site.advance_machine(timedelta(minutes=5))
    assert (await site.reap()).retried == 1
    await waiting.stopped.wait()
    assert (await site.events()) == {"key-000000": ["timed_out"]}
    assert not await site.rejected_writes()


async def test_g4_handlers_stop_before_their_lease_ends_if_postgres_does_not_respond(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    await site.work(waiting.handlers, worker_lease_seconds=LEASE_SECONDS)
    await waiting.began.wait()
    blocker = await connect(site.settings.dsn.get_secret_value(), application_name="blocker")
    async with blocker.transaction():
        # No heartbeat gets past this lock.
        await blocker.execute("select from ledger.run for update")
        await waiting.stopped.wait()
        held = await site.connection.fetchval("select lease_until > now() from ledger.run")
    await blocker.close()
    assert held


async def test_g4_g5_handlers_stop_before_their_lease_ends_when_the_wire_is_cut_and_resume_after(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(3))
    await site.allocate()
    wire, dsn = await site.lay_wire()
    await site.work(waiting.handlers, dsn=SecretStr(dsn), worker_lease_seconds=LEASE_SECONDS)
    await waiting.began.wait()
    wire.cut()
    await waiting.stopped.wait()
    held = await site.connection.fetchval("select min(lease_until) > now() from ledger.run")
    await site.advance_machine(timedelta(minutes=5))
    assert (await site.reap()).retried == 3
    waiting.gate.set()
    wire.mend()

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 3

    await site.eventually(all_completed)
    assert held


async def advance_past_the_hard_end(site: Site) -> None:
    """Advance the machine's clock once the worker has reported what its handlers had."""

    async def reported() -> bool:
        return await site.connection.fetchval("select overran is not null from ledger.run")

    await site.eventually(reported)
    await site.advance_machine(timedelta(minutes=5))


async def test_g9_a_run_ends_at_its_kinds_hard_end_however_often_its_lease_is_extended(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(1))
    await site.set_kind(run_seconds=4, run_late="park")
    await site.allocate()
    # A heartbeat a second, and a lease that alone would outlast the test.
    await site.work(waiting.handlers, worker_lease_seconds=LEASE_SECONDS)
    await waiting.stopped.wait()
    in_time = await site.connection.fetchval("select run_until > now() from ledger.run")
    extended = await site.connection.fetchval(
        "select lease_until = run_until and lease_until > started_at + $1 from ledger.run",
        timedelta(seconds=LEASE_SECONDS),
    )
    await advance_past_the_hard_end(site)
    assert (await site.reap()).parked == 1
    assert await site.reviews() == {"key-000000": "it ran longer than its kind may"}
    assert in_time
    assert extended


async def test_g9_a_hard_end_much_nearer_than_the_lease_leaves_a_handler_most_of_its_time(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(1))
    await site.set_kind(run_seconds=3)
    await site.allocate()
    await site.work(waiting.handlers, worker_lease_seconds=3600)
    await waiting.stopped.wait()
    left = await site.connection.fetchval(
        "select extract(epoch from run_until - now())::float from ledger.run"
    )
    await advance_past_the_hard_end(site)
    assert (await site.reap()).retried == 1
    assert (await site.details())["key-000000"]["reason"] == "overran"
    assert 0 < left < 1.5  # of a lease of an hour the margin alone would be ten minutes


async def test_a_lease_is_extended_for_as_long_as_its_handler_runs(
    site: Site, make_drafts: MakeDrafts, waiting: Waiting
) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    await site.work(waiting.handlers, worker_lease_seconds=LEASE_SECONDS, worker_drain_seconds=0)
    await waiting.began.wait()

    async def extended_twice() -> bool:
        return await site.connection.fetchval(
            "select lease_until > started_at + make_interval(secs => $1) from ledger.run",
            2 * LEASE_SECONDS,
        )

    await site.eventually(extended_twice)
    assert not waiting.stopped.is_set()
    assert (await site.reap()).runs == 0
