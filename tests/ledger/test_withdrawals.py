"""Cancelling pending items, items in flight, and ended items."""

from uuid import UUID

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.claims import apply_withdrawals
from dueledger.ledger.store.items import RequestResult

from .conftest import Ledger

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
    running = await ledger.place(State.RUNNING)
    other = await ledger.place(State.RUNNING)
    assert await ledger.cancel(running.id) is RequestResult.REQUESTED
    assert await ledger.cancel(other.id) is RequestResult.REQUESTED
    await ledger.settle(other.run_no, TransitionEvent.PARKED)

    assert await apply_withdrawals(ledger.connection, 1) == 1

    assert await ledger.state_of(other.id) is State.CANCELLED
