"""A worker that no longer holds a run stops its handlers, and does so before the lease is over."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from ledger.drafts import ItemDraft
from ledger.store import connect
from workers import Completed, DueItem, Handlers, Verdict

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]
LEASE_SECONDS = 3.0


class Waiting:
    """A handler that waits for ever and tells when it is stopped."""

    def __init__(self, kind: str) -> None:
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.handlers = Handlers()

        @self.handlers.on(kind, timeout_seconds=3600)
        async def wait(item: DueItem) -> Verdict:
            del item
            self.began.set()
            try:
                await asyncio.Event().wait()
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


async def test_g4_handlers_stop_before_their_lease_ends_when_postgres_does_not_answer(
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
