"""A consumer that is down: items without an outcome wait for it, and no attempt is counted."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from pydantic import SecretStr

from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.items import emit_items, item_timeline, show_item
from dueledger.why import explain
from tests.claim_ids import claim_ids

from .conftest import Handed, WorkTopic

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


async def handed_out(topic: WorkTopic) -> list[Handed]:
    """Items that wait for an outcome now."""
    rows = await topic.connection.fetch(
        "select i.id, o.fence, o.position from ledger.open_item o"
        " join ledger.due_item i using (effective_date, item_no) order by o.fence, o.position"
    )
    claims = await claim_ids(topic.connection, [row["fence"] for row in rows])
    return [
        Handed(row["id"], row["fence"], row["position"], claim.token_text)
        for row, claim in zip(rows, claims, strict=True)
    ]


async def end_leases(topic: WorkTopic) -> None:
    await topic.connection.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1 hour',"
        " run_until = case when run_until is not null then ledger.machine_now() end"
        " where closed_at is null"
    )


@pytest.mark.parametrize("run_seconds", [None, 300.0])
async def test_g5_ten_leases_without_an_outcome_blame_nothing_and_park_nothing(
    topic: WorkTopic, run_seconds: float | None
) -> None:
    await topic.put_policy(attempt_max=1, run_seconds=run_seconds)
    (handed,) = await topic.emit_and_claim()
    limits = FlowLimits(circuit_failure_ratio=0.5)
    assert await set_flow_limits(
        topic.connection, FlowScope("acme", topic.kind), limits, actor_no=topic.actor_no
    )
    for _ in range(LEASES):
        await end_leases(topic)
        await topic.reap()
        waiting = await topic.connection.fetchrow("select * from ledger.pending")
        assert waiting is not None
        assert (waiting["state"], waiting["attempt"], waiting["starts"]) == (State.SCHEDULED, 0, 0)
        assert waiting["batch_max"] is None
        (handed,) = await topic.claim()

    events = [row["event"] for row in await item_timeline(topic.connection, handed.item)]
    assert events == ["emitted", *["claimed", "started", "released"] * LEASES, "claimed", "started"]
    assert {detail["reason"] for _, detail in await topic.journal()} == {
        "no outcome was reported within the lease"
    }
    for table in ("failure_streak", "flow_outcome", "review"):
        assert await topic.connection.fetchval(f"select count(*) from ledger.{table}") == 0  # noqa: S608 - a table of ours
    assert (await topic.take(handed.outcome())).settled == 1
    assert await topic.states() == [State.COMPLETED]
    await topic.check_balance()


async def test_g5_a_silent_topic_gets_one_item_a_lease_until_an_outcome_is_reported(
    topic: WorkTopic, allocator: Allocator, eventually: Eventually
) -> None:
    async def claimed() -> object:
        return (await allocator.tick())["claimed"]

    await emit_items(topic.connection, topic.make_drafts(ITEMS), actor_no=topic.actor_no)
    assert (await allocator.tick())["claimed"] == ITEMS
    for _ in range(LEASES):
        await end_leases(topic)
        assert await eventually(claimed) == 1
        assert (await allocator.tick())["claimed"] == 0
    waiting = await topic.connection.fetchrow(
        "select count(*) as items, max(attempt) as attempts, min(item_no) as item_no"
        " from ledger.pending"
    )
    assert waiting is not None
    assert (waiting["items"], waiting["attempts"]) == (ITEMS - 1, 0)
    one = await topic.connection.fetchval(
        "select id from ledger.due_item where item_no = $1", waiting["item_no"]
    )
    shown = await show_item(topic.connection, one)
    assert shown is not None
    explanation = await explain(topic.connection, shown)
    assert explanation.code == "SILENT_CONSUMER"

    (probe,) = await handed_out(topic)
    assert (await topic.take(probe.outcome("heartbeat"))).heartbeats == 1
    assert await eventually(claimed) == ITEMS - 1
    await topic.take(*(one.outcome() for one in await handed_out(topic)))

    assert await topic.states() == [State.COMPLETED]
    assert {event for event, _ in await topic.journal()} == {
        TransitionEvent.RELEASED,
        TransitionEvent.COMPLETED,
    }
    await topic.check_balance()


async def test_an_outcome_that_changes_nothing_leaves_the_topic_silent(
    topic: WorkTopic,
) -> None:
    (late,) = await topic.emit_and_claim()
    await end_leases(topic)
    await topic.reap()
    (handed,) = await topic.claim()
    assert (await topic.take(late.outcome())).refused == 1
    assert await topic.connection.fetchval("select count(*) from ledger.silent_topic") == 1
    assert (await topic.take(handed.outcome())).settled == 1
    assert await topic.connection.fetchval("select count(*) from ledger.silent_topic") == 0


async def test_g9_an_item_whose_consumer_reported_something_is_blamed_when_its_lease_ends(
    topic: WorkTopic,
) -> None:
    (handed,) = await topic.emit_and_claim()
    await topic.take(handed.outcome("heartbeat"))
    await end_leases(topic)
    await topic.reap()
    assert await topic.state_of(handed) is State.RETRYABLE_FAILURE
    assert await topic.connection.fetchval("select attempt from ledger.pending") == 1
    assert await topic.connection.fetchval("select count(*) from ledger.silent_topic") == 0
