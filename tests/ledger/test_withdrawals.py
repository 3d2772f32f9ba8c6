"""Cancelling pending items, items in flight, and ended items."""

from uuid import UUID

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import apply_withdrawals
from dueledger.ledger.store.items import RequestResult, withdraw_items

from .conftest import Ledger, Placed

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED


async def test_a_cancellation_in_flight_is_honoured_at_start_and_the_others_run(
    ledger: Ledger,
) -> None:
    items = await ledger.emit(3)
    claim = await ledger.claim()
    assert await ledger.cancel(items[1]) is RequestResult.REQUESTED
    assert await ledger.state_of(items[1]) is State.CLAIMED

    start = await ledger.start(claim.fence, 1, 3)

    cancelled = [item for item in items if await ledger.state_of(item) is State.CANCELLED]
    assert cancelled == [items[1]]
    assert len(start.withdrawn) == 1
    assert start.run_no is not None
    outcomes: list[TransitionEvent | None] = [COMPLETED] * 3
    outcomes[start.withdrawn[0] - 1] = None
    assert await ledger.settle(start.run_no, *outcomes) == []
    assert await ledger.state_of(items[0]) is State.COMPLETED
    assert await ledger.connection.fetchval("select count(*) from ledger.withdrawal") == 0
    await ledger.check_balance()


async def test_a_run_whose_every_item_was_withdrawn_is_closed_at_once(ledger: Ledger) -> None:
    items = await ledger.emit(2)
    claim = await ledger.claim()
    for item in items:
        await ledger.cancel(item)

    start = await ledger.start(claim.fence, 1, 2)

    assert start.withdrawn == (1, 2)
    still_open = "select count(*) from ledger.run where closed_at is null"
    assert await ledger.connection.fetchval(still_open) == 0
    await ledger.check_balance()


