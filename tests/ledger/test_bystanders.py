"""A verb moves its item exactly as it says; items in each other state stay as they are."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import orjson
import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.claims import reap_claims, reap_runs, release_claims
from dueledger.ledger.store.flows import expedite_items, snooze_items
from dueledger.ledger.store.items import RequestResult, withdraw_items
from dueledger.ledger.store.prior_work import complete_items
from dueledger.ledger.store.reviews import park_items, redrive_items, write_off_items
from tests.claim_ids import claim_ids

from .conftest import Ledger, Placed

Rows: TypeAlias = dict[str, list[dict[str, Any]]]
Write: TypeAlias = Callable[[Ledger, list[Placed]], Awaitable[object]]

TABLES: Final = (
    "pending",
    "review",
    "transition",
    "claim",
    "run",
    "withdrawal",
    "held_key",
    "expedited",
    "rejected_write",
    "due_item",
)
UNTIL: Final = datetime(2150, 1, 1, tzinfo=UTC)
SET_LATER: Final = "update ledger.pending set available_at = '2100-01-01'"
PLACES: Final = (
    State.CLAIMED,
    State.RUNNING,
    State.MANUAL_REVIEW,
    State.COMPLETED,
    State.CANCELLED,
    State.SKIPPED,
    State.RETRYABLE_FAILURE,
    State.SCHEDULED,
)


async def _crowd(ledger: Ledger) -> dict[State, list[Placed]]:
    """Place two items in each state, none of them in a claim or run with another."""
    placed: dict[State, list[Placed]] = {state: [] for state in PLACES}
    for state in PLACES:
        for lane in ("", "another"):
            placed[state].append(await ledger.place(state, lane=lane))
            await ledger.connection.execute(SET_LATER)
    await ledger.emit(kind=f"{ledger.kind}Other")
    return placed


async def _read(ledger: Ledger) -> Rows:
    rows: Rows = {}
    for table in TABLES:
        found = await ledger.connection.fetch(
            f"select to_jsonb(t) as row from ledger.{table} t"  # noqa: S608 - a name above
            " order by to_jsonb(t) -> 'item_no'"
        )
        rows[table] = [row["row"] for row in found]
    return rows


def _changes(before: Rows, after: Rows) -> Rows:
    """Return the rows that are new or different, and those that are gone as `gone …`."""
    changes: Rows = {}
    for table in TABLES:
        for name, these, those in ((table, after, before), (f"gone {table}", before, after)):
            known = {orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in those[table]}
            rows = [
                row
                for row in these[table]
                if orjson.dumps(row, option=orjson.OPT_SORT_KEYS) not in known
            ]
            if rows:
                changes[name] = rows
    return changes


def _shown(ledger: Ledger, changes: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the rows say about where an item is."""
    return {
        table: [
            tuple(
                FIRST_ACTOR + (row[name] - ledger.worker_no) if name == "actor_no" else row[name]
                for name in SHOWN[table.removeprefix("gone ")]
            )
            for row in rows
        ]
        for table, rows in changes.items()
    }


def _ids(placed: list[Placed]) -> list[UUID]:
    return [one.id for one in placed]


async def _park(ledger: Ledger, placed: list[Placed]) -> object:
    return await park_items(
        ledger.connection, _ids(placed), reason="why", actor_no=ledger.other_worker_no
    )


async def _redrive(ledger: Ledger, placed: list[Placed]) -> object:
    return await redrive_items(
        ledger.connection, _ids(placed), reason="why", actor_no=ledger.other_worker_no
    )


async def _write_off(ledger: Ledger, placed: list[Placed]) -> object:
    return await write_off_items(
        ledger.connection, _ids(placed), reason="why", actor_no=ledger.other_worker_no
    )


async def _cancel(ledger: Ledger, placed: list[Placed]) -> object:
    return await withdraw_items(
        ledger.connection,
        _ids(placed),
        event=TransitionEvent.CANCELLED,
        reason="why",
        actor_no=ledger.other_worker_no,
    )


async def _expedite(ledger: Ledger, placed: list[Placed]) -> object:
    return await expedite_items(
        ledger.connection, _ids(placed), reason="why", actor_no=ledger.other_worker_no
    )


async def _snooze(ledger: Ledger, placed: list[Placed]) -> object:
    return await snooze_items(
        ledger.connection,
        _ids(placed),
        reason="why",
        actor_no=ledger.other_worker_no,
        until=UNTIL,
    )


async def _release(ledger: Ledger, placed: list[Placed]) -> object:
    claims = await claim_ids(ledger.connection, [one.fence for one in placed])
    return await release_claims(ledger.connection, claims, ledger.worker_no)


async def _reap_claim(ledger: Ledger, placed: list[Placed]) -> object:
    await ledger.connection.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1 second'"
        " where fence = any ($1::bigint[])",
        [one.fence for one in placed],
    )
    return await reap_claims(ledger.connection, 100, ledger.other_worker_no)


