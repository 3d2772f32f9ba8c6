"""Items in a partition that is newer than a statement's plan: refused and repeated, never lost.

Postgres plans a statement and locks its tables before it takes the statement's snapshot. Rows of a
partition that was attached in between are in the snapshot, but the plan does not read them. In a
transaction that has locked the tables, "in between" lasts until its end. These tests use that.
"""

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
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.reviews import redrive_items
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger, Placed

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


async def _owe_one(ledger: Ledger, claim_due: ClaimDue) -> int:
    """Emit an item of this month into a flow of its own, to be claimed so; return the flow."""
    kind = f"Warm{claim_due.__name__}"
    if claim_due is _claim_serial:
        await put_kind_policy(ledger.connection, KindPolicy("acme", kind, ordering="key"))
    today = await ledger.connection.fetchval("select ledger.now()::date")
    (item,) = await ledger.emit(kind=kind, effective_date=today)
    return await ledger.connection.fetchval(
        "select flow_no from ledger.due_item where id = $1", item
    )


@pytest.fixture
async def behind(ledger: Ledger, database: str) -> AsyncGenerator[Connection]:
    """A session in a transaction that has run all statements that move items, with their locks.

    Each has found an item: one of none leaves names to be read later from the catalogue, and a lock
    on that makes new partitions known, too.
    """
    flow_nos = {
        claim_due: await _owe_one(ledger, claim_due)
        for claim_due in (_claim_plain, _claim_serial, _take)
    }
    await ledger.place(State.CLAIMED)
    failing, _ = [await ledger.place(State.RUNNING) for _ in range(2)]
    (run,) = await run_ids(ledger.connection, [failing.run_no])
    connection = await connect(database, application_name="behind")
    await _pass_deadlines(connection)
    await connection.transaction().start()
    for claim_due, flow_no in flow_nos.items():
        assert await claim_due(connection, flow_no) == 1
    await release_claims(connection, [], ledger.worker_no)
    settlement = Settlement(run, [Outcome(TransitionEvent.FAILED)])
    assert await settle_runs(connection, [settlement], ledger.worker_no) == []
    assert (await reap_claims(connection, 1, ledger.worker_no)).claims == 1
    assert (await reap_runs(connection, 1, ledger.worker_no)).runs == 1
    await redrive_items(connection, [], reason="test", actor_no=ledger.worker_no)
    yield connection
    await connection.close()


async def _pass_deadlines(connection: Connection) -> None:
    in_an_hour = await connection.fetchval("select ledger.machine_now() + interval '1 hour'")
    await set_machine_clock(connection, in_an_hour, 1)


@asynccontextmanager
async def _afterwards(database: str) -> AsyncGenerator[Connection]:
    """A new session in a transaction that is rolled back."""
    connection = await connect(database, application_name="afterwards")
    await _pass_deadlines(connection)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


@pytest.mark.parametrize(
    ("claim_due", "ordering"),
    [(_claim_plain, "none"), (_claim_serial, "key"), (_take, "none")],
    ids=["claim", "serial", "direct"],
)
async def test_g1_a_claim_takes_nothing_of_a_partition_that_its_plan_does_not_have(
    ledger: Ledger, behind: Connection, database: str, claim_due: ClaimDue, ordering: str
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering=ordering))
    (item,) = await ledger.emit(effective_date=NEW_MONTH)
    flow_no = await ledger.connection.fetchval(
        "select flow_no from ledger.due_item where id = $1", item
    )

    with pytest.raises(UnseenPartition):
        await claim_due(behind, flow_no)
    await behind.execute("rollback")

    assert await ledger.state_of(item) is State.SCHEDULED
    async with _afterwards(database) as afterwards:
        assert await claim_due(afterwards, flow_no) == 1


GiveBack = Callable[[Connection, Ledger, Placed], Awaitable[object]]


async def _release(connection: Connection, ledger: Ledger, placed: Placed) -> object:
    claims = await claim_ids(ledger.connection, [placed.fence])
    return await release_claims(connection, claims, ledger.worker_no)


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
async def test_g2_nothing_is_given_back_whose_partition_the_plan_does_not_have(
    ledger: Ledger, behind: Connection, database: str, state: State, give_back: GiveBack
) -> None:
    placed = await ledger.place(state, effective_date=NEW_MONTH)

    with pytest.raises(REFUSED, match="1 items were taken and 0 of them found"):
        await give_back(behind, ledger, placed)
    await behind.execute("rollback")

    assert await ledger.state_of(placed.id) is state
    async with _afterwards(database) as afterwards:
        assert await give_back(afterwards, ledger, placed)


async def test_g2_a_parked_item_that_a_plan_does_not_know_stays_parked(
    ledger: Ledger, behind: Connection
) -> None:
    placed = await ledger.place(State.MANUAL_REVIEW, effective_date=NEW_MONTH)
    (answered,) = await redrive_items(
        behind, [placed.id], reason="again", actor_no=ledger.worker_no
    )
    assert answered.result == "unknown"
    assert await ledger.state_of(placed.id) is State.MANUAL_REVIEW


async def test_g1_a_chain_does_not_end_with_an_item_that_is_not_found(ledger: Ledger) -> None:
    await ledger.connection.execute(
        "insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)"
        " values (4711, $1, 1, 60)",
        NEW_MONTH,
    )
    with pytest.raises(REFUSED, match="1 items were taken and 0 of them found"):
        await ledger.connection.execute("delete from ledger.following")
    assert await ledger.connection.fetchval("select count(*) from ledger.following") == 1
