"""No limit that can be stored makes a statement fail."""

import re
from typing import Any

import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.flow_bounds import FLOW_BOUNDS
from dueledger.ledger.store import Connection, mapped_errors
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import (
    estimate_allowances,
    lock_limited_flows,
    measure_allowances,
    spend_tokens,
    update_circuits,
)
from dueledger.ledger.store.flows import FlowLimits, FlowScope, list_flows, set_flow_limits

from .conftest import Ledger

WITHIN = {name: bounds.low for name, bounds in FLOW_BOUNDS.items()}


@pytest.mark.parametrize("name", FLOW_BOUNDS)
def test_the_table_checks_what_the_code_says(name: str, checks: dict[str, str]) -> None:
    bounds = FLOW_BOUNDS[name]
    numbers = re.findall(r"[<>]=\s*\(*'?(-?[\d.]+(?:e[+-]?\d+)?)", checks[name])
    assert [float(number) for number in numbers] == [bounds.low, bounds.high]


@pytest.fixture
async def checks(connection: Connection) -> dict[str, str]:
    """The CHECKs of flows, by the column that they bound."""
    rows = await connection.fetch(
        "select conname, pg_get_expr(conbin, conrelid) as expression from pg_constraint"
        " where conrelid = 'ledger.flow'::regclass and contype = 'c'"
    )
    return {
        str(row["conname"]).removeprefix("flow_").removesuffix("_range"): str(row["expression"])
        for row in rows
    }


@pytest.mark.parametrize("name", FLOW_BOUNDS)
@pytest.mark.parametrize("number", [5e-324, 1e300, float("inf"), float("nan"), -1.0])
def test_a_number_out_of_its_bounds_is_refused_by_name(name: str, number: float) -> None:
    if name == "retry_share" and number == 5e-324:
        number = 2
    limits: dict[str, Any] = {name: number}
    with pytest.raises(InvalidItem, match=name) as refused:
        FlowLimits(**limits)
    assert refused.value.problems[0].reason.endswith(FLOW_BOUNDS[name].text)


async def test_what_the_table_refuses_is_reported_in_the_same_words(ledger: Ledger) -> None:
    await ledger.emit()
    words = re.escape(FLOW_BOUNDS["rate_per_second"].text)
    with pytest.raises(InvalidItem, match=words), mapped_errors():
        await ledger.connection.execute("update ledger.flow set rate_per_second = 5e-324")


@pytest.mark.parametrize("end", ["low", "high"])
async def test_limits_at_their_bounds_break_no_statement(ledger: Ledger, end: str) -> None:
    """Neither with a bucket that a full take has emptied, nor a year later."""
    await ledger.emit(3)
    limits: dict[str, Any] = {
        name: getattr(bounds, end)
        if name not in {"weight", "concurrency_max", "window_items", "circuit_calls_min"}
        else int(getattr(bounds, end))
        for name, bounds in FLOW_BOUNDS.items()
    }
    await set_flow_limits(
        ledger.connection, FlowScope("acme", ledger.kind), FlowLimits(**limits), actor_no=1
    )
    (flow,) = await list_due_flows(ledger.connection, 10)
    taken = 2_147_483_647
    async with ledger.connection.transaction():
        flows = list(await lock_limited_flows(ledger.connection, [flow.flow_no]))
        assert (await measure_allowances(ledger.connection, flows, 1000))[flow.flow_no] >= 1
        await spend_tokens(ledger.connection, flows, [taken])
    for seconds in (0, 31_536_000):
        await ledger.pass_machine_seconds(seconds)
        foreseen = (await estimate_allowances(ledger.connection, [flow.flow_no], 1000))[
            flow.flow_no
        ]
        assert foreseen.items >= 0
        for state in ("closed", "open", "half_open"):
            await ledger.connection.execute(
                "update ledger.flow set circuit = $1, circuit_at = ledger.machine_now()", state
            )
            await update_circuits(ledger.connection)
        assert len(await list_flows(ledger.connection)) == 1
