"""Passes of one process beside each other: they materialise different schedules."""

import pytest

from dueledger.ledger.materialise import Materialiser, MaterialiserSettings, open_materialiser
from dueledger.ledger.store import Connection

from .conftest import NOON, SetSchedule, SetTime

ITEMS = 25  # of one schedule: a horizon of a day and a stride of an hour


@pytest.fixture
async def one_each(
    settings: MaterialiserSettings, set_schedule: SetSchedule, set_time: SetTime
) -> MaterialiserSettings:
    """Settings by which a pass has one schedule, and four schedules."""
    await set_time(NOON)
    for number in range(4):
        when = {"cron": f"{number} * * * *", "timezone": "UTC"}
        await set_schedule(f"hourly-{number}", when)
    return settings.model_copy(update={"materialise_definitions_max": 1})


async def test_two_passes_at_once_materialise_each_schedule_once(
    one_each: MaterialiserSettings,
) -> None:
    async with open_materialiser(one_each) as passes:
        counts = [await passes.tick() for _ in range(4)]
    assert [each["definitions"] for each in counts] == [1, 2, 1, 0]
    assert [each.get("emitted", 0) for each in counts] == [ITEMS, 2 * ITEMS, ITEMS, 0]


async def test_a_pass_that_fails_beside_another_writes_nothing_and_the_other_all(
    one_each: MaterialiserSettings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_once(self: Materialiser, *arguments: object) -> object:
        monkeypatch.setattr(Materialiser, name, original)
        raise RuntimeError(self, *arguments)

    name = "_begin_chains"
    original = getattr(Materialiser, name)
    async with open_materialiser(one_each) as passes:
        await passes.tick()
        monkeypatch.setattr(Materialiser, name, fail_once)
        with pytest.raises(RuntimeError):
            await passes.tick()
        assert await connection.fetchval("select count(*) from ledger.due_item") == 2 * ITEMS
        counts = [await passes.tick() for _ in range(3)]
    assert [each["definitions"] for each in counts] == [1, 1, 0]
    assert await connection.fetchval("select count(*) from ledger.due_item") == 4 * ITEMS
