"""Circuits of flows: opened by failures, tried by one probe, closed when it completes."""

from datetime import UTC, datetime

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.claims import reap_runs
from dueledger.ledger.store.flow_limits import prune_outcomes, update_circuits
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.runs import RunIsolation

from .conftest import Ledger, allowance, limit

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
LONG_HENCE = datetime(2199, 1, 1, tzinfo=UTC)


async def test_a_circuit_opens_lets_one_probe_through_and_closes_when_it_completes(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=4, circuit_rest_seconds=60.0)

    async def run(*events: TransitionEvent) -> None:
        claim = await ledger.claim(limit=len(events), limited=True)
        start = await ledger.start(claim.fence, 1, len(events))
        await ledger.settle(start.run_no, *events, after_seconds=3600)

    async def judge() -> list[tuple[str, str]]:
        return [(each.before, each.after) for each in await update_circuits(ledger.connection)]

    await run(COMPLETED, FAILED, FAILED)
    assert await judge() == []  # too few to judge
    await run(COMPLETED)
    assert await judge() == [("closed", "open")]
    assert await allowance(ledger) == 0
    assert await judge() == []
    await ledger.end_leases()
    assert await judge() == [("open", "half_open")]
    assert await allowance(ledger) == 1
    probe = await ledger.claim(limit=1, limited=True)
    assert await allowance(ledger) == 0
    start = await ledger.start(probe.fence)
    await ledger.settle(start.run_no, COMPLETED)
    assert await judge() == [("half_open", "closed")]
    assert await allowance(ledger) > 1


async def test_a_probe_that_fails_or_dies_opens_the_circuit_again(ledger: Ledger) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=1, circuit_rest_seconds=60.0)
    await ledger.connection.execute(
        "update ledger.flow set circuit = 'half_open', circuit_at = ledger.machine_now()"
    )
    probe = await ledger.claim(limit=1, limited=True)
    await ledger.start(probe.fence, isolation=RunIsolation.SLOT)
    await ledger.end_leases()
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).runs == 1
    (change,) = await update_circuits(ledger.connection)
    assert (change.before, change.after, change.failed) == ("half_open", "open", 1)


async def _half_open(ledger: Ledger) -> None:
    """Let three calls fail, the circuit open over them, and its rest pass."""
    claim = await ledger.claim(limit=3, limited=True)
    start = await ledger.start(claim.fence, 1, 3)
    await ledger.settle(start.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    (opened,) = await update_circuits(ledger.connection)
    await ledger.pass_machine_seconds(31)
    (half,) = await update_circuits(ledger.connection)
    assert (opened.after, half.after) == ("open", "half_open")


@pytest.mark.parametrize("event", [COMPLETED, FAILED])
async def test_a_half_open_circuit_is_not_judged_by_a_call_that_began_before_it_opened(
    ledger: Ledger, event: TransitionEvent
) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    long = await ledger.start((await ledger.claim(limit=1, limited=True)).fence, lease_seconds=600)
    await _half_open(ledger)

    await ledger.settle(long.run_no, event, after_seconds=3600)

    assert await update_circuits(ledger.connection) == []
    assert await allowance(ledger) == 1  # and the probe is still to come
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, COMPLETED)
    (change,) = await update_circuits(ledger.connection)
    assert (change.after, change.completed, change.failed) == ("closed", 1, 0)


async def test_a_circuit_that_closed_is_not_opened_by_calls_from_before(ledger: Ledger) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    old = await ledger.claim(limit=3, limited=True)
    long = await ledger.start(old.fence, 1, 3, lease_seconds=600)
    await _half_open(ledger)
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, COMPLETED)
    (change,) = await update_circuits(ledger.connection)
    assert change.after == "closed"

    await ledger.settle(long.run_no, FAILED, FAILED, FAILED, after_seconds=3600)

    assert await update_circuits(ledger.connection) == []


async def test_a_probe_that_says_nothing_of_its_target_is_followed_by_another(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    await _half_open(ledger)
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, TransitionEvent.SNOOZED, after_seconds=3600)
    assert await update_circuits(ledger.connection) == []
    assert await allowance(ledger) == 1


async def test_what_is_lost_beside_others_with_its_worker_says_nothing_of_its_flow(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=1)
    claim = await ledger.claim(limit=4, limited=True)
    await ledger.start(claim.fence, 1, 4)
    await ledger.end_leases()
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).retried == 4
    assert await update_circuits(ledger.connection) == []
    assert await ledger.connection.fetchval("select count(*) from ledger.flow_outcome") == 0


async def test_a_circuit_judges_by_nothing_that_began_before_it_was_set(ledger: Ledger) -> None:
    await ledger.emit(20)
    circuit = {"circuit_failure_ratio": 0.5, "circuit_calls_min": 3}
    await limit(ledger, **circuit)
    claim = await ledger.claim(limit=6, limited=True)
    before, across = [await ledger.start(claim.fence, first, first + 2) for first in (1, 4)]
    await ledger.settle(before.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    await limit(ledger, cleared=["circuit_failure_ratio"])

    await limit(ledger, **circuit)
    await ledger.settle(across.run_no, FAILED, FAILED, FAILED, after_seconds=3600)

    assert await update_circuits(ledger.connection) == []
    again = await ledger.start((await ledger.claim(limit=3, limited=True)).fence, 1, 3)
    await ledger.settle(again.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    (change,) = await update_circuits(ledger.connection)
    assert (change.after, change.failed) == ("open", 3)


async def test_what_a_circuit_counted_is_forgotten_once_it_is_taken_away(ledger: Ledger) -> None:
    await ledger.emit(2)
    await ledger.emit(2, lane="kept")
    await limit(ledger, circuit_failure_ratio=0.5)
    kept = await ledger.connection.fetchval("select max(flow_no) from ledger.flow")
    await ledger.connection.execute(
        "insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)"
        " select flow_no, ledger.machine_now(), 1, 0, 1 from ledger.flow"
    )
    await set_flow_limits(
        ledger.connection,
        FlowScope("acme", ledger.kind, ""),
        FlowLimits(cleared=["circuit_failure_ratio"]),
        actor_no=ledger.worker_no,
    )
    await prune_outcomes(ledger.connection)
    rows = await ledger.connection.fetch("select flow_no from ledger.flow_outcome")
    assert [row["flow_no"] for row in rows] == [kept]
