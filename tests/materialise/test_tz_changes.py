"""A newer tz database: its changes are shown and applied once; items handed out do not move."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import Materialiser, tz_difference
from dueledger.ledger.materialise.tz_difference import find_differences
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendars import put_calendar
from dueledger.ledger.store.items import emit_items, item_timeline, read_accounting
from dueledger.ledger.store.tz_changes import TzStepKind
from tests.forks import ForkServer

from .conftest import NEWER, NOON, Check, SetSchedule, SetTime, claim_next, tick_until_idle

HOUR = timedelta(hours=1)
NOWHERE = "postgresql://127.0.0.1:1/nothing"
ROWS = """
select i.id, i.cycle, i.due_at, i.tzdata, i.complete_by, p.available_at
from ledger.due_item i left join ledger.pending p using (item_no) order by i.due_at
"""


def instants(found: Sequence[dict[str, Any]], field: str) -> list[datetime]:
    return [datetime.fromisoformat(one[field]) for one in found]


async def test_g13_what_a_newer_tz_database_moves_is_shown_and_applied_once(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    check_tz: Check,
) -> None:
    hourly = {"cron": "0 * * * *", "timezone": "America/New_York"}
    await set_schedule("d", hourly, sla={"complete_within": "PT2H"})
    await set_schedule("elsewhere", hourly | {"timezone": "Europe/Berlin"})
    await tick_until_idle(materialiser)
    await set_time(NOON + timedelta(minutes=90))
    _, handed = await claim_next(connection, actor_no, 1)
    before = {row["id"]: row for row in await connection.fetch(ROWS)}

    (shown,) = check_tz()
    assert (shown["definition"], shown["tzdata"], shown["applied"]) == ("d", NEWER, None)
    moved = [one for one in shown["items"] if one["change"] == "moved"]
    assert instants(moved, "was") == [NOON + n * HOUR for n in range(2, 25)]
    assert instants(moved, "due_at") == [NOON + n * HOUR for n in range(1, 24)]
    assert {one["was_tzdata"] for one in moved} == {tzdata_version()}
    (added,) = [one for one in shown["items"] if one["change"] == "added"]
    assert instants([added], "due_at") == [NOON + 24 * HOUR], "it would come after the watermark"
    assert {row["id"]: row for row in await connection.fetch(ROWS)} == before

    (applied,) = check_tz("--apply", shown["digest"])
    assert (applied["applied"], applied["items"]) == (len(moved) + 1, shown["items"])
    assert check_tz() == []
    after = {row["id"]: row for row in await connection.fetch(ROWS)}
    assert len(after) == len(before) + 1
    for one in moved:
        (row,) = [row for row in after.values() if str(row["id"]) == one["id"]]
        was = before[row["id"]]
        assert (row["due_at"], row["complete_by"]) == (
            was["due_at"] - HOUR,
            was["complete_by"] - HOUR,
        )
        assert row["available_at"] == max(row["due_at"], NOON + timedelta(minutes=90))
        assert (row["tzdata"], row["cycle"]) == (NEWER, was["cycle"])
    untouched = {one["id"] for one in moved} | {added["id"]}
    assert all(after[one] == before[one] for one in before if str(one) not in untouched)
    assert handed[0] in before
    assert str(handed[0]) not in untouched
    timeline = await item_timeline(connection, UUID(moved[0]["id"]))
    assert [event["event"] for event in timeline] == ["emitted", "revised"]
    detail = timeline[1]["detail"]
    assert (detail["tzdata"], detail["before"]["tzdata"]) == (NEWER, tzdata_version())
    assert detail["tz_change"] == applied["change_no"]
    assert datetime.fromisoformat(detail["before"]["due_at"]) == NOON + 2 * HOUR
    assert not [each.difference for each in await read_accounting(connection) if each.difference]


async def test_definitions_are_read_by_the_page_and_none_is_left_out(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bound in ("_PAGE_ITEMS", "_PAGE_VERSIONS", "_VERSIONS_KEPT"):
        monkeypatch.setattr(tz_difference, bound, 2)
    names = [f"d-{number}" for number in range(5)]
    for name in names:
        await set_schedule(name, {"cron": "0 */6 * * *", "timezone": "America/New_York"})
        await set_schedule(name, {"cron": "0 */8 * * *", "timezone": "America/New_York"})
    await tick_until_idle(materialiser)
    await connection.execute("update ledger.due_item set tzdata = '2000a'")
    await connection.execute("update ledger.due_item set due_at = due_at + interval '1 minute'")
    lost = await connection.fetch(
        "delete from ledger.pending where item_no % 3 = 0 returning item_no"
    )
    await connection.execute(
        "delete from ledger.due_item where item_no = any ($1::bigint[])",
        [row["item_no"] for row in lost],
    )
    waiting = await connection.fetchval(
        "select count(*) from ledger.due_item join ledger.pending using (item_no)"
    )
    found = [each async for each in find_differences(connection) if each.steps]
    assert {each.version.name for each in found} == set(names)
    assert {each.version.version for each in found} == {2}
    steps = Counter(step.step for each in found for step in each.steps)
    assert steps == {TzStepKind.MOVED: waiting, TzStepKind.ADDED: len(lost)}


async def test_the_doctor_names_the_iana_version_that_decides(
    newer_tzdata: Path, fork_server: ForkServer
) -> None:
    ended = await fork_server.start(
        *("-m", "dueledger", "doctor", "--json"),
        env=os.environ | {"DUELEDGER_DSN": NOWHERE, "PYTHONPATH": str(newer_tzdata)},
        pipe="stdout",
    )
    checks = orjson.loads(await ended.communicate())["checks"]
    (found,) = [one for one in checks if one["name"] == "tzdata"]
    assert found["text"].startswith(f"IANA {NEWER}, of the pinned package")


async def test_g13_what_events_owe_to_a_date_moves_with_its_zone(
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    kind: str,
    apply_tz: Check,
) -> None:
    await set_time(NOON)
    when = {"relative": "P-30D", "at": "09:00", "timezone": "America/New_York"}
    terms: dict[str, Any] = {
        "event": "PolicyActivated",
        "business_key": "data.number",
        "effective_date": "data.expires_on",
        "cycle": "data.term",
        "smear": "PT10M",
    }
    number = await set_schedule("rule", when, **terms)
    document = {"definition": "rule", "tenant": "acme", "kind": kind, "when": when} | terms
    data = {"number": "P-1", "expires_on": "2027-06-30", "term": "2027"}
    event = DomainEvent("acme", "/policies", "1", "PolicyActivated", NOON, data=data)
    rule = parse_definition(document)
    drafts = [one for one in apply_rule(rule, event) if isinstance(one, ItemDraft)]
    await emit_items(connection, drafts, actor_no=actor_no, definition_no=number)
    (shown,) = apply_tz()
    (moved,) = shown["items"]
    assert datetime.fromisoformat(moved["due_at"]) == drafts[0].due_at - HOUR
    (row,) = await connection.fetch(ROWS)
    assert (row["due_at"], row["tzdata"]) == (drafts[0].due_at - HOUR, NEWER)


async def test_g13_what_falls_into_a_gap_that_the_newer_database_makes_ends_as_its_rule_says(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    check_tz: Check,
    apply_tz: Check,
    newer_tzdata: Path,
) -> None:
    """Berlin springs forward at two on the 28th of March; New York will have its rules."""
    zones = newer_tzdata / "tzdata" / "zoneinfo"
    shutil.copyfile(zones / "Europe" / "Berlin", zones / "America" / "New_York")
    await set_time(datetime(2027, 3, 27, 12, tzinfo=NOON.tzinfo))
    await set_schedule(
        "d",
        {"cron": "30 2 * * *", "timezone": "America/New_York", "gap": "skip"},
        effective_from=datetime(2027, 3, 27, 12, tzinfo=NOON.tzinfo),
    )
    await tick_until_idle(materialiser)
    (before,) = await connection.fetch(ROWS)
    (applied,) = apply_tz()
    (shown,) = applied["items"]
    assert (shown["change"], shown["id"], shown["due_at"]) == ("skipped", str(before["id"]), None)
    timeline = await item_timeline(connection, before["id"])
    assert [event["event"] for event in timeline] == ["emitted", "skipped"]
    detail = timeline[1]["detail"]
    assert (detail["reason"], detail["tzdata"]) == ("gap", NEWER)
    assert detail["before"]["tzdata"] == tzdata_version()
    assert check_tz() == []
    assert not [each.difference for each in await read_accounting(connection) if each.difference]


async def test_g13_what_a_tz_database_moves_is_found_by_the_calendar_that_placed_it(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
    apply_tz: Check,
) -> None:
    """Thursday is a holiday by the newer version, which moves nothing that is materialised."""
    days = {"weekend": ["sat", "sun"], "first_day": "2026-01-01", "last_day": "2027-03-31"}
    last = date(2027, 3, 31)
    key: dict[str, Any] = {"tenant": "acme", "valid_to": last, "source": None, "actor_no": actor_no}
    await put_calendar(connection, days, name="us", **key)
    await put_calendar(connection, days, name="lost", **key)
    thursdays = {"cron": "0 7 * * thu", "timezone": "America/New_York"}
    for name in ("us", "lost"):
        calendar = {"name": name, "roll": "following"}
        await set_schedule(f"by-{name}", thursdays, calendar=calendar)
    await set_time(NOON + timedelta(days=2))
    await tick_until_idle(materialiser)
    await put_calendar(connection, days | {"holidays": ["2027-03-04"]}, name="us", **key)
    await connection.execute("update ledger.calendar set document = '{}' where name = 'lost'")
    due_at = datetime(2027, 3, 4, 12, tzinfo=NOON.tzinfo)
    failed, shown = sorted(apply_tz(code=4), key=lambda one: one["definition"])
    assert (failed["definition"], failed["items"]) == ("by-lost", [])
    assert failed["failure"] == "calendar lost cannot be read"
    assert (shown["failure"], instants(shown["items"], "was")) == (None, [due_at])
    assert instants(shown["items"], "due_at") == [due_at - HOUR]
    assert {row["due_at"] for row in await connection.fetch(ROWS)} == {due_at, due_at - HOUR}
