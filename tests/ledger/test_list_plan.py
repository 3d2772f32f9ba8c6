"""The list of due flows looks each flow up, whatever the plan was made for."""

from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.statements import statement

from .conftest import Ledger

FLOWS = 600


async def test_a_list_of_many_flows_does_not_compare_each_flow_with_each(ledger: Ledger) -> None:
    for number in range(FLOWS):
        await ledger.emit(lane=f"lane-{number}")
    await ledger.connection.execute("analyze ledger.pending, ledger.flow, ledger.kind")
    assert len(await list_due_flows(ledger.connection, 2 * FLOWS)) == FLOWS

    await ledger.connection.execute(
        f"prepare listed (integer, text[], float8, float8, integer[]) as"
        f" {statement('list_due_flows')}"
    )
    plan = await ledger.connection.fetch(
        f"explain (analyze, costs off, timing off) execute listed ({2 * FLOWS}, null, 0, 1, '{{}}')"
    )

    assert [row[0] for row in plan if "Removed by Join Filter" in row[0]] == []
