"""The negative space: every verb against every state; only the listed transitions happen."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from dueledger.ledger.states import TRANSITIONS, State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import apply_withdrawals, reap_claims, reap_runs, release_claims
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import snooze_items
from dueledger.ledger.store.items import withdraw_items
from dueledger.ledger.store.prior_work import complete_items
from dueledger.ledger.store.reviews import park_items, redrive_items, write_off_items
from tests.claim_ids import claim_ids

from .conftest import Ledger, Placed

AFTER = {(move.event, move.before): move.after for move in TRANSITIONS}


@pytest.fixture(scope="module")
async def database(
    make_database: Callable[[], AbstractAsyncContextManager[str]],
) -> AsyncGenerator[str]:
    """One database for the whole table: each test has a kind of its own."""
    async with make_database() as dsn:
        yield dsn


@pytest.fixture(scope="module")
async def kept_connection(database: str) -> AsyncGenerator[Connection]:
    """A session that has planned the statements which most of the tests run."""
    connection = await connect(database, application_name="test")
    yield connection
    await connection.close()


@pytest.fixture
async def connection(kept_connection: Connection) -> Connection:
    await kept_connection.reset()  # the clock that the last test has set
    return kept_connection


Verb = Callable[[Ledger, Placed], Awaitable[object]]


async def _claim(ledger: Ledger, _: Placed) -> object:
    return await ledger.claim()


async def _release(ledger: Ledger, placed: Placed) -> object:
    claims = await claim_ids(ledger.connection, [placed.fence])
    return await release_claims(ledger.connection, claims, ledger.worker_no)


async def _start(ledger: Ledger, placed: Placed) -> object:
    return await ledger.start(placed.fence)


def _settle(event: TransitionEvent) -> Verb:
    async def settle(ledger: Ledger, placed: Placed) -> object:
        return await ledger.settle(placed.run_no, event, after_seconds=0)

    return settle


async def _reap(ledger: Ledger, _: Placed) -> object:
    await ledger.end_leases()
    return await reap_runs(ledger.connection, 100, ledger.worker_no)


async def _park(ledger: Ledger, placed: Placed) -> object:
    return await park_items(
        ledger.connection, [placed.id], reason="hold", actor_no=ledger.worker_no
    )


async def _redrive(ledger: Ledger, placed: Placed) -> object:
    return await redrive_items(
        ledger.connection, [placed.id], reason="again", actor_no=ledger.worker_no
    )


async def _write_off(ledger: Ledger, placed: Placed) -> object:
    return await write_off_items(
        ledger.connection, [placed.id], reason="lost", actor_no=ledger.worker_no
    )


async def _put_off(ledger: Ledger, placed: Placed) -> object:
    until = await read_now(ledger.connection) + timedelta(days=1)
    return await snooze_items(
        ledger.connection, [placed.id], reason="later", actor_no=ledger.worker_no, until=until
    )


def _withdraw(event: TransitionEvent) -> Verb:
    async def withdraw(ledger: Ledger, placed: Placed) -> object:
        await withdraw_items(
            ledger.connection,
            [placed.id],
            event=event,
            reason="test",
            actor_no=ledger.worker_no,
        )
        # Items in flight get a request, which is applied when they would run again.
        claims = await claim_ids(ledger.connection, [placed.fence])
        await release_claims(ledger.connection, claims, ledger.worker_no)
        await ledger.settle(placed.run_no, TransitionEvent.SNOOZED, after_seconds=0)
        return await apply_withdrawals(ledger.connection, 100)

    return withdraw


async def _record(ledger: Ledger, placed: Placed) -> object:
    return await complete_items(
        ledger.connection, {placed.id: '{"reason": "test"}'}, actor_no=ledger.worker_no
    )


VERBS: dict[str, tuple[TransitionEvent, Verb]] = {
    "claim": (TransitionEvent.CLAIMED, _claim),
    "release": (TransitionEvent.RELEASED, _release),
    "start": (TransitionEvent.STARTED, _start),
    "complete": (TransitionEvent.COMPLETED, _settle(TransitionEvent.COMPLETED)),
    "complete by a repair": (TransitionEvent.COMPLETED, _record),
    "fail": (TransitionEvent.FAILED, _settle(TransitionEvent.FAILED)),
    "snooze": (TransitionEvent.SNOOZED, _settle(TransitionEvent.SNOOZED)),
    "snooze by a person": (TransitionEvent.SNOOZED, _put_off),
    "give back": (TransitionEvent.RELEASED, _settle(TransitionEvent.RELEASED)),
    "park by its worker": (TransitionEvent.PARKED, _settle(TransitionEvent.PARKED)),
    "reap": (TransitionEvent.TIMED_OUT, _reap),
    "hold": (TransitionEvent.PARKED, _park),
    "redrive": (TransitionEvent.REDRIVEN, _redrive),
    "write off": (TransitionEvent.WRITTEN_OFF, _write_off),
    "cancel": (TransitionEvent.CANCELLED, _withdraw(TransitionEvent.CANCELLED)),
    "supersede": (TransitionEvent.SUPERSEDED, _withdraw(TransitionEvent.SUPERSEDED)),
}

# Permitted by the table, but not by this verb: each is another actor's way to the same event.
NOT_THIS_VERB = {
    ("release", State.RUNNING),
    ("snooze", State.SCHEDULED),
    ("snooze", State.RETRYABLE_FAILURE),
    ("snooze by a person", State.RUNNING),
    ("give back", State.CLAIMED),
    ("complete", State.CLAIMED),
    ("complete", State.SCHEDULED),
    ("complete", State.RETRYABLE_FAILURE),
    ("complete", State.MANUAL_REVIEW),
    ("complete by a repair", State.CLAIMED),
    ("complete by a repair", State.RUNNING),
    ("park by its worker", State.CLAIMED),
    ("park by its worker", State.RETRYABLE_FAILURE),
    ("hold", State.RUNNING),
    ("hold", State.CLAIMED),
}


@pytest.mark.parametrize("state", State, ids=lambda state: state.label)
@pytest.mark.parametrize("verb", VERBS)
async def test_g8_a_verb_moves_an_item_only_along_a_listed_transition(
    ledger: Ledger, verb: str, state: State
) -> None:
    event, act = VERBS[verb]
    placed = await ledger.place(state)
    assert await ledger.state_of(placed.id) is state
    before = await ledger.journal()

    await act(ledger, placed)

    after = None if (verb, state) in NOT_THIS_VERB else AFTER.get((event, state))
    assert await ledger.state_of(placed.id) is (after or state)
    if after is None:
        assert await ledger.journal() == before
    await ledger.check_balance()


@pytest.mark.parametrize("state", [State.CLAIMED, State.RUNNING], ids=lambda state: state.label)
async def test_g9_a_claim_past_its_deadline_releases_only_what_never_started(
    ledger: Ledger, state: State
) -> None:
    placed = await ledger.place(state)
    await ledger.end_leases()

    await reap_claims(ledger.connection, 1000, ledger.worker_no)

    assert await ledger.state_of(placed.id) is (
        State.SCHEDULED if state is State.CLAIMED else State.RUNNING
    )
