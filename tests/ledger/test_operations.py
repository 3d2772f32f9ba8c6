"""Operations: which items they touch, how far they get, and who is named."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.item_verbs import VERB_STATES, OperationVerb
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.applied_verbs import apply_verb, find_keyed_items
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import RequestResult, emit_items
from dueledger.ledger.store.operations import (
    EXAMINED_MAX,
    ItemFilter,
    OperationProgress,
    abort_operation,
    advance_operation,
    estimate_seconds,
    find_open_operation,
    list_operations,
    pause_operation,
    preview_operation,
    record_operation,
    resume_operation,
    show_operation,
)
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs
from dueledger.ledger.store.statements import statement
from dueledger.ledger.upkeep import Upkeep
from tests.claim_ids import run_ids
from tests.logins import with_login

from .conftest import Ledger

REDRIVE = OperationVerb.REDRIVE
UNTIL: Final = datetime(2199, 1, 1, tzinfo=UTC)
MOVED: Final = {RequestResult.DONE, RequestResult.REQUESTED}


@pytest.fixture
async def rival(database: str) -> AsyncGenerator[Connection]:
    """A second session."""
    connection = await connect(database, application_name="rival")
    yield connection
    await connection.close()


@pytest.fixture
async def person_no(ledger: Ledger) -> int:
    return await register_actor(ledger.connection, "person:jane", ActorKind.PERSON)


async def fail(
    ledger: Ledger,
    event: TransitionEvent = TransitionEvent.PARKED,
    *,
    count: int = 1,
    reason: str = "no answer",
    error: str = "TimeoutError",
    **terms: Any,  # noqa: ANN401 - as make_drafts takes them
) -> list[UUID]:
    """Work new items until they are parked, or wait an hour for their retry."""
    ids = await ledger.emit(count, **terms)
    claim = await ledger.claim()
    start = await ledger.start(claim.fence, 1, count)
    assert start.run_no is not None
    detail = json.dumps({"reason": reason, "error": error})
    (run,) = await run_ids(ledger.connection, [start.run_no])
    outcomes = [Outcome(event, detail, 3600.0)] * count
    assert not await settle_runs(ledger.connection, [Settlement(run, outcomes)], ledger.worker_no)
    return ids


async def ask(
    ledger: Ledger,
    verb: OperationVerb,
    person_no: int,
    **items: Any,  # noqa: ANN401 - as ItemFilter takes them
) -> int:
    """Record an operation on items of the test's kind."""
    chosen = ItemFilter(kind=ledger.kind, **items)
    number = await record_operation(
        ledger.connection, verb, chosen, reason="repaired", actor_no=person_no
    )
    assert number is not None
    return number


async def finish(connection: Connection, operation_no: int) -> list[OperationProgress]:
    """Carry an operation out; return the progress after each slice."""
    slices: list[OperationProgress] = []
    while not (slices and slices[-1].is_ended):
        progress = await advance_operation(connection, operation_no)
        assert progress is not None
        slices.append(progress)
    assert await advance_operation(connection, operation_no) is None
    return slices


async def states(ledger: Ledger, ids: list[UUID]) -> list[State]:
    return [await ledger.state_of(each) for each in ids]


@pytest.mark.parametrize("state", State, ids=lambda state: state.label)
@pytest.mark.parametrize("verb", OperationVerb)
async def test_a_verb_moves_items_in_the_states_of_its_rows_and_no_others(
    undone_ledger: Ledger, verb: OperationVerb, state: State
) -> None:
    ledger = undone_ledger
    placed = await ledger.place(state)
    (result,) = await apply_verb(
        ledger.connection,
        verb,
        [placed.id],
        reason="test",
        actor_no=ledger.worker_no,
        until=UNTIL if verb is OperationVerb.SNOOZE else None,
    )
    listed = await ledger.connection.fetchval(
        "select exists (select from ledger.operation_state where verb = $1 and state = $2)",
        verb,
        state,
    )
    assert (result.result in MOVED) is listed is (state in VERB_STATES[verb])


OUTSIDE: Final[dict[str, dict[str, Any]]] = {
    "another tenant": {"tenant": "umbra"},
    "another lane": {"lane": "us"},
    "the default lane": {"lane": ""},
    "parked for another reason": {"reason": "no answer."},
    "another error": {"error": "OSError"},
}


