"""Runs of several claims are started, settled and reaped in one call, each for itself."""

from uuid import UUID

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.claims import Claim, reap_runs
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.runs import (
    Outcome,
    Settlement,
    SettleRefusal,
    StartResult,
    settle_runs,
    start_runs,
)
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger

COMPLETED = Outcome(TransitionEvent.COMPLETED)
FAILED = Outcome(TransitionEvent.FAILED, '{"reason":"test"}')
SIZE = 4
OUTCOMES = (
    TransitionEvent.COMPLETED,
    TransitionEvent.COMPLETED,
    TransitionEvent.FAILED,
    TransitionEvent.SNOOZED,
    TransitionEvent.RELEASED,
    TransitionEvent.PARKED,
    TransitionEvent.CANCELLED,
)
"""Each event that a settlement may have."""


async def _claims(ledger: Ledger, count: int) -> list[Claim]:
    claims: list[Claim] = []
    for _ in range(count):
        await ledger.emit(SIZE)
        claims.append(await ledger.claim())
    return claims


async def _start(ledger: Ledger, claims: list[Claim]) -> list[StartResult]:
    """Start all of these claims, in runs of two items."""
    return await start_runs(
        ledger.connection,
        await claim_ids(ledger.connection, [claim.fence for claim in claims]),
        [1] * len(claims),
        [SIZE] * len(claims),
        worker_no=ledger.worker_no,
        lease_seconds=60,
        run_items_max=[2] * len(claims),
    )


async def _id(ledger: Ledger, claim: Claim, position: int) -> UUID:
    return await ledger.connection.fetchval(
        "select id from ledger.due_item where item_no = $1", claim.item_nos[position - 1]
    )


