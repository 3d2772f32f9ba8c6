"""One authority an item: fences grow, and a write under an old one changes nothing."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from ledger.states import State, TransitionEvent
from ledger.store import connect
from ledger.store.claims import (
    apply_withdrawals,
    mark_published,
    reap_claims,
    reap_runs,
    release_claims,
)
from ledger.store.clock import read_now, set_clock
from ledger.store.items import Answer, withdraw_items
from ledger.store.runs import (
    Outcome,
    Refusal,
    Refused,
    Settlement,
    extend_leases,
    settle_runs,
    start_runs,
)

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


async def test_g4_a_zombies_write_is_answered_stale_recorded_and_changes_nothing(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    await ledger.let_leases_lapse()
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    again = await ledger.claim()
    assert again.fence > placed.fence
    second = await ledger.start(again.fence)
    assert second.run_no is not None
    assert await ledger.settle(second.run_no, COMPLETED) == []
    before = await ledger.journal()

    refused = await ledger.settle(placed.run_no, FAILED)

    assert refused == [Refused(placed.run_no, Refusal.STALE)]
    assert await ledger.journal() == before
    assert await ledger.state_of(placed.id) is State.COMPLETED
    assert await ledger.rejected() == [("settle", "stale")]


async def test_g4_another_worker_cannot_settle_what_it_was_not_given(ledger: Ledger) -> None:
    placed = await ledger.place(State.RUNNING)

    refused = await ledger.settle(placed.run_no, COMPLETED, worker_no=ledger.other_worker_no)

    assert refused == [Refused(placed.run_no, Refusal.STALE)]
    assert await ledger.state_of(placed.id) is State.RUNNING
    assert await ledger.rejected() == [("settle", "stale")]


async def test_g4_a_start_under_a_released_claim_is_stale_and_recorded(ledger: Ledger) -> None:
    placed = await ledger.place(State.CLAIMED)
    await release_claims(ledger.connection, [placed.fence], ledger.worker_no)

    start = await ledger.start(placed.fence)

    assert start.run_no is None
    assert start.closed
    assert await ledger.rejected() == [("start", "stale")]
    assert await ledger.state_of(placed.id) is State.SCHEDULED


async def test_g4_a_start_under_a_fence_that_never_was_is_unknown_and_recorded(
    ledger: Ledger,
) -> None:
    start = await ledger.start(4_711)
    assert (start.run_no, start.closed, start.started_to) == (None, True, 0)
    assert await ledger.rejected() == [("start", "unknown")]


async def test_g4_a_stretch_is_started_once_and_in_order(ledger: Ledger) -> None:
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


async def test_g4_only_one_of_many_workers_starts_a_stretch(ledger: Ledger, database: str) -> None:
    await ledger.emit(50)
    fence = (await ledger.claim()).fence
    rivals = [await connect(database, application_name="rival") for _ in range(8)]

    starts = await asyncio.gather(
        *(
            start_runs(rival, [fence], [1], [50], worker_no=ledger.worker_no, lease_seconds=60)
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
        Refused(run_no, Refusal.SETTLED)
    ]
    assert await ledger.journal() == before

    assert await ledger.settle(run_no, None, COMPLETED, None) == []
    await ledger.check_balance()


async def test_g7_a_settlement_that_waits_for_its_own_lost_commit_is_asked_again(
    ledger: Ledger, database: str
) -> None:
    placed = await ledger.place(State.RUNNING)
    settlement = Settlement(placed.run_no, [Outcome(COMPLETED)])
    lost = await connect(database, application_name="lost")
    transaction = lost.transaction()
    await transaction.start()
    await settle_runs(lost, [settlement], ledger.worker_no)

    repeat = asyncio.create_task(settle_runs(ledger.connection, [settlement], ledger.worker_no))
    watcher = await connect(database, application_name="watcher")
    while not await watcher.fetchval("select exists (select from pg_locks where not granted)"):
        pass
    await transaction.commit()

    assert await repeat == [Refused(placed.run_no, Refusal.CONTENDED)]
    assert await settle_runs(ledger.connection, [settlement], ledger.worker_no) == [
        Refused(placed.run_no, Refusal.SETTLED)
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


async def test_g5_a_crowd_that_dies_together_comes_back_in_smaller_batches_unblamed(
    ledger: Ledger,
) -> None:
    await ledger.emit(64)
    sizes: list[int] = []
    for _ in range(4):
        claim = await ledger.claim(limit=64)
        crowd = len(claim.item_nos)
        sizes.append(claim.batch_max or crowd)
        await ledger.start(claim.fence, 1, min(crowd, claim.batch_max or crowd))
        await ledger.let_leases_lapse()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await reap_claims(ledger.connection, 100)
        attempts = await ledger.connection.fetchval("select max(attempt) from ledger.pending")
        if sizes[-1] > 1:
            assert attempts == 0
        await ledger.connection.execute(
            "update ledger.pending set available_at = ledger.now() - interval '1 hour'"
            " where batch_max is not null"
        )
        await ledger.check_balance()
    assert sizes == [64, 8, 1, 1]


async def test_g9_an_item_that_dies_alone_is_parked_at_its_cap_of_attempts(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    for _ in range(5):
        claim = await ledger.claim()
        await ledger.start(claim.fence)
        await ledger.let_leases_lapse()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    assert await ledger.state_of(item) is State.MANUAL_REVIEW


async def test_g9_a_failure_at_the_cap_of_attempts_is_parked_in_the_same_statement(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    for attempt in range(1, 6):
        claim = await ledger.claim()
        assert list(claim.attempts) == [attempt]
        run_no = (await ledger.start(claim.fence)).run_no
        assert run_no is not None
        await ledger.settle(run_no, FAILED, after_seconds=0)
    assert await ledger.state_of(item) is State.MANUAL_REVIEW


async def test_g9_an_endless_snooze_meets_the_cap_of_starts(ledger: Ledger) -> None:
    (item,) = await ledger.emit()
    starts = 0
    while await ledger.state_of(item) is State.SCHEDULED:
        run_no = (await ledger.start((await ledger.claim()).fence)).run_no
        assert run_no is not None
        await ledger.settle(run_no, TransitionEvent.SNOOZED, after_seconds=0)
        starts += 1
    assert starts == 30
    assert await ledger.state_of(item) is State.MANUAL_REVIEW


async def test_a_lease_is_extended_only_for_its_own_worker_while_the_run_is_open(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    assert await extend_leases(ledger.connection, [placed.run_no], ledger.worker_no, 3_600 * 2) == {
        placed.run_no: True
    }
    assert not await extend_leases(ledger.connection, [placed.run_no], ledger.other_worker_no, 60)
    await ledger.let_leases_lapse()
    assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).runs == 0
    await ledger.settle(placed.run_no, COMPLETED)
    assert not await extend_leases(ledger.connection, [placed.run_no], ledger.worker_no, 60)


async def test_a_late_acknowledgement_keeps_the_offset_but_revives_no_claim(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.CLAIMED)
    await release_claims(ledger.connection, [placed.fence], ledger.worker_no)

    assert await mark_published(ledger.connection, [placed.fence], [1_000]) == []

    offset = await ledger.connection.fetchval(
        "select base_offset from ledger.claim where fence = $1", placed.fence
    )
    assert offset == 1_000
    assert await ledger.state_of(placed.id) is State.SCHEDULED
    other = await ledger.place(State.CLAIMED)
    assert await mark_published(ledger.connection, [other.fence], [2_000]) == [other.fence]
    assert await mark_published(ledger.connection, [other.fence], [3_000]) == []


async def _cancel(ledger: Ledger, item: UUID) -> Answer:
    (answered,) = await withdraw_items(
        ledger.connection,
        [item],
        event=TransitionEvent.CANCELLED,
        reason="policy ended",
        actor_no=ledger.worker_no,
    )
    return answered.answer


async def test_a_cancellation_in_flight_is_honoured_at_start_and_the_others_run(
    ledger: Ledger,
) -> None:
    items = await ledger.emit(3)
    claim = await ledger.claim()
    assert await _cancel(ledger, items[1]) is Answer.REQUESTED
    assert await ledger.state_of(items[1]) is State.CLAIMED

    start = await ledger.start(claim.fence, 1, 3)

    cancelled = [item for item in items if await ledger.state_of(item) is State.CANCELLED]
    assert cancelled == [items[1]]
    assert len(start.withdrawn) == 1
    assert start.run_no is not None
    outcomes: list[TransitionEvent | None] = [COMPLETED] * 3
    outcomes[start.withdrawn[0] - 1] = None
    assert await ledger.settle(start.run_no, *outcomes) == []
    assert await ledger.state_of(items[0]) is State.COMPLETED
    assert await ledger.connection.fetchval("select count(*) from ledger.withdrawal") == 0
    await ledger.check_balance()


async def test_a_run_whose_every_item_was_withdrawn_is_closed_at_once(ledger: Ledger) -> None:
    items = await ledger.emit(2)
    claim = await ledger.claim()
    for item in items:
        await _cancel(ledger, item)

    start = await ledger.start(claim.fence, 1, 2)

    assert start.withdrawn == (1, 2)
    still_open = "select count(*) from ledger.run where closed_at is null"
    assert await ledger.connection.fetchval(still_open) == 0
    await ledger.check_balance()


async def test_a_cancellation_that_comes_too_late_is_recorded_and_the_completion_stands(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    assert await _cancel(ledger, placed.id) is Answer.REQUESTED
    await ledger.settle(placed.run_no, COMPLETED)

    swept = await apply_withdrawals(ledger.connection, 100)

    assert (swept.applied, swept.too_late) == (0, 1)
    assert await ledger.state_of(placed.id) is State.COMPLETED
    assert await ledger.rejected() == [("withdraw", "finished")]
    assert await _cancel(ledger, placed.id) is Answer.FINISHED


async def test_withdrawing_what_does_not_exist_is_answered_unknown(ledger: Ledger) -> None:
    assert await _cancel(ledger, UUID(int=0)) is Answer.UNKNOWN


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


async def test_a_stretch_can_be_started_as_runs_of_one_that_settle_apart(ledger: Ledger) -> None:
    items = await ledger.emit(5)
    claim = await ledger.claim()
    assert await _cancel(ledger, items[3]) is Answer.REQUESTED

    starts = await start_runs(
        ledger.connection,
        [claim.fence],
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


async def test_an_item_is_not_blamed_while_its_worker_ran_others_in_runs_of_their_own(
    ledger: Ledger,
) -> None:
    await ledger.emit(8)
    claim = await ledger.claim()
    await start_runs(
        ledger.connection,
        [claim.fence],
        [1],
        [8],
        worker_no=ledger.worker_no,
        lease_seconds=60,
        run_items_max=[1],
    )
    await ledger.let_leases_lapse()
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    assert await ledger.connection.fetchval("select max(attempt) from ledger.pending") == 0


async def test_runs_of_one_dead_worker_are_judged_together_though_their_leases_end_apart(
    ledger: Ledger,
) -> None:
    await ledger.emit(4)
    fence = (await ledger.claim()).fence
    for position in range(1, 5):
        await ledger.start(fence, position, position, lease_seconds=60 + position)

    await ledger.pass_machine_seconds(62.5)
    assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).runs == 0
    await ledger.pass_machine_seconds(2)
    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no)

    assert (reaped.runs, reaped.retried, reaped.parked) == (4, 4, 0)
    assert await ledger.connection.fetchval("select max(attempt) from ledger.pending") == 0


async def test_a_settlement_being_committed_does_not_keep_other_leases_from_extension(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit(2)
    fence = (await ledger.claim()).fence
    busy = (await ledger.start(fence, 1, 1)).run_no
    free = (await ledger.start(fence, 2, 2)).run_no
    assert busy
    assert free
    committing = await connect(database, application_name="committing")
    transaction = committing.transaction()
    await transaction.start()
    await settle_runs(committing, [Settlement(busy, [Outcome(COMPLETED)])], ledger.worker_no)

    held = await extend_leases(ledger.connection, [busy, free], ledger.worker_no, 60)

    assert held == {busy: False, free: True}
    await transaction.rollback()
    await committing.close()


async def test_a_request_for_what_is_in_flight_does_not_keep_others_from_being_honoured(
    ledger: Ledger,
) -> None:
    running = await ledger.place(State.RUNNING)
    other = await ledger.place(State.RUNNING)
    assert await _cancel(ledger, running.id) is Answer.REQUESTED
    assert await _cancel(ledger, other.id) is Answer.REQUESTED
    await ledger.settle(other.run_no, TransitionEvent.PARKED)

    swept = await apply_withdrawals(ledger.connection, 1)

    assert (swept.applied, swept.too_late) == (1, 0)
    assert await ledger.state_of(other.id) is State.CANCELLED


async def test_an_ending_that_no_run_can_have_is_refused_before_anything_is_written(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    with pytest.raises(ValueError, match="superseded"):
        await ledger.settle(placed.run_no, TransitionEvent.SUPERSEDED)
    twice = [Settlement(placed.run_no, [Outcome(COMPLETED)])] * 2
    with pytest.raises(ValueError, match="once"):
        await settle_runs(ledger.connection, twice, ledger.worker_no)
    assert await ledger.state_of(placed.id) is State.RUNNING
