"""Items whose partition is made while a statement is planned: none is missed.

Making a partition excludes everybody from the default partition. A statement names that table, so
it waits there before it is planned. Its plan then has the new partition, to which the rows moved.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import date

import asyncpg
import pytest

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import (
    FLOOR_MIN,
    claim_items,
    claim_serial_items,
    reap_claims,
    reap_runs,
    release_claims,
)
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.direct_claims import claim_and_start_items
from dueledger.ledger.store.items import ItemRequestResult, RequestResult, withdraw_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.reviews import park_items, redrive_items, write_off_items
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger, Placed

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
Work = Callable[[Connection], Awaitable[object]]
PlanWhileSplitting = Callable[[Work], Awaitable[object]]

NEW_MONTH = date(2031, 5, 17)
REFUSED = (UnseenPartition, asyncpg.PostgresError)

ClaimDue = Callable[[Connection, int], Awaitable[int]]
"""Claim due items of a flow; return their number."""


async def _claim_plain(connection: Connection, flow_no: int) -> int:
    return len(await claim_items(connection, [flow_no], [100]))


async def _claim_serial(connection: Connection, flow_no: int) -> int:
    return len(await claim_serial_items(connection, [flow_no], [100], 1))


async def _take(connection: Connection, flow_no: int) -> int:
    taken = await claim_and_start_items(
        connection,
        [flow_no],
        [100],
        group_nos=[0],
        apart=[False],
        floors=[FLOOR_MIN],
        run_seconds=[None],
        worker_no=1,
        lease_seconds=60,
    )
    return sum(len(run.ids) for run in taken.runs)


@pytest.fixture
async def plan_while_splitting(
    database: str, eventually: Eventually
) -> AsyncGenerator[Callable[[Work], Awaitable[object]]]:
    """Run statements in a new session; the partition of NEW_MONTH is made while one is planned."""
    maker = await connect(database, application_name="maker")
    planner = await connect(database, application_name="planner")
    await _pass_deadlines(planner)

    async def run(work: Work) -> object:
        await maker.execute("begin")
        assert await maker.fetchval("select ledger.make_partition('due_item', $1)", NEW_MONTH)
        working = asyncio.ensure_future(work(planner))

        async def waits() -> object:
            return await maker.fetchval(
                "select count(*) from pg_locks where not granted"
                " and relation = 'ledger.due_item_default'::regclass"
            )

        await eventually(waits)
        await maker.execute("commit")
        return await working

    yield run
    await planner.close()
    await maker.close()


async def _pass_deadlines(connection: Connection) -> None:
    in_an_hour = await connection.fetchval("select ledger.machine_now() + interval '1 hour'")
    await set_machine_clock(connection, in_an_hour, 1)


@pytest.mark.parametrize(
    ("claim_due", "ordering"),
    [(_claim_plain, "none"), (_claim_serial, "key"), (_take, "none")],
    ids=["claim", "serial", "direct"],
)
async def test_g1_a_claim_finds_items_that_are_moved_while_it_is_planned(
    ledger: Ledger, plan_while_splitting: PlanWhileSplitting, claim_due: ClaimDue, ordering: str
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering=ordering))
    (item,) = await ledger.emit(effective_date=NEW_MONTH)
    flow_no = await ledger.connection.fetchval(
        "select flow_no from ledger.due_item where id = $1", item
    )

    async def claim(planner: Connection) -> int:
        async with _rolled_back(planner):
            return await claim_due(planner, flow_no)

    assert await plan_while_splitting(claim) == 1


@asynccontextmanager
async def _rolled_back(connection: Connection) -> AsyncGenerator[None]:
    transaction = connection.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


GiveBack = Callable[[Connection, Ledger, Placed], Awaitable[object]]


async def _release(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    ids = await claim_ids(ledger.connection, [placed.fence])
    return await release_claims(connection, ids, ledger.worker_no)


async def _reap_claims(connection: Connection, ledger: Ledger, _: Placed) -> object:
    return (await reap_claims(connection, 10, ledger.worker_no)).claims


async def _reap_runs(connection: Connection, ledger: Ledger, _: Placed) -> object:
    return (await reap_runs(connection, 10, ledger.worker_no)).runs


async def _settle(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    (run,) = await run_ids(ledger.connection, [placed.run_no])
    settlement = Settlement(run, [Outcome(TransitionEvent.FAILED)])
    return await settle_runs(connection, [settlement], ledger.worker_no) == []


@pytest.mark.parametrize(
    ("state", "give_back"),
    [
        (State.CLAIMED, _release),
        (State.CLAIMED, _reap_claims),
        (State.RUNNING, _reap_runs),
        (State.RUNNING, _settle),
    ],
    ids=["release", "reap claims", "reap runs", "settle"],
)
async def test_g2_items_are_given_back_that_are_moved_while_the_statement_is_planned(
    ledger: Ledger, plan_while_splitting: PlanWhileSplitting, state: State, give_back: GiveBack
) -> None:
    placed = await ledger.place(state, effective_date=NEW_MONTH)

    async def give_back_together(planner: Connection) -> object:
        async with planner.transaction():  # it must not be refused once
            return await give_back(planner, ledger, placed)

    assert await plan_while_splitting(give_back_together)

    assert await ledger.state_of(placed.id) in (State.SCHEDULED, State.RETRYABLE_FAILURE)


async def _redrive(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    return await redrive_items(connection, [placed.id], reason="test", actor_no=ledger.worker_no)


async def _write_off(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    return await write_off_items(connection, [placed.id], reason="test", actor_no=ledger.worker_no)


async def _park(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    return await park_items(connection, [placed.id], reason="test", actor_no=ledger.worker_no)


async def _cancel(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    return await withdraw_items(
        connection,
        [placed.id],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=ledger.worker_no,
    )


@pytest.mark.parametrize(
    ("state", "decide", "after"),
    [
        (State.MANUAL_REVIEW, _redrive, State.SCHEDULED),
        (State.MANUAL_REVIEW, _write_off, State.WRITTEN_OFF),
        (State.RETRYABLE_FAILURE, _park, State.MANUAL_REVIEW),
        (State.SCHEDULED, _cancel, State.CANCELLED),
    ],
    ids=["redrive", "write off", "park", "cancel"],
)
async def test_g2_decisions_reach_items_that_are_moved_while_the_statement_is_planned(
    ledger: Ledger,
    plan_while_splitting: PlanWhileSplitting,
    state: State,
    decide: GiveBack,
    after: State,
) -> None:
    placed = await ledger.place(state, effective_date=NEW_MONTH)

    answered = await plan_while_splitting(lambda planner: decide(planner, ledger, placed))

    assert answered == [ItemRequestResult(placed.id, RequestResult.DONE)]
    assert await ledger.state_of(placed.id) is after


async def test_g2_a_start_applies_the_cancellation_of_an_item_that_is_moved_meanwhile(
    ledger: Ledger, plan_while_splitting: PlanWhileSplitting
) -> None:
    placed = await ledger.place(State.CLAIMED, effective_date=NEW_MONTH)
    assert await ledger.cancel(placed.id) is RequestResult.REQUESTED
    ids = await claim_ids(ledger.connection, [placed.fence])

    async def start(planner: Connection) -> object:
        return await start_runs(
            planner, ids, [1], [1], worker_no=ledger.worker_no, lease_seconds=60
        )

    await plan_while_splitting(start)

    assert await ledger.state_of(placed.id) is State.CANCELLED


async def test_g1_a_chain_does_not_end_with_an_item_that_is_not_found(ledger: Ledger) -> None:
    await ledger.connection.execute(
        "insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)"
        " values (4711, $1, 1, 60)",
        NEW_MONTH,
    )
    with pytest.raises(REFUSED, match="1 items were taken and 0 of them found"):
        await ledger.connection.execute("delete from ledger.following")
    assert await ledger.connection.fetchval("select count(*) from ledger.following") == 1
