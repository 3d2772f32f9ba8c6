"""A person triggers a schedule: an item beside its occurrences, the same one when repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from dueledger.definitions.trigger import TriggerResult, trigger_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import RequestResult, show_item, withdraw_items

from .conftest import NOON, SetSchedule, SetTime, due_times, tick_until_idle

EVENING = {"cron": "0 18 * * *", "timezone": "Europe/Berlin"}
SIX = "2027-03-01T18:00"

Trigger = Callable[..., Awaitable[TriggerResult]]


@pytest.fixture
def trigger(connection: Connection, actor_no: int) -> Trigger:
    """Trigger the schedule `nightly`, as the named occurrence or as a new one."""

    async def ask(cycle: str | None = None, *, on: Connection = connection) -> TriggerResult:
        return await trigger_definition(
            on, "acme", "nightly", cycle=cycle, reason="rerun", actor_no=actor_no
        )

    return ask


async def test_g1_an_occurrence_triggered_ahead_is_still_owed_at_its_time(
    materialiser: Materialiser, connection: Connection, set_schedule: SetSchedule, trigger: Trigger
) -> None:
    await set_schedule("nightly", EVENING)
    with pytest.raises(InvalidInput, match="names an occurrence of the schedule"):
        await trigger(SIX)
    await tick_until_idle(materialiser)
    assert await due_times(connection, "nightly") == [NOON + timedelta(hours=5)]


async def test_a_pending_occurrence_that_is_named_is_refused_with_the_item_to_start_instead(
    materialiser: Materialiser,
    connection: Connection,
    set_schedule: SetSchedule,
    trigger: Trigger,
    actor_no: int,
) -> None:
    await set_schedule("nightly", EVENING)
    await tick_until_idle(materialiser)
    item = await connection.fetchval("select id from ledger.due_item")
    with pytest.raises(InvalidInput, match=f"item {item}, which is Scheduled.*trigger {item}"):
        await trigger(SIX)
    (answered,) = await expedite_items(connection, [item], reason="now", actor_no=actor_no)
    assert answered.result is RequestResult.DONE
    await withdraw_items(
        connection, [item], event=TransitionEvent.CANCELLED, reason="test", actor_no=actor_no
    )
    with pytest.raises(InvalidInput, match=f"item {item}, which is Cancelled") as refused:
        await trigger(SIX)
    assert "dueledger trigger" not in str(refused.value)


@pytest.mark.parametrize(
    "spelled",
    [SIX, f"{SIX}#2", f"{SIX}:00", "2027-03-01 18:00", f"{SIX}:00.000000", f"{SIX}+01:00", ""],
)
async def test_the_name_of_an_occurrence_or_an_empty_name_is_refused(
    materialiser: Materialiser,
    connection: Connection,
    set_schedule: SetSchedule,
    trigger: Trigger,
    spelled: str,
) -> None:
    await set_schedule("nightly", EVENING)
    await tick_until_idle(materialiser)
    with pytest.raises(InvalidInput, match="cycle: ") as refused:
        await trigger(spelled)
    item = await connection.fetchval("select id from ledger.due_item")
    assert (str(item) in str(refused.value)) is not (spelled == "" or spelled.endswith("#2"))


@pytest.mark.usefixtures("materialiser")
async def test_g10_the_same_cycle_after_midnight_and_under_a_new_version_is_the_same_item(
    connection: Connection, set_schedule: SetSchedule, set_time: SetTime, trigger: Trigger
) -> None:
    await set_schedule("nightly", EVENING)
    first = await trigger("rerun-1")
    assert (first.created, first.cycle, first.remedy) == (True, "manual-rerun-1", None)
    tomorrow = NOON + timedelta(days=1)
    await set_time(tomorrow)
    await set_schedule("nightly", EVENING, effective_from=tomorrow, business_key="another")
    for name in ("rerun-1", first.cycle):
        again = await trigger(name)
        assert (again.id, again.created) == (first.id, False)
    assert await connection.fetchval("select count(*) from ledger.due_item") == 1


@pytest.mark.usefixtures("materialiser")
async def test_two_who_trigger_one_cycle_at_once_meet_in_one_item(
    pool: Pool, set_schedule: SetSchedule, trigger: Trigger
) -> None:
    await set_schedule("nightly", EVENING)
    async with pool.acquire() as one, pool.acquire() as other:
        both = await asyncio.gather(trigger("rerun-1", on=one), trigger("rerun-1", on=other))
    assert sorted(each.created for each in both) == [False, True]
    assert len({each.id for each in both}) == 1


@pytest.mark.usefixtures("materialiser")
async def test_without_a_cycle_every_second_has_an_occurrence_of_its_own(
    set_schedule: SetSchedule, set_time: SetTime, trigger: Trigger
) -> None:
    await set_schedule("nightly", EVENING)
    first, again = await trigger(), await trigger()
    assert (first.cycle, again.id) == ("manual-2027-03-01T12:00:00Z", first.id)
    await set_time(NOON + timedelta(seconds=1))
    assert (await trigger()).id != first.id


@pytest.mark.usefixtures("materialiser")
async def test_an_occurrence_triggered_before_is_reported_with_the_remedy(
    connection: Connection, set_schedule: SetSchedule, trigger: Trigger, actor_no: int
) -> None:
    await set_schedule("nightly", EVENING)
    first = await trigger("rerun-1")
    again = await trigger("rerun-1")
    assert again.state == State.SCHEDULED.label
    assert f"dueledger trigger {first.id}" in (again.remedy or "")
    await withdraw_items(
        connection, [first.id], event=TransitionEvent.CANCELLED, reason="test", actor_no=actor_no
    )
    again = await trigger("rerun-1")
    assert again.state == State.CANCELLED.label
    assert f"dueledger show {first.id}" in (again.remedy or "")


@pytest.mark.usefixtures("materialiser")
async def test_a_triggered_item_is_due_now_for_the_schedules_own_day(
    connection: Connection, set_schedule: SetSchedule, set_time: SetTime, trigger: Trigger
) -> None:
    await set_schedule("nightly", EVENING)
    late = NOON + timedelta(hours=11, minutes=30)
    await set_time(late)
    item = await show_item(connection, (await trigger()).id)
    assert item is not None
    assert (item["due_at"], str(item["effective_date"])) == (late, "2027-03-02")
    assert (item["decision"], item["nominal"]) == ("triggered", None)
