"""Leases that lapse: who takes what back, whom it blames, and what is parked at its cap."""

from datetime import datetime

import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import reap_claims, reap_runs
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.runs import (
    Outcome,
    RunIsolation,
    Settlement,
    extend_leases,
    report_overruns,
    settle_runs,
    start_runs,
)
from tests.claim_ids import run_ids

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED


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
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await reap_claims(ledger.connection, 100, ledger.worker_no)
        attempts = await ledger.connection.fetchval("select max(attempt) from ledger.pending")
        if sizes[-1] > 1:
            assert attempts == 0
        await ledger.connection.execute(
            "update ledger.pending set available_at = ledger.now() - interval '1 hour'"
            " where batch_max is not null"
        )
        await ledger.check_balance()
    assert sizes == [64, 8, 1, 1]


async def test_g5_batches_that_die_beside_each_other_come_back_smaller_than_each_was(
    ledger: Ledger,
) -> None:
    await ledger.emit(64)
    for limit in (64, 8):
        for _ in range(64 // limit):
            await ledger.start((await ledger.claim(limit=limit)).fence, 1, limit)
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")

    # All 64 ran at once both times: by their number alone they would be eight again, for ever.
    sizes = await ledger.connection.fetch("select distinct batch_max from ledger.pending")
    assert [row["batch_max"] for row in sizes] == [1]


async def test_g5_items_of_a_run_released_by_its_number_are_judged_with_all_that_their_worker_lost(
    ledger: Ledger,
) -> None:
    await ledger.emit(64)
    fence = (await ledger.claim()).fence
    starts = [await ledger.start(fence, *positions) for positions in ((1, 8), (9, 64))]
    few, many = (start.run_no or 0 for start in starts)
    await ledger.end_leases()
    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no, run_nos={few})

    assert reaped.run_nos == {few}
    rows = await ledger.connection.fetch("select distinct batch_max from ledger.pending")
    assert [row["batch_max"] for row in rows] == [64 // 8]  # alone they would be suspects
    assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).run_nos == {many}


async def test_g9_a_suspect_that_dies_in_its_slot_is_parked_at_its_cap_of_attempts(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    for death in range(6):
        claim = await ledger.claim()
        assert list(claim.attempts) == [max(1, death)]  # the first blames nobody
        await ledger.start(claim.fence, isolation=RunIsolation.SLOT if claim.batch_max else None)
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    assert await ledger.state_of(item) is State.MANUAL_REVIEW


async def test_g9_an_item_whose_worker_died_waits_as_long_as_one_that_failed_with_jitter(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)

    async def wait(seed: float, *, fails: bool) -> float:
        await ledger.emit(due_at=noon)
        fence = (await ledger.claim()).fence
        run_no = (await ledger.start(fence, isolation=RunIsolation.SLOT)).run_no
        await ledger.connection.execute("select setseed($1)", seed)
        if fails:
            await ledger.settle(run_no, FAILED)
        else:
            await ledger.end_leases()
            assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).retried == 1
        return await ledger.connection.fetchval(
            "select extract(epoch from available_at - ledger.now()) from ledger.pending"
            " order by item_no desc limit 1"
        )

    seeds = [0.1, 0.3, 0.5, 0.7]
    died = [await wait(seed, fails=False) for seed in seeds]
    assert died == [await wait(seed, fails=True) for seed in seeds]
    assert len(set(died)) == len(seeds)
    assert all(0 < seconds < 10 for seconds in died)


@pytest.mark.parametrize("fails", [True, False])
async def test_g9_an_item_whose_retry_would_come_after_its_total_deadline_is_parked(
    ledger: Ledger, noon: datetime, *, fails: bool
) -> None:
    await ledger.stand_at(noon)
    policy = KindPolicy("acme", ledger.kind, backoff_base_seconds=1e6, total_seconds=60.0)
    await put_kind_policy(ledger.connection, policy)
    (item,) = await ledger.emit(due_at=noon)
    fence = (await ledger.claim()).fence
    run_no = (await ledger.start(fence, isolation=RunIsolation.SLOT)).run_no
    await ledger.connection.execute("select setseed(0.5)")
    if fails:
        await ledger.settle(run_no, FAILED)
    else:
        await ledger.end_leases()
        assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).parked == 1
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