async def test_a_cancellation_that_comes_too_late_is_recorded_and_the_completion_stays(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    assert await ledger.cancel(placed.id) is RequestResult.REQUESTED
    await ledger.settle(placed.run_no, COMPLETED)

    assert await apply_withdrawals(ledger.connection, 100) == 0

    assert await ledger.state_of(placed.id) is State.COMPLETED
    assert await ledger.rejected() == [("withdraw", "finished")]
    assert await ledger.cancel(placed.id) is RequestResult.FINISHED


async def test_withdrawing_an_item_that_does_not_exist_returns_unknown(ledger: Ledger) -> None:
    assert await ledger.cancel(UUID(int=0)) is RequestResult.UNKNOWN


async def test_a_request_for_what_is_in_flight_does_not_keep_others_from_being_honoured(
    ledger: Ledger,
) -> None:
    await ledger.place(State.COMPLETED)
    running = await ledger.place(State.RUNNING)
    other = await ledger.place(State.RUNNING)
    await ledger.emit()
    await ledger.connection.execute(  # as if the one that runs had failed before
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
        " select effective_date, item_no, 6, 1, 1, now() from ledger.due_item where id = $1",
        running.id,
    )
    assert await ledger.cancel(running.id) is RequestResult.REQUESTED
    assert await ledger.cancel(other.id) is RequestResult.REQUESTED
    await ledger.settle(other.run_no, TransitionEvent.PARKED)

    assert await apply_withdrawals(ledger.connection, 1) == 1

    assert await ledger.state_of(other.id) is State.CANCELLED


REQUEST = """
insert into ledger.withdrawal (item_no, effective_date, event, reason, actor_no, requested_at)
select item_no, effective_date, 11, $2, $3, now() from ledger.due_item where id = $1
returning item_no
"""


async def _request_in_each_state(ledger: Ledger) -> dict[State, list[int]]:
    """Place two items in each state, each with a request that says which state; their numbers."""
    placed: dict[State, list[Placed]] = {state: [] for state in State}
    for state in [*State, *State]:
        placed[state].append(await ledger.place(state))
        await ledger.connection.execute("update ledger.pending set available_at = '2100-01-01'")
    return {
        state: [
            await ledger.connection.fetchval(REQUEST, item.id, state.label, ledger.other_worker_no)
            for item in items
        ]
        for state, items in placed.items()
    }


async def _left(ledger: Ledger) -> set[int]:
    rows = await ledger.connection.fetch("select item_no from ledger.withdrawal")
    return {row["item_no"] for row in rows}


async def test_each_request_is_applied_refused_or_kept_by_the_state_of_its_item(
    ledger: Ledger,
) -> None:
    numbers = await _request_in_each_state(ledger)
    applied = await apply_withdrawals(ledger.connection, 100)

    waiting = (State.SCHEDULED, State.RETRYABLE_FAILURE, State.MANUAL_REVIEW)
    flying = (State.CLAIMED, State.RUNNING)
    assert applied == 2 * len(waiting)
    assert await _left(ledger) == {no for state in flying for no in numbers[state]}
    ended = await ledger.connection.fetch(
        "select item_no, attempt, detail ->> 'reason' as reason from ledger.transition"
        " where event = 11 and actor_no = $1",
        ledger.other_worker_no,
    )
    assert {tuple(row) for row in ended} == {
        (number, int(state is not State.SCHEDULED), state.label)
        for state in waiting
        for number in numbers[state]
    }
    refused = await ledger.connection.fetch(
        "select item_no, verb, reason, actor_no from ledger.rejected_write"
    )
    assert sorted(map(tuple, refused)) == sorted(
        (number, "withdraw", "finished", ledger.other_worker_no)
        for state, both in numbers.items()
        if state not in (*waiting, *flying)
        for number in both
    )
    for table in ("pending", "review"):
        assert await ledger.connection.fetchval(f"select count(*) from ledger.{table}") == 0  # noqa: S608 - a name above


async def test_a_request_whose_row_or_item_another_has_locked_is_applied_later(
    ledger: Ledger, database: str
) -> None:
    numbers = await _request_in_each_state(ledger)
    waiting = {
        "pending": numbers[State.SCHEDULED],
        "review": numbers[State.MANUAL_REVIEW],
        "withdrawal": numbers[State.RETRYABLE_FAILURE],
    }
    await ledger.connection.execute("set lock_timeout = '1s'")
    rival = await connect(database, application_name="rival")
    locked = {both[0] for both in waiting.values()}
    async with rival.transaction():
        for table, both in waiting.items():
            await rival.execute(
                f"select from ledger.{table} where item_no = $1 for update",
                both[0],
            )
        assert await apply_withdrawals(ledger.connection, 100) == len(waiting)
        flying = {*numbers[State.CLAIMED], *numbers[State.RUNNING]}
        assert await _left(ledger) - flying == locked
    await rival.close()
    assert await apply_withdrawals(ledger.connection, 100) == len(waiting)


async def test_a_batch_requests_what_is_in_flight_once_and_ends_what_waits_with_its_request(
    ledger: Ledger,
) -> None:
    terminal = (
        *(State.COMPLETED, State.WRITTEN_OFF),
        *(State.CANCELLED, State.SUPERSEDED, State.SKIPPED),
    )
    states = (State.RUNNING, State.CLAIMED, *terminal, State.SCHEDULED)
    placed = [await ledger.place(state) for state in states]
    other = await ledger.place(State.SCHEDULED)
    for item in (placed[0], placed[-1], other):
        await ledger.connection.fetchval(REQUEST, item.id, "before", ledger.other_worker_no)
    answers = await withdraw_items(
        ledger.connection,
        [item.id for item in placed],
        event=TransitionEvent.CANCELLED,
        reason="now",
        actor_no=ledger.worker_no,
    )
    assert [answer.result for answer in answers] == [
        RequestResult.REQUESTED,
        RequestResult.REQUESTED,
        *[RequestResult.FINISHED] * len(terminal),
        RequestResult.DONE,
    ]
    rows = await ledger.connection.fetch(
        "select i.id, w.reason from ledger.withdrawal w join ledger.due_item i using (item_no)"
    )
    assert {row["id"]: row["reason"] for row in rows} == {
        placed[0].id: "before",
        placed[1].id: "now",
        other.id: "before",
    }