@pytest.mark.parametrize("verb", [REDRIVE, OperationVerb.WRITE_OFF, OperationVerb.CANCEL])
async def test_an_operation_touches_nothing_outside_its_filter_and_its_bounds(
    ledger: Ledger, rival: Connection, noon: datetime, verb: OperationVerb, person_no: int
) -> None:
    async def stand_at(instant: datetime) -> None:
        await ledger.stand_at(instant)
        await set_clock(rival, instant, 0)

    await stand_at(noon - timedelta(hours=2))
    outside = {"parked before": await fail(ledger, lane="eu")}
    await stand_at(noon - timedelta(hours=1))
    inside = await fail(ledger, lane="eu", count=3)
    again = await fail(ledger, lane="eu")
    written_off = await fail(ledger, lane="eu")
    for name, differing in OUTSIDE.items():
        terms: dict[str, Any] = {"lane": "eu", **differing}
        outside[name] = await fail(ledger, **terms)
    other = replace(ledger, kind=f"{ledger.kind}Other")
    outside["another kind"] = await fail(other, lane="eu", kind=other.kind)
    outside["waits for a retry"] = await fail(ledger, TransitionEvent.FAILED, lane="eu")
    chosen: dict[str, Any] = {
        "tenant": "acme",
        "lane": "eu",
        "parked_reason": "no answer",
        "error": "TimeoutError",
        "since": noon - timedelta(hours=1),
    }
    preview = await preview_operation(
        ledger.connection, verb, ItemFilter(kind=ledger.kind, **chosen)
    )
    number = await ask(ledger, verb, person_no, **chosen)
    assert preview.items == 5

    await stand_at(noon)
    await apply_verb(
        ledger.connection, OperationVerb.WRITE_OFF, written_off, reason="test", actor_no=person_no
    )
    outside["parked later, emitted before"] = again
    await apply_verb(ledger.connection, REDRIVE, again, reason="test", actor_no=person_no)
    await _park_again(ledger, again)
    outside["emitted later"] = await fail(ledger, lane="eu")
    before = {name: await states(ledger, ids) for name, ids in outside.items()}
    journal = await ledger.journal()

    (end,) = await finish(rival, number)

    assert (end.matched, end.done, end.requested) == (5, 3, 0)
    after = {
        REDRIVE: State.SCHEDULED,
        OperationVerb.WRITE_OFF: State.WRITTEN_OFF,
        OperationVerb.CANCEL: State.CANCELLED,
    }
    assert await states(ledger, inside) == [after[verb]] * 3
    assert {name: await states(ledger, ids) for name, ids in outside.items()} == before
    assert len(await ledger.journal()) == len(journal) + 3
    assert await ledger.rejected() == []
    await ledger.check_balance()


@pytest.mark.parametrize("state", [None, State.SCHEDULED])
async def test_an_operation_on_a_state_or_due_times_takes_no_others(
    ledger: Ledger, noon: datetime, person_no: int, state: State | None
) -> None:
    hour = timedelta(hours=1)
    await ledger.stand_at(noon)
    parked = await fail(ledger, due_at=noon)
    due = {hours: await ledger.emit(due_at=noon + hours * hour) for hours in (-1, 0, 1, 2)}
    chosen: dict[str, Any] = {"due_from": noon, "due_before": noon + 2 * hour, "state": state}
    of_kind = ItemFilter(kind=ledger.kind, **chosen)
    preview = await preview_operation(ledger.connection, OperationVerb.CANCEL, of_kind)
    number = await ask(ledger, OperationVerb.CANCEL, person_no, **chosen)
    later = await ledger.emit(due_at=noon)

    (end,) = await finish(ledger.connection, number)

    taken = [*due[0], *due[1], *([] if state else parked)]
    assert (preview.items, end.matched, end.done, end.requested) == (len(taken),) * 3 + (0,)
    assert await states(ledger, taken) == [State.CANCELLED] * len(taken)
    assert await states(ledger, [*due[-1], *due[2], *later]) == [State.SCHEDULED] * 3
    assert await states(ledger, parked) == [State.MANUAL_REVIEW if state else State.CANCELLED]
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    assert {name: shown[name] for name in chosen} == {**chosen, "state": state and state.label}


