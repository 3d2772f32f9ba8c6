"""An operator's control of flows, and their limits: measured, not cached."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import claim_items, claim_serial_items, list_due_flows
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flow_limits import spend_tokens
from dueledger.ledger.store.flows import (
    FlowLimits,
    FlowScope,
    ensure_flow,
    expedite_items,
    list_flows,
    list_pauses,
    pause_flows,
    reapply_pauses,
    resume_flows,
    set_flow_limits,
)
from dueledger.ledger.store.items import RequestResult, emit_items, item_timeline
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .conftest import Ledger, allowance, limit

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
LONG_HENCE = datetime(2199, 1, 1, tzinfo=UTC)
NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)


async def test_the_flow_of_a_tenant_is_made_for_it_alone(ledger: Ledger) -> None:
    wanted = [("acme", ""), ("other", "eu"), ("acme", "eu")]
    numbers = set[int]()
    for made, (tenant, lane) in enumerate(wanted, 1):
        number = await ensure_flow(ledger.connection, tenant, ledger.kind, lane)
        assert await ensure_flow(ledger.connection, tenant, ledger.kind, lane) == number
        numbers.add(number)
        flows = await list_flows(ledger.connection)
        assert {(flow["tenant"], flow["lane"]) for flow in flows} == set(wanted[:made])
    found = await ledger.connection.fetch(
        "select ord, tenant, flow_no from ledger.ensure_flows($1, array[$2, $2, $2], $3)",
        [tenant for tenant, _ in wanted],
        ledger.kind,
        [lane for _, lane in wanted],
    )
    assert [(flow["ord"], flow["tenant"]) for flow in found] == [
        (place, tenant) for place, (tenant, _) in enumerate(wanted, 1)
    ]
    assert {flow["flow_no"] for flow in found} == numbers


async def test_a_pause_covers_what_is_there_and_what_comes(ledger: Ledger) -> None:
    await ledger.emit()
    scope = FlowScope("acme", ledger.kind)
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
    tenant, lane = FlowScope("acme"), FlowScope("acme", ledger.kind, "eu")
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
    await limit(ledger, weight=3, rate_per_second=5.0)
    await limit(ledger, concurrency_max=7)
    await limit(ledger, cleared=["rate_per_second"])
    (flow,) = await list_flows(ledger.connection)
    assert (flow["weight"], flow["rate_per_second"], flow["concurrency_max"]) == (3, None, 7)
    changes = await ledger.connection.fetchval("select count(*) from ledger.flow_change")
    assert changes == 3


async def test_a_limit_out_of_its_range_is_refused_by_name(ledger: Ledger) -> None:
    await ledger.emit()
    with pytest.raises(InvalidItem, match="rate_per_second"):
        await limit(ledger, rate_per_second=-1.0)


async def test_concurrency_counts_what_is_handed_out_and_what_runs(ledger: Ledger) -> None:
    await ledger.emit(10)
    await limit(ledger, concurrency_max=4)
    assert await allowance(ledger) == 4
    claim = await ledger.claim(limit=3, limited=True)
    assert await allowance(ledger) == 1
    run_no = (await ledger.start(claim.fence, 1, 3)).run_no
    assert await allowance(ledger) == 1
    await ledger.settle(run_no, COMPLETED, COMPLETED, None)
    assert await allowance(ledger) == 3


async def test_what_was_handed_out_before_a_limit_was_set_is_counted(ledger: Ledger) -> None:
    await ledger.emit(10)
    claim = await ledger.claim(limit=6)
    run_no = (await ledger.start(claim.fence, 1, 3)).run_no
    await limit(ledger, concurrency_max=4)
    assert await allowance(ledger) == 0
    await ledger.settle(run_no, COMPLETED, COMPLETED, COMPLETED)
    assert await allowance(ledger) == 1
    run_no = (await ledger.start(claim.fence, 4, 6)).run_no
    assert await allowance(ledger) == 1
    await ledger.settle(run_no, COMPLETED, COMPLETED, COMPLETED)
    assert await allowance(ledger) == 4


async def test_a_claim_of_several_flows_is_not_counted_for_one_of_them(ledger: Ledger) -> None:
    await ledger.emit(4)
    await ledger.emit(4, lane="eu")
    await ledger.claim(limit=2)
    await set_flow_limits(
        ledger.connection,
        FlowScope("acme", ledger.kind, "eu"),
        FlowLimits(concurrency_max=4),
        actor_no=ledger.worker_no,
    )
    assert await allowance(ledger) == 4


async def test_the_window_counts_only_what_is_not_started(ledger: Ledger) -> None:
    await ledger.emit(10)
    await limit(ledger, window_items=4)
    claim = await ledger.claim(limit=4, limited=True)
    assert await allowance(ledger) == 0
    await ledger.start(claim.fence, 1, 3)
    assert await allowance(ledger) == 3


async def test_the_bucket_holds_a_second_and_fills_by_the_rate(ledger: Ledger) -> None:
    await ledger.emit(10)
    await limit(ledger, rate_per_second=4.0)
    assert await allowance(ledger) == 4
    (flow,) = await list_due_flows(ledger.connection, 1)
    await ledger.connection.execute("set ledger.machine_clock = '2027-01-01Z|2027-01-01Z|0'")
    async with ledger.connection.transaction():
        await spend_tokens(ledger.connection, [flow.flow_no], [4])
    assert await allowance(ledger) == 0
    await ledger.connection.execute(
        "set ledger.machine_clock = '2027-01-01T00:00:00.5Z|2027-01-01Z|0'"
    )
    assert await allowance(ledger) == 2
    await ledger.connection.execute(
        "set ledger.machine_clock = '2027-01-01T01:00:00Z|2027-01-01Z|0'"
    )
    assert await allowance(ledger) == 4


async def test_a_person_starts_an_item_before_its_time_and_what_was_owed_stays(
    ledger: Ledger,
) -> None:
    (item,) = await ledger.emit(due_at=LONG_HENCE)
    assert await list_due_flows(ledger.connection, 10) == []
    (answered,) = await expedite_items(
        ledger.connection, [item], reason="customer waits", actor_no=ledger.worker_no
    )
    assert answered.result is RequestResult.DONE
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
    assert answered.result is RequestResult.ILLEGAL
    assert ("trigger", "illegal") in await ledger.rejected()


async def test_an_item_that_waits_for_its_key_is_not_expedited_and_one_that_is_due_keeps_its_time(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    blocked, due, later = await ledger.emit(3, due_at=LONG_HENCE)
    for item, at in ((blocked, "infinity"), (due, str(NOON - HOUR))):
        await ledger.connection.execute(
            "update ledger.pending p set available_at = $2::text::timestamptz, serial = i.item_no,"
            " serial_due_at = i.due_at, overlap = 1"
            " from ledger.due_item i where i.item_no = p.item_no and i.id = $1",
            item,
            at,
        )
    for reason in ("first", "second"):
        answers = await expedite_items(
            ledger.connection, [blocked, due, later], reason=reason, actor_no=ledger.worker_no
        )
        assert [(answer.id, answer.result) for answer in answers] == [
            (blocked, RequestResult.ILLEGAL),
            (due, RequestResult.DONE),
            (later, RequestResult.DONE),
        ]
    rows = await ledger.connection.fetch(
        "select i.id, nullif(p.available_at, 'infinity'), e.reason"
        " from ledger.due_item i join ledger.pending p using (item_no)"
        " left join ledger.expedited e using (item_no)"
    )
    assert {row[0]: tuple(row)[1:] for row in rows} == {
        blocked: (None, None),
        due: (NOON - HOUR, "first"),
        later: (NOON, "first"),
    }
    assert await ledger.rejected() == [("trigger", "illegal")] * 2


async def test_two_who_make_a_flow_at_once_share_it(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.emit()
    rival = await connect(database, application_name="rival")
    making = rival.transaction()
    await making.start()
    drafts = ledger.make_drafts(lane="eu", prefix="rival")
    await emit_items(rival, drafts, actor_no=ledger.worker_no)
    second = asyncio.create_task(ledger.emit(lane="eu"))
    await eventually(partial(_waits, rival, ledger.connection))
    await making.commit()
    await second
    counts = await rival.fetch(
        "select f.lane, count(*) from ledger.due_item join ledger.flow f using (flow_no)"
        " group by f.flow_no order by 1"
    )
    assert [tuple(row) for row in counts] == [("", 1), ("eu", 2)]
    await rival.close()


async def _waits(connection: Connection, waiting: Connection) -> bool:
    pid = waiting.get_server_pid()
    return await connection.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)


async def test_a_flow_that_is_made_while_its_kind_gets_an_order_has_it(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.emit()
    other = await connect(database, application_name="other")
    async with other.transaction():
        await put_kind_policy(other, KindPolicy("acme", ledger.kind, ordering="key"))
        made = asyncio.create_task(ledger.emit(lane="eu"))
        await eventually(partial(_waits, other, ledger.connection))
    await made
    rows = await other.fetch(
        "select f.lane, f.ordering, i.serial is not null"
        " from ledger.flow f join ledger.due_item i using (flow_no) order by 1"
    )
    assert [tuple(row) for row in rows] == [("", "key", False), ("eu", "key", True)]
    await other.close()


async def test_a_flow_made_beside_a_pause_is_paused_by_the_next_tick(
    ledger: Ledger, database: str
) -> None:
    other = await connect(database, application_name="emitter")
    scope = FlowScope("acme", ledger.kind)
    transaction = other.transaction()
    await transaction.start()
    await emit_items(other, ledger.make_drafts(), actor_no=ledger.worker_no)
    await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    await transaction.commit()
    assert len(await list_due_flows(ledger.connection, 10)) == 1  # neither saw the other

    assert await reapply_pauses(ledger.connection) == 1

    assert await list_due_flows(ledger.connection, 10) == []
    assert await reapply_pauses(ledger.connection) == 0
    transaction = other.transaction()
    await transaction.start()
    await emit_items(other, ledger.make_drafts(lane="eu", prefix="eu"), actor_no=ledger.worker_no)
    await resume_flows(ledger.connection, scope, actor_no=ledger.worker_no)
    await transaction.commit()
    assert await reapply_pauses(ledger.connection) == 1  # made paused, and not resumed
    assert len(await list_due_flows(ledger.connection, 10)) == 2
    await other.close()


@pytest.mark.damages
@pytest.mark.parametrize("serial", [False, True], ids=["plain", "serial"])
async def test_a_flow_limited_since_it_was_listed_is_passed_by_until_it_is_measured(
    ledger: Ledger,
    serial: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if serial:
        await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    await ledger.emit(3)
    (flow,) = await list_due_flows(ledger.connection, 10)
    assert not flow.is_limited
    await limit(ledger, concurrency_max=1)

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