async def _reap_run(ledger: Ledger, placed: list[Placed]) -> object:
    await ledger.connection.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1 second'"
        " where run_no = any ($1::bigint[])",
        [one.run_no for one in placed],
    )
    return await reap_runs(ledger.connection, 100, ledger.other_worker_no)


SHOWN: Final = {
    "pending": ("state", "attempt", "starts", "batch_max"),
    "review": ("attempt", "starts", "reason", "actor_no"),
    "transition": ("event", "attempt", "actor_no", "detail"),
    "withdrawal": ("event", "reason", "actor_no"),
    "expedited": ("reason", "actor_no"),
    "rejected_write": ("verb", "reason", "actor_no"),
    "claim": ("started",),
    "run": ("ended",),
}
FIRST_ACTOR, OTHER = 1, 2
"""Who placed the items, and who writes."""
WHY: Final = {"reason": "why"}


def _journal(event: TransitionEvent, attempt: int) -> dict[str, list[tuple[Any, ...]]]:
    return {"transition": [(event, attempt, OTHER, WHY)]}


FIRST: Final = (State.SCHEDULED, 0, 0, None)
RETRY: Final = (State.RETRYABLE_FAILURE, 1, 1, None)
PARKED: Final = (1, 1, "test", FIRST_ACTOR)
NOT_STARTED: Final = "no worker started it before its queue deadline"
CANCELLED: Final = TransitionEvent.CANCELLED
UNTIL_THEN: Final = {**WHY, "until": UNTIL.isoformat()}
SNOOZED: Final = {"transition": [(TransitionEvent.SNOOZED, 0, OTHER, UNTIL_THEN)]}
REQUESTED: Final = {"withdrawal": [(CANCELLED, "why", OTHER)]}
CASES: Final[dict[tuple[str, State], tuple[Write, dict[str, list[tuple[Any, ...]]]]]] = {
    ("park", State.RETRYABLE_FAILURE): (
        _park,
        {
            "gone pending": [RETRY],
            "review": [(1, 1, "why", OTHER)],
            **_journal(TransitionEvent.PARKED, 1),
        },
    ),
    ("redrive", State.MANUAL_REVIEW): (
        _redrive,
        {"gone review": [PARKED], "pending": [FIRST], **_journal(TransitionEvent.REDRIVEN, 1)},
    ),
    ("write off", State.MANUAL_REVIEW): (
        _write_off,
        {"gone review": [PARKED], **_journal(TransitionEvent.WRITTEN_OFF, 1)},
    ),
    ("cancel", State.SCHEDULED): (_cancel, {"gone pending": [FIRST], **_journal(CANCELLED, 0)}),
    ("cancel", State.RETRYABLE_FAILURE): (
        _cancel,
        {"gone pending": [RETRY], **_journal(CANCELLED, 1)},
    ),
    ("cancel", State.MANUAL_REVIEW): (
        _cancel,
        {"gone review": [PARKED], **_journal(CANCELLED, 1)},
    ),
    ("cancel", State.CLAIMED): (_cancel, REQUESTED),
    ("cancel", State.RUNNING): (_cancel, REQUESTED),
    ("cancel", State.COMPLETED): (_cancel, {}),
    ("cancel", State.SKIPPED): (_cancel, {}),
    ("expedite", State.SCHEDULED): (
        _expedite,
        {"gone pending": [FIRST], "pending": [FIRST], "expedited": [("why", OTHER)]},
    ),
    ("expedite", State.RETRYABLE_FAILURE): (
        _expedite,
        {"gone pending": [RETRY], "pending": [RETRY], "expedited": [("why", OTHER)]},
    ),
    ("snooze", State.SCHEDULED): (
        _snooze,
        {"gone pending": [FIRST], "pending": [FIRST], **SNOOZED},
    ),
    ("snooze", State.RETRYABLE_FAILURE): (
        _snooze,
        {
            "gone pending": [RETRY],
            "pending": [(State.SCHEDULED, 1, 1, None)],
            "transition": [(TransitionEvent.SNOOZED, 1, OTHER, UNTIL_THEN)],
        },
    ),
    ("release", State.CLAIMED): (
        _release,
        {"gone claim": [(0,)], "claim": [(0,)], "pending": [FIRST]},
    ),
    ("reap claim", State.CLAIMED): (
        _reap_claim,
        {"gone claim": [(0,)], "claim": [(0,)], "pending": [FIRST]},
    ),
    ("reap run", State.RUNNING): (
        _reap_run,
        {
            "gone run": [("0",)],
            "run": [("0",)],
            "pending": [(State.RETRYABLE_FAILURE, 0, 1, 1)],
            "transition": [
                (
                    TransitionEvent.TIMED_OUT,
                    1,
                    OTHER,
                    {"reason": "lease lapsed", "beside": 1, "starts": 1},
                )
            ],
        },
    ),
}
VERBS: Final = {
    "park": _park,
    "redrive": _redrive,
    "trigger": _expedite,
    "snooze": _snooze,
    "write_off": _write_off,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1].label}")
