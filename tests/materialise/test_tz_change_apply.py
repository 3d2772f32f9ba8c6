"""A tz change is applied as it was reviewed, as one change, even if processes die."""

import os
import signal
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest

from dueledger.ledger.materialise import Materialiser, tz_change
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.tz_changes import list_tz_change_versions, list_tz_changes
from tests.forks import ForkServer

from .conftest import NEWER, NOON, Check, SetSchedule, SetTime, claim_next, tick_until_idle

HOUR = timedelta(hours=1)
HOURLY = {"cron": "0 * * * *", "timezone": "America/New_York"}
KILLED = -signal.SIGKILL
DUE_OF_ITEMS = "select id, due_at, tzdata from ledger.due_item"


@pytest.fixture
async def three_schedules(materialiser: Materialiser, set_schedule: SetSchedule) -> None:
    for name in ("a", "b", "c"):
        await set_schedule(name, HOURLY)
    await tick_until_idle(materialiser)


def items(documents: list[dict[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {one["id"]: one for one in chain(*(each["items"] for each in documents))}


async def due_of_items(connection: Connection) -> dict[str, tuple[datetime, str]]:
    rows = await connection.fetch(DUE_OF_ITEMS)
    return {str(row["id"]): (row["due_at"], row["tzdata"]) for row in rows}


@pytest.mark.usefixtures("three_schedules")
async def test_g13_a_change_by_a_tz_database_that_is_killed_at_each_step_ends_as_it_was_reviewed(
    connection: Connection, check_tz: Check
) -> None:
    before = await due_of_items(connection)
    shown = check_tz()
    assert [each["definition"] for each in shown] == ["a", "b", "c"]
    (digest,) = {each["digest"] for each in shown}
    done: list[int] = []
    for crash_at in ("opened", "applied:1", "applied:2", "applied:1", "applied:2"):
        check_tz("--apply", digest, code=KILLED, crash_at=f"tz_change.{crash_at}")
        left = check_tz()
        assert ({each["digest"] for each in left}, items(left)) == ({digest}, items(shown))
        assert {each["change_no"] for each in left} == {1}
        done.append(sum(each["applied"] is not None for each in left))
    assert done == [0, 0, 1, 1, 2]
    applied = check_tz("--apply", digest)
    assert items(applied) == items(shown)
    after = await due_of_items(connection)
    placed = {
        name: (datetime.fromisoformat(one["due_at"]), NEWER) for name, one in items(shown).items()
    }
    assert after == before | placed
    assert check_tz() == []
    assert check_tz("--apply", digest) == applied, "once more changes nothing"
    assert await due_of_items(connection) == after
    (change,) = check_tz("--history")
    shown = {
        name: change[name] for name in ("change_no", "digest", "tzdata", "tzdata_before", "actor")
    }
    assert shown == {
        "change_no": 1,
        "digest": digest,
        "tzdata": NEWER,
        "tzdata_before": [tzdata_version()],
        "actor": "person:ada",
    }
    assert change["closed_at"] is not None
    assert (change["definitions"], change["applied"]) == (3, len(placed))
    assert not [each.difference for each in await read_accounting(connection) if each.difference]


@pytest.mark.usefixtures("three_schedules")
async def test_g13_what_is_not_what_was_reviewed_is_refused_whole(
    connection: Connection, actor_no: int, set_time: SetTime, check_tz: Check
) -> None:
    digest = check_tz()[0]["digest"]
    later = ("--from", (NOON + 4 * HOUR).isoformat())
    lasting = check_tz(*later)
    assert (
        min(one["was"] or one["due_at"] for one in items(lasting).values())
        == "2027-03-01T16:00:00Z"
    )
    await set_time(NOON + 3 * HOUR)
    await claim_next(connection, actor_no, 2)
    before = await due_of_items(connection)
    for wrong in (digest, lasting[0]["digest"], "0" * 64):
        (refused,) = check_tz("--apply", wrong, code=1)
        assert refused["error"]["code"] == "CONFLICT"
    assert await due_of_items(connection) == before
    assert check_tz("--history") == []
    applied = check_tz("--apply", lasting[0]["digest"], *later)
    assert items(applied) == items(lasting)


@pytest.mark.usefixtures("three_schedules")
async def test_g13_a_version_that_was_defined_before_a_change_came_to_it_keeps_what_it_owes(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    check_tz: Check,
) -> None:
    shown = check_tz()
    digest = shown[0]["digest"]
    check_tz("--apply", digest, code=KILLED, crash_at="tz_change.opened")
    (refused,) = check_tz("--apply", "0" * 64, code=1)
    assert refused["error"]["details"] == {"digest": digest}, "what was begun goes first"
    await set_schedule("b", HOURLY, effective_from=NOON + HOUR, labels={"a": "b"})
    before = await due_of_items(connection)
    applied = check_tz("--apply", digest, code=4)
    assert [each["superseded"] for each in applied] == [False, True, False]
    assert applied[1]["applied"] == 0
    after = await due_of_items(connection)
    assert {name: after[name] for name in items(shown[1:2]) if name in before} == {
        name: before[name] for name in items(shown[1:2]) if name in before
    }
    await tick_until_idle(materialiser)
    assert {each["version"] for each in check_tz()} == {2}


@pytest.mark.usefixtures("three_schedules")
async def test_g13_a_process_that_slept_applies_nothing_of_a_change_that_another_finished(
    connection: Connection, check_tz: Check, actor_no: int
) -> None:
    placed = await due_of_items(connection)
    digest = check_tz()[0]["digest"]
    check_tz("--apply", digest, code=KILLED, crash_at="tz_change.opened")
    (change,) = await list_tz_changes(connection, digest, limit=1)
    versions = [each async for each in list_tz_change_versions(connection, change.change_no)]
    check_tz("--apply", digest)
    for item, (due_at, _) in placed.items():  # a later change moves them back
        await connection.execute(
            "update ledger.due_item set tzdata = 'newest', due_at = $2 where id = $1", item, due_at
        )
    before = await due_of_items(connection)
    for version in versions:
        await tz_change.apply_version(connection, change, version, actor_no)
    assert await due_of_items(connection) == before


async def test_no_transaction_is_open_while_somebody_reads_what_a_tz_database_changes(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    database: str,
    newer_tzdata: Path,
    fork_server: ForkServer,
) -> None:
    await set_schedule("d", HOURLY | {"cron": "* * * * *"})
    await tick_until_idle(materialiser)
    command = ("-m", "dueledger", "materialise", "--check-tz", "--json")

    async def read_slowly(*arguments: str) -> dict[str, Any]:
        process = await fork_server.start(
            *(*command, *arguments),
            env=os.environ | {"DUELEDGER_DSN": database, "PYTHONPATH": str(newer_tzdata)},
            pipe="stdout",
            ahead_bytes=1_024,
        )
        assert process.piped is not None
        first = await process.piped.readexactly(1)
        open_ = await connection.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'dueledger-cli'"
            " and xact_start is not null"
        )
        shown = first + await process.communicate()
        assert len(shown) > 100_000, "more than a pipe holds"
        assert (open_, process.returncode) == (0, 0)
        return orjson.loads(shown)

    previewed = await read_slowly()
    applied = await read_slowly("--apply", previewed["digest"])
    assert applied["items"] == previewed["items"]
