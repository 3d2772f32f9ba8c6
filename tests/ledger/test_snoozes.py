"""Items that a person put off: not handed out before then, after it as before, late if it is."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest

from dueledger.decisions import check_until, decide_items
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.item_verbs import OperationVerb, refusal
from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import read_now, set_clock
from dueledger.ledger.store.flows import expedite_items, snooze_items
from dueledger.ledger.store.items import RequestResult, emit_items
from dueledger.ledger.store.operations import (
    ItemFilter,
    advance_operation,
    preview_operation,
    record_operation,
    show_operation,
)

from .conftest import Ledger

HOUR: Final = timedelta(hours=1)
SNOOZE: Final = OperationVerb.SNOOZE
DONE, ILLEGAL = RequestResult.DONE, RequestResult.ILLEGAL
FAILED: Final = TransitionEvent.FAILED


@pytest.fixture
async def person_no(ledger: Ledger) -> int:
    return await register_actor(ledger.connection, "person:jane", ActorKind.PERSON)


@pytest.fixture
async def rival(database: str) -> AsyncGenerator[Connection]:
    """A second session."""
    connection = await connect(database, application_name="rival")
    yield connection
    await connection.close()


async def snooze(ledger: Ledger, until: datetime | None, *items: UUID) -> list[RequestResult]:
    """Put items off in a person's name."""
    person = await register_actor(ledger.connection, "person:jane", ActorKind.PERSON)
    answers = await snooze_items(
        ledger.connection, items, reason="INC-7", actor_no=person, until=until
    )
    assert [answer.id for answer in answers] == [*items]
    return [answer.result for answer in answers]


async def waiting(ledger: Ledger, item: UUID) -> dict[str, Any]:
    """Return how an item waits."""
    row = await ledger.connection.fetchrow(
        "select p.state, p.available_at, p.attempt, p.starts, p.overlap, p.snoozed_until, i.due_at"
        " from ledger.pending p join ledger.due_item i using (effective_date, item_no)"
        " where i.id = $1",
        item,
    )
    assert row is not None
    return dict(row)


async def test_g3_a_snoozed_item_is_handed_out_from_then_on_and_its_due_time_stays(
    ledger: Ledger, noon: datetime, person_no: int
) -> None:
    await ledger.stand_at(noon)
    due, later = [(await ledger.emit(due_at=at))[0] for at in (noon - HOUR, noon + HOUR)]
    assert await snooze(ledger, noon + 3 * HOUR, due, later) == [DONE, DONE]
    for item, due_at in ((due, noon - HOUR), (later, noon + HOUR)):
        row = await waiting(ledger, item)
        assert (row["state"], row["available_at"], row["due_at"], row["snoozed_until"]) == (
            State.SCHEDULED,
            noon + 3 * HOUR,
            due_at,
            noon + 3 * HOUR,
        )
    journal = await ledger.connection.fetch(
        "select event, attempt, run_no, actor_no, at, detail from ledger.transition"
    )
    detail = {"reason": "INC-7", "until": (noon + 3 * HOUR).isoformat()}
    assert [tuple(row) for row in journal] == [
        (TransitionEvent.SNOOZED, 0, None, person_no, noon, detail)
    ] * 2
    await ledger.stand_at(noon + 3 * HOUR - timedelta(microseconds=1))
    assert await ledger.due_flows() == []
    assert (await ledger.claim()).item_nos == []
    await ledger.stand_at(noon + 3 * HOUR)
    assert len((await ledger.claim()).item_nos) == 2
    await ledger.check_balance()


async def test_a_retry_that_is_snoozed_keeps_its_attempts(ledger: Ledger, noon: datetime) -> None:
    await ledger.stand_at(noon)
    item = (await ledger.place(State.RETRYABLE_FAILURE, due_at=noon)).id
    assert await snooze(ledger, noon + HOUR, item) == [DONE]
    row = await waiting(ledger, item)
    assert (row["state"], row["attempt"], row["starts"]) == (State.SCHEDULED, 1, 1)
    await ledger.stand_at(noon + HOUR)
    claim = await ledger.claim()
    assert (claim.attempts, claim.starts) == ([2], [2])


