"""Workers that stop, die and come back: nothing is lost and no old write counts."""

import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from tests.faults.servers import proxied

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]
StartProcess = Callable[..., Awaitable[Any]]

pytestmark = pytest.mark.long

LEASE_OVER = timedelta(minutes=5)
# The second pass where there surely is one, so that some items are done and some are not.
STEPS = (
    "worker.polled",
    "worker.started:2",
    "worker.handled:2",
    "worker.settled",
    "worker.committed",
)


async def count_seen(site: Site, table: str = "seen") -> int:
    return await site.connection.fetchval(f"select count(distinct item) from public.{table}")  # noqa: S608


@pytest.mark.parametrize(
    ("step", "handler", "table"),
    [
        *((step, "batch", "seen") for step in STEPS),
        # Before a handler is called, nothing depends on its form.
        *(
            pytest.param(step, "transaction", "effect", marks=pytest.mark.full)
            for step in STEPS[:2]
        ),
        *((step, "transaction", "effect") for step in STEPS[2:]),
    ],
)
async def test_g5_g6_killed_at_each_step_every_item_completes_once(
    site: Site, step: str, handler: str, table: str, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(120))
    await site.allocate()
    victim = await site.start_process(handler, crash_at=step)
    assert await victim.ended() == -signal.SIGKILL
    # Another group need not wait until Kafka misses the dead member, and reads everything again.
    await site.start_process(handler, group="-heir")
    await site.advance_machine(LEASE_OVER)
    parked = 0

    async def all_completed() -> bool:
        # The dead one's leases are over for this reaper; the living one's may be taken as well,
        # which must not matter.
        nonlocal parked
        if await reapable(site):
            parked += (await site.reap()).parked
        await site.allocate()
        return await site.completed() == 120

    await site.eventually(all_completed)
    assert parked == 0
    assert await count_seen(site, table) == 120
    completions = await site.connection.fetch(
        "select item_no, count(*) from ledger.transition where event = $1 group by 1",
        TransitionEvent.COMPLETED,
    )
    assert [row["count"] for row in completions] == [1] * 120


async def reapable(site: Site) -> bool:
    """Return whether dead workers, of which no backend is left, have open runs."""
    return await site.connection.fetchval(
        """
        select exists (
          select from ledger.run r join ledger.actor a on a.actor_no = r.worker_no
          where r.closed_at is null and not exists (
            select from pg_stat_activity s where s.application_name = left(a.name, 63)))
        """
    )


async def test_g4_zombie_write_is_stale(site: Site, make_drafts: MakeDrafts) -> None:
    await site.emit(make_drafts(8))
    await site.allocate()
    # Nor does it take itself for stuck: while the whole process is stopped no time passes for it.
    zombie = await site.start_process("stop", worker_loop_block_seconds=0.2, worker_stuck_seconds=1)

    async def some_stopped() -> int:
        return await count_seen(site)

    began = await site.eventually(some_stopped)
    await site.advance_machine(LEASE_OVER)
    assert (await site.reap()).retried == began
    await site.start_process("batch", group="-heir")

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 8

    await site.eventually(all_completed)
    details = await site.details()
    assert not await site.rejected_writes()
    zombie.send(signal.SIGCONT)
    writes = await site.eventually(site.rejected_writes)
    zombie.send(signal.SIGTERM)
    assert await zombie.ended() == 0

    assert [(write["verb"], write["reason"]) for write in writes][:1] == [("settle", "stale")]
    assert await site.details() == details
    assert all("by" not in detail for detail in details.values())
    assert await site.completed() == 8


