"""Circuits of flows: opened by failures, tried by one probe, closed when it completes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import reap_runs
from dueledger.ledger.store.clock import set_machine_clock
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


NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Case:
    """A circuit that changed at `since`, what was counted at `at`, and what it becomes."""

    after: str
    before: str = "closed"
    completed: int = 0
    failed: int = 0
    since: datetime | None = NOON - 3_600 * SECOND
    at: datetime = NOON - SECOND
    run_no: int = 11
    ratio: float | None = 0.5


CIRCUITS: dict[str, Case] = {
    "quiet": Case("closed"),
    "too few": Case("closed", completed=1, failed=2),
    "enough": Case("open", completed=2, failed=2),
    "seldom": Case("closed", completed=3, failed=2),
    "first": Case("open", failed=4, since=None, run_no=1),
    "in its window": Case("open", failed=4, at=NOON - 60 * SECOND + INSTANT),
    "before its window": Case("closed", failed=4, at=NOON - 60 * SECOND),
    "long before": Case("closed", failed=4, at=NOON - 60 * SECOND - INSTANT),
    "since its change": Case("open", failed=4, since=NOON - SECOND - INSTANT),
    "at its change": Case("closed", failed=4, since=NOON - SECOND),
    "of runs before": Case("closed", failed=4, run_no=10),
    "none": Case("closed", failed=4, at=NOON - 60 * SECOND - INSTANT, ratio=None),
    "taken away": Case("closed", "open", since=NOON, ratio=None),
    "rests": Case("open", "open", since=NOON - 30 * SECOND + INSTANT),
    "rests, completed": Case("open", "open", completed=1, since=NOON - 2 * SECOND),
    "rested": Case("half_open", "open", since=NOON - 30 * SECOND),
    "rested, failed": Case("half_open", "open", failed=4),
    "probes": Case("half_open", "half_open"),
    "probe failed": Case("open", "half_open", failed=1),
    "probe completed": Case("closed", "half_open", completed=1),
    "one failed": Case("open", "half_open", completed=1, failed=1),
}
SET_CIRCUIT = """
update ledger.flow set circuit_failure_ratio = $2, circuit_calls_min = 4,
  circuit_window_seconds = 60, circuit_rest_seconds = 30, circuit = $3, circuit_at = $4,
  circuit_run_no = case when $4::timestamptz is not null then 10 end
where lane = $1
returning flow_no
"""


async def _make_circuits(ledger: Ledger) -> dict[str, int]:
    """Make a flow for each circuit, with a counted outcome; return their numbers."""
    await set_machine_clock(ledger.connection, NOON, 0)
    numbers: dict[str, int] = {}
    for name, case in CIRCUITS.items():
        await ledger.emit(lane=name)
        numbers[name] = await ledger.connection.fetchval(
            SET_CIRCUIT, name, case.ratio, case.before, case.since
        )
        await ledger.connection.execute(
            "insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)"
            " values ($1, $2, $3, $4, $5)",
            *(numbers[name], case.at, case.run_no, case.completed, case.failed),
        )
    return numbers


async def test_each_circuit_is_judged_by_its_own_outcomes_within_its_window(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    numbers = await _make_circuits(ledger)
    run_no = await ledger.connection.fetchval("select nextval('ledger.run_run_no_seq')")
    changes = await update_circuits(ledger.connection)
    assert {change.flow_no: (change.before, change.after) for change in changes} == {
        numbers[name]: (case.before, case.after)
        for name, case in CIRCUITS.items()
        if case.before != case.after
    }
    rows = await ledger.connection.fetch(
        "select lane, circuit, circuit_at, circuit_run_no from ledger.flow"
    )
    assert {row["lane"]: tuple(row)[1:] for row in rows} == {
        name: (
            case.after,
            *((NOON, run_no) if case.before != case.after else (case.since, 10)),
        )
        for name, case in CIRCUITS.items()
    }
    forgotten = {*numbers.values()} - {
        row["flow_no"]
        for row in await ledger.connection.fetch("select flow_no from ledger.flow_outcome")
    }
    assert forgotten == {numbers["long before"]}  # one without a circuit is pruned elsewhere


async def test_a_circuit_that_another_has_locked_is_judged_later(
    ledger: Ledger, database: str
) -> None:
    numbers = await _make_circuits(ledger)
    await ledger.connection.execute("set lock_timeout = '1s'")
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute("select from ledger.flow where lane = 'enough' for update")
        passed = {change.flow_no for change in await update_circuits(ledger.connection)}
    await rival.close()
    assert numbers["enough"] not in passed
    assert numbers["first"] in passed
    assert [change.flow_no for change in await update_circuits(ledger.connection)] == [
        numbers["enough"]
    ]