async def test_a_preview_of_due_times_examines_no_item_that_is_due_before_them(
    ledger: Ledger, noon: datetime, person_no: int
) -> None:
    hour = timedelta(hours=1)
    await ledger.stand_at(noon)
    await ledger.emit(5, due_at=noon + hour)
    first, *_ = await ledger.emit(3, due_at=noon + 2 * hour)
    await expedite_items(ledger.connection, [first], reason="now", actor_no=person_no)
    wanted = ItemFilter(kind=ledger.kind, due_from=noon + 2 * hour)
    seen = await preview_operation(
        ledger.connection, OperationVerb.CANCEL, wanted, examined_max=4, counted_max=10
    )
    assert (seen.items, seen.capped) == (3, False)


async def test_a_preview_of_due_times_says_that_there_may_be_more_behind_what_was_expedited(
    ledger: Ledger, noon: datetime, person_no: int
) -> None:
    hour = timedelta(hours=1)
    await ledger.stand_at(noon)
    ids = [(await ledger.emit(due_at=noon + (2 + n) * hour))[0] for n in range(4)]
    await expedite_items(ledger.connection, ids, reason="now", actor_no=person_no)
    for each in ids[:3]:
        await ledger.cancel(each)
    wanted = ItemFilter(kind=ledger.kind, due_from=noon + 2 * hour)
    for examined_max, found in ((3, (0, True)), (10, (1, False))):
        seen = await preview_operation(
            ledger.connection,
            OperationVerb.CANCEL,
            wanted,
            examined_max=examined_max,
            counted_max=10,
        )
        assert (seen.items, seen.capped) == found


async def test_cancelling_what_is_scheduled_leaves_what_is_handed_out(
    ledger: Ledger, person_no: int
) -> None:
    ids = await ledger.emit(2)
    number = await ask(ledger, OperationVerb.CANCEL, person_no, state=State.SCHEDULED)
    await ledger.claim(limit=1)
    (end,) = await finish(ledger.connection, number)
    assert (end.matched, end.done, end.requested) == (2, 1, 0)
    assert sorted(await states(ledger, ids)) == [State.CLAIMED, State.CANCELLED]


async def _park_again(ledger: Ledger, ids: list[UUID]) -> None:
    claim = await ledger.claim()
    start = await ledger.start(claim.fence, 1, len(ids))
    await ledger.settle(start.run_no, *[TransitionEvent.PARKED] * len(ids))


async def test_the_journal_names_the_person_who_asked_with_the_reason(
    ledger: Ledger, rival: Connection, person_no: int
) -> None:
    await fail(ledger, count=2)
    await finish(rival, await ask(ledger, REDRIVE, person_no))
    rows = await rival.fetch(
        "select t.actor_no, t.detail ->> 'reason' as reason from ledger.transition t"
        " where t.event = $1",
        TransitionEvent.REDRIVEN,
    )
    assert [tuple(row) for row in rows] == [(person_no, "repaired")] * 2


async def test_slices_are_bounded_by_the_items_moved_and_by_those_examined(
    ledger: Ledger, rival: Connection, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fail(ledger, count=7, lane="us")
    await fail(ledger, count=5, lane="eu")
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 2)
    monkeypatch.setattr("dueledger.ledger.store.operations.EXAMINED_MAX", 3)
    slices = await finish(rival, await ask(ledger, REDRIVE, person_no, lane="eu"))
    # Three, three, then one of the other lane with two; the last finds that nothing is left.
    assert [each.done for each in slices] == [0, 0, 2, 4, 5]


@pytest.mark.parametrize(("examined", "counted"), [(1_000, 3), (3, 1_000)])
async def test_a_count_that_was_cut_says_so(
    ledger: Ledger,
    person_no: int,
    monkeypatch: pytest.MonkeyPatch,
    examined: int,
    counted: int,
) -> None:
    await fail(ledger, count=21)
    items = ItemFilter(kind=ledger.kind)
    whole = await preview_operation(ledger.connection, REDRIVE, items)
    assert (whole.items, whole.capped) == (21, False)
    [group] = whole.groups
    assert (group.state, len(group.business_keys)) == ("ManualReview", 20)
    monkeypatch.setattr("dueledger.ledger.store.operations.COUNT_EXAMINED_MAX", examined)
    monkeypatch.setattr("dueledger.ledger.store.operations.COUNTED_MAX", counted)
    cut = await preview_operation(
        ledger.connection, REDRIVE, items, examined_max=examined, counted_max=counted
    )
    assert (cut.items, cut.capped) == (3, True)
    number = await ask(ledger, REDRIVE, person_no)
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    assert (shown["matched"], shown["matched_capped"]) == (3, True)
    assert (await finish(ledger.connection, number))[-1].done == 21


