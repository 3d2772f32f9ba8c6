"""A newer tz database moves items that are still to come; others differ from them in one thing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.store import connect
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import snooze_items
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.statements import statement

from .conftest import Ledger
from .versions import define_versions, emit_for_version

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
INSTANT: Final = timedelta(microseconds=1)
SERIAL: Final = {"overlap": Overlap.WAIT, "overlap_key": "one"}
WITHDRAWN: Final = "withdrawn"
TABLES: Final = ("due_item", "pending", "withdrawal")


@dataclass(frozen=True, slots=True)
class Case:
    """An item due in an hour, what was done to it, and where it moves: two hours on by default."""

    moves: bool = True
    terms: dict[str, Any] = field(default_factory=dict[str, Any])
    version: str = "first"
    done: str = ""
    to: datetime | None = NOON + 3 * HOUR
    skip_reason: str | None = None
    available_at: datetime | None = NOON + 3 * HOUR


PUT_OFF: Final = (
    "update ledger.pending set available_at = ledger.now() + interval '9 hours' where item_no = $1"
)
CASES: Final[dict[str, Case]] = {
    "moved": Case(),
    "of-no-tzdata": Case(terms={"tzdata": None}),
    "soon": Case(terms={"due_at": NOON + INSTANT}),
    "due": Case(moves=False, terms={"due_at": NOON}),
    "of-this-tzdata": Case(moves=False, terms={"tzdata": "2026c"}),
    "of-another-version": Case(moves=False, version="second"),
    "expedited": Case(
        moves=False,
        done="insert into ledger.expedited values ($1, '2027-03-01', now(), 1, 'test', 1, now())",
    ),
    "retry": Case(moves=False, done="update ledger.pending set state = 4 where item_no = $1"),
    "attempt": Case(moves=False, done="update ledger.pending set attempt = 1 where item_no = $1"),
    "started": Case(moves=False, done="update ledger.pending set starts = 1 where item_no = $1"),
    "to-the-past": Case(to=NOON - HOUR, available_at=NOON),
    "serial": Case(terms=SERIAL),
    "put-off": Case(terms=SERIAL, done=PUT_OFF, available_at=NOON + 9 * HOUR),
    "put-off-less": Case(done=PUT_OFF, to=NOON + 10 * HOUR, available_at=NOON + 10 * HOUR),
    "waiting": Case(
        terms=SERIAL,
        done="update ledger.pending set available_at = 'infinity' where item_no = $1",
        available_at=None,
    ),
    "ended": Case(to=None),
    "skipped": Case(to=None, skip_reason="merged 2027-03-01T14:00"),
}


async def _rows(ledger: Ledger, table: str) -> dict[int, dict[str, Any]]:
    """Return the rows of a table by item."""
    rows = await ledger.connection.fetch(
        f"select item_no, to_jsonb(t) as row from ledger.{table} t"  # noqa: S608 - a name of the test
    )
    return {row["item_no"]: row["row"] for row in rows}


@pytest.fixture
async def numbers(undone_ledger: Ledger) -> dict[str, int]:
    """The items of all cases, each with a request to withdraw it."""
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    numbers: dict[str, int] = {}
    for name, case in CASES.items():
        (draft,) = ledger.make_drafts(prefix=name)
        terms = {"due_at": NOON + HOUR, "tzdata": "2026b", "decision": "fold", **case.terms}
        draft = replace(draft, **terms)
        draft = replace(draft, start_by=draft.due_at + HOUR, complete_by=draft.due_at + 2 * HOUR)
        numbers[name] = await emit_for_version(ledger, draft, versions[case.version], case.done)
    return numbers


async def _move(ledger: Ledger) -> list[str]:
    """Move the items of all cases; return those that changed."""
    names = {draft: name for name in CASES for draft in ledger.make_drafts(prefix=name)}
    rows = await ledger.connection.fetch(
        statement("move_items"),
        await ledger.connection.fetchval(
            "select definition_no from ledger.definition where tenant = 'acme' and version = 2"
        ),
        [draft.id for draft in names],
        [case.to for case in CASES.values()],
        ["gap"] * len(CASES),
        [case.skip_reason for case in CASES.values()],
        "2026c",
        ledger.other_worker_no,
        9,
    )
    return [list(CASES)[row["ord"] - 1] for row in rows]


async def test_g13_only_items_still_to_come_move_and_no_other_row_changes(
    undone_ledger: Ledger, numbers: dict[str, int]
) -> None:
    ledger = undone_ledger
    before = {table: await _rows(ledger, table) for table in TABLES}
    changed = [name for name, case in CASES.items() if case.moves]

    assert await _move(ledger) == changed

    assert await _move(ledger) == []
    after = {table: await _rows(ledger, table) for table in TABLES}
    moved = {numbers[name] for name in changed if CASES[name].to is not None}
    ended = {numbers[name] for name in changed} - moved
    for table in TABLES:
        assert {no for no, row in before[table].items() if after[table].get(no) != row} == {
            "due_item": moved,
            # An item that waits for its key keeps waiting, and has its new place among the others.
            "pending": moved | ended,
            "withdrawal": ended,
        }[table]
    assert after["pending"].keys() == before["pending"].keys() - ended
    rows = await ledger.connection.fetch(
        "select i.item_no, i.due_at, i.start_by - i.due_at as start_within,"
        " i.complete_by - i.due_at as complete_within, i.decision, i.tzdata,"
        " nullif(p.available_at, 'infinity') as available_at, p.serial_due_at"
        " from ledger.due_item i join ledger.pending p using (item_no)"
        " where i.item_no = any ($1::bigint[])",
        moved,
    )
    assert {row["item_no"]: tuple(row)[1:] for row in rows} == {
        numbers[name]: (
            case.to,
            HOUR,
            2 * HOUR,
            "gap",
            "2026c",
            case.available_at,
            case.to if case.terms is SERIAL else None,
        )
        for name, case in CASES.items()
        if case.moves and case.to is not None
    }


async def test_g13_the_journal_says_what_moved_an_item_and_what_it_was_before(
    undone_ledger: Ledger, numbers: dict[str, int]
) -> None:
    ledger = undone_ledger
    rows = await _rows(ledger, "due_item")
    await _move(ledger)
    written = await ledger.connection.fetch("select * from ledger.transition")
    assert len(written) == sum(case.moves for case in CASES.values())
    events = {"ended": 12, "skipped": 13}
    for row in written:
        name = next(name for name, number in numbers.items() if number == row["item_no"])
        case, was = CASES[name], rows[row["item_no"]]
        assert (row["event"], row["attempt"], row["at"]) == (events.get(name, 15), 0, NOON)
        assert row["actor_no"] == ledger.other_worker_no
        detail = row["detail"]
        due_at = detail.pop("due_at", None)
        assert (due_at and datetime.fromisoformat(due_at)) == case.to
        before = {key: was[key] for key in ("due_at", "tzdata", "decision")}
        assert detail == {
            "tzdata": "2026c",
            "tz_change": 9,
            "before": {key: value for key, value in before.items() if value is not None},
            "reason": "tzdata",
            **({"reason": "merged", "into": "2027-03-01T14:00"} if name == "skipped" else {}),
        }


async def test_g13_a_move_waits_for_a_claim_and_leaves_its_item(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.stand_at(NOON)
    versions = await define_versions(ledger)
    (draft,) = ledger.make_drafts(due_at=NOON + HOUR)
    await emit_items(
        ledger.connection, [draft], actor_no=ledger.worker_no, definition_no=versions["first"]
    )
    rival = await connect(database, application_name="rival")
    claiming = rival.transaction()
    await claiming.start()
    await rival.execute("delete from ledger.pending")
    terms = ([draft.id], [NOON + 3 * HOUR], [None], [None], "2026c", ledger.worker_no, 9)
    moving = asyncio.create_task(
        ledger.connection.fetch(statement("move_items"), versions["first"], *terms)
    )
    pid = ledger.connection.get_server_pid()

    async def waits() -> bool:
        return await rival.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(waits)
    await claiming.commit()
    assert await moving == []
    assert await rival.fetchval("delete from ledger.due_item returning due_at") == NOON + HOUR
    await rival.close()


async def test_g3_a_snooze_outlasts_moves_to_a_later_time_and_to_an_earlier_one_again(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    (draft,) = ledger.make_drafts()
    draft = replace(draft, due_at=NOON + HOUR, tzdata="2026b")
    number = await emit_for_version(ledger, draft, versions["first"])
    until = NOON + 3 * HOUR
    terms: dict[str, Any] = {"reason": "INC-7", "actor_no": ledger.other_worker_no, "until": until}
    await snooze_items(ledger.connection, [draft.id], **terms)
    for tzdata, hours, available_at in (("2026c", 5, NOON + 5 * HOUR), ("2026d", 2, until)):
        moved_to = NOON + hours * HOUR
        moved = await ledger.connection.fetch(
            statement("move_items"),
            *(versions["first"], [draft.id], [moved_to], ["gap"], [None], tzdata),
            *(ledger.other_worker_no, 9),
        )
        assert len(moved) == 1
        waits = "select available_at from ledger.pending where item_no = $1"
        assert await ledger.connection.fetchval(waits, number) == available_at
