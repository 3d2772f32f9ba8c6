"""Limits change their flows alone, and what is in flight of them is counted from then on."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.states import State
from dueledger.ledger.store import connect
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.flow_limits import spend_tokens
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.items import emit_items

from .conftest import Ledger
from .row_copies import copy_row, read_rows

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
INSTANT: Final = timedelta(microseconds=1)
FIRST: Final[dict[str, Any]] = {
    "weight": 2,
    "rate_per_second": 3.0,
    "concurrency_max": 4,
    "window_items": 5,
    "retry_share": 0.25,
    "circuit_failure_ratio": 0.5,
    "circuit_calls_min": 6,
    "circuit_window_seconds": 7.0,
    "circuit_rest_seconds": 8.0,
    "lag_target_seconds": 9.0,
}
CLEARED: Final = (
    *("rate_per_second", "concurrency_max", "window_items", "circuit_failure_ratio"),
    "lag_target_seconds",
)
KINDS, LANES = ("First", "Second"), ("", "eu")
FLOWS: Final = [
    FlowScope(tenant, kind, lane)
    for tenant in ("acme", "other")
    for kind in KINDS
    for lane in LANES
]


async def _emit_each(ledger: Ledger) -> None:
    drafts = [
        draft
        for flow in FLOWS
        for draft in ledger.make_drafts(tenant=flow.tenant, kind=flow.kind, lane=flow.lane)
    ]
    await emit_items(ledger.connection, drafts, actor_no=ledger.worker_no)


async def _limits(ledger: Ledger) -> dict[FlowScope, dict[str, Any]]:
    rows = await ledger.connection.fetch(
        "select k.tenant, k.name as kind, f.lane, to_jsonb(f) as row"
        " from ledger.flow f join ledger.kind k using (kind_no)"
    )
    return {FlowScope(*tuple(row)[:3]): row["row"] for row in rows}


async def _set(ledger: Ledger, scope: FlowScope, **limits: Any) -> list[FlowScope]:  # noqa: ANN401 - as FlowLimits takes them
    changed = await set_flow_limits(
        ledger.connection, scope, FlowLimits(**limits), actor_no=ledger.other_worker_no
    )
    return [FlowScope(row["tenant"], row["kind"], row["lane"]) for row in changed]


@pytest.mark.parametrize("lane", [None, *LANES])
async def test_limits_are_set_on_the_flows_of_their_scope_alone(
    undone_ledger: Ledger, lane: str | None
) -> None:
    ledger = undone_ledger
    await _emit_each(ledger)
    await set_machine_clock(ledger.connection, NOON, 0)
    before = await _limits(ledger)
    scope = FlowScope("acme", "First", lane)
    chosen = [
        flow
        for flow in FLOWS
        if (flow.tenant, flow.kind) == ("acme", "First") and lane in (None, flow.lane)
    ]

    assert await _set(ledger, scope, **FIRST) == chosen

    after = await _limits(ledger)
    assert {flow for flow in FLOWS if after[flow] != before[flow]} == {*chosen}
    for flow in chosen:
        assert {name: after[flow][name] for name in FIRST} == FIRST
    changes = await ledger.connection.fetch("select * from ledger.flow_change order by flow_no")
    assert [(row["flow_no"], row["actor_no"], row["change"]) for row in changes] == [
        (after[flow]["flow_no"], ledger.other_worker_no, FIRST) for flow in chosen
    ]


async def test_each_limit_is_changed_kept_and_cleared_by_itself(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    await _emit_each(ledger)
    scope = FLOWS[0]
    await _set(ledger, scope, **FIRST)
    assert FIRST.keys() == {each.name for each in fields(FlowLimits)} - {"cleared"}
    for name, value in FIRST.items():
        other = value * 0.5 if isinstance(value, float) else value * 10
        await _set(ledger, scope, **{name: other})
        now = (await _limits(ledger))[scope]
        assert {key: now[key] for key in FIRST} == {**FIRST, name: other}
        await _set(ledger, scope, **{name: value})
    for name in CLEARED:
        await _set(ledger, scope, cleared=[name])
        now = (await _limits(ledger))[scope]
        assert {key: now[key] for key in FIRST} == {**FIRST, name: None}
        await _set(ledger, scope, **{name: FIRST[name]})


async def test_only_a_new_circuit_begins_closed_and_counts_from_then_on(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await _emit_each(ledger)
    await set_machine_clock(ledger.connection, NOON, 0)
    await ledger.connection.execute("select nextval('ledger.run_run_no_seq')")
    scope = FLOWS[0]
    number = await ledger.connection.fetchval(
        "select pg_sequence_last_value('ledger.run_run_no_seq')"
    )
    before = {"circuit": "open", "circuit_at": "2027-03-01T11:00:00+00:00", "circuit_run_no": 0}

    async def circuit() -> dict[str, Any]:
        row = (await _limits(ledger))[scope]
        return {name: row[name] for name in before}

    async def begin(ratio: float | None) -> None:
        await ledger.connection.execute(
            "update ledger.flow set circuit = 'open', circuit_at = $1, circuit_run_no = 0,"
            " circuit_failure_ratio = $2",
            NOON - timedelta(hours=1),
            ratio,
        )

    await begin(0.5)
    await _set(ledger, scope, circuit_failure_ratio=0.25)
    assert await circuit() == before
    await begin(None)
    await _set(ledger, scope, weight=7)
    assert await circuit() == before
    await _set(ledger, scope, circuit_failure_ratio=0.25)
    assert await circuit() == {
        "circuit": "closed",
        "circuit_at": "2027-03-01T12:00:00+00:00",
        "circuit_run_no": number,
    }


async def _counted(ledger: Ledger, table: str) -> dict[tuple[Any, ...], str]:
    """Return the lanes for which claims or runs are counted, but for those of flow 4711."""
    key = {"claim": "fence, claimed_at", "run": "run_no, started_at"}[table]
    rows = await ledger.connection.fetch(
        f"select f.lane, {key} from ledger.{table} join ledger.flow f using (flow_no)"  # noqa: S608 - names of the test
    )
    return {tuple(row)[1:]: row["lane"] for row in rows}


async def test_claims_and_runs_of_a_flow_alone_are_counted_once_it_is_limited(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    names: dict[str, tuple[Any, ...]] = {}
    for name, lanes in {"alone": ["", ""], "both": ["", "eu"], "other": ["eu"]}.items():
        for lane in lanes:
            await ledger.emit(lane=lane)
        claim = await ledger.claim()
        names[name] = (claim.fence, claim.id.claimed_at)
        await ledger.start(claim.fence)
    await ledger.place(State.COMPLETED)
    runs = await ledger.connection.fetch(
        "select run_no, started_at from ledger.run where closed_at is null order by run_no"
    )
    (fence, claimed_at), (run_no, started_at) = names["alone"], tuple(runs[0])
    # Copies of the first claim and run that differ in one part of the name; two have one part of
    # the name of the claim that has items of two flows.
    for number, at in [(fence, claimed_at - INSTANT), (fence + 1_000, claimed_at)]:
        await copy_row(ledger, "claim", fence=number, claimed_at=at, flow_no=4_711)
    alike = [(names["both"][0], claimed_at), (fence + 2_000, names["both"][1])]
    for number, at in alike:
        await copy_row(ledger, "claim", fence=number, claimed_at=at, flow_no=None)
    for number, at in [(run_no, started_at - INSTANT), (run_no + 1_000, started_at)]:
        await copy_row(ledger, "run", run_no=number, started_at=at, flow_no=4_711)
    before = [await read_rows(ledger, table) for table in ("claim", "run")]

    # Items of a flow that has only a rate are not counted.
    await _set(ledger, FlowScope("acme", ledger.kind, ""), weight=3, rate_per_second=5.0)
    assert [await read_rows(ledger, table) for table in ("claim", "run")] == before

    await _set(ledger, FlowScope("acme", ledger.kind, ""), window_items=5)
    counted = dict.fromkeys([names["alone"], *alike], "")
    assert await _counted(ledger, "claim") == counted
    assert await _counted(ledger, "run") == {tuple(runs[0]): ""}

    await _set(ledger, FlowScope("acme", ledger.kind), concurrency_max=5)
    assert await _counted(ledger, "claim") == counted  # the one of the other flow is all started
    assert await _counted(ledger, "run") == {tuple(runs[0]): "", tuple(runs[2]): "eu"}
    for table in ("claim", "run"):
        kept = await ledger.connection.fetchval(
            f"select count(*) from ledger.{table} where flow_no = 4711"  # noqa: S608 - a name above
        )
        assert kept == 2


async def test_limits_pass_claims_and_runs_that_another_has_locked(
    ledger: Ledger, database: str
) -> None:
    for _ in range(2):
        await ledger.emit(2)
        await ledger.start((await ledger.claim()).fence)
    rival = await connect(database, application_name="rival")
    await ledger.connection.execute("set lock_timeout = '1s'")
    async with rival.transaction():
        for table, name in (("claim", "min(fence)"), ("run", "max(run_no)")):
            await rival.execute(
                f"select from ledger.{table} where {name[4:-1]} ="  # noqa: S608 - names above
                f" (select {name} from ledger.{table}) for update"
            )
        await _set(ledger, FlowScope("acme", ledger.kind), window_items=5)
    await rival.close()
    for table in ("claim", "run"):
        rows = await ledger.connection.fetch(
            f"select flow_no is not null as counted from ledger.{table} order by 1, {table}"  # noqa: S608 - a name above
        )
        assert [row["counted"] for row in rows] == [False, True]


async def test_of_two_who_set_a_circuit_at_once_the_first_begins_it(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.emit()
    scope = FlowScope("acme", ledger.kind)
    rival = await connect(database, application_name="rival")
    await set_machine_clock(rival, NOON, 0)
    await set_machine_clock(ledger.connection, NOON + timedelta(hours=1), 0)
    setting = rival.transaction()
    await setting.start()
    limits = FlowLimits(circuit_failure_ratio=0.5)
    await set_flow_limits(rival, scope, limits, actor_no=ledger.worker_no)
    second = asyncio.create_task(_set(ledger, scope, circuit_failure_ratio=0.25))
    pid = ledger.connection.get_server_pid()

    async def waits() -> bool:
        return await rival.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(waits)
    await setting.commit()
    assert await second == [FlowScope("acme", ledger.kind, "")]
    row = await rival.fetchrow("select circuit_at, circuit_failure_ratio from ledger.flow")
    assert row is not None
    assert tuple(row) == (NOON, 0.25)
    await rival.close()


async def test_tokens_are_spent_of_the_flows_named_that_have_a_rate(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    await _emit_each(ledger)
    await set_machine_clock(ledger.connection, NOON, 0)
    for flow in FLOWS[:3]:
        await _set(ledger, flow, rate_per_second=10.0)
    before = await _limits(ledger)
    flow_nos = [before[flow]["flow_no"] for flow in (FLOWS[0], FLOWS[1], FLOWS[3])]
    await spend_tokens(ledger.connection, flow_nos, [4, 12, 1])
    after = await _limits(ledger)
    assert [after[flow]["tokens"] for flow in FLOWS[:4]] == [6, -2, None, None]
    at = "2027-03-01T12:00:00+00:00"
    assert [after[flow]["tokens_at"] for flow in FLOWS[:4]] == [at, at, None, None]
