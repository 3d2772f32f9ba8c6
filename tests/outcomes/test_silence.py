"""A consumer that is down: items without an outcome wait for it, and no attempt is counted."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from pydantic import SecretStr

from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.flows import FlowLimits, FlowScope, find_blockers, set_flow_limits
from dueledger.ledger.store.items import emit_items, item_timeline, show_item
from dueledger.why import explain

from .conftest import Desk, Handed

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]

LEASES = 10
ITEMS = 20


@pytest.fixture
async def allocator(database: str, bootstrap_servers: str) -> AsyncGenerator[Allocator]:
    settings = AllocatorSettings(
        dsn=SecretStr(database),
        bootstrap_servers=bootstrap_servers,
        allocator_reap_seconds=1e-6,
        allocator_topic_suspend_seconds=1e-6,
    )
    async with open_allocator(settings, stop=Stop()) as allocator:
        yield allocator


async def handed_out(desk: Desk) -> list[Handed]:
    """Items that wait for an outcome now."""
    rows = await desk.connection.fetch(
        "select i.id, o.fence, o.position from ledger.open_item o"
        " join ledger.due_item i using (effective_date, item_no) order by o.fence, o.position"
    )
    return [Handed(row["id"], row["fence"], row["position"]) for row in rows]


async def let_leases_lapse(desk: Desk) -> None:
    await desk.connection.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1 hour',"
        " run_until = case when run_until is not null then ledger.machine_now() end"
        " where closed_at is null"
    )


@pytest.mark.parametrize("run_seconds", [None, 300.0])
async def test_g5_ten_leases_without_an_outcome_blame_nothing_and_park_nothing(
    desk: Desk, run_seconds: float | None
) -> None:
    await desk.put_policy(attempt_max=1, run_seconds=run_seconds)
    (handed,) = await desk.hand_out()
    limits = FlowLimits(circuit_failure_ratio=0.5)
    assert await set_flow_limits(
        desk.connection, FlowScope("acme", desk.kind), limits, actor_no=desk.actor_no
    )
    for _ in range(LEASES):
        await let_leases_lapse(desk)
        await desk.reap()
        waiting = await desk.connection.fetchrow("select * from ledger.pending")
        assert waiting is not None
        assert (waiting["state"], waiting["attempt"], waiting["starts"]) == (State.SCHEDULED, 0, 0)
        (handed,) = await desk.claim()

    events = [row["event"] for row in await item_timeline(desk.connection, handed.item)]
    assert events == ["emitted", *["claimed", "started", "released"] * LEASES, "claimed", "started"]
    for table in ("failure_streak", "flow_outcome", "review"):
        assert await desk.connection.fetchval(f"select count(*) from ledger.{table}") == 0  # noqa: S608 - a table of ours
    assert (await desk.take(handed.answers())).settled == 1
    assert await desk.states() == [State.COMPLETED]
    await desk.check_balance()


async def test_g5_a_silent_topic_is_asked_by_one_item_a_lease_until_it_answers(
    desk: Desk, allocator: Allocator, eventually: Eventually
) -> None:
    async def claimed() -> object:
        return (await allocator.tick())["claimed"]

    await emit_items(desk.connection, desk.make_drafts(ITEMS), actor_no=desk.actor_no)
    assert (await allocator.tick())["claimed"] == ITEMS
    for _ in range(LEASES):
        await let_leases_lapse(desk)
        assert await eventually(claimed) == 1
        assert (await allocator.tick())["claimed"] == 0
    waiting = await desk.connection.fetchrow(
        "select count(*) as items, max(attempt) as attempts, min(item_no) as item_no"
        " from ledger.pending"
    )
    assert waiting is not None
    assert (waiting["items"], waiting["attempts"]) == (ITEMS - 1, 0)
    one = await desk.connection.fetchval(
        "select id from ledger.due_item where item_no = $1", waiting["item_no"]
    )
    shown = await show_item(desk.connection, one)
    assert shown is not None
    hindrances = await find_blockers(desk.connection, waiting["item_no"])
    assert explain(shown, hindrances).code == "SILENT_CONSUMER"

    (probe,) = await handed_out(desk)
    assert (await desk.take(probe.answers("heartbeat"))).heartbeats == 1
    assert await eventually(claimed) == ITEMS - 1
    await desk.take(*(one.answers() for one in await handed_out(desk)))

    assert await desk.states() == [State.COMPLETED]
    assert {event for event, _ in await desk.journal()} == {
        TransitionEvent.RELEASED,
        TransitionEvent.COMPLETED,
    }
    await desk.check_balance()


async def test_an_answer_that_changes_nothing_ends_no_silence(desk: Desk) -> None:
    (late,) = await desk.hand_out()
    await let_leases_lapse(desk)
    await desk.reap()
    (handed,) = await desk.claim()
    assert (await desk.take(late.answers())).refused == 1
    assert await desk.connection.fetchval("select count(*) from ledger.silent_topic") == 1
    assert (await desk.take(handed.answers())).settled == 1
    assert await desk.connection.fetchval("select count(*) from ledger.silent_topic") == 0


async def test_g9_what_its_consumer_began_to_answer_is_blamed_when_its_lease_lapses(
    desk: Desk,
) -> None:
    (handed,) = await desk.hand_out()
    await desk.take(handed.answers("heartbeat"))
    await let_leases_lapse(desk)
    await desk.reap()
    assert await desk.state_of(handed) is State.RETRYABLE_FAILURE
    assert await desk.connection.fetchval("select attempt from ledger.pending") == 1
    assert await desk.connection.fetchval("select count(*) from ledger.silent_topic") == 0
