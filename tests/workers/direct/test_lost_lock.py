"""A worker that was killed is known by its lock: its items start again before its leases end."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.processes import end_deadlines, end_leases, watch_locks
from tests.faults.proxy import Proxy
from tests.faults.servers import proxied
from tests.workers.direct.conftest import DirectWorker, Estate

MakeDrafts = Callable[..., list[ItemDraft]]

KILL = """
    select count(pg_terminate_backend(a.pid, 5000)) from pg_stat_activity a
    where a.datname = current_database() and a.application_name like 'worker:%'
"""
GONE = timedelta(seconds=5)


def hanging(estate: Estate) -> Handlers:
    handlers = Handlers()

    @handlers.on(estate.kind)
    async def hang(item: DueItem) -> Verdict:
        await asyncio.Event().wait()
        return Completed({"key": item.business_key})

    return handlers


def completing(estate: Estate) -> Handlers:
    handlers = Handlers()

    @handlers.on_batch(estate.kind, batch_max=20, concurrency=2)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        return [Completed() for _ in items]

    return handlers


async def lose_worker(estate: Estate, drafts: list[ItemDraft], *, yields: bool) -> DirectWorker:
    """Return a worker with items, whose connection with the lock was lost."""
    await estate.emit(drafts)
    worker = await estate.employ(hanging(estate), yields=yields)
    await worker.presence.open()
    await worker.claim()
    await estate.connection.fetchval(KILL)
    return worker


async def watch(estate: Estate) -> list[int]:
    """Return which processes have been without their lock for longer than they may."""
    before = await watch_locks(estate.connection)
    await estate.advance_machine(GONE)
    assert before == []
    return await watch_locks(estate.connection)


async def test_g5_the_leases_of_a_worker_without_its_lock_for_four_seconds_end(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=True)
    assert await watch(estate) == [worker.presence.process_no]
    assert await end_leases(estate.connection, [worker.presence.process_no], 10) == 1
    assert (await estate.reap()).retried == 4
    attempts = await estate.connection.fetchval("select max(attempt) from ledger.pending")
    assert attempts == 0


async def test_the_leases_of_a_worker_with_handlers_in_threads_end_by_themselves(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=False)
    assert await watch(estate) == [worker.presence.process_no]
    assert await end_leases(estate.connection, [worker.presence.process_no], 10) == 0


async def test_a_worker_that_takes_its_lock_again_keeps_its_leases(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=True)
    assert await watch_locks(estate.connection) == []
    with suppress(Exception):  # the first use of the lost connection may be the one that fails
        await worker.presence.tick()
    await worker.presence.tick()
    assert await watch(estate) == []
    assert await end_leases(estate.connection, [worker.presence.process_no], 10) == 0
    assert worker.presence.losses == 0
    await worker.presence.close()


async def test_after_a_restart_of_the_server_leases_end_by_themselves(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=True)
    # As a server has it that was started later, or to which the ledger failed over.
    earlier = "update ledger.process set locked_on = locked_on - interval '1 hour'"
    await estate.connection.execute(earlier)
    assert await watch(estate) == []
    assert await end_leases(estate.connection, [worker.presence.process_no], 10) == 0


async def test_a_lease_that_was_extended_after_the_lock_was_lost_is_kept(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=True)
    assert await watch(estate) == [worker.presence.process_no]
    await estate.connection.execute(
        "update ledger.run set lease_until = lease_until + interval '1 minute'"
    )
    assert await end_leases(estate.connection, [worker.presence.process_no], 10) == 0


async def test_a_process_that_was_without_its_lock_too_long_knows_that_its_leases_may_have_ended(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=True)
    await estate.connection.execute(
        "update ledger.process set unlocked_at = now() - interval '4 seconds'"
    )
    with suppress(Exception):
        await worker.presence.tick()
    await worker.presence.tick()
    assert worker.presence.losses == 1
    assert await watch_locks(estate.connection) == []
    await worker.presence.close()


async def test_g5_unpublished_claims_of_an_allocator_without_its_lock_are_released(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    worker = await lose_worker(estate, make_drafts(4), yields=False)
    await estate.connection.execute(  # as it left them before they were started
        "update ledger.claim set closed_at = null, started = 0, token = repeat('a', 16),"
        " deadline = now() + interval '1 minute'"
    )
    await estate.connection.execute("delete from ledger.run")
    assert await watch(estate) == [worker.presence.process_no]
    assert await end_deadlines(estate.connection, [worker.presence.process_no], 10) == 1
    await estate.reap()
    assert await estate.count("ledger.pending") == 4


@pytest.mark.long
async def test_g5_items_of_a_killed_worker_start_again_before_its_leases_end(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(4))
    victim = await estate.start_process("hang")

    async def seen() -> bool:
        return await estate.count("public.seen") == 4

    await estate.eventually(seen)
    lease_end = await estate.connection.fetchval("select min(lease_until) from ledger.run")
    await victim.kill()
    await estate.work(completing(estate))
    await estate.until_completed(4)
    completed = "select at, attempt from ledger.transition where event = 5"
    ends = await estate.connection.fetch(completed)
    assert all(row["at"] < lease_end for row in ends)
    assert {row["attempt"] for row in ends} == {1}


@pytest.mark.long
async def test_g5_a_stopped_worker_keeps_its_lock_and_its_leases(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(4))
    stopped = await estate.start_process("hang")

    async def seen() -> bool:
        return await estate.count("public.seen") == 4

    await estate.eventually(seen)
    stopped.send(signal.SIGSTOP)
    assert await watch(estate) == []
    assert await estate.connection.fetchval("select unlocked_at from ledger.process") is None


@pytest.mark.long
async def test_g4_a_stopped_worker_that_was_cut_off_stops_its_handlers_when_it_continues(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(4))
    zombie = await estate.start_process("linger")

    async def seen() -> bool:
        return await estate.count("public.seen") == 4

    await estate.eventually(seen)
    zombie.send(signal.SIGSTOP)
    await estate.connection.fetchval(KILL)
    await estate.work(completing(estate))
    await estate.until_completed(4)
    zombie.send(signal.SIGCONT)

    async def stopped() -> bool:
        return await estate.count("public.seen") == 8  # each leaves a row when it is cancelled

    await estate.eventually(stopped)
    assert await estate.completed() == 4


async def work_behind_a_proxy(estate: Estate, handlers: Handlers) -> Proxy:
    """Start a worker that reaches Postgres by a proxy, which ends after it."""
    dsn = estate.settings.dsn.get_secret_value()
    proxy, near = await estate.running.enter_async_context(proxied(dsn))
    await estate.work(handlers, dsn=SecretStr(near))
    return proxy


async def test_g4_a_worker_whose_network_is_cut_stops_its_handlers_and_begins_again_after(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    began, cancelled, handlers = asyncio.Event(), asyncio.Event(), Handlers()

    @handlers.on(estate.kind)
    async def linger(_: DueItem) -> Verdict:
        began.set()
        try:
            if not cancelled.is_set():  # afterwards nothing shall hold up its end
                await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Completed()

    await estate.emit(make_drafts())
    proxy = await work_behind_a_proxy(estate, handlers)
    await began.wait()
    lease_end = await estate.connection.fetchval("select lease_until from ledger.run")
    proxy.silence()
    await cancelled.wait()
    assert await estate.connection.fetchval("select now()") < lease_end
    await estate.emit(make_drafts(prefix="later"))
    began.clear()
    proxy.heal()
    await began.wait()


@pytest.mark.full
async def test_a_worker_that_lives_takes_its_lock_again_within_1_s_or_stops_its_handlers_within_3(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    began, cancelled, handlers = asyncio.Event(), asyncio.Event(), Handlers()

    @handlers.on(estate.kind)
    async def linger(_: DueItem) -> Verdict:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    await estate.emit(make_drafts())
    proxy = await work_behind_a_proxy(estate, handlers)
    await began.wait()
    lost_at = await estate.connection.fetchval("select ledger.machine_now()")
    await estate.connection.fetchval(KILL)  # as by a failover, or a server that is restarted

    async def locked_again() -> datetime | None:
        return await estate.connection.fetchval(
            "select seen_at from ledger.process_status where status = 'live' and seen_at > $1",
            lost_at,
        )

    assert await estate.eventually(locked_again) - lost_at <= timedelta(seconds=1)
    assert not cancelled.is_set()
    proxy.silence()
    cut_at = monotonic()
    await cancelled.wait()
    assert monotonic() - cut_at <= 3
    proxy.heal()


async def test_g5_a_worker_that_its_ledger_forgot_works_on_under_a_number_of_its_own(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    workers = "select array_agg(process_no) from ledger.process where ended_at is null"
    await estate.work(completing(estate))

    async def started() -> list[int] | None:
        return await estate.connection.fetchval(workers)

    [before] = await estate.eventually(started)
    # As after a restore of a copy from before its start, which then gave its number to a person.
    await estate.connection.execute("delete from ledger.process")
    await estate.connection.execute(
        "update ledger.actor set name = 'person:ada', kind = 'person' where actor_no = $1", before
    )
    await estate.connection.fetchval(KILL)
    [after] = await estate.eventually(started)
    await estate.emit(make_drafts(5))
    await estate.until_completed(5)
    by = await estate.connection.fetchval(
        "select array_agg(distinct actor_no) from ledger.transition"
    )
    assert by == [after] != [before]