async def test_what_others_have_is_not_counted_among_the_items_examined(
    ledger: Ledger, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fail(ledger, count=4, tenant="umbra")
    await fail(ledger)
    await ledger.place(State.RUNNING)
    await ledger.emit(4, tenant="umbra")
    await ledger.emit()
    monkeypatch.setattr("dueledger.ledger.store.operations.COUNT_EXAMINED_MAX", 4)
    items = ItemFilter(tenant="acme", kind=ledger.kind)
    counts = {}
    for verb in (REDRIVE, OperationVerb.CANCEL):
        preview = await preview_operation(ledger.connection, verb, items)
        counts[verb] = preview.items, preview.capped
    assert counts == {REDRIVE: (1, False), OperationVerb.CANCEL: (3, False)}
    await finish(ledger.connection, await ask(ledger, REDRIVE, person_no, tenant="acme"))


async def test_an_operation_on_nothing_is_not_recorded(ledger: Ledger, person_no: int) -> None:
    await ledger.emit()
    nothing = await record_operation(
        ledger.connection,
        REDRIVE,
        ItemFilter(kind=ledger.kind),
        reason="test",
        actor_no=person_no,
    )
    assert nothing is None
    assert await list_operations(ledger.connection, 10) == []
    preview = await preview_operation(ledger.connection, REDRIVE, ItemFilter(kind=ledger.kind))
    assert (preview.groups, preview.items, preview.capped) == ([], 0, False)


async def test_an_aborted_operation_moves_nothing_more(
    ledger: Ledger, rival: Connection, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parked = await fail(ledger, count=3)
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 1)
    number = await ask(ledger, REDRIVE, person_no)
    await advance_operation(rival, number)

    async def abort() -> bool:
        aborted = await abort_operation(
            ledger.connection, number, reason="wrong kind", actor_no=person_no
        )
        return aborted is not None

    assert await abort()
    assert await advance_operation(rival, number) is None
    assert await find_open_operation(rival, 0) is None
    assert not await abort()
    assert (await states(ledger, parked)).count(State.SCHEDULED) == 1
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    assert (shown["status"], shown["done"], shown["aborted_by"], shown["abort_reason"]) == (
        "aborted",
        1,
        "person:jane",
        "wrong kind",
    )


async def test_an_operation_that_is_paused_in_the_middle_moves_each_item_once(
    ledger: Ledger,
    rival: Connection,
    person_no: int,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
) -> None:
    """A pause waits for the slice under way; after it, nothing moves until somebody resumes."""
    parked = await fail(ledger, count=3)
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 1)
    number = await ask(ledger, REDRIVE, person_no)
    assert not await resume_operation(rival, number)

    async def pause() -> bool:
        paused = await pause_operation(rival, number, reason="INC-7", actor_no=person_no)
        return paused is not None

    pid = await rival.fetchval("select pg_backend_pid()")
    async with ledger.connection.transaction():
        await advance_operation(ledger.connection, number)
        pausing = asyncio.create_task(pause())

        async def waits() -> bool:
            return await ledger.connection.fetchval(
                "select cardinality(pg_blocking_pids($1)) > 0", pid
            )

        await eventually(waits)
    assert await pausing
    assert not await pause()
    assert await find_open_operation(ledger.connection, 0) is None
    assert await advance_operation(ledger.connection, number) is None
    chosen = await ledger.connection.fetch(
        statement("choose_operation_items"), number, EXAMINED_MAX, 1
    )
    assert chosen == []
    shown = await show_operation(rival, number)
    assert shown is not None
    paused = [shown[name] for name in ("status", "done", "paused_by", "pause_reason")]
    assert paused == ["paused", 1, "person:jane", "INC-7"]

    assert await resume_operation(rival, number)
    assert not await resume_operation(rival, number)
    assert (await finish(ledger.connection, number))[-1].done == 3
    assert not await pause()
    assert await states(ledger, parked) == [State.SCHEDULED] * 3
    redriven = await rival.fetchval(
        "select count(*) from ledger.transition where event = $1", TransitionEvent.REDRIVEN
    )
    assert redriven == 3


