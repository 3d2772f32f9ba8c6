"""An occurrence that a tz database ended and a newer one has again is owed as its next issue."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.materialise.tz_difference import find_differences
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent as Event
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items, read_accounting, skip_items, withdraw_items
from dueledger.ledger.store.tz_changes import TzStepKind

from .conftest import NEWER, NOON, Check, SetSchedule, SetTime, tick_until_idle

pytestmark = pytest.mark.long

EVE = datetime(2027, 3, 13, 12, tzinfo=NOON.tzinfo)
"""The next night clocks spring forward at two in New York and Detroit, and never in Panama."""

OLDER = "2000a"
NIGHTLY = {"cron": "30 2 * * *", "timezone": "America/New_York", "gap": "skip"}
TWICE = {"cron": "30 2,3 * * *", "timezone": "America/New_York"}
EVENING = {"cron": "0 18 * * *", "timezone": "America/New_York", "gap": "skip"}
ENDS = """
select i.cycle, to_char(i.due_at at time zone 'UTC', 'HH24:MI') as due,
  t.detail ->> 'reason' as reason
from ledger.due_item i left join ledger.transition t
  on t.item_no = i.item_no and t.effective_date = i.effective_date and t.event in (12, 13)
order by i.cycle
"""

Release = Callable[[str, str], None]
OccurrenceRow = tuple[str, str, str | None]


@pytest.fixture
def release(newer_tzdata: Path) -> Release:
    """Set the version of the newer database, and give New York the time of another zone."""
    package = newer_tzdata / "tzdata"
    zones, module = package / "zoneinfo" / "America", package / "__init__.py"
    text = module.read_text()

    def put(version: str, place: str) -> None:
        shutil.copyfile(zones / place, zones / "New_York")
        module.write_text(text.replace(NEWER, version))

    return put


async def occurrences(connection: Connection) -> list[OccurrenceRow]:
    """Return each occurrence, its due time, and why it was skipped or withdrawn."""
    found = await connection.fetch(ENDS)
    return [(row["cycle"], row["due"], row["reason"]) for row in found]


def changes(documents: list[dict[str, list[Mapping[str, str]]]]) -> list[tuple[str, str]]:
    return [(one["change"], one["cycle"]) for each in documents for one in each["items"]]


async def test_g13_an_occurrence_in_a_gap_that_a_newer_database_closes_is_owed_as_its_next_issue(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    release: Release,
    check_tz: Check,
    apply_tz: Check,
) -> None:
    await set_time(EVE)
    await set_schedule("d", NIGHTLY, effective_from=EVE)
    await tick_until_idle(materialiser)
    cycle = "2027-03-14T02:30"
    assert await occurrences(connection) == [(cycle, "07:00", "gap")]

    release("2099a", "Panama")
    assert changes(check_tz()) == [("added", f"{cycle}~2")]
    assert await occurrences(connection) == [(cycle, "07:00", "gap")], "what nobody reviewed stays"
    apply_tz()
    assert check_tz() == []
    assert (await occurrences(connection))[1:] == [(f"{cycle}~2", "07:30", None)]

    release("2099b", "Detroit")
    assert changes(apply_tz()) == [("skipped", f"{cycle}~2")]
    release("2099c", "Panama")
    assert changes(apply_tz()) == [("added", f"{cycle}~3")]
    assert check_tz() == []
    assert await occurrences(connection) == [
        (cycle, "07:00", "gap"),
        (f"{cycle}~2", "07:30", "gap"),
        (f"{cycle}~3", "07:30", None),
    ]
    assert not [each.difference for each in await read_accounting(connection) if each.difference]


async def test_g13_an_occurrence_that_a_database_merged_is_owed_again_by_the_next_that_parts_them(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    release: Release,
    check_tz: Check,
    apply_tz: Check,
) -> None:
    """In the gap half past two is half past three: of two occurrences one is owed."""
    await set_time(EVE)
    await set_schedule("d", TWICE, effective_from=EVE)
    await tick_until_idle(materialiser)
    merged, owed = "2027-03-14T02:30", "2027-03-14T03:30"
    assert await occurrences(connection) == [(merged, "07:30", "merged"), (owed, "07:30", None)]

    release("2099a", "Panama")
    assert ("added", f"{merged}~2") in changes(apply_tz())
    release("2099b", "Detroit")
    assert ("skipped", f"{merged}~2") in changes(apply_tz())
    release("2099c", "Panama")
    assert ("added", f"{merged}~3") in changes(apply_tz())
    assert check_tz() == []
    ended = {cycle: reason for cycle, _, reason in await occurrences(connection)}
    assert ended == {merged: "merged", owed: None, f"{merged}~2": "merged", f"{merged}~3": None}
    named = await connection.fetch(
        "select detail ->> 'into' as cycle from ledger.transition where event = $1", Event.SKIPPED
    )
    assert [row["cycle"] for row in named] == [owed, owed]
    assert not [each.difference for each in await read_accounting(connection) if each.difference]


async def first_round(name: str, kind: str, tzdata: str) -> ItemDraft:
    document = {"definition": name, "tenant": "acme", "kind": kind, "business_key": name}
    definition = parse_definition(document | {"when": EVENING})
    (draft,) = draft_occurrences(definition, NOON, NOON + timedelta(days=1)).drafts
    return replace(draft, tzdata=tzdata)


async def added(connection: Connection) -> list[str]:
    steps = [step async for found in find_differences(connection) for step in found.steps]
    assert {step.step for step in steps} <= {TzStepKind.ADDED}
    return [step.cycle for step in steps]


@pytest.mark.parametrize(
    ("tzdata", "reason", "newer", "owed_by"),
    [
        (OLDER, "gap", None, "tz change"),
        (OLDER, "gap", {"labels": {"a": "b"}}, "version"),
        (OLDER, "calendar", None, None),
        (OLDER, "catch_up", None, None),
        (tzdata_version(), "gap", None, None),
        (OLDER, "gap", {"when": EVENING | {"gap": "shift_forward"}}, "version"),
        (OLDER, "gap", {"when": EVENING | {"timezone": "America/Detroit"}}, "version"),
        (OLDER, "overlap", {"labels": {"a": "b"}}, None),
    ],
)
async def test_a_gap_of_another_database_is_owed_again_and_what_older_terms_skipped_by_newer_ones(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    actor_no: int,
    kind: str,
    tzdata: str,
    reason: str,
    newer: Mapping[str, object] | None,
    owed_by: str | None,
) -> None:
    number = await set_schedule("d", EVENING)
    draft = await first_round("d", kind, tzdata)
    await skip_items(connection, [draft], [reason], actor_no=actor_no, definition_nos=[number])
    if newer is not None:
        await set_schedule("d", **{"when": EVENING, **newer})
    await tick_until_idle(materialiser)
    again = [f"{draft.cycle}~2"]
    assert await added(connection) == (again if owed_by == "tz change" else [])
    waiting = await connection.fetch(
        "select cycle from ledger.due_item join ledger.pending using (item_no)"
    )
    assert [row["cycle"] for row in waiting] == (again if owed_by == "version" else [])


@pytest.mark.parametrize(
    ("reason", "owed_by"), [("tzdata", "tz change"), ("version", "version"), ("x", None)]
)
async def test_only_what_a_database_or_a_version_withdrew_is_owed_again(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    actor_no: int,
    kind: str,
    reason: str,
    owed_by: str | None,
) -> None:
    number = await set_schedule("d", EVENING)
    draft = await first_round("d", kind, OLDER)
    await emit_items(connection, [draft], actor_no=actor_no, definition_no=number)
    await withdraw_items(
        connection, [draft.id], event=Event.SUPERSEDED, reason=reason, actor_no=actor_no
    )
    await tick_until_idle(materialiser)
    again = [f"{draft.cycle}~2"]
    assert await added(connection) == (again if owed_by == "tz change" else [])
    waiting = await connection.fetch(
        "select cycle from ledger.due_item join ledger.pending using (item_no)"
    )
    assert [row["cycle"] for row in waiting] == (again if owed_by == "version" else [])
