"""What an operator may do about flows, and what limits them: measured, not remembered."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.errors import InvalidItem
from ledger.states import State, TransitionEvent
from ledger.store import connect
from ledger.store.claims import claim_items, claim_serial_items, list_due_flows, reap_runs
from ledger.store.definitions import KindPolicy, put_kind_policy
from ledger.store.flows import (
    FlowLimits,
    Scope,
    expedite_items,
    heal_pauses,
    list_flows,
    list_pauses,
    pause_flows,
    resume_flows,
    set_flow_limits,
)
from ledger.store.items import Answer, emit_items, item_timeline
from ledger.store.limits import (
    flag_streaks,
    judge_circuits,
    list_streaks,
    lock_limited_flows,
    measure_allowances,
    prune_outcomes,
    spend_tokens,
)

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
LONG_HENCE = datetime(2199, 1, 1, tzinfo=UTC)


async def _limit(ledger: Ledger, **limits: Any) -> None:  # noqa: ANN401 - as FlowLimits takes them
    await set_flow_limits(
        ledger.connection,
        Scope("acme", ledger.kind),
        FlowLimits(**limits),
        actor_no=ledger.worker_no,
    )


async def _allowance(ledger: Ledger) -> int:
    flows = [flow.flow_no for flow in await list_due_flows(ledger.connection, 10) if flow.limited]
    async with ledger.connection.transaction():
        assert list(await lock_limited_flows(ledger.connection, flows)) == flows
        allowances = await measure_allowances(ledger.connection, flows, 1000)
    return allowances[flows[0]]


async def test_a_pause_covers_what_is_there_and_what_comes(ledger: Ledger) -> None:
    await ledger.emit()
    scope = Scope("acme", ledger.kind)
    paused = await pause_flows(
        ledger.connection, scope, reason="month end", actor_no=ledger.worker_no
    )
    assert [flow["lane"] for flow in paused.flows] == [""]
    await ledger.emit(lane="eu")
    assert await list_due_flows(ledger.connection, 10) == []
    assert {flow["pause_reason"] for flow in await list_flows(ledger.connection)} == {"month end"}
    assert len(await list_pauses(ledger.connection)) == 1
    again = await pause_flows(ledger.connection, scope, reason="again", actor_no=ledger.worker_no)
    assert (again.flows, again.pauses) == ([], [])

    resumed = await resume_flows(ledger.connection, scope, actor_no=ledger.worker_no)

    assert [(flow.lane, flow.still_paused) for flow in resumed.flows] == [
        ("", False),
        ("eu", False),
    ]
    assert len(await list_due_flows(ledger.connection, 10)) == 2
    assert await list_pauses(ledger.connection) == []


async def test_a_wider_pause_outlasts_the_end_of_a_narrower_one(ledger: Ledger) -> None:
    await ledger.emit()
    await ledger.emit(lane="eu")
    tenant, lane = Scope("acme"), Scope("acme", ledger.kind, "eu")
    for scope, reason in ((tenant, "audit"), (lane, "eu is down")):
        await pause_flows(ledger.connection, scope, reason=reason, actor_no=ledger.worker_no)
    (resumed,) = (await resume_flows(ledger.connection, lane, actor_no=ledger.worker_no)).flows
    assert (resumed.still_paused, resumed.pause_reason) == (True, "audit")
    await pause_flows(ledger.connection, lane, reason="eu is down", actor_no=ledger.worker_no)
    ended = await resume_flows(ledger.connection, tenant, actor_no=ledger.worker_no)
    assert [flow.still_paused for flow in ended.flows] == [False, False]
    assert [pause["reason"] for pause in ended.pauses] == ["audit", "eu is down"]
    assert await list_pauses(ledger.connection) == []  # the narrower one ended with it


async def test_limits_change_at_run_time_keep_what_is_not_named_and_are_journalled(
    ledger: Ledger,
) -> None:
    await ledger.emit()
    await _limit(ledger, weight=3, rate_per_second=5.0)
    await _limit(ledger, concurrency_max=7)
    await _limit(ledger, cleared=["rate_per_second"])
    (flow,) = await list_flows(ledger.connection)
    assert (flow["weight"], flow["rate_per_second"], flow["concurrency_max"]) == (3, None, 7)
    changes = await ledger.connection.fetchval("select count(*) from ledger.flow_change")
    assert changes == 3


async def test_a_limit_out_of_its_range_is_refused_by_name(ledger: Ledger) -> None:
    await ledger.emit()
    with pytest.raises(InvalidItem, match="rate_per_second"):
        await _limit(ledger, rate_per_second=-1.0)


async def test_concurrency_counts_what_is_handed_out_and_what_runs(ledger: Ledger) -> None:
    await ledger.emit(10)
    await _limit(ledger, concurrency_max=4)
    assert await _allowance(ledger) == 4
    claim = await ledger.claim(limit=3, limited=True)
    assert await _allowance(ledger) == 1
    run_no = (await ledger.start(claim.fence, 1, 3)).run_no
    assert await _allowance(ledger) == 1
    await ledger.settle(run_no, COMPLETED, COMPLETED, None)
    assert await _allowance(ledger) == 3


async def test_what_was_handed_out_before_a_limit_was_set_is_counted(ledger: Ledger) -> None:
    await ledger.emit(10)
    claim = await ledger.claim(limit=6)
    run_no = (await ledger.start(claim.fence, 1, 3)).run_no
    await _limit(ledger, concurrency_max=4)
    assert await _allowance(ledger) == 0
    await ledger.settle(run_no, COMPLETED, COMPLETED, COMPLETED)
    assert await _allowance(ledger) == 1
    run_no = (await ledger.start(claim.fence, 4, 6)).run_no
    assert await _allowance(ledger) == 1
    await ledger.settle(run_no, COMPLETED, COMPLETED, COMPLETED)
    assert await _allowance(ledger) == 4


async def test_a_claim_of_several_flows_is_not_counted_for_one_of_them(ledger: Ledger) -> None:
    await ledger.emit(4)
    await ledger.emit(4, lane="eu")
    await ledger.claim(limit=2)
    await set_flow_limits(
        ledger.connection,
        Scope("acme", ledger.kind, "eu"),
        FlowLimits(concurrency_max=4),
        actor_no=ledger.worker_no,
    )
    assert await _allowance(ledger) == 4


async def test_the_window_counts_only_what_is_not_started(ledger: Ledger) -> None:
    await ledger.emit(10)
    await _limit(ledger, window_items=4)
    claim = await ledger.claim(limit=4, limited=True)
    assert await _allowance(ledger) == 0
    await ledger.start(claim.fence, 1, 3)
    assert await _allowance(ledger) == 3


async def test_the_bucket_holds_a_second_and_fills_by_the_rate(ledger: Ledger) -> None:
    await ledger.emit(10)
    await _limit(ledger, rate_per_second=4.0)
    assert await _allowance(ledger) == 4
    (flow,) = await list_due_flows(ledger.connection, 1)
    await ledger.connection.execute("set ledger.machine_clock = '2027-01-01Z|2027-01-01Z|0'")
    async with ledger.connection.transaction():
        await spend_tokens(ledger.connection, [flow.flow_no], [4])
    assert await _allowance(ledger) == 0
    await ledger.connection.execute(
        "set ledger.machine_clock = '2027-01-01T00:00:00.5Z|2027-01-01Z|0'"
    )
    assert await _allowance(ledger) == 2
    await ledger.connection.execute(
        "set ledger.machine_clock = '2027-01-01T01:00:00Z|2027-01-01Z|0'"
    )
    assert await _allowance(ledger) == 4


async def test_a_circuit_opens_lets_one_probe_through_and_closes_when_it_completes(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=4, circuit_rest_seconds=60.0)

    async def run(*events: TransitionEvent) -> None:
        claim = await ledger.claim(limit=len(events), limited=True)
        start = await ledger.start(claim.fence, 1, len(events))
        await ledger.settle(start.run_no, *events, after_seconds=3600)

    async def judge() -> list[tuple[str, str]]:
        return [(each.before, each.after) for each in await judge_circuits(ledger.connection)]

    await run(COMPLETED, FAILED, FAILED)
    assert await judge() == []  # too few to judge
    await run(COMPLETED)
    assert await judge() == [("closed", "open")]
    assert await _allowance(ledger) == 0
    assert await judge() == []
    await ledger.let_leases_lapse()
    assert await judge() == [("open", "half_open")]
    assert await _allowance(ledger) == 1
    probe = await ledger.claim(limit=1, limited=True)
    assert await _allowance(ledger) == 0
    start = await ledger.start(probe.fence)
    await ledger.settle(start.run_no, COMPLETED)
    assert await judge() == [("half_open", "closed")]
    assert await _allowance(ledger) > 1


async def test_a_probe_that_fails_or_dies_opens_the_circuit_again(ledger: Ledger) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=1, circuit_rest_seconds=60.0)
    await ledger.connection.execute(
        "update ledger.flow set circuit = 'half_open', circuit_at = ledger.machine_now()"
    )
    probe = await ledger.claim(limit=1, limited=True)
    await ledger.start(probe.fence)
    await ledger.let_leases_lapse()
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).runs == 1
    (change,) = await judge_circuits(ledger.connection)
    assert (change.before, change.after, change.failed) == ("half_open", "open", 1)


async def _half_open(ledger: Ledger) -> None:
    """Let three calls fail, the circuit open over them, and its rest pass."""
    claim = await ledger.claim(limit=3, limited=True)
    start = await ledger.start(claim.fence, 1, 3)
    await ledger.settle(start.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    (opened,) = await judge_circuits(ledger.connection)
    await ledger.pass_machine_seconds(31)
    (half,) = await judge_circuits(ledger.connection)
    assert (opened.after, half.after) == ("open", "half_open")


@pytest.mark.parametrize("event", [COMPLETED, FAILED])
async def test_a_half_open_circuit_is_not_judged_by_a_call_that_began_before_it_opened(
    ledger: Ledger, event: TransitionEvent
) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    long = await ledger.start((await ledger.claim(limit=1, limited=True)).fence, lease_seconds=600)
    await _half_open(ledger)

    await ledger.settle(long.run_no, event, after_seconds=3600)

    assert await judge_circuits(ledger.connection) == []
    assert await _allowance(ledger) == 1  # and the probe is still to come
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, COMPLETED)
    (change,) = await judge_circuits(ledger.connection)
    assert (change.after, change.completed, change.failed) == ("closed", 1, 0)


async def test_a_circuit_that_closed_is_not_opened_by_calls_from_before(ledger: Ledger) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    old = await ledger.claim(limit=3, limited=True)
    long = await ledger.start(old.fence, 1, 3, lease_seconds=600)
    await _half_open(ledger)
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, COMPLETED)
    (change,) = await judge_circuits(ledger.connection)
    assert change.after == "closed"

    await ledger.settle(long.run_no, FAILED, FAILED, FAILED, after_seconds=3600)

    assert await judge_circuits(ledger.connection) == []


async def test_a_probe_that_says_nothing_of_its_target_is_followed_by_another(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=3, circuit_rest_seconds=30.0)
    await _half_open(ledger)
    probe = await ledger.start((await ledger.claim(limit=1, limited=True)).fence)
    await ledger.settle(probe.run_no, TransitionEvent.SNOOZED, after_seconds=3600)
    assert await judge_circuits(ledger.connection) == []
    assert await _allowance(ledger) == 1


async def test_what_is_lost_beside_others_with_its_worker_says_nothing_of_its_flow(
    ledger: Ledger,
) -> None:
    await ledger.emit(20)
    await _limit(ledger, circuit_failure_ratio=0.5, circuit_calls_min=1)
    claim = await ledger.claim(limit=4, limited=True)
    await ledger.start(claim.fence, 1, 4)
    await ledger.let_leases_lapse()
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).retried == 4
    assert await judge_circuits(ledger.connection) == []
    assert await ledger.connection.fetchval("select count(*) from ledger.flow_outcome") == 0


async def test_a_breaker_judges_by_nothing_that_began_before_it_was_set(ledger: Ledger) -> None:
    await ledger.emit(20)
    breaker = {"circuit_failure_ratio": 0.5, "circuit_calls_min": 3}
    await _limit(ledger, **breaker)
    claim = await ledger.claim(limit=6, limited=True)
    before, across = [await ledger.start(claim.fence, first, first + 2) for first in (1, 4)]
    await ledger.settle(before.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    await _limit(ledger, cleared=["circuit_failure_ratio"])

    await _limit(ledger, **breaker)
    await ledger.settle(across.run_no, FAILED, FAILED, FAILED, after_seconds=3600)

    assert await judge_circuits(ledger.connection) == []
    again = await ledger.start((await ledger.claim(limit=3, limited=True)).fence, 1, 3)
    await ledger.settle(again.run_no, FAILED, FAILED, FAILED, after_seconds=3600)
    (change,) = await judge_circuits(ledger.connection)
    assert (change.after, change.failed) == ("open", 3)


async def test_what_a_breaker_counted_is_forgotten_once_it_is_taken_away(ledger: Ledger) -> None:
    await ledger.emit(2)
    await ledger.emit(2, lane="kept")
    await _limit(ledger, circuit_failure_ratio=0.5)
    kept = await ledger.connection.fetchval("select max(flow_no) from ledger.flow")
    await ledger.connection.execute(
        "insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)"
        " select flow_no, ledger.machine_now(), 1, 0, 1 from ledger.flow"
    )
    await set_flow_limits(
        ledger.connection,
        Scope("acme", ledger.kind, ""),
        FlowLimits(cleared=["circuit_failure_ratio"]),
        actor_no=ledger.worker_no,
    )
    await prune_outcomes(ledger.connection)
    rows = await ledger.connection.fetch("select flow_no from ledger.flow_outcome")
    assert [row["flow_no"] for row in rows] == [kept]


async def test_a_key_that_fails_in_a_row_is_flagged_once_until_it_completes(ledger: Ledger) -> None:
    await ledger.emit(2)

    async def attempt(event: TransitionEvent) -> None:
        claim = await ledger.claim(limit=1)
        run_no = (await ledger.start(claim.fence)).run_no
        await ledger.settle(run_no, event, after_seconds=0)
        await ledger.connection.execute(
            "update ledger.pending set available_at = ledger.now() + interval '1 day'"
            " where state = 1 /* Scheduled */"
        )

    for _ in range(2):
        await attempt(FAILED)
    assert await flag_streaks(ledger.connection, 10) == []
    await attempt(FAILED)
    (flagged,) = await flag_streaks(ledger.connection, 10)
    assert (flagged.kind, flagged.failures, flagged.reason) == (ledger.kind, 3, "test")
    assert await flag_streaks(ledger.connection, 10) == []
    (listed,) = await list_streaks(ledger.connection)
    assert listed["business_key"] == flagged.business_key
    await attempt(COMPLETED)
    assert await list_streaks(ledger.connection) == []


async def test_a_person_starts_an_item_before_its_time_and_what_was_owed_stays(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit(due_at=LONG_HENCE)
    assert await list_due_flows(ledger.connection, 10) == []
    (answered,) = await expedite_items(
        ledger.connection, [item], reason="customer waits", actor_no=ledger.worker_no
    )
    assert answered.answer is Answer.DONE
    claim = await ledger.claim()
    run_no = (await ledger.start(claim.fence)).run_no
    await ledger.settle(run_no, FAILED, after_seconds=0)
    assert len((await ledger.claim()).item_nos) == 1  # a retry does not wait for the time either
    timeline = await item_timeline(ledger.connection, item)
    assert "expedited" in {step["event"] for step in timeline}


async def test_what_does_not_wait_cannot_be_expedited(ledger: Ledger) -> None:
    placed = await ledger.place(State.COMPLETED)
    (answered,) = await expedite_items(
        ledger.connection, [placed.id], reason="again", actor_no=ledger.worker_no
    )
    assert answered.answer is Answer.ILLEGAL
    assert ("trigger", "illegal") in await ledger.rejected()


async def test_a_flow_born_beside_a_pause_is_paused_by_the_next_look(
    ledger: Ledger, database: str
) -> None:
    other = await connect(database, application_name="emitter")
    scope = Scope("acme", ledger.kind)
    transaction = other.transaction()
    await transaction.start()
    await emit_items(other, ledger.make_drafts(), actor_no=ledger.worker_no)
    await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    await transaction.commit()
    assert len(await list_due_flows(ledger.connection, 10)) == 1  # neither saw the other

    assert await heal_pauses(ledger.connection) == 1

    assert await list_due_flows(ledger.connection, 10) == []
    assert await heal_pauses(ledger.connection) == 0
    transaction = other.transaction()
    await transaction.start()
    await emit_items(other, ledger.make_drafts(lane="eu", prefix="eu"), actor_no=ledger.worker_no)
    await resume_flows(ledger.connection, scope, actor_no=ledger.worker_no)
    await transaction.commit()
    assert await heal_pauses(ledger.connection) == 1  # born paused, and nobody left to end it
    assert len(await list_due_flows(ledger.connection, 10)) == 2
    await other.close()


async def test_a_completion_ends_a_streak_and_the_next_is_counted_anew(ledger: Ledger) -> None:
    await ledger.emit()
    await ledger.connection.execute(
        "insert into ledger.failure_streak"
        " (flow_no, business_key, failures, first_at, last_at, flagged_at, judged_at)"
        " select flow_no, business_key, 7, now() - interval '2 h', now() - interval '1 h',"
        " now() - interval '1 h', now() - interval '1 h' from ledger.due_item"
    )
    claim = await ledger.claim()
    await ledger.settle((await ledger.start(claim.fence)).run_no, COMPLETED)
    assert await list_streaks(ledger.connection) == []
    await ledger.connection.execute(
        "update ledger.failure_streak set failures = failures + 1, last_at = now()"
    )
    assert await flag_streaks(ledger.connection, 10) == []
    assert await list_streaks(ledger.connection, failures_min=1) != []
    assert await ledger.connection.fetchval("select failures from ledger.failure_streak") == 1


async def test_a_key_whose_worker_dies_each_time_is_flagged_too(ledger: Ledger) -> None:
    await ledger.emit()
    for _ in range(3):
        claim = await ledger.claim()
        await ledger.start(claim.fence)
        await ledger.let_leases_lapse()
        await reap_runs(ledger.connection, 10, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    (flagged,) = await flag_streaks(ledger.connection, 10)
    assert flagged.failures == 3


@pytest.mark.parametrize("serial", [False, True], ids=["plain", "serial"])
async def test_a_flow_limited_since_it_was_listed_is_passed_by_until_it_is_measured(
    ledger: Ledger,
    serial: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if serial:
        await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    await ledger.emit(3)
    (flow,) = await list_due_flows(ledger.connection, 10)
    assert not flow.limited
    await _limit(ledger, concurrency_max=1)

    async def claim(*, measured: bool) -> int:
        flows = ([flow.flow_no], [1])
        rows = await (
            claim_serial_items(ledger.connection, *flows, ledger.worker_no, measured=[measured])
            if serial
            else claim_items(ledger.connection, *flows, measured=[measured])
        )
        return len(rows)

    assert await claim(measured=False) == 0
    assert await claim(measured=True) == 1
