"""A fixed delay: the transaction that ends an item owes the next, and the chain goes on."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import withdraw_items
from dueledger.ledger.store.reviews import write_off_items

from .conftest import (
    NOON,
    SetSchedule,
    SetTime,
    claim_next,
    due_times,
    end,
    start,
    tick_until_idle,
    watermark,
)

DELAY = {"after_completion": "PT10M"}
TEN_MINUTES = timedelta(minutes=10)


async def _end(connection: Connection, actor_no: int, event: TransitionEvent) -> None:
    """Claim, start and end the one item that is due."""
    fence, ids = await claim_next(connection, actor_no, 10)
    assert len(ids) == 1
    await end(connection, actor_no, await start(connection, actor_no, fence, 1), [event])


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
async def test_g1_the_transaction_that_ends_an_item_emits_the_next(
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
    fence, _ = await claim_next(connection, actor_no, 1)
    run_no = await start(connection, actor_no, fence, 1)
    transaction = connection.transaction()
    await transaction.start()
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED])
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
    await _end(connection, actor_no, TransitionEvent.COMPLETED)  # its next is the newer version's
    await set_time(later)
    await _end(connection, actor_no, TransitionEvent.COMPLETED)
    assert await due_times(connection, "poll") == [NOON, later, later + timedelta(minutes=30)]


async def test_g13_what_waits_of_a_fixed_delay_ends_with_its_version_and_leads_nothing_on(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
) -> None:
    await set_schedule("poll", {"after_completion": "P2D"})
    await tick_until_idle(materialiser)
    await _end(connection, actor_no, TransitionEvent.COMPLETED)
    waiting = NOON + timedelta(days=2)
    change = NOON + timedelta(hours=20)
    await set_schedule("poll", DELAY, effective_from=change)
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(hours=30))
    await tick_until_idle(materialiser)
    rows = await connection.fetch(
        "select i.due_at, t.event from ledger.due_item i left join ledger.transition t"
        " using (item_no, effective_date) order by i.due_at"
    )
    assert [tuple(row) for row in rows] == [
        (NOON, TransitionEvent.COMPLETED),
        (change, None),
        (waiting, TransitionEvent.SUPERSEDED),
    ]


async def test_g13_a_chain_whose_one_item_both_versions_owe_goes_on_under_the_newer_terms(
    connection: Connection,
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    actor_no: int,
) -> None:
    later = NOON + timedelta(hours=1)
    await set_schedule("poll", DELAY, effective_from=later)
    await tick_until_idle(materialiser)
    await set_schedule("poll", {"after_completion": "PT5M"}, effective_from=later)
    await tick_until_idle(materialiser)
    await set_time(later)
    await _end(connection, actor_no, TransitionEvent.COMPLETED)
    assert await due_times(connection, "poll") == [later, later + timedelta(minutes=5)]
