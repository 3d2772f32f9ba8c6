"""Processes that stop in the middle and resume too late: their writes change nothing."""

import asyncio

import pytest

from dueledger.ledger.runtime.log import LogEvent

from .checker import violations
from .programs import EVENTUALLY_SECONDS, eventually
from .site import Site

pytestmark = pytest.mark.faults


async def refusals(site: Site, verb: str) -> int:
    return await site.fetchval("select count(*) from ledger.rejected_write where verb = $1", verb)


async def test_g4_an_allocator_that_slept_past_its_deadline_publishes_without_effect(
    site: Site,
) -> None:
    kind = await site.add_kind("batch", queue_seconds=1, dispatch_seconds=1)
    zombie = await site.start_allocator()
    await site.start_worker()
    recorded = site.servers.postgres.hold("commit record_claims", answered=True)
    await site.emit(site.drafts(kind, 40))
    await asyncio.wait_for(recorded.reached, EVENTUALLY_SECONDS)
    await zombie.freeze()
    recorded.decide(passes=True)
    await site.start_allocator()
    await site.finished()
    assert await refusals(site, "start") == 0

    zombie.thaw()

    async def refused() -> bool:
        return await refusals(site, "start") > 0

    await eventually(refused)
    await site.all_logged(zombie, LogEvent.CLAIM_EXPIRED)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_effects() == await site.count_completed() == 40


async def test_g4_a_worker_that_slept_past_its_lease_settles_nothing(site: Site) -> None:
    kind = await site.add_kind("batch")
    await site.start_allocator()
    zombie = await site.start_worker()
    settling = site.servers.postgres.hold("settle_completed_runs", answered=False)
    await site.emit(site.drafts(kind, 40))
    await asyncio.wait_for(settling.reached, EVENTUALLY_SECONDS)
    await zombie.freeze()
    await site.start_worker(DUELEDGER_WORKER_GROUP_ID=f"{site.group}-heir")
    await site.finished()
    assert await refusals(site, "settle") == 0

    settling.decide(passes=True)
    zombie.thaw()

    async def refused() -> bool:
        return await refusals(site, "settle") > 0

    await eventually(refused)
    await site.all_logged(zombie, LogEvent.SETTLEMENT_REFUSED)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 40
    assert await site.count_effects() > 40


@pytest.mark.parametrize(
    ("handler", "statement", "count"),
    [("transaction", "settle_completed_run", 1), ("chunk", "settle_completed_runs", 5)],
)
async def test_g4_g6_a_transaction_that_slept_past_its_lease_has_no_effect(
    site: Site, handler: str, statement: str, count: int
) -> None:
    kind = await site.add_kind(handler)
    await site.start_allocator()
    zombie = await site.start_worker()
    settling = site.servers.postgres.hold(statement, answered=False)
    await site.emit(site.drafts(kind, count))
    await asyncio.wait_for(settling.reached, EVENTUALLY_SECONDS)
    await zombie.freeze()
    await site.start_worker(DUELEDGER_WORKER_GROUP_ID=f"{site.group}-heir")
    await site.finished()

    settling.decide(passes=True)
    zombie.thaw()
    # It lets go by itself or is refused; nothing of its transaction stays either way.
    await site.all_logged(
        zombie, LogEvent.LEASE_LAPSED, LogEvent.LEASE_LOST, LogEvent.SETTLEMENT_REFUSED
    )
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == count


async def test_g5_g6_a_transaction_whose_worker_sleeps_on_its_locks_is_ended_by_the_server(
    site: Site,
) -> None:
    kind = await site.add_kind("transaction")
    async with site.connected() as connection:  # the other worker's handlers wait for its locks
        await connection.execute("create unique index on public.effect_within (item)")
    await site.start_allocator()
    zombie = await site.start_worker(DUELEDGER_HANDLER_SECONDS="2")
    settling = site.servers.postgres.hold("settle_completed_run", answered=False)
    await site.emit(site.drafts(kind, 10))
    await asyncio.wait_for(settling.reached, EVENTUALLY_SECONDS)
    await zombie.freeze()
    await site.start_worker(DUELEDGER_WORKER_GROUP_ID=f"{site.group}-heir")

    await site.finished()

    settling.decide(passes=True)
    zombie.thaw()
    await site.all_logged(zombie, LogEvent.LEASE_LAPSED, LogEvent.LEASE_LOST)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 10


async def test_g4_a_start_whose_response_comes_too_late_is_dropped(site: Site) -> None:
    kind = await site.add_kind("single")
    await site.start_allocator()
    zombie = await site.start_worker()
    started = site.servers.postgres.hold("start_plain_runs", answered=True)
    await site.emit(site.drafts(kind, 40))
    await asyncio.wait_for(started.reached, EVENTUALLY_SECONDS)
    await zombie.freeze()
    await site.start_worker(DUELEDGER_WORKER_GROUP_ID=f"{site.group}-heir")
    await site.finished()

    started.decide(passes=True)
    zombie.thaw()
    await site.all_logged(
        zombie, LogEvent.LEASE_LAPSED, LogEvent.SETTLEMENT_REFUSED, LogEvent.LEASE_LOST
    )

    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 40
