"""The rows that a take-over reads of a definition with many old items."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import statement

from .conftest import NOON, SetSchedule, SetTime, due_times, tick_until_idle


async def test_a_take_over_reads_the_days_around_its_window_and_no_more(
    materialiser: Materialiser, set_schedule: SetSchedule, set_time: SetTime, connection: Connection
) -> None:
    """Six weeks of items are before it."""
    every = {"every": "PT5M", "anchor": "2027-01-01T00:00:00Z"}
    a_day = 288
    await set_schedule("d", every)
    now = NOON + timedelta(days=42)
    await set_time(now)
    await tick_until_idle(materialiser)
    assert len(await due_times(connection, "d")) > 42 * a_day
    number = await set_schedule("d", every | {"every": "PT1H"}, effective_from=now)
    await connection.execute("analyze ledger.due_item")
    async with connection.transaction():
        plan = await connection.fetchval(
            f"explain (analyze, format json) {statement('supersede_waiting')}",
            *(number, now, now + timedelta(hours=25), 1, 10_000),
        )
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in plan_nodes(plan[0]["Plan"])
        if node.get("Relation Name", "").startswith("due_item")
    )
    assert a_day < read < 6 * a_day


def plan_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from plan_nodes(below)