async def test_a_retry_that_is_snoozed_is_not_skipped_by_overlap(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    drafts = [
        replace(draft, overlap=Overlap.SKIP, overlap_key="k") for draft in ledger.make_drafts(2)
    ]
    first, retried = await emit_items(ledger.connection, drafts, actor_no=ledger.worker_no)
    await ledger.connection.execute(
        "update ledger.pending p set state = 4, attempt = 1, starts = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.id = $1",
        retried.id,
    )
    assert await snooze(ledger, noon + HOUR, first.id, retried.id) == [DONE, DONE]
    rows = [await waiting(ledger, each.id) for each in (first, retried)]
    assert [row["overlap"] for row in rows] == [Overlap.SKIP, Overlap.WAIT]


async def test_an_item_that_waits_as_long_or_for_its_key_is_refused_and_says_so(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    (later,) = await ledger.emit(due_at=noon + HOUR)
    (blocked,) = await ledger.emit(due_at=noon)
    await ledger.connection.execute(
        "update ledger.pending p set available_at = 'infinity' from ledger.due_item i"
        " where i.item_no = p.item_no and i.id = $1",
        blocked,
    )
    items = [later, blocked]
    decided = await decide_items(
        ledger.connection,
        SNOOZE,
        items,
        reason="INC-7",
        actor_no=ledger.worker_no,
        until=noon + HOUR,
    )
    assert [(each.result, each.reason) for each in decided] == [
        (ILLEGAL, refusal(SNOOZE, State.SCHEDULED, waits_as_long=True)),
        (ILLEGAL, refusal(SNOOZE, State.SCHEDULED, waits_for_key=True)),
    ]
    assert await ledger.rejected() == [("snooze", "illegal")] * 2
    assert await ledger.journal() == []


async def test_until_is_a_time_to_come_within_the_years_of_items(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon - HOUR)
    (item,) = await ledger.emit(due_at=noon - HOUR)
    await ledger.stand_at(noon)
    for until in (None, noon, noon - HOUR, datetime.max.replace(tzinfo=UTC)):
        with pytest.raises(InvalidInput):
            await check_until(ledger.connection, SNOOZE, until)
    await check_until(ledger.connection, SNOOZE, noon + HOUR)
    with pytest.raises(InvalidInput):
        await check_until(ledger.connection, OperationVerb.TRIGGER, noon + HOUR)
    # A time of which the database is not asked before: no item is moved to the past, or for ever.
    for until in (None, noon, noon - HOUR / 2, datetime.max):  # noqa: DTZ901 - infinity
        assert await snooze(ledger, until, item) == [ILLEGAL], until
    assert (await waiting(ledger, item))["available_at"] == noon - HOUR


async def test_g4_an_item_that_was_claimed_meanwhile_is_not_snoozed(
    ledger: Ledger, rival: Connection, eventually: Callable[..., Awaitable[bool]]
) -> None:
    (item,) = await ledger.emit()
    until = await read_now(ledger.connection) + HOUR
    claiming = ledger.connection.transaction()
    await claiming.start()
    await ledger.claim()
    deciding = asyncio.create_task(
        decide_items(rival, SNOOZE, [item], reason="x", actor_no=ledger.worker_no, until=until)
    )
    await eventually(partial(_waits, ledger.connection, rival))
    await claiming.commit()
    [decided] = await deciding
    assert decided.result is ILLEGAL
    assert decided.reason == refusal(SNOOZE, State.CLAIMED)
    assert await ledger.state_of(item) is State.CLAIMED


async def test_g3_a_claim_beside_a_snooze_takes_nothing_by_what_it_knew_before(
    ledger: Ledger, rival: Connection
) -> None:
    (item,) = await ledger.emit()
    known = await ledger.due_flows()
    assert [flow.kind for flow in known] == [ledger.kind]
    snoozing = rival.transaction()
    await snoozing.start()
    until = await read_now(ledger.connection) + HOUR
    await snooze_items(rival, [item], reason="x", actor_no=ledger.worker_no, until=until)
    assert (await ledger.claim()).item_nos == []  # its row is locked
    await snoozing.commit()
    assert (await ledger.claim()).item_nos == []  # and now it waits


async def _waits(watching: Connection, watched: Connection) -> bool:
    return await watching.fetchval(
        "select cardinality(pg_blocking_pids($1)) > 0", watched.get_server_pid()
    )


async def test_a_snoozed_item_is_triggered_and_snoozed_again(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    (item,) = await ledger.emit(due_at=noon)
    assert await snooze(ledger, noon + HOUR, item) == [DONE]
    assert await snooze(ledger, noon + HOUR, item) == [ILLEGAL]
    await expedite_items(ledger.connection, [item], reason="now", actor_no=ledger.worker_no)
    triggered = await waiting(ledger, item)
    assert (triggered["available_at"], triggered["snoozed_until"]) == (noon, None)
    assert await snooze(ledger, noon + HOUR, item) == [DONE]
    assert (await ledger.claim()).item_nos == []


async def test_an_operation_snoozes_what_would_be_handed_out_before_and_leaves_the_rest(
    ledger: Ledger, rival: Connection, noon: datetime, person_no: int
) -> None:
    until = noon + 2 * HOUR
    await ledger.stand_at(noon)
    await set_clock(rival, noon, 0)
    inside = [
        (await ledger.place(State.RETRYABLE_FAILURE, due_at=noon)).id,
        *await ledger.emit(2, due_at=noon - HOUR),
        *await ledger.emit(due_at=noon + HOUR),
    ]
    for item in await ledger.emit(2, due_at=until):
        assert (await waiting(ledger, item))["available_at"] == until
    items = ItemFilter(kind=ledger.kind)
    preview = await preview_operation(ledger.connection, SNOOZE, items, until=until)
    number = await record_operation(
        ledger.connection, SNOOZE, items, reason="INC-7", actor_no=person_no, until=until
    )
    assert number is not None
    progress = await advance_operation(rival, number)
    assert progress is not None
    assert (preview.items, progress.matched, progress.done, progress.is_ended) == (4, 4, 4, True)
    rows = [await waiting(ledger, item) for item in inside]
    assert {row["available_at"] for row in rows} == {until}
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    assert shown["until"] == until
    assert len(await ledger.journal()) == 5  # four were snoozed, and one had failed


async def test_an_operation_whose_time_has_passed_moves_nothing_more(
    ledger: Ledger, noon: datetime, person_no: int
) -> None:
    await ledger.stand_at(noon)
    (item,) = await ledger.emit(due_at=noon - HOUR)
    items = ItemFilter(kind=ledger.kind)
    number = await record_operation(
        ledger.connection, SNOOZE, items, reason="x", actor_no=person_no, until=noon + HOUR
    )
    assert number is not None
    await ledger.stand_at(noon + HOUR)
    progress = await advance_operation(ledger.connection, number)
    assert progress is not None
    assert (progress.done, progress.is_ended) == (0, True)
    assert (await waiting(ledger, item))["available_at"] == noon
    assert await ledger.rejected() == []


async def test_g5_an_operation_that_was_killed_in_a_slice_snoozes_each_item_once(
    ledger: Ledger, rival: Connection, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 2)
    ids = await ledger.emit(5)
    until = await read_now(ledger.connection) + HOUR
    number = await record_operation(
        ledger.connection,
        SNOOZE,
        ItemFilter(kind=ledger.kind),
        reason="x",
        actor_no=person_no,
        until=until,
    )
    assert number is not None
    killed = ledger.connection.transaction()
    await killed.start()
    await advance_operation(ledger.connection, number)
    await killed.rollback()
    slices = [await advance_operation(rival, number) for _ in range(3)]
    assert [each and each.done for each in slices] == [2, 4, 5]
    rows = [await waiting(ledger, item) for item in ids]
    assert {row["available_at"] for row in rows} == {until}
    assert sorted(await ledger.journal()) == [(no, TransitionEvent.SNOOZED) for no in range(1, 6)]