@pytest.mark.parametrize("drains", [False, True], ids=["goes-on", "drains"])
async def test_g5_items_started_in_a_lost_response_are_released_at_once(
    site: Site, make_drafts: MakeDrafts, *, drains: bool
) -> None:
    seen: list[str] = []
    handlers = Handlers()

    @handlers.on(site.kind)
    async def work(item: DueItem) -> Verdict:
        seen.append(item.business_key)
        return Completed()

    async def released() -> bool:
        return len(await site.pending()) == 3

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 3

    await site.emit(make_drafts(3))
    await site.allocate()
    async with proxied(site.settings.dsn.get_secret_value()) as (proxy, near):
        cut = proxy.hold("start_plain_runs", answered=True)
        stop = await site.work(handlers, dsn=SecretStr(near))
        await cut.reached
        if drains:
            stop.request()
        cut.decide(passes=False)
        await site.eventually(released)
        assert await site.open_runs() == 0
        if not drains:
            await site.eventually(all_completed)
    assert len(seen) == (0 if drains else 3)
    attempts = await site.connection.fetch("select distinct attempt from ledger.transition")
    assert [row["attempt"] for row in attempts] == [1]


async def test_g6_zombie_effect_is_rolled_back(site: Site, make_drafts: MakeDrafts) -> None:
    await site.emit(make_drafts(1))
    await site.allocate()
    zombie = await site.start_process("stop_transaction")

    async def stopped() -> int:
        return await count_seen(site)

    await site.eventually(stopped)
    await site.advance_machine(LEASE_OVER)
    assert (await site.reap()).retried == 1
    zombie.send(signal.SIGCONT)
    writes = await site.eventually(site.rejected_writes)
    assert [(write["verb"], write["reason"]) for write in writes] == [("settle", "stale")]
    assert await count_seen(site, "effect") == 0
    zombie.send(signal.SIGTERM)
    assert await zombie.ended() == 0
    await site.start_process("transaction")

    async def completed() -> bool:
        await site.allocate()
        return await site.completed() == 1

    await site.eventually(completed)
    assert await count_seen(site, "effect") == 1


async def test_g5_an_item_that_ends_its_process_parks_alone(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit([*make_drafts(60), *make_drafts(1, prefix="poison")])
    await site.connection.execute(
        "update ledger.kind set attempt_max = 2, backoff_base_seconds = 0.001,"
        " backoff_cap_seconds = 0.001"
    )
    await site.advance_machine(LEASE_OVER)
    worker = None
    deaths = 0

    async def settled() -> bool:
        nonlocal worker, deaths
        if worker is None or worker.process.returncode is not None:
            if await reapable(site):
                await site.reap()
            if await site.open_runs():
                return False  # of the next one, the reaper would take an innocent in the slot, too
            deaths += 1
            worker = await site.start_process("die", group=f"-{deaths}")
        await site.allocate()
        return await site.completed() == 60 and bool(await site.reviews())

    await site.eventually(settled)
    assert list(await site.reviews()) == ["poison-000000"]


async def test_g5_g9_of_suspects_from_kafka_the_one_that_ends_its_process_is_named(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit([*make_drafts(30, prefix="suspect"), *make_drafts(1, prefix="poison")])
    await site.set_kind(attempt_max=1)
    await site.connection.execute("update ledger.pending set batch_max = 16, state = 4, starts = 1")
    await site.emit(make_drafts(30, prefix="plain"))
    worker = await site.start_process("direct.isolating:thread")

    async def settled() -> bool:
        await site.allocate()
        return await site.completed() == 60 and bool(await site.reviews())

    await site.eventually(settled)
    assert list(await site.reviews()) == ["poison-000000"]
    errors = await site.connection.fetch(
        "select detail ->> 'error' as error, attempt from ledger.transition where event <> $1",
        TransitionEvent.COMPLETED,
    )
    assert [tuple(row) for row in errors] == [("HandlerProcessDied", 1)]
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0


async def test_sigterm_drains_and_leaves_the_group(site: Site, make_drafts: MakeDrafts) -> None:
    await site.emit(make_drafts(500))
    first = await site.start_process("batch")
    await site.allocate()

    async def some_seen() -> int:
        return await count_seen(site)

    await site.eventually(some_seen)
    first.send(signal.SIGTERM)
    assert await first.ended() == 0
    running = await site.open_runs()
    assert running == 0
    assert await count_seen(site) == await site.completed()
    await site.start_process("batch")

    async def all_completed() -> bool:
        return await site.completed() == 500

    await site.eventually(all_completed)
    worked = await site.connection.fetchval("select count(*) from public.seen")
    assert worked == 500
