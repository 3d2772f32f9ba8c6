"""A newer tz database beside processes that go on: nothing is dropped, and a change is applied."""

from datetime import timedelta
from uuid import UUID

import pytest

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection

from .conftest import NEWER, NOON, Check, SetSchedule, SetTime, claim_next, tick_until_idle

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NEW_YORK = {"timezone": "America/New_York"}


async def test_g1_a_newer_tz_database_drops_no_occurrence_at_the_watermark(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    run_newer: Check,
) -> None:
    """By the newer database each occurrence is an hour earlier: one moves over the watermark."""
    for name, changed in (("d", {}), ("e", {"catch_up": {"policy": "skip"}})):
        await set_schedule(name, {"cron": "0 * * * *"} | NEW_YORK, **changed)
        await set_schedule(name, {"cron": "0,30 * * * *"} | NEW_YORK, **changed)
    await tick_until_idle(materialiser)
    await set_time(NOON + 3 * HOUR)
    run_newer("--once")
    for name in "de":
        rows = await connection.fetch(
            "select i.cycle, i.due_at, i.tzdata from ledger.due_item i"
            " join ledger.definition using (definition_no) where name = $1 order by cycle",
            name,
        )
        begin = (NOON - 5 * HOUR).replace(tzinfo=None)
        assert [row["cycle"] for row in rows] == [
            f"{begin + place * 30 * MINUTE:%Y-%m-%dT%H:%M}" for place in range(len(rows))
        ], "each nominal time, once"
        older = [row for row in rows if row["tzdata"] == tzdata_version()]
        newer = [row for row in rows if row["tzdata"] == NEWER]
        assert newer[0]["due_at"] == older[-1]["due_at"] - 30 * MINUTE, "it moved over the other"
    assert await connection.fetchval(
        "select bool_and(tzdata = $1) from ledger.materialised where ends_at = 'infinity'", NEWER
    )


@pytest.mark.parametrize("minutes", [15, 240])
async def test_g13_a_tz_change_is_applied_beside_workers_and_materialisers_that_go_on(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    check_tz: Check,
    run_newer: Check,
    minutes: int,
) -> None:
    await set_schedule("d", {"cron": "*/5 * * * *"} | NEW_YORK)
    await tick_until_idle(materialiser)
    begins = NOON + minutes * MINUTE
    given = ("--from", begins.isoformat()) if minutes > 15 else ()
    (shown,) = check_tz(*given)
    before = await connection.fetch("select id, due_at from ledger.due_item")
    await set_time(begins - MINUTE)
    await claim_next(connection, actor_no, 3)
    await tick_until_idle(materialiser)
    await set_time(begins - timedelta(seconds=1))
    run_newer("--once")
    (applied,) = check_tz("--apply", shown["digest"], *given)
    moved = {UUID(one["id"]) for one in shown["items"] if one["change"] == "moved"}
    assert moved == {row["id"] for row in before if row["due_at"] >= begins}
    found = await connection.fetch("select id, due_at from ledger.due_item")
    after = {row["id"]: row["due_at"] for row in found}
    assert {row["id"]: after[row["id"]] for row in before} == {
        row["id"]: row["due_at"] - (HOUR if row["id"] in moved else timedelta()) for row in before
    }
    added = sum(one["change"] == "added" for one in shown["items"])
    assert len(moved) <= applied["applied"] <= len(moved) + added
