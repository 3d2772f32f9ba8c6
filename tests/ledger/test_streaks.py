"""Keys that fail in a row: flagged once, until one of their items completes."""

from datetime import UTC, datetime

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.claims import reap_runs
from dueledger.ledger.store.flow_limits import flag_streaks, list_streaks
from dueledger.ledger.store.runs import RunIsolation

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
LONG_HENCE = datetime(2199, 1, 1, tzinfo=UTC)


async def test_a_key_that_fails_in_a_row_is_flagged_once_until_it_completes(ledger: Ledger) -> None:
    await ledger.emit(2)

    async def attempt(event: TransitionEvent) -> None:
        claim = await ledger.claim(limit=1)
        run_no = (await ledger.start(claim.fence)).run_no
        await ledger.settle(run_no, event, after_seconds=0)
        await ledger.connection.execute(
            "update ledger.pending set available_at = ledger.now() + interval '1 day'"
            " where state = 1 /* Scheduled */"
        )

    for _ in range(2):
        await attempt(FAILED)
    assert await flag_streaks(ledger.connection, 10) == []
    await attempt(FAILED)
    (flagged,) = await flag_streaks(ledger.connection, 10)
    assert (flagged.kind, flagged.failures, flagged.reason) == (ledger.kind, 3, "test")
    assert await flag_streaks(ledger.connection, 10) == []
    (listed,) = await list_streaks(ledger.connection)
    assert listed["business_key"] == flagged.business_key
    await attempt(COMPLETED)
    assert await list_streaks(ledger.connection) == []


async def test_a_completion_ends_a_streak_and_the_next_is_counted_anew(ledger: Ledger) -> None:
    await ledger.emit()
    await ledger.connection.execute(
        "insert into ledger.failure_streak"
        " (flow_no, business_key, failures, first_at, last_at, flagged_at, judged_at)"
        " select flow_no, business_key, 7, now() - interval '2 h', now() - interval '1 h',"
        " now() - interval '1 h', now() - interval '1 h' from ledger.due_item"
    )
    claim = await ledger.claim()
    await ledger.settle((await ledger.start(claim.fence)).run_no, COMPLETED)
    assert await list_streaks(ledger.connection) == []
    await ledger.connection.execute(
        "update ledger.failure_streak set failures = failures + 1, last_at = now()"
    )
    assert await flag_streaks(ledger.connection, 10) == []
    assert await list_streaks(ledger.connection, failures_min=1) != []
    assert await ledger.connection.fetchval("select failures from ledger.failure_streak") == 1


async def test_a_key_whose_worker_dies_each_time_is_flagged_too(ledger: Ledger) -> None:
    await ledger.emit()
    for _ in range(3):
        claim = await ledger.claim()
        await ledger.start(claim.fence, isolation=RunIsolation.SLOT)
        await ledger.end_leases()
        await reap_runs(ledger.connection, 10, ledger.worker_no)
        await ledger.connection.execute("update ledger.pending set available_at = ledger.now()")
    (flagged,) = await flag_streaks(ledger.connection, 10)
    assert flagged.failures == 3
