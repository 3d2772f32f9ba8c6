"""One authority an item: fences grow, and a write under an old one changes nothing."""

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import mark_published, reap_runs, release_claims
from dueledger.ledger.store.clock import read_now, set_clock
from dueledger.ledger.store.items import RequestResult
from dueledger.ledger.store.runs import (
    Outcome,
    RefusedSettlement,
    Settlement,
    SettleRefusal,
    settle_runs,
    start_runs,
)
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED


async def test_g3_nothing_is_claimed_before_it_is_due_however_often_one_asks(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    (item,) = await ledger.emit(due_at=noon + timedelta(microseconds=1))
    assert (await ledger.claim()).item_nos == []
    assert await ledger.state_of(item) is State.SCHEDULED

    await ledger.stand_at(noon + timedelta(microseconds=1))

    assert len((await ledger.claim()).item_nos) == 1


async def test_g3_a_retry_is_not_claimed_before_its_backoff_is_over(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit(due_at=noon)
    start = await ledger.start((await ledger.claim()).fence)
    assert start.run_no is not None
    await ledger.settle(start.run_no, FAILED, after_seconds=30)
    assert (await ledger.claim()).item_nos == []

    await ledger.stand_at(noon + timedelta(seconds=30))

    claim = await ledger.claim()
    assert list(claim.attempts) == [2]


async def test_g4_a_zombies_write_is_stale_and_recorded_and_changes_nothing(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    await ledger.end_leases()
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    again = await ledger.claim()
    assert again.fence > placed.fence
    second = await ledger.start(again.fence)
    assert second.run_no is not None
    assert await ledger.settle(second.run_no, COMPLETED) == []
    before = await ledger.journal()

    refused = await ledger.settle(placed.run_no, FAILED)

    assert refused == [RefusedSettlement(placed.run_no, SettleRefusal.STALE)]
    assert await ledger.journal() == before
    assert await ledger.state_of(placed.id) is State.COMPLETED
    assert await ledger.rejected() == [("settle", "stale")]


async def test_g4_another_worker_cannot_settle_what_it_was_not_given(ledger: Ledger) -> None:
    placed = await ledger.place(State.RUNNING)

    refused = await ledger.settle(placed.run_no, COMPLETED, worker_no=ledger.other_worker_no)

    assert refused == [RefusedSettlement(placed.run_no, SettleRefusal.STALE)]
    assert await ledger.state_of(placed.id) is State.RUNNING
    assert await ledger.rejected() == [("settle", "stale")]


async def test_g4_a_start_under_a_fence_that_never_was_is_a_mismatch_and_recorded(
    ledger: Ledger,
) -> None:
    start = await ledger.start(4_711)
    assert (start.run_no, start.closed, start.started_to) == (None, True, 0)
    assert await ledger.rejected() == [("start", "mismatch")]


@pytest.mark.parametrize(
    ("column", "partition"), [("topic_actor_no", 0), ("allocator_no", -1)], ids=["topic", "direct"]
)
async def test_g4_what_a_topic_or_a_direct_worker_holds_is_started_by_no_other_and_recorded(
    ledger: Ledger, column: str, partition: int
) -> None:
    (item,) = await ledger.emit()
    fence = (await ledger.claim()).fence
    await ledger.connection.execute(
        f"update ledger.claim set {column} = $2, partition = $3 where fence = $1",  # noqa: S608 - a parameter of the test
        fence,
        ledger.other_worker_no,
        partition,
    )

    start = await ledger.start(fence)

    assert (start.run_no, start.closed, start.started_to) == (None, True, 0)
    assert await ledger.rejected() == [("start", "wrong_settler")]
    assert await ledger.state_of(item) is State.CLAIMED
    await ledger.check_balance()


async def test_g4_any_worker_starts_what_an_allocator_claimed(ledger: Ledger) -> None:
    await ledger.emit()
    fence = (await ledger.claim()).fence
    await ledger.connection.execute(
        "update ledger.claim set allocator_no = $1", ledger.other_worker_no
    )
    assert (await ledger.start(fence)).run_no is not None


async def test_g4_a_direct_worker_starts_what_it_claimed_itself(ledger: Ledger) -> None:
    await ledger.emit()
    fence = (await ledger.claim()).fence
    await ledger.connection.execute("update ledger.claim set partition = -1")
    assert (await ledger.start(fence)).run_no is not None


async def test_g4_a_claim_slice_is_started_once_and_in_order(ledger: Ledger) -> None:
    await ledger.emit(10)
    fence = (await ledger.claim()).fence

    gap = await ledger.start(fence, 4, 6)
    first = await ledger.start(fence, 1, 6)
    again = await ledger.start(fence, 1, 6)
    overrun = await ledger.start(fence, 7, 11)
    rest = await ledger.start(fence, 7, 10)

    assert (gap.run_no, gap.started_to, gap.closed) == (None, 0, False)
    assert first.run_no is not None
    assert (again.run_no, again.started_to, again.closed) == (None, 6, False)
    assert overrun.run_no is None
    assert rest.run_no is not None
    assert await ledger.rejected() == []  # a redelivery is no offence
    await ledger.check_balance()


async def test_g4_only_one_of_many_workers_starts_a_claim_slice(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit(50)
    fence = (await ledger.claim()).fence
    claims = await claim_ids(ledger.connection, [fence])
    rivals = [await connect(database, application_name="rival") for _ in range(8)]

    starts = await asyncio.gather(
        *(
            start_runs(rival, claims, [1], [50], worker_no=ledger.worker_no, lease_seconds=60)
            for rival in rivals
        )
    )

    assert len([start for (start,) in starts if start.run_no]) == 1
    for rival in rivals:
        await rival.close()


async def test_g7_repeating_a_settlement_after_a_lost_commit_is_harmless(ledger: Ledger) -> None:
    await ledger.emit(3)
    run_no = (await ledger.start((await ledger.claim()).fence, 1, 3)).run_no
    assert run_no is not None
    assert await ledger.settle(run_no, COMPLETED, None, FAILED) == []
    before = await ledger.journal()

    assert await ledger.settle(run_no, COMPLETED, None, FAILED) == [
        RefusedSettlement(run_no, SettleRefusal.SETTLED)
    ]
    assert await ledger.journal() == before

    assert await ledger.settle(run_no, None, COMPLETED, None) == []
    await ledger.check_balance()


@pytest.mark.parametrize(
    ("event", "reason"),
    [(TransitionEvent.CANCELLED, SettleRefusal.CONTENDED), (COMPLETED, SettleRefusal.SETTLED)],
    ids=["asked-again", "asked-by-the-second-statement"],
)
async def test_g7_a_settlement_that_waits_for_its_own_lost_commit_is_asked_again(
    ledger: Ledger, database: str, event: TransitionEvent, reason: SettleRefusal
) -> None:
    placed = await ledger.place(State.RUNNING)
    (run,) = await run_ids(ledger.connection, [placed.run_no])
    settlement = Settlement(run, [Outcome(event)])
    lost = await connect(database, application_name="lost")
    transaction = lost.transaction()
    await transaction.start()
    await settle_runs(lost, [settlement], ledger.worker_no)

    repeat = asyncio.create_task(settle_runs(ledger.connection, [settlement], ledger.worker_no))
    watcher = await connect(database, application_name="watcher")
    while not await watcher.fetchval("select exists (select from pg_locks where not granted)"):
        pass
    await transaction.commit()

    assert await repeat == [RefusedSettlement(placed.run_no, reason)]
    assert await settle_runs(ledger.connection, [settlement], ledger.worker_no) == [
        RefusedSettlement(placed.run_no, SettleRefusal.SETTLED)
    ]
    await lost.close()
    await watcher.close()


async def test_g8_the_schema_itself_refuses_a_second_terminal_row(ledger: Ledger) -> None:
    await ledger.place(State.COMPLETED)
    with pytest.raises(asyncpg.UniqueViolationError):
        await ledger.connection.execute(
            "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
            " select effective_date, item_no, $1, attempt, actor_no, at from ledger.transition",
            TransitionEvent.CANCELLED.value,
        )


async def test_a_late_acknowledgement_keeps_the_offset_but_revives_no_claim(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.CLAIMED)
    placed_ids = await claim_ids(ledger.connection, [placed.fence])
    await release_claims(ledger.connection, placed_ids, ledger.worker_no)

    assert await mark_published(ledger.connection, placed_ids, [1_000]) == []

    offset = await ledger.connection.fetchval(
        "select base_offset from ledger.claim where fence = $1", placed.fence
    )
    assert offset == 1_000
    assert await ledger.state_of(placed.id) is State.SCHEDULED
    other = await ledger.place(State.CLAIMED)
    other_ids = await claim_ids(ledger.connection, [other.fence])
    assert await mark_published(ledger.connection, other_ids, [2_000]) == [other.fence]
    assert await mark_published(ledger.connection, other_ids, [3_000]) == []


async def test_two_allocators_never_take_the_same_item(ledger: Ledger, database: str) -> None:
    await ledger.emit(1_000)
    rivals = [
        Ledger(
            await connect(database, application_name="rival"),
            ledger.worker_no,
            ledger.other_worker_no,
            ledger.make_drafts,
            ledger.kind,
        )
        for _ in range(4)
    ]

    claims = await asyncio.gather(*(rival.claim(limit=100) for rival in rivals for _ in range(1)))

    taken = [number for claim in claims for number in claim.item_nos]
    assert len(taken) == len(set(taken)) == 400
    await ledger.check_balance()
    for rival in rivals:
        await rival.connection.close()


async def test_a_claim_that_is_rolled_back_leaves_everything_waiting(ledger: Ledger) -> None:
    await ledger.emit(5)
    transaction = ledger.connection.transaction()
    await transaction.start()
    assert len((await ledger.claim()).item_nos) == 5
    await transaction.rollback()
    assert len((await ledger.claim()).item_nos) == 5


async def test_business_time_flows_at_the_rate_that_is_set(ledger: Ledger, noon: datetime) -> None:
    await set_clock(ledger.connection, noon, 86_400)
    first = await read_now(ledger.connection)
    second = await read_now(ledger.connection)
    assert noon <= first < second
    machine = await ledger.connection.fetchval("select ledger.machine_now()")
    assert machine == await ledger.connection.fetchval("select $1::timestamptz", machine)
    assert abs((machine - noon).days) > 30


async def test_a_claim_slice_can_be_started_as_runs_of_one_that_settle_apart(
    ledger: Ledger,
) -> None:
    items = await ledger.emit(5)
    claim = await ledger.claim()
    assert await ledger.cancel(items[3]) is RequestResult.REQUESTED

    starts = await start_runs(
        ledger.connection,
        [claim.id],
        [1],
        [5],
        worker_no=ledger.worker_no,
        lease_seconds=60,
        run_items_max=[2],
    )

    assert [(start.from_position, start.to_position) for start in starts] == [
        (1, 2),
        (3, 4),
        (5, 5),
    ]
    assert sum(len(start.withdrawn) for start in starts) == 1
    for start in reversed(starts):
        assert start.run_no
        positions = range(start.from_position, start.to_position + 1)
        outcomes = [None if position in start.withdrawn else COMPLETED for position in positions]
        if any(outcomes):
            assert await ledger.settle(start.run_no, *outcomes) == []
    assert await ledger.state_of(items[3]) is State.CANCELLED
    await ledger.check_balance()


async def test_an_ending_that_no_run_can_have_is_refused_before_anything_is_written(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    with pytest.raises(ValueError, match="superseded"):
        await ledger.settle(placed.run_no, TransitionEvent.SUPERSEDED)
    (run,) = await run_ids(ledger.connection, [placed.run_no])
    twice = [Settlement(run, [Outcome(COMPLETED)])] * 2
    with pytest.raises(ValueError, match="once"):
        await settle_runs(ledger.connection, twice, ledger.worker_no)
    assert await ledger.state_of(placed.id) is State.RUNNING


async def test_g4_a_start_under_a_released_claim_is_stale_and_recorded(ledger: Ledger) -> None:
    placed = await ledger.place(State.CLAIMED)
    placed_ids = await claim_ids(ledger.connection, [placed.fence])
    await release_claims(ledger.connection, placed_ids, ledger.worker_no)

    start = await ledger.start(placed.fence)

    assert start.run_no is None
    assert start.closed
    assert await ledger.rejected() == [("start", "stale")]
    assert await ledger.state_of(placed.id) is State.SCHEDULED
