"""A revision gives its items the newer terms; items that differ in one thing keep theirs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.store import connect
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import snooze_items
from dueledger.ledger.store.items import (
    RequestResult,
    RevisionResult,
    emit_items,
    revise_event_items,
    revise_items,
)
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.statements import statement

from .conftest import Ledger
from .versions import define_versions

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
TRACE: Final = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
BEFORE: Final[dict[str, Any]] = {
    "due_at": NOON + HOUR,
    "start_by": NOON + 2 * HOUR,
    "complete_by": NOON + 3 * HOUR,
    "partition_key": "before",
    "labels": '{"region":"north"}',
    "nominal": "2027-03-01T13:00",
    "zone": "UTC",
    "decision": "fold",
    "tzdata": "2026b",
    "smear_seconds": 60,
    "traceparent": TRACE,
}
AFTER: Final[dict[str, Any]] = {
    "lane": "south",
    "due_at": NOON + 2 * HOUR,
    "start_by": NOON + 4 * HOUR,
    "complete_by": NOON + 5 * HOUR,
    "payload": '{"premium":"200.00"}',
    "partition_key": "after",
    "labels": '{"region":"south"}',
    "nominal": "2027-03-01T14:00",
    "zone": "Europe/Berlin",
    "decision": "gap",
    "tzdata": "2026c",
    "smear_seconds": 30,
    "traceparent": TRACE.replace("01", "02"),
    "overlap": Overlap.SKIP,
    "overlap_key": "after",
}
REVISED, SAME, NEXT = RevisionResult.REVISED, RevisionResult.SAME, RevisionResult.NEXT
SKIPPED, BEGUN = RevisionResult.SKIPPED, RevisionResult.BEGUN


def _draft(ledger: Ledger, name: str, **terms: Any) -> ItemDraft:  # noqa: ANN401 - as ItemDraft takes them
    (draft,) = ledger.make_drafts(prefix=name)
    return replace(draft, **{"due_at": NOON + HOUR, "tzdata": "2026b", "zone": "UTC", **terms})


async def _emit(
    ledger: Ledger, draft: ItemDraft, definition_no: int | None, event_no: int | None = None
) -> int:
    """Emit an item; return its number."""
    await emit_items(
        ledger.connection,
        [draft],
        actor_no=ledger.worker_no,
        definition_no=definition_no,
        event_nos=[event_no],
    )
    return await ledger.connection.fetchval(
        "select item_no from ledger.due_item where id = $1", draft.id
    )


async def _revise(
    ledger: Ledger,
    drafts: Sequence[ItemDraft],
    definition_no: int,
    skip_reasons: Sequence[str | None] | None = None,
) -> list[RevisionResult | None]:
    return await revise_items(
        ledger.connection,
        drafts,
        definition_nos=[definition_no] * len(drafts),
        since=[NOON] * len(drafts),
        reason="version",
        actor_no=ledger.other_worker_no,
        skip_reasons=skip_reasons,
    )


async def _rows(ledger: Ledger, table: str) -> dict[int, dict[str, Any]]:
    """Return the rows of a table by item."""
    rows = await ledger.connection.fetch(
        f"select item_no, to_jsonb(t) - 'item_no' as row from ledger.{table} t"  # noqa: S608 - a name of the test
    )
    return {row["item_no"]: row["row"] for row in rows}


async def _as_emitted(
    ledger: Ledger, draft: ItemDraft, definition_no: int, event_no: int
) -> list[dict[str, Any]]:
    """Return the item's row and its pending one as emission makes them; undo it."""
    transaction = ledger.connection.transaction()
    await transaction.start()
    item_no = await _emit(ledger, draft, definition_no, event_no)
    rows = [(await _rows(ledger, table))[item_no] for table in ("due_item", "pending")]
    await transaction.rollback()
    return rows


