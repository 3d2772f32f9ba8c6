"""Two schedules with one business key: an occurrence of one is never the other's."""

from datetime import timedelta

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.store import Connection

from .conftest import NOON, SetSchedule, SetTime, tick_until_idle

HOUR = timedelta(hours=1)
UTC_NINE = {"cron": "0 9 * * *", "timezone": "UTC"}
JAPANESE_NINE = {"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}
ROUNDS = """
select d.name, i.cycle, i.due_at, p.item_no is not null as waits
from ledger.due_item i
join ledger.definition d using (definition_no)
left join ledger.pending p using (item_no)
order by i.due_at, i.cycle, waits
"""


async def failures(connection: Connection) -> dict[str, str]:
    rows = await connection.fetch(
        "select name, failure from ledger.materialised join ledger.definition using (definition_no)"
        " where failure is not null and materialised_until < ends_at"
    )
    return {row["name"]: row["failure"] for row in rows}


async def test_g2_an_occurrence_that_is_another_schedules_item_fails_and_is_not_lost(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    await set_schedule("european", UTC_NINE, business_key="shared")
    assert (await materialiser.tick())["emitted"] == 1
    await set_schedule("japanese", JAPANESE_NINE, business_key="shared")
    await set_schedule("other", UTC_NINE)
    counts = await materialiser.tick()
    assert (counts["emitted"], counts["failed"]) == (1, 1), "the failure stops no other"
    ((name, failure),) = (await failures(connection)).items()
    assert name == "japanese"
    assert "2027-03-02T09:00 is an item of european" in failure

    await set_schedule("japanese", JAPANESE_NINE, business_key="its own")
    await set_time(NOON + timedelta(seconds=61))
    await tick_until_idle(materialiser)
    assert await failures(connection) == {}
    rows = await connection.fetch(ROUNDS)
    assert sorted((row["name"], row["due_at"].hour) for row in rows) == [
        ("european", 9),
        ("japanese", 0),
        ("other", 9),
    ]


async def test_g2_two_schedules_of_one_pass_do_not_share_their_occurrences_unseen(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    for name in ("one", "other"):
        await set_schedule(name, UTC_NINE, business_key="shared")
    counts = await materialiser.tick()
    assert (counts["emitted"], counts["failed"]) == (1, 1)
    assert len(await failures(connection)) == 1


async def test_g2_a_skipped_occurrence_and_a_fixed_delay_are_not_mixed_up_with_anothers(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    friday = {"weekend": ["mon", "tue", "wed", "thu"], "roll": "skip"}
    delay = {"after_completion": "PT1H", "timezone": "UTC"}
    for name in ("a", "b"):
        await set_schedule(f"skipped-{name}", UTC_NINE, business_key="s", calendar=friday)
        await set_schedule(f"delayed-{name}", delay, business_key="d")
    assert (await materialiser.tick())["failed"] == 2
    assert len(await failures(connection)) == 2


async def test_g2_a_newer_version_with_anothers_key_fails(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("european", UTC_NINE, business_key="shared")
    await set_schedule("japanese", JAPANESE_NINE)
    await tick_until_idle(materialiser)
    await set_schedule("japanese", JAPANESE_NINE, business_key="shared")
    assert (await materialiser.tick())["failed"] == 1
    assert "is an item of european" in (await failures(connection))["japanese"]


async def test_g13_a_key_that_a_newer_version_gives_up_is_anothers_from_then_on(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("before", UTC_NINE, business_key="handed over")
    await tick_until_idle(materialiser)
    change = NOON + HOUR
    await set_schedule("after", UTC_NINE, business_key="handed over", effective_from=change)
    await set_schedule("before", UTC_NINE, business_key="its new one", effective_from=change)
    await tick_until_idle(materialiser)
    assert await failures(connection) == {}
    rows = await connection.fetch(ROUNDS)
    assert [(row["name"], row["cycle"], row["waits"]) for row in rows] == [
        ("before", "2027-03-02T09:00", False),
        ("before", "2027-03-02T09:00", True),
        ("after", "2027-03-02T09:00~2", True),
    ]