async def test_an_operation_is_advanced_by_one_process_at_a_time(
    ledger: Ledger, rival: Connection, person_no: int
) -> None:
    await fail(ledger, count=2)
    number = await ask(ledger, REDRIVE, person_no)
    async with ledger.connection.transaction():
        progress = await advance_operation(ledger.connection, number)
        assert progress is not None
        assert await advance_operation(rival, number) is None
    assert progress.done == 2


async def test_an_item_that_is_moved_while_a_slice_waits_for_it_is_left_out(
    ledger: Ledger,
    rival: Connection,
    person_no: int,
    eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
) -> None:
    first, second = await fail(ledger, count=2)
    number = await ask(ledger, REDRIVE, person_no)
    pid = await rival.fetchval("select pg_backend_pid()")
    async with ledger.connection.transaction():
        await apply_verb(ledger.connection, REDRIVE, [first], reason="x", actor_no=person_no)
        slice_ = asyncio.create_task(advance_operation(rival, number))

        async def waits() -> bool:
            return await ledger.connection.fetchval(
                "select cardinality(pg_blocking_pids($1)) > 0", pid
            )

        await eventually(waits)
        # It is parked again before the slice goes on, for another cause.
        await _park_again(ledger, [first])
    progress = await slice_
    assert progress is not None
    assert (progress.matched, progress.done) == (2, 1)
    assert await states(ledger, [first, second]) == [State.MANUAL_REVIEW, State.SCHEDULED]
    assert await ledger.rejected() == []


async def test_cancelling_a_kind_ends_what_waits_and_asks_what_is_in_flight_to_end(
    ledger: Ledger, rival: Connection, person_no: int
) -> None:
    ended = await ledger.place(State.COMPLETED)
    waiting = await fail(ledger, TransitionEvent.FAILED)
    parked = await fail(ledger)
    running = await ledger.place(State.RUNNING)
    claimed = await ledger.place(State.CLAIMED)
    scheduled = await ledger.emit(2)

    (end,) = await finish(rival, await ask(ledger, OperationVerb.CANCEL, person_no))

    assert (end.matched, end.done, end.requested) == (6, 4, 2)
    cancelled = [*waiting, *parked, *scheduled]
    assert await states(ledger, cancelled) == [State.CANCELLED] * 4
    in_flight = [ended.id, running.id, claimed.id]
    assert await states(ledger, in_flight) == [State.COMPLETED, State.RUNNING, State.CLAIMED]
    asked = await rival.fetchval(
        "select count(*) from ledger.withdrawal where actor_no = $1", person_no
    )
    assert asked == 2


async def test_cancelling_by_error_leaves_what_is_in_flight_and_what_did_not_fail(
    ledger: Ledger, person_no: int
) -> None:
    waiting = await fail(ledger, TransitionEvent.FAILED)
    parked = await fail(ledger)
    claimed = await ledger.place(State.CLAIMED)
    scheduled = await ledger.emit()

    number = await ask(ledger, OperationVerb.CANCEL, person_no, error="TimeoutError")
    (end,) = await finish(ledger.connection, number)

    assert (end.matched, end.done, end.requested) == (2, 2, 0)
    assert await states(ledger, [*waiting, *parked]) == [State.CANCELLED] * 2
    assert await states(ledger, [claimed.id, *scheduled]) == [State.CLAIMED, State.SCHEDULED]


async def test_what_is_handed_out_between_slices_is_asked_to_end(
    ledger: Ledger, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ledger.emit(2)
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 1)
    number = await ask(ledger, OperationVerb.CANCEL, person_no)
    await advance_operation(ledger.connection, number)
    await ledger.claim()
    assert (await finish(ledger.connection, number))[-1].requested == 1


