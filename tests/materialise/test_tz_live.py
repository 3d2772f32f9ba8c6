"""A newer tz database beside processes that go on: nothing is dropped, and a change is applied."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.claimed_rows import read_instant
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.definitions import take_ended_versions
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.tz_changes import list_tz_changes
from tests.forks import ForkedProcess

from .conftest import (
    NEWER,
    NOON,
    Check,
    SetSchedule,
    SetTime,
    claim_due,
    claim_next,
    end,
    start,
    tick_until_idle,
)

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
NEW_YORK = {"timezone": "America/New_York"}


@pytest.mark.parametrize("hours", [3, 40])
async def test_g1_a_newer_tz_database_drops_no_occurrence_at_the_watermark(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    run_newer: Check,
    hours: int,
) -> None:
    """By the newer database each occurrence is an hour earlier: one moves over the watermark.

    If that has passed, nobody materialised for longer than the horizon, and catch-up decides.
    """
    for name, changed in (("d", {}), ("e", {"catch_up": {"policy": "skip"}})):
        await set_schedule(name, {"cron": "0 * * * *"} | NEW_YORK, **changed)
        await set_schedule(name, {"cron": "0,30 * * * *"} | NEW_YORK, **changed)
    await tick_until_idle(materialiser)
    now = NOON + hours * HOUR
    await set_time(now)
    run_newer("--once")
    for name in "de":
        rows = await connection.fetch(
            "select i.cycle, i.due_at, i.tzdata, p.item_no is not null as waits"
            " from ledger.due_item i join ledger.definition using (definition_no)"
            " left join ledger.pending p using (item_no) where name = $1 order by cycle",
            name,
        )
        begin = (NOON - 5 * HOUR).replace(tzinfo=None)
        assert [row["cycle"] for row in rows] == [
            f"{begin + place * 30 * MINUTE:%Y-%m-%dT%H:%M}" for place in range(len(rows))
        ], "each nominal time, once"
        older = [row for row in rows if row["tzdata"] == tzdata_version()]
        newer = [row for row in rows if row["tzdata"] == NEWER]
        assert newer[0]["due_at"] == older[-1]["due_at"] - 30 * MINUTE, "it moved over the other"
        for row in newer:
            assert row["waits"] is (name == "d" or row["due_at"] >= now), row
    assert await connection.fetchval(
        "select bool_and(tzdata = $1) from ledger.materialised where ends_at = 'infinity'", NEWER
    )


@pytest.mark.parametrize(("emitted", "withdrawn"), [(False, False), (True, True), (True, False)])
async def test_g1_a_newer_tz_database_drops_no_occurrence_at_the_end_of_a_version(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    run_newer: Check,
    *,
    emitted: bool,
    withdrawn: bool,
) -> None:
    """It moves half an hour before its end what was due half an hour after it.

    That was emitted or not, and was withdrawn since then or not yet.
    """
    hourly, ends_at = {"cron": "30 * * * *"} | NEW_YORK, NOON + 3 * HOUR
    for name in "de":
        await set_schedule(name, hourly)
    await set_schedule("e", hourly, labels={"a": "b"})
    if emitted:
        await tick_until_idle(materialiser)
    for name in "de":
        await set_schedule(name, hourly, effective_from=ends_at, ended=True)
    if withdrawn or not emitted:
        await tick_until_idle(materialiser)
    await set_time(ends_at - 15 * MINUTE)
    for _ in range(2):
        run_newer("--once")
        assert await tick_until_idle(materialiser) == 0, "the older database changes nothing"
    rows = await connection.fetch(
        "select d.name, left(i.cycle, 16) as cycle, i.due_at from ledger.due_item i"
        " join ledger.definition d using (definition_no) join ledger.pending using (item_no)"
        " order by d.name, i.due_at, i.cycle"
    )
    local = datetime(2027, 3, 1, 7, 30)  # noqa: DTZ001 - the nominal time
    expected = [(local + n * HOUR, NOON + (n + 0.5) * HOUR) for n in range(3)]
    expected.append((local + 3 * HOUR, NOON + 2.5 * HOUR))
    for name in "de":
        found = [(row["cycle"], row["due_at"]) for row in rows if row["name"] == name]
        assert found == [(f"{cycle:%Y-%m-%dT%H:%M}", at) for cycle, at in expected]


async def test_of_versions_that_ended_a_newer_tz_database_takes_those_that_it_may_change(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    hourly, ends_at = {"cron": "30 * * * *"} | NEW_YORK, NOON + 8 * HOUR
    kept = {"ended long ago": NOON + HOUR, "failed now": ends_at, "its next one is behind": ends_at}
    taken = {"ended": ends_at, "failed before": ends_at, "its next one failed": ends_at}
    for name, at in {**kept, **taken}.items():
        await set_schedule(name, hourly)
        await set_schedule(name, hourly, effective_from=at, labels={"a": "b"})
    await tick_until_idle(materialiser)
    await set_schedule("ended", hourly, effective_from=ends_at)  # so the one before has no span
    earlier = "its earlier one is behind"
    for label, at in (("a", NOON), ("b", ends_at - 3 * HOUR), ("c", ends_at)):
        await set_schedule(earlier, hourly, effective_from=at, labels={"a": label})
    await tick_until_idle(materialiser)
    now = NOON + 10 * HOUR
    await set_time(now)
    failures = (
        ("failed now", 1, now),
        ("failed before", 1, now - 2 * MINUTE),
        ("its next one failed", 2, now),
    )
    behind = [(name, 2, NOON) for name in ("its next one is behind", "its next one failed")]
    behind.append((earlier, 1, NOON))
    for column, values in (("failed_at", failures), ("materialised_until", behind)):
        await connection.executemany(
            f"update ledger.materialised m set {column} = $3 from ledger.definition d"  # noqa: S608 - names above
            " where d.definition_no = m.definition_no and d.name = $1 and d.version = $2",
            values,
        )
    rows = await take_ended_versions(connection, NEWER, 4 * 3_600, 100, retry_seconds=60)
    expected = [*((name, 1) for name in taken), (earlier, 2)]
    assert sorted((row.name, row.version) for row in rows) == sorted(expected)
    (first,) = await take_ended_versions(connection, NEWER, 4 * 3_600, 1, retry_seconds=60)
    assert first.until == first.materialised_until == ends_at
    assert not await take_ended_versions(connection, tzdata_version(), 4 * 3_600, 100)


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


async def test_g13_a_tz_change_is_applied_while_others_define_materialise_claim_and_complete(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    pool: Pool,
    actor_no: int,
    check_tz: Check,
    newer_tzdata: Path,
    run_process: Callable[..., Awaitable[ForkedProcess]],
) -> None:
    """A worker whose clock is ahead claims, from when the change is open, what it has to move."""
    names, hourly = [f"d-{n:02}" for n in range(12)], {"cron": "0 * * * *"} | NEW_YORK
    for name in names:
        await set_schedule(name, hourly)
    await tick_until_idle(materialiser)
    begins = NOON + 4 * HOUR
    until = ("--from", begins.isoformat())
    await set_time(begins - MINUTE)
    digest = check_tz(*until)[0]["digest"]
    await set_time(begins - 30 * SECOND)  # of later emissions nobody has seen anything
    beside = [await run_process(), await run_process(tzdata_folder=newer_tzdata)]
    apply = partial(check_tz, "--apply", digest, *until, code=(0, 4))  # 4: a version was defined
    applying = asyncio.create_task(asyncio.to_thread(apply))
    claimed: dict[UUID, datetime] = {}
    async with pool.acquire() as worker:
        while not applying.done() and not await list_tz_changes(worker, digest, limit=1):
            continue
        for step, name in enumerate(names):
            labels = {"step": str(step)}
            await set_schedule(name, hourly, effective_from=begins + 12 * HOUR, labels=labels)
            await set_schedule(f"new-{step}", hourly, effective_from=begins)
            await set_clock(worker, begins + step * HOUR, 0)
            if (found := await claim_due(worker, actor_no, serial=False)) is not None:
                fence, rows = found
                claimed |= {row.id: read_instant(row.due_at) for row in rows}
                run_no = await start(worker, actor_no, fence, len(rows))
                await end(worker, actor_no, run_no, [TransitionEvent.COMPLETED] * len(rows))
    applied = await applying
    assert sum(each["applied"] or 0 for each in applied) > 0
    for process in beside:
        process.kill()
        await process.wait()
    assert any(at >= begins for at in claimed.values())
    await set_time(begins - SECOND)
    await tick_until_idle(materialiser)
    if left := check_tz(*until):  # what the older process emitted since it was shown
        check_tz("--apply", left[0]["digest"], *until)
    assert check_tz(*until) == []
    found = await connection.fetch(
        "select i.id, i.business_key as name, left(i.cycle, 16) as cycle, i.due_at, i.tzdata,"
        " p.item_no is not null as waits from ledger.due_item i left join ledger.pending p"
        " using (item_no) where not exists (select from ledger.transition t"
        " where t.item_no = i.item_no and t.event = $1) order by 3",
        TransitionEvent.SUPERSEDED,
    )
    assert {row["id"]: row["due_at"] for row in found if row["id"] in claimed} == claimed
    cycles: defaultdict[str, list[str]] = defaultdict(list)
    for row in found:
        cycles[row["name"]].append(row["cycle"])
        assert not row["waits"] or row["due_at"] < begins or row["tzdata"] == NEWER
    for name, own in cycles.items():
        local = datetime.fromisoformat(own[0])
        assert own == [f"{local + n * HOUR:%Y-%m-%dT%H:%M}" for n in range(len(own))], name
    assert set(cycles) == {*names, *(f"new-{n}" for n in range(12))}
    assert not [row for row in await read_accounting(connection) if row.difference]