async def test_withdrawals_end_in_their_own_runs_and_others_stay_requested(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    first, second, other = claims = await _claims(ledger, 3)
    withdrawn = [(first, 2), (second, 1), (second, 4), (other, 1)]
    for claim, position in withdrawn:
        await ledger.cancel(await _id(ledger, claim, position))

    results = await _start(ledger, claims[:2])

    assert [(result.from_position, result.withdrawn) for result in results] == [
        (1, (2,)),
        (3, ()),
        (1, (1,)),
        (3, (4,)),
    ]
    runs = [result.run_no for result in results]
    ended = await ledger.connection.fetch("select run_no, ended from ledger.run order by run_no")
    bits = [row["ended"].as_string().replace(" ", "") for row in ended]
    assert bits == ["01", "00", "10", "01"]
    rows = await ledger.connection.fetch(
        "select run_no, item_no from ledger.transition order by run_no, item_no"
    )
    assert [tuple(row) for row in rows] == [
        (runs[0], first.item_nos[1]),
        (runs[2], second.item_nos[0]),
        (runs[3], second.item_nos[3]),
    ]
    left = await ledger.connection.fetch("select item_no from ledger.withdrawal")
    assert [row["item_no"] for row in left] == [other.item_nos[0]]


async def test_a_run_whose_items_were_all_withdrawn_is_closed_as_it_starts(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    [claim] = await _claims(ledger, 1)
    for position in (2, 3, 4):
        await ledger.cancel(await _id(ledger, claim, position))
    await _start(ledger, [claim])
    closed = await ledger.connection.fetch(
        "select from_position, closed_at is not null as is_closed from ledger.run order by 1"
    )
    assert [tuple(row) for row in closed] == [(1, False), (3, True)]


async def test_outcomes_of_several_runs_are_recorded_for_the_items_of_each(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    first, second = claims = await _claims(ledger, 2)
    results = await _start(ledger, claims)
    outcomes = [[COMPLETED, FAILED], [FAILED, COMPLETED], [COMPLETED, COMPLETED], [None, FAILED]]
    runs = await run_ids(ledger.connection, [result.run_no or 0 for result in results])
    settlements = [Settlement(run, some) for run, some in zip(runs, outcomes, strict=True)]

    assert await settle_runs(ledger.connection, settlements, ledger.worker_no) == []

    rows = await ledger.connection.fetch(
        "select run_no, item_no, event from ledger.transition order by 1, 2"
    )
    items = [*first.item_nos, *second.item_nos]
    every = [outcome for some in outcomes for outcome in some]
    assert [tuple(row) for row in rows] == [
        (results[place // 2].run_no, item_no, outcome.event)
        for place, (item_no, outcome) in enumerate(zip(items, every, strict=True))
        if outcome is not None
    ]
    open_runs = await ledger.connection.fetch(
        "select run_no from ledger.run where closed_at is null"
    )
    assert [row["run_no"] for row in open_runs] == [results[3].run_no]


async def test_each_outcome_is_recorded_once_and_counts_for_the_circuit_of_its_flow_alone(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    runs: list[int | None] = []
    for lane, ratio in {"": 0.5, "idle": 0.5, "limited": None}.items():
        await ledger.emit(len(OUTCOMES), lane=lane)
        limits = FlowLimits(concurrency_max=1_000, circuit_failure_ratio=ratio)
        scope = FlowScope("acme", ledger.kind, lane)
        await set_flow_limits(ledger.connection, scope, limits, actor_no=ledger.worker_no)
        claim = await ledger.claim(limited=True)
        runs.append((await ledger.start(claim.fence, 1, len(OUTCOMES))).run_no)

    for run_no in (runs[0], runs[2]):
        assert await ledger.settle(run_no, *OUTCOMES) == []

    rows = await ledger.connection.fetch(
        "select run_no, event from ledger.transition order by 1, item_no"
    )
    assert [tuple(row) for row in rows] == [
        (run_no, event) for run_no in (runs[0], runs[2]) for event in OUTCOMES
    ]
    counted = await ledger.connection.fetch(
        "select f.lane, o.run_no, o.completed, o.failed"
        " from ledger.flow_outcome o join ledger.flow f using (flow_no)"
    )
    assert [tuple(row) for row in counted] == [("", runs[0], 2, 1)]


async def test_g4_only_the_refused_settlements_of_a_call_are_returned_and_only_stale_recorded(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    starts = await _start(ledger, await _claims(ledger, 2))
    settled, lapsed, *fresh = await run_ids(
        ledger.connection, [start.run_no or 0 for start in starts]
    )
    await settle_runs(
        ledger.connection, [Settlement(settled, [COMPLETED, FAILED])], ledger.worker_no
    )
    await ledger.connection.execute(
        "update ledger.run set closed_at = ledger.now() where run_no = $1", lapsed.run_no
    )

    refused = await settle_runs(
        ledger.connection,
        [Settlement(run, [COMPLETED, FAILED]) for run in (settled, lapsed, *fresh)],
        ledger.worker_no,
    )

    assert sorted((each.run_no, each.reason) for each in refused) == [
        (settled.run_no, SettleRefusal.SETTLED),
        (lapsed.run_no, SettleRefusal.STALE),
    ]
    rows = await ledger.connection.fetch("select verb, reason, run_no from ledger.rejected_write")
    assert [tuple(row) for row in rows] == [("settle", "stale", lapsed.run_no)]


async def test_items_of_lapsed_runs_are_pending_again_once_each_without_those_that_ended(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    first, second = claims = await _claims(ledger, 2)
    results = await _start(ledger, claims)
    (run,) = await run_ids(ledger.connection, [results[0].run_no or 0])
    await settle_runs(ledger.connection, [Settlement(run, [COMPLETED, None])], ledger.worker_no)
    await ledger.end_leases()
    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no)
    assert (reaped.runs, reaped.retried) == (4, 7)
    pending = await ledger.connection.fetch("select item_no from ledger.pending order by item_no")
    left = sorted([*first.item_nos[1:], *second.item_nos])
    assert [row["item_no"] for row in pending] == left