@pytest.mark.parametrize(("verb", "done"), [(OperationVerb.CANCEL, 3), (REDRIVE, 1)])
async def test_what_is_committed_after_an_operation_was_recorded_is_not_among_its_items(
    ledger: Ledger,
    rival: Connection,
    noon: datetime,
    person_no: int,
    verb: OperationVerb,
    done: int,
) -> None:
    await ledger.stand_at(noon)
    await set_clock(rival, noon, 0)  # so that no time tells what came first
    waiting = await fail(ledger, TransitionEvent.FAILED)
    transaction = rival.transaction()
    await transaction.start()
    [late] = await emit_items(rival, ledger.make_drafts(prefix="late"), actor_no=person_no)
    await apply_verb(rival, OperationVerb.PARK, waiting, reason="no answer", actor_no=person_no)
    inside = [*await fail(ledger), *await ledger.emit()]  # numbers beyond the late one's
    number = await ask(ledger, verb, person_no)
    await transaction.commit()
    (end,) = await finish(ledger.connection, number)
    assert (end.matched, end.done) == (done, done)
    parked = State.CANCELLED if verb is OperationVerb.CANCEL else State.MANUAL_REVIEW
    assert await states(ledger, [late.id, *waiting]) == [State.SCHEDULED, parked]
    redriven = State.CANCELLED if verb is OperationVerb.CANCEL else State.SCHEDULED
    assert redriven in await states(ledger, inside)


async def test_triggering_makes_what_is_due_later_available_and_leaves_the_rest(
    ledger: Ledger, person_no: int
) -> None:
    later = datetime(2199, 1, 1, tzinfo=UTC)
    ids = await ledger.emit(2, due_at=later)
    waiting = await fail(ledger, TransitionEvent.FAILED)
    await ledger.emit()  # available already
    serial = await ledger.emit(due_at=later)
    await ledger.connection.execute(
        "update ledger.pending p set available_at = 'infinity' from ledger.due_item i"
        " where i.item_no = p.item_no and i.id = $1",
        serial[0],
    )
    (end,) = await finish(ledger.connection, await ask(ledger, OperationVerb.TRIGGER, person_no))
    assert (end.matched, end.done) == (3, 3)
    rows = await ledger.connection.fetch(
        "select i.id, x.actor_no, p.available_at <= ledger.now() as available, i.due_at"
        " from ledger.expedited x join ledger.due_item i using (effective_date, item_no)"
        " join ledger.pending p on p.item_no = i.item_no"
    )
    assert {row["id"] for row in rows} == {*ids, *waiting}
    assert {(row["actor_no"], row["available"]) for row in rows} == {(person_no, True)}
    assert [row["due_at"] for row in rows if row["id"] in ids] == [later] * 2


async def test_parking_takes_retries_by_their_last_error(ledger: Ledger, person_no: int) -> None:
    timed_out = await fail(ledger, TransitionEvent.FAILED)
    others = [
        *await fail(ledger, TransitionEvent.FAILED, error="OSError"),
        *await ledger.emit(),
    ]
    number = await ask(ledger, OperationVerb.PARK, person_no, error="TimeoutError")
    (end,) = await finish(ledger.connection, number)
    assert (end.matched, end.done) == (1, 1)
    assert await states(ledger, timed_out) == [State.MANUAL_REVIEW]
    assert await states(ledger, others) == [State.RETRYABLE_FAILURE, State.SCHEDULED]


@pytest.mark.parametrize("verb", OperationVerb)
async def test_an_operator_asks_and_the_login_of_an_allocator_carries_it_out(
    ledger: Ledger, database: str, verb: OperationVerb
) -> None:
    await fail(ledger)
    await fail(ledger, TransitionEvent.FAILED)
    operator = await connect(with_login(database, "operator"), application_name="operator")
    allocator = await connect(with_login(database, "allocator"), application_name="allocator")
    person_no = await register_actor(operator, "person:jane", ActorKind.PERSON)
    items = ItemFilter(kind=ledger.kind)
    until = UNTIL if verb is OperationVerb.SNOOZE else None
    number = await record_operation(
        operator, verb, items, reason="test", actor_no=person_no, until=until
    )
    assert number is not None
    (end,) = await finish(allocator, number)
    assert end.done == end.matched > 0
    for each in (operator, allocator):
        await each.close()


