"""Months of claims and runs that are over: no plan searches them for open rows."""

import re
from datetime import UTC, datetime

import asyncpg
import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import reap_claims, reap_runs
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.partitions import finish_month

from .conftest import Ledger, Placed

LONG_AGO = datetime(2021, 3, 10, 12, tzinfo=UTC)
PARTITIONS = {"claim_202103", "run_202103"}


async def _at_that_time(ledger: Ledger, state: State) -> Placed:
    """Place an item in `state`, its claim and run in March 2021; then it is now again."""
    for parent in ("claim", "run"):
        await ledger.connection.execute(
            "select ledger.make_partition($1, date '2021-03-10')", parent
        )
    await set_clock(ledger.connection, LONG_AGO, 0)
    placed = await ledger.place(state, due_at=LONG_AGO)
    await ledger.connection.execute("select set_config('ledger.clock', '', false)")
    return placed


async def _finish_all(connection: Connection) -> set[str]:
    """Finish every month that can be; return those that are."""
    while await finish_month(connection):
        pass
    rows = await connection.fetch(
        "select parent || to_char(starts_on, '_YYYYMM') as child from ledger.partition_span"
        " where finished_at is not null"
    )
    return {row["child"] for row in rows}


async def _searched(connection: Connection) -> set[str]:
    """Return the partitions in which a reaper looks for runs past their lease."""
    await connection.execute(
        "prepare late as select from ledger.run where closed_at is null and lease_until < now()"
    )
    plan = await connection.fetch("explain (costs off) execute late")
    await connection.execute("deallocate late")
    return {word for row in plan for word in re.findall(r" on (run_\d{6}) ", row[0])}


async def test_a_month_whose_claims_and_runs_are_closed_is_left_out_of_plans(
    ledger: Ledger,
) -> None:
    await _at_that_time(ledger, State.COMPLETED)
    before = await _searched(ledger.connection)

    assert await _finish_all(ledger.connection) == PARTITIONS

    assert "run_202103" in before
    assert await _searched(ledger.connection) == before - PARTITIONS


async def test_the_month_before_this_one_is_not_finished(ledger: Ledger) -> None:
    assert await _finish_all(ledger.connection) == set()


async def test_g5_a_month_with_an_open_run_is_searched_until_that_is_reaped(
    ledger: Ledger,
) -> None:
    placed = await _at_that_time(ledger, State.RUNNING)

    assert await _finish_all(ledger.connection) == {"claim_202103"}

    await ledger.end_leases()
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).runs == 1
    assert await ledger.state_of(placed.id) is State.RETRYABLE_FAILURE
    assert await _finish_all(ledger.connection) == PARTITIONS


async def test_g5_a_run_whose_claim_is_of_a_finished_month_is_settled(ledger: Ledger) -> None:
    placed = await _at_that_time(ledger, State.RUNNING)
    await _finish_all(ledger.connection)

    assert await ledger.settle(placed.run_no, TransitionEvent.FAILED) == []

    assert await ledger.state_of(placed.id) is State.RETRYABLE_FAILURE


async def test_g5_a_month_with_an_open_claim_is_searched_until_that_is_reaped(
    ledger: Ledger,
) -> None:
    placed = await _at_that_time(ledger, State.CLAIMED)

    assert await _finish_all(ledger.connection) == {"run_202103"}

    await ledger.end_leases()
    assert (await reap_claims(ledger.connection, 10, ledger.worker_no)).released == 1
    assert await ledger.state_of(placed.id) is State.SCHEDULED
    assert await _finish_all(ledger.connection) == PARTITIONS


async def test_g5_nothing_opens_in_a_finished_month(ledger: Ledger) -> None:
    await _at_that_time(ledger, State.COMPLETED)
    await _finish_all(ledger.connection)

    with pytest.raises(asyncpg.CheckViolationError):
        await ledger.connection.execute("update ledger.run set closed_at = null")


async def test_g5_a_month_that_was_finished_by_a_clock_ahead_is_opened_again(
    ledger: Ledger,
) -> None:
    dates = (
        "update ledger.partition_span set ends_before = ends_before + make_interval(months => $1)"
    )
    await ledger.connection.execute(dates, -12)  # as a clock sees them that is a year ahead
    finished = await _finish_all(ledger.connection)
    await ledger.connection.execute(dates, 12)
    [item] = await ledger.emit(1)
    with pytest.raises(asyncpg.CheckViolationError):
        await ledger.claim(limit=1)

    assert finished
    assert await _finish_all(ledger.connection) == set()

    await ledger.claim(limit=1)
    assert await ledger.state_of(item) is State.CLAIMED


async def test_a_month_that_a_transaction_uses_is_finished_later(
    ledger: Ledger, database: str
) -> None:
    await _at_that_time(ledger, State.COMPLETED)
    other = await connect(database, application_name="other")
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select count(*) from ledger.claim, ledger.run")

    assert await _finish_all(ledger.connection) == set()

    await transaction.rollback()
    await other.close()
    assert await _finish_all(ledger.connection) == PARTITIONS