async def test_g9_what_was_never_worked_is_as_before_its_start_however_often(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    for _ in range(40):
        run_no = (await ledger.start((await ledger.claim()).fence)).run_no
        assert run_no is not None
        await ledger.settle(run_no, TransitionEvent.RELEASED, after_seconds=0)
    assert await ledger.state_of(item) is State.SCHEDULED
    waiting = await ledger.connection.fetchrow("select attempt, starts from ledger.pending")
    assert tuple(waiting or ()) == (0, 0)
    await ledger.check_balance()


async def test_g9_what_kills_its_workers_meets_the_cap_though_it_is_given_back_in_between(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    deaths = 0
    while await ledger.state_of(item) is not State.MANUAL_REVIEW:
        assert (deaths := deaths + 1) <= 30
        run_no = (await ledger.start((await ledger.claim()).fence)).run_no
        assert run_no is not None
        await ledger.settle(run_no, TransitionEvent.RELEASED, after_seconds=0)
        claim = await ledger.claim()
        assert list(claim.starts) == [deaths]
        assert claim.batch_max == (None if deaths == 1 else 1)
        await ledger.start(claim.fence)
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")


async def test_a_lease_is_extended_only_for_its_own_worker_while_the_run_is_open(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    runs = await run_ids(ledger.connection, [placed.run_no])
    held = await extend_leases(ledger.connection, runs, ledger.worker_no, 3_600 * 2)
    assert held == {placed.run_no: pytest.approx(7_200)}
    assert not await extend_leases(ledger.connection, runs, ledger.other_worker_no, 60)
    await ledger.end_leases()
    assert (await reap_runs(ledger.connection, 100, ledger.worker_no)).runs == 0
    await ledger.settle(placed.run_no, COMPLETED)
    assert not await extend_leases(ledger.connection, runs, ledger.worker_no, 60)


@pytest.mark.parametrize(
    ("isolation", "attempt"), [(RunIsolation.PROCESS, 0), (RunIsolation.SLOT, 1)]
)
async def test_g5_of_suspects_only_the_one_in_the_slot_is_blamed_for_the_end_of_its_worker(
    ledger: Ledger, isolation: RunIsolation, attempt: int
) -> None:
    await ledger.emit(1)
    await ledger.start((await ledger.claim()).fence, isolation=isolation)
    if isolation is RunIsolation.SLOT:
        await ledger.emit(3)
        await ledger.start((await ledger.claim()).fence, 1, 3)
    await ledger.end_leases()
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    rows = await ledger.connection.fetch(
        "select attempt, starts from ledger.pending order by item_no"
    )
    assert [row["attempt"] for row in rows] == [attempt, 0, 0, 0][: len(rows)]
    assert {row["starts"] for row in rows} == {1}


async def test_g9_a_suspect_that_never_ends_in_its_process_meets_the_cap_of_starts(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit()
    starts = 0
    while await ledger.state_of(item) is not State.MANUAL_REVIEW:
        assert (starts := starts + 1) <= 30
        await ledger.start((await ledger.claim()).fence, isolation=RunIsolation.PROCESS)
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    assert starts == 30
    reason = await ledger.connection.fetchval("select reason from ledger.review")
    assert reason == "its worker died or lost its lease each time it ran"


async def test_a_suspect_that_failed_is_claimed_by_itself_and_others_are_no_suspects(
    ledger: Ledger,
) -> None:
    await ledger.emit(2)
    await ledger.connection.execute(
        "update ledger.pending set batch_max = 8"
        " where item_no = (select min(item_no) from ledger.pending)"
    )
    for limit in (8, None):
        claim = await ledger.claim(limit=1)
        assert claim.batch_max == limit
        await ledger.settle((await ledger.start(claim.fence)).run_no, FAILED)
    rows = await ledger.connection.fetch("select batch_max from ledger.pending order by item_no")
    assert [row["batch_max"] for row in rows] == [1, None]


async def test_g5_the_end_of_its_worker_blames_no_item_though_it_ran_alone(ledger: Ledger) -> None:
    await ledger.emit()
    await ledger.start((await ledger.claim()).fence)
    await ledger.end_leases()
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    row = await ledger.connection.fetchrow("select attempt, starts, batch_max from ledger.pending")
    assert tuple(row or ()) == (0, 1, 1)


@pytest.mark.parametrize("run_late", ["retry", "park"])
@pytest.mark.parametrize("is_reported", [True, False])
async def test_g9_a_hard_end_blames_the_items_that_their_handlers_had_and_no_others(
    ledger: Ledger, run_late: str, *, is_reported: bool
) -> None:
    policy = KindPolicy("acme", ledger.kind, run_seconds=30.0, run_late=run_late)
    await put_kind_policy(ledger.connection, policy)
    items = await ledger.emit(17)
    fence = (await ledger.claim()).fence
    await ledger.connection.execute("update ledger.claim set run_seconds = 30")
    run = (await ledger.start(fence, 1, 17)).run
    assert run is not None
    if is_reported:
        in_call = [index == 1 for index in range(17)]
        await report_overruns(ledger.connection, {run: in_call}, ledger.worker_no)
    await ledger.pass_machine_seconds(31)
    await reap_runs(ledger.connection, 100, ledger.worker_no)
    pending = await ledger.connection.fetch(
        "select attempt, batch_max from ledger.pending order by item_no"
    )
    parks = run_late == "park" and is_reported
    of_second = [] if parks else [(1, 1)] if is_reported else [(0, 2)]
    assert [tuple(row) for row in pending] == [(0, 2), *of_second, *[(0, 2)] * 15]
    reviews = await ledger.connection.fetch("select reason from ledger.review")
    assert [row["reason"] for row in reviews] == ["it ran longer than its kind may"] * parks
    assert [await ledger.state_of(item) for item in items].count(State.MANUAL_REVIEW) == parks
    reasons = await ledger.connection.fetch(
        "select detail ->> 'reason' as reason from ledger.transition order by item_no"
    )
    overrun = "overran" if is_reported else "lease lapsed"
    assert [row["reason"] for row in reasons] == ["lease lapsed", overrun, *["lease lapsed"] * 15]
    await ledger.check_balance()


async def test_an_item_is_not_blamed_while_its_worker_ran_others_in_runs_of_their_own(
    ledger: Ledger,
) -> None:
    await ledger.emit(8)
    claim = await ledger.claim()
    await start_runs(
        ledger.connection,
        [claim.id],
        [1],
        [8],
        worker_no=ledger.worker_no,
        lease_seconds=60,
        run_items_max=[1],
    )
    await ledger.end_leases()
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


async def test_g9_a_hard_end_is_kept_while_the_same_worker_starts_and_renews_others(
    ledger: Ledger,
) -> None:
    await ledger.emit(4)
    fence = (await ledger.claim()).fence
    await ledger.connection.execute("update ledger.claim set run_seconds = 300")
    await ledger.start(fence, 1, 1, lease_seconds=3600)
    await ledger.pass_machine_seconds(200)
    await ledger.start(fence, 2, 2, lease_seconds=3600)
    await ledger.connection.execute("update ledger.claim set run_seconds = null")
    await ledger.start(fence, 3, 3, lease_seconds=120)
    await ledger.start(fence, 4, 4, lease_seconds=160)
    await ledger.pass_machine_seconds(150)

    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no)

    assert (reaped.runs, reaped.retried) == (1, 1)
    # The third: its lease ended, but another's of its worker ends soon; they are judged together.
    open_runs = "select array_agg(position order by position) from ledger.open_item"
    assert await ledger.connection.fetchval(open_runs) == [2, 3, 4]


async def test_a_settlement_being_committed_does_not_keep_other_leases_from_extension(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit(2)
    fence = (await ledger.claim()).fence
    busy = (await ledger.start(fence, 1, 1)).run
    free = (await ledger.start(fence, 2, 2)).run
    assert busy
    assert free
    committing = await connect(database, application_name="committing")
    transaction = committing.transaction()
    await transaction.start()
    await settle_runs(committing, [Settlement(busy, [Outcome(COMPLETED)])], ledger.worker_no)

    held = await extend_leases(ledger.connection, [busy, free], ledger.worker_no, 60)

    assert held == {busy.run_no: None, free.run_no: pytest.approx(60)}
    await transaction.rollback()
    await committing.close()
