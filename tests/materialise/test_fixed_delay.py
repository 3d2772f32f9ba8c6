"""A fixed delay: the transaction that ends an item owes the next, and the chain goes on."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from ledger.materialise import Materialiser
from ledger.states import TransitionEvent
from ledger.store import Connection
from ledger.store.claims import Claim, claim_items, list_due_flows, next_fences, record_claims
from ledger.store.items import withdraw_items
from ledger.store.reviews import write_off_items
from ledger.store.runs import Outcome, Settlement, settle_runs, start_runs

from .conftest import NOON, SetSchedule, SetTime, due_times, tick_until_idle, watermark

DELAY = {"after_completion": "PT10M"}
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture(autouse=True)
async def partitions_of_that_time(connection: Connection) -> None:
    await connection.execute(
        "select ledger.make_partition(parent, '2027-03-01')"
        " from unnest(array['claim', 'run']) parent"
    )


async def _start(connection: Connection, actor_no: int) -> int:
    """Claim and start the one item that is due; return its run."""
    (flow,) = await list_due_flows(connection, 10)
    async with connection.transaction():
        (row,) = await claim_items(connection, [flow.flow_no], [10])
        (fence,) = await next_fences(connection, 1)
        claim = Claim(
            fence, actor_no, flow.topic, 0, [row["item_no"]], [row["effective_date"]], [1], [1], 60
        )
        await record_claims(connection, [claim])
    (start,) = await start_runs(connection, [fence], [1], [1], worker_no=actor_no, lease_seconds=60)
    assert start.run_no is not None
    return start.run_no


async def _end(connection: Connection, actor_no: int, event: TransitionEvent) -> None:
    run_no = await _start(connection, actor_no)
    settlement = Settlement(run_no, [Outcome(event, '{"reason":"test"}')])
    assert await settle_runs(connection, [settlement], actor_no) == []


async def _open_item(connection: Connection) -> UUID:
    return await connection.fetchval(
        "select i.id from ledger.due_item i join ledger.following using (item_no)"
    )


async def test_the_first_is_due_when_its_definition_comes_into_force(
    connection: Connection, materialiser: Materialiser, set_schedule: SetSchedule
) -> None:
    later = NOON + timedelta(hours=1)
    await set_schedule("poll", DELAY, effective_from=later)
    await tick_until_idle(materialiser)
    assert await due_times(connection, "poll") == [later]


@pytest.mark.parametrize("event", [TransitionEvent.COMPLETED, TransitionEvent.CANCELLED])
async def test_g1_whoever_ends_an_item_owes_the_next_in_the_same_transaction(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
    event: TransitionEvent,
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    expected: list[datetime] = [NOON]
    for _ in range(3):
        ended_at = expected[-1] + timedelta(minutes=3)
        await set_time(ended_at)
        await _end(connection, actor_no, event)
        expected.append(ended_at + TEN_MINUTES)
        assert await due_times(connection, "poll") == expected


async def test_what_is_rolled_back_owes_nothing(
    connection: Connection, materialiser: Materialiser, set_schedule: SetSchedule, actor_no: int
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    run_no = await _start(connection, actor_no)
    transaction = connection.transaction()
    await transaction.start()
    settlement = Settlement(run_no, [Outcome(TransitionEvent.COMPLETED)])
    assert await settle_runs(connection, [settlement], actor_no) == []
    await connection.execute("set constraints all immediate")  # as the commit would
    assert len(await due_times(connection, "poll")) == 2
    await transaction.rollback()
    assert await due_times(connection, "poll") == [NOON]


async def test_a_failure_keeps_the_item_and_owes_no_next_one(
    connection: Connection, materialiser: Materialiser, set_schedule: SetSchedule, actor_no: int
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    await _end(connection, actor_no, TransitionEvent.FAILED)
    assert await due_times(connection, "poll") == [NOON]


async def test_cancelling_and_writing_off_lead_on_too(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    await withdraw_items(
        connection,
        [await _open_item(connection)],
        event=TransitionEvent.CANCELLED,
        reason="not today",
        actor_no=actor_no,
    )
    assert await due_times(connection, "poll") == [NOON, NOON + TEN_MINUTES]
    await set_time(NOON + timedelta(hours=1))
    await _end(connection, actor_no, TransitionEvent.PARKED)
    parked = await _open_item(connection)
    await write_off_items(connection, [parked], reason="gone", actor_no=actor_no)
    assert len(await due_times(connection, "poll")) == 3


async def test_a_chain_that_broke_begins_again_at_the_next_pass(
    connection: Connection, materialiser: Materialiser, set_schedule: SetSchedule, set_time: SetTime
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    await connection.execute("alter table ledger.following disable trigger user")
    await connection.execute("delete from ledger.following")
    await connection.execute("alter table ledger.following enable trigger user")
    reached = await watermark(connection, "poll")
    await set_time(NOON + timedelta(days=2))
    await tick_until_idle(materialiser)
    assert await due_times(connection, "poll") == [NOON, reached]


async def test_g13_a_new_version_begins_its_own_chain_and_the_old_one_ends(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
) -> None:
    await set_schedule("poll", DELAY)
    await tick_until_idle(materialiser)
    later = NOON + timedelta(hours=1)
    await set_schedule("poll", {"after_completion": "PT30M"}, effective_from=later)
    await tick_until_idle(materialiser)
    assert await due_times(connection, "poll") == [NOON, later]
    await set_time(later - timedelta(minutes=1))
    await _end(connection, actor_no, TransitionEvent.COMPLETED)  # still the old version's
    await set_time(later + TEN_MINUTES)
    await connection.execute(
        "delete from ledger.pending p using ledger.due_item i"
        " where i.item_no = p.item_no and i.due_at = $1",
        later,
    )
    await _end(connection, actor_no, TransitionEvent.COMPLETED)
    times = await due_times(connection, "poll")
    assert times == [NOON, later, later + timedelta(minutes=9)]
