"""A version that says `ended` owes nothing, and takes back what waits under the one before."""

from datetime import timedelta
from typing import Any

import pytest

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection

from .conftest import (
    DAY,
    NOON,
    SetSchedule,
    SetTime,
    claim_next,
    end,
    start,
    tick_until_idle,
)
from .test_versions import HOUR, HOURLY, due_times, hours, rows

CHANGE = NOON + 5 * HOUR


@pytest.mark.parametrize(("when", "ended"), [(HOURLY, True), (None, False)])
async def test_g13_a_schedule_that_ends_or_only_declares_its_kind_owes_nothing_from_then_on(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    when: dict[str, Any] | None,
    *,
    ended: bool,
) -> None:
    await set_schedule("d", HOURLY)
    await tick_until_idle(materialiser)
    await set_schedule("d", when, effective_from=CHANGE, ended=ended)
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(seconds=2 * DAY))
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert due_times(found, "waiting") == hours(NOON, CHANGE)
    assert due_times(found, "superseded") == hours(CHANGE, NOON + timedelta(seconds=DAY) + HOUR)


async def test_g13_an_ended_schedule_begins_again_with_a_version_that_is_not(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", HOURLY)
    await set_schedule("d", HOURLY, effective_from=CHANGE, ended=True)
    await set_schedule("d", None, effective_from=CHANGE + HOUR)
    await set_schedule("d", HOURLY, effective_from=CHANGE + 3 * HOUR)
    await tick_until_idle(materialiser)
    last = NOON + timedelta(seconds=DAY) + HOUR
    assert due_times(await rows(connection), "waiting") == [
        *hours(NOON, CHANGE),
        *hours(CHANGE + 3 * HOUR, last),
    ]


@pytest.mark.parametrize(
    ("handed_out", "declared"), [(True, False), (False, False), (True, True), (False, True)]
)
async def test_g13_the_chain_of_an_ended_definition_does_not_go_on(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    *,
    handed_out: bool,
    declared: bool,
) -> None:
    chain = {"after_completion": "PT10M"}
    await set_schedule("d", chain)
    await tick_until_idle(materialiser)
    run_no: Any = None
    if handed_out:
        fence, _ = await claim_next(connection, actor_no, 1)
        run_no = await start(connection, actor_no, fence, 1)
    newer = None if declared else chain
    await set_schedule("d", newer, effective_from=NOON, ended=not declared)
    await tick_until_idle(materialiser)
    if handed_out:
        await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED])
    await set_time(CHANGE)
    await tick_until_idle(materialiser)
    found = await rows(connection)
    assert [row["state"] for row in found] == ["completed" if handed_out else "superseded"]