async def test_a_key_names_its_items_in_a_state_to_which_the_verb_is_applied(
    ledger: Ledger,
) -> None:
    parked = await fail(ledger, prefix="P")
    waiting = await fail(
        ledger, TransitionEvent.FAILED, prefix="P", effective_date=date(2027, 3, 2)
    )
    await fail(ledger, prefix="P", tenant="umbra")
    found = {
        verb: await find_keyed_items(
            ledger.connection,
            verb,
            ["P-000000"],
            tenant="acme",
            kind=None,
            lane=None,
            limit=10,
        )
        for verb in OperationVerb
    }
    assert found == {
        OperationVerb.TRIGGER: waiting,
        OperationVerb.PARK: waiting,
        OperationVerb.REDRIVE: parked,
        OperationVerb.WRITE_OFF: parked,
        OperationVerb.SNOOZE: waiting,
        OperationVerb.CANCEL: [*parked, *waiting],
    }


async def test_an_operation_that_fails_is_named_and_delays_no_other(
    ledger: Ledger, database: str, person_no: int
) -> None:
    await fail(ledger, lane="eu")
    others = await fail(ledger, count=2, lane="us")
    refused = await ledger.connection.fetchval("select flow_no from ledger.flow where lane = 'eu'")
    await ledger.connection.execute(
        f"alter table ledger.pending add constraint refused check (flow_no <> {refused}) not valid"
    )
    await ask(ledger, REDRIVE, person_no, lane="eu")
    number = await ask(ledger, REDRIVE, person_no, lane="us")
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        with capture_logs() as logged:
            counts = [await upkeep.tick() for _ in range(2)]
    assert [each["operation_slices"] for each in counts] == [0, 1]
    events = [(line["event"], line.get("step"), line.get("operation_no")) for line in logged]
    failed = (LogEvent.UPKEEP_STEP_FAILED, "advance_operations", None)
    assert events == [failed, (LogEvent.OPERATION_FINISHED, None, number), failed]
    assert await states(ledger, others) == [State.SCHEDULED] * 2


async def test_an_operation_says_how_long_it_takes_from_how_long_it_took_without_pauses(
    ledger: Ledger, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = ledger.connection
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 2)
    monkeypatch.setattr("dueledger.ledger.store.operations.MEASURED_ITEMS_MIN", 5)

    async def times() -> tuple[float, float | None]:
        shown = await show_operation(connection, number)
        assert shown is not None
        return shown["worked_seconds"], shown["seconds_left"]

    async def later(hours: int = 0, seconds: int = 0) -> None:
        await connection.execute(
            "update ledger.operation set stepped_at = stepped_at - $1::interval",
            timedelta(hours=hours, seconds=seconds),
        )

    await fail(ledger, count=5)
    number = await ask(ledger, REDRIVE, person_no, tenant="acme")
    assert await times() == (0, None)
    await advance_operation(connection, number)
    assert (await times())[0] > 0
    await connection.execute("update ledger.operation set worked_seconds = 10")
    assert await times() == (10, 15)
    assert await estimate_seconds(connection, REDRIVE, "acme", 50) is None
    await pause_operation(connection, number, reason="test", actor_no=person_no)
    await later(hours=1)
    await resume_operation(connection, number)
    await advance_operation(connection, number)
    before = (await times())[0]
    assert before < 3_600
    await later(seconds=20)
    await finish(connection, number)
    worked, left = await times()
    assert worked > before + 20
    assert left is None
    await connection.execute("update ledger.operation set worked_seconds = 10")
    assert await estimate_seconds(connection, REDRIVE, "acme", 50) == 100
    for verb, tenant in ((OperationVerb.CANCEL, "acme"), (REDRIVE, "umbra")):
        assert await estimate_seconds(connection, verb, tenant, 50) is None


async def test_time_in_which_no_process_carried_an_operation_out_is_not_its_work(
    ledger: Ledger, person_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueledger.ledger.store.operations.SLICE_ITEMS", 1)
    await fail(ledger, count=2)
    number = await ask(ledger, REDRIVE, person_no, tenant="acme")
    await advance_operation(ledger.connection, number)
    await ledger.connection.execute(
        "update ledger.operation set worked_seconds = 10,"
        " stepped_at = stepped_at - interval '8 hours'"
    )
    await finish(ledger.connection, number)
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    assert 70 <= shown["worked_seconds"] < 3_600