async def test_g8_a_verb_changes_the_rows_of_its_item_and_no_others(
    undone_ledger: Ledger, case: tuple[str, State]
) -> None:
    ledger = undone_ledger
    write, expected = CASES[case]
    target = (await _crowd(ledger))[case[1]][:1]
    before = await _read(ledger)

    await write(ledger, target)

    changes = _changes(before, await _read(ledger))
    assert _shown(ledger, changes) == expected
    number = await ledger.connection.fetchval(
        "select item_no from ledger.due_item where id = $1", target[0].id
    )
    named = [row["item_no"] for rows in changes.values() for row in rows if "item_no" in row]
    assert all(name in (number, [number]) for name in named)


async def test_g8_a_refused_verb_changes_nothing_and_is_recorded(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    permitted = {
        "park": (State.RETRYABLE_FAILURE,),
        "redrive": (State.MANUAL_REVIEW,),
        "write_off": (State.MANUAL_REVIEW,),
        "trigger": (State.SCHEDULED, State.RETRYABLE_FAILURE),
        "snooze": (State.SCHEDULED, State.RETRYABLE_FAILURE),
    }
    placed = await _crowd(ledger)
    for verb, write in VERBS.items():
        for state, items in placed.items():
            if state not in permitted[verb]:
                before = await _read(ledger)
                await write(ledger, items[:1])
                changes = _shown(ledger, _changes(before, await _read(ledger)))
                assert changes == {"rejected_write": [(verb, "illegal", OTHER)]}, (verb, state)


async def test_each_item_of_a_batch_is_answered_for_itself(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    placed = await _crowd(ledger)
    unknown = Placed(UUID(int=0))
    states = {
        _park: State.RETRYABLE_FAILURE,
        _redrive: State.MANUAL_REVIEW,
        _write_off: State.MANUAL_REVIEW,
        _expedite: State.SCHEDULED,
        _snooze: State.SCHEDULED,
    }
    for place, (write, state) in enumerate(states.items()):
        refused = len(await ledger.rejected())
        batch = [placed[State.COMPLETED][0], placed[state][place % 2], unknown]
        answers: Any = await write(ledger, batch)
        results = [answer.result for answer in answers]
        assert results == [RequestResult.ILLEGAL, RequestResult.DONE, RequestResult.UNKNOWN]
        assert len(await ledger.rejected()) == refused + 1
    batch = [placed[state][0] for state in (State.SCHEDULED, State.COMPLETED, State.RUNNING)]
    cancelled: Any = await _cancel(ledger, [*batch, unknown])
    assert [answer.result for answer in cancelled] == [
        RequestResult.DONE,
        RequestResult.FINISHED,
        RequestResult.REQUESTED,
        RequestResult.UNKNOWN,
    ]


async def test_g8_completing_with_evidence_ends_due_items_that_wait_and_their_requests_alone(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    placed = await _crowd(ledger)
    not_due = await ledger.place(State.SCHEDULED, due_at=datetime(2100, 1, 1, tzinfo=UTC))
    await ledger.connection.execute(  # as if each item was cancelled while it was handed out
        "insert into ledger.withdrawal"
        " (item_no, effective_date, event, reason, actor_no, requested_at)"
        " select item_no, effective_date, 11, 'why', $1, now() from ledger.due_item",
        ledger.other_worker_no,
    )
    waiting = (State.MANUAL_REVIEW, State.RETRYABLE_FAILURE, State.SCHEDULED)
    done = [placed[state][0] for state in waiting]
    refused = [not_due, *(placed[state][0] for state in PLACES if state not in waiting)]
    asked = [*refused, Placed(UUID(int=0)), *done]
    before = await _read(ledger)

    answers = await complete_items(
        ledger.connection,
        {one.id: f'{{"evidence": "{one.id}"}}' for one in asked},
        actor_no=ledger.other_worker_no,
    )

    results = [RequestResult.ILLEGAL] * len(refused) + [RequestResult.UNKNOWN]
    results += [RequestResult.DONE] * len(done)
    assert [(one.id, one.result) for one in answers] == [*zip(_ids(asked), results, strict=True)]
    changes = _changes(before, await _read(ledger))
    assert _shown(ledger, changes) == {
        "gone pending": [RETRY, FIRST],
        "gone review": [PARKED],
        "gone withdrawal": [(CANCELLED, "why", OTHER)] * len(done),
        "rejected_write": [("complete", "illegal", OTHER)] * len(refused),
        "transition": [
            (TransitionEvent.COMPLETED, attempt, OTHER, {"evidence": str(one.id)})
            for attempt, one in zip((1, 1, 0), done, strict=True)
        ],
    }
    for table, items in {
        "gone withdrawal": done,
        "transition": done,
        "rejected_write": refused,
    }.items():
        numbers = [row["item_no"] for row in changes[table]]
        rows = await ledger.connection.fetch(
            "select item_no from ledger.due_item where id = any ($1::uuid[]) order by 1",
            _ids(items),
        )
        assert numbers == [row["item_no"] for row in rows], table