@pytest.mark.parametrize("by_event", [False, True], ids=["version", "event"])
@pytest.mark.parametrize(
    "keyed", [AFTER, {**AFTER, "overlap": None}], ids=["by overlap", "by its kind"]
)
async def test_g13_a_revised_item_is_as_if_it_were_emitted_under_the_newer_terms(
    undone_ledger: Ledger, keyed: dict[str, Any], *, by_event: bool
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    versions = await define_versions(ledger)
    before, after = _draft(ledger, "one", **BEFORE), _draft(ledger, "one", **keyed)
    await _emit(ledger, _draft(ledger, "another", lane=after.lane), None)
    # Only an event gives a trace context, and its own number.
    given = after if by_event else replace(after, traceparent=TRACE)
    expected = await _as_emitted(ledger, given, versions["second"], 8 if by_event else 7)
    item_no = await _emit(ledger, before, versions["first"], 7)
    was = (await _rows(ledger, "due_item"))[item_no]

    if by_event:
        results = await revise_event_items(
            ledger.connection,
            [after],
            definition_nos=[versions["second"]],
            event_nos=[8],
            replaced_event_nos=[6, 7],
            actor_no=ledger.other_worker_no,
        )
    else:
        results = await _revise(ledger, [after], versions["second"])

    assert results == [REVISED]
    rows = [(await _rows(ledger, table))[item_no] for table in ("due_item", "pending")]
    assert rows == expected
    (written,) = await ledger.connection.fetch(
        "select event, attempt, actor_no, at, detail from ledger.transition"
    )
    kept = {
        name: was[name]
        for name in (
            *("due_at", "tzdata", "zone", "decision", "smear_seconds", "labels", "start_by"),
            *("complete_by", "partition_key", "flow_no"),
        )
    }
    assert tuple(written)[:4] == (15, 0, ledger.other_worker_no, NOON)
    assert written["detail"] == {
        "reason": "event" if by_event else "version",
        "due_at": rows[0]["due_at"],
        "tzdata": "2026c",
        "before": {
            **kept,
            "version": 2,
            "payload": before.payload,
            **({"event_no": 7} if by_event else {}),
        },
    }


@dataclass(frozen=True, slots=True)
class Case:
    """An item, what was done to it, the newer terms where they differ, and the result."""

    result: RevisionResult | None
    version: str | None = "first"
    done: str = ""
    before: dict[str, Any] = field(default_factory=dict[str, Any])
    after: dict[str, Any] = field(default_factory=dict[str, Any])
    skip_reason: str | None = None


def _ended(event: int, reason: str = "test") -> str:
    return (
        "with gone as (delete from ledger.pending where item_no = $1 returning effective_date)"  # noqa: S608 - values of the table below
        " insert into ledger.transition"
        " (effective_date, item_no, event, attempt, actor_no, at, detail)"
        f' select effective_date, $1, {event}, 0, 1, now(), \'{{"reason":"{reason}"}}\''
        " from gone"
    )


STARTED: Final = "update ledger.pending set attempt = 1 where item_no = $1"
LATER: Final = {"due_at": NOON + 2 * HOUR}
CASES: Final[dict[str, Case]] = {
    "older": Case(REVISED),
    "at-since": Case(REVISED, before={"due_at": NOON + SECOND, "smear_seconds": 1}),
    "before-since": Case(BEGUN, before={"due_at": NOON, "smear_seconds": 1}),
    "retry": Case(BEGUN, done="update ledger.pending set state = 4 where item_no = $1"),
    "attempt": Case(BEGUN, done=STARTED),
    "started": Case(BEGUN, done="update ledger.pending set starts = 1 where item_no = $1"),
    "expedited": Case(
        BEGUN,
        done="insert into ledger.expedited values ($1, '2027-03-01', now(), 1, 'test', 1, now())",
    ),
    "own": Case(SAME, "second"),
    "newer": Case(BEGUN, "third"),
    "another-name": Case(None, "another name"),
    "another-tenant": Case(None, "another tenant"),
    "undefined": Case(None, None),
    "superseded": Case(NEXT, done=_ended(12)),
    "superseded-for-overlap": Case(NEXT, done=_ended(12, "overlap")),
    "skipped": Case(NEXT, done=_ended(13, "calendar")),
    "skipped-again": Case(SKIPPED, done=_ended(13, "calendar"), skip_reason="calendar"),
    "skipped-for-another": Case(BEGUN, done=_ended(13, "overlap")),
    "cancelled": Case(BEGUN, done=_ended(11)),
    "cancelled-skipped-now": Case(BEGUN, done=_ended(11), skip_reason="calendar"),
    "elsewhere": Case(NEXT, done=STARTED, after=LATER),
    "another-zone": Case(
        NEXT, done=STARTED, before={"tzdata": "2026a"}, after={**LATER, "zone": "Europe/Berlin"}
    ),
    "another-tzdata": Case(BEGUN, done=STARTED, before={"tzdata": "2026a"}, after=LATER),
    "another-smear": Case(
        BEGUN, done=STARTED, after={"due_at": NOON + HOUR + SECOND, "smear_seconds": 1}
    ),
    "another-lane": Case(REVISED, after={"lane": "south"}),
    "skipped-now": Case(REVISED, skip_reason="merged 2027-03-01T14:00"),
    # It waits as long as before: its row does not change.
    "put-off": Case(
        REVISED, done="update ledger.pending set available_at = '2150-01-01' where item_no = $1"
    ),
    "revised-before": Case(
        REVISED,
        done="insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
        " select '2027-03-01', $1, 15, 0, 1, now() from generate_series(1, 2)",
    ),
}


async def test_g13_a_newer_version_changes_only_items_that_were_never_handed_out(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    given: list[ItemDraft] = []
    numbers: dict[str, int] = {}
    for name, case in CASES.items():
        before = _draft(ledger, name, **case.before)
        given.append(replace(before, tzdata="2026b", payload="{}", **case.after))
        owner = None if case.version is None else versions[case.version]
        numbers[name] = await _emit(ledger, before, owner)
        if case.done:
            await ledger.connection.execute(case.done, numbers[name])
        await ledger.connection.execute(
            "insert into ledger.withdrawal"
            " (item_no, effective_date, event, reason, actor_no, requested_at)"
            " values ($1, '2027-03-01', 11, 'test', 1, now())",
            numbers[name],
        )
    tables = ("due_item", "pending", "withdrawal")
    rows = {table: await _rows(ledger, table) for table in tables}
    journal = await ledger.connection.fetchval("select count(*) from ledger.transition")

    results = await _revise(
        ledger,
        [*given, _draft(ledger, "unknown")],
        versions["second"],
        [*(case.skip_reason for case in CASES.values()), None],
    )

    assert dict(zip(CASES, results, strict=False)) == {
        name: case.result for name, case in CASES.items()
    }
    assert results[-1] is None
    after = {table: await _rows(ledger, table) for table in tables}
    revised = {numbers[name] for name, case in CASES.items() if case.result is REVISED}
    ended = {numbers["skipped-now"]}
    pending = {*ended, numbers["another-lane"]}  # the others are due as before
    for table in tables:
        changed = {no for no, row in rows[table].items() if after[table].get(no) != row}
        assert changed == {"due_item": revised, "pending": pending, "withdrawal": ended}[table]
    assert after["pending"].keys() == rows["pending"].keys() - ended
    written = await ledger.connection.fetch(
        "select item_no, event, detail ->> 'reason' as reason, detail ->> 'into' as into"
        " from ledger.transition order by transition.ctid offset $1",
        journal,
    )
    assert {tuple(row) for row in written} == {
        (number, 15, "version", None) for number in revised - ended
    } | {(number, 13, "merged", "2027-03-01T14:00") for number in ended}
    assert len(written) == len(revised)


async def test_g13_an_event_changes_the_items_that_a_replaced_event_gave(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    cases: dict[str, tuple[str, int | None, RevisionResult]] = {
        "replaced": ("first", 7, REVISED),
        "replaced-own": ("second", 7, REVISED),
        "replaced-newer": ("third", 7, REVISED),
        "replaced-another-name": ("another name", 7, REVISED),
        "kept": ("first", 9, BEGUN),
        "kept-own": ("second", 9, SAME),
        "none": ("first", None, BEGUN),
    }
    drafts = [_draft(ledger, name) for name in cases]
    for draft, (version, event_no, _) in zip(drafts, cases.values(), strict=True):
        await _emit(ledger, draft, versions[version], event_no)
    results = await revise_event_items(
        ledger.connection,
        drafts,
        definition_nos=[versions["second"]] * len(drafts),
        event_nos=[8] * len(drafts),
        replaced_event_nos=[6, 7],
        actor_no=ledger.other_worker_no,
    )
    assert results == [result for _, _, result in cases.values()]
    details = await ledger.connection.fetch(
        "select detail -> 'before' as before from ledger.transition"
    )
    assert len(details) == 4
    assert all("payload" not in row["before"] for row in details)  # it has not changed


KEYED: Final = {"overlap": Overlap.WAIT, "overlap_key": "before"}
OTHER_KEY: Final = {"overlap": Overlap.WAIT, "overlap_key": "after"}
WAIT: Final = "update ledger.pending set available_at = 'infinity' where item_no = $1"
PAST: Final = {"due_at": NOON - HOUR}


@pytest.mark.parametrize(
    ("before", "after", "waits", "available_at"),
    [
        (KEYED, KEYED, True, "infinity"),
        (KEYED, KEYED, False, LATER["due_at"]),
        (KEYED, OTHER_KEY, True, LATER["due_at"]),
        (KEYED, {}, True, LATER["due_at"]),
        ({}, {}, False, LATER["due_at"]),
        ({}, PAST, False, NOON),
    ],
    ids=["waits", "free", "another-key", "no-key", "plain", "past"],
)
async def test_a_revised_item_waits_for_its_key_or_its_time(
    undone_ledger: Ledger,
    before: dict[str, Any],
    after: dict[str, Any],
    waits: bool,  # noqa: FBT001 - of a table
    available_at: datetime | str,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    item_no = await _emit(ledger, _draft(ledger, "one", **before), versions["first"])
    if waits:
        await ledger.connection.execute(WAIT, item_no)
    given = _draft(ledger, "one", **{**LATER, **after})
    assert await _revise(ledger, [given], versions["second"]) == [REVISED]
    expected = await ledger.connection.fetchval(
        "select to_jsonb($1::text::timestamptz)", str(available_at)
    )
    row = (await _rows(ledger, "pending"))[item_no]
    assert row["available_at"] == expected
    assert (row["serial"] is None) == ("overlap" not in after)


async def test_g3_a_snooze_outlasts_versions_by_which_the_item_is_due_later_and_earlier_again(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger)
    draft, until = _draft(ledger, "one"), NOON + 3 * HOUR
    item_no = await _emit(ledger, draft, versions["first"])
    terms: dict[str, Any] = {"reason": "INC-7", "actor_no": ledger.other_worker_no, "until": until}
    (snoozed,) = await snooze_items(ledger.connection, [draft.id], **terms)
    assert snoozed.result is RequestResult.DONE
    for version, hours, available_at in (("second", 5, NOON + 5 * HOUR), ("third", 2, until)):
        given = replace(draft, due_at=NOON + hours * HOUR)
        assert await _revise(ledger, [given], versions[version]) == [REVISED]
        waits = "select available_at from ledger.pending where item_no = $1"
        assert await ledger.connection.fetchval(waits, item_no) == available_at
        blockers = await ledger.connection.fetchrow(
            statement("find_blockers"), item_no, 1_000, 1_000
        )
        assert blockers is not None
        # It waits for its due time, and is not said to be put off until then.
        assert (blockers["put_off_by"] is not None) == (available_at == until)


async def test_g13_a_revision_waits_for_a_claim_and_leaves_its_item(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.stand_at(NOON)
    versions = await define_versions(ledger)
    before = _draft(ledger, "one")
    item_no = await _emit(ledger, before, versions["first"])
    rival = await connect(database, application_name="rival")
    claiming = rival.transaction()
    await claiming.start()
    await rival.execute("delete from ledger.pending where item_no = $1", item_no)
    given = replace(before, payload='{"premium":"200.00"}')
    revising = asyncio.create_task(_revise(ledger, [given], versions["second"]))
    pid = ledger.connection.get_server_pid()

    async def waits() -> bool:
        return await rival.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(waits)
    await claiming.commit()
    assert await revising == [BEGUN]
    payload = await rival.fetchval("delete from ledger.due_item returning payload")
    assert payload == {"premium": "123.45"}
    await rival.close()
