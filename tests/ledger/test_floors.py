"""With a held snapshot a claim reads no dead rows below its flow's floor."""

from collections.abc import AsyncGenerator

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import (
    FLOOR_MIN,
    PendingFloor,
    claim_items,
    claim_serial_items,
    find_next_due,
    list_due_flows,
)
from dueledger.ledger.store.direct_claims import claim_and_start_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .conftest import Ledger

TAKEN = 2_000
ITEMS_OF_A_BLOCK = 1024


@pytest.fixture
async def snapshot(database: str) -> AsyncGenerator[None]:
    """Hold a snapshot, so that no entry of an index is known to be dead to all."""
    holder = await connect(database, application_name="holder")
    async with holder.transaction(isolation="repeatable_read"):
        await holder.fetchval("select count(*) from ledger.pending")
        yield
    await holder.close()


async def _reads(connection: Connection, index: str) -> int:
    await connection.execute("select pg_stat_force_next_flush()")
    return await connection.fetchval(
        "select idx_tup_read from pg_stat_user_indexes where indexrelname = $1", index
    )


async def _floor(ledger: Ledger, flow_no: int) -> PendingFloor:
    (answer,) = await find_next_due(ledger.connection, [flow_no], [FLOOR_MIN], [0.0])
    return answer.floor


@pytest.mark.damages
@pytest.mark.usefixtures("snapshot")
async def test_a_claim_passes_no_retries_that_were_taken_below_its_floor(ledger: Ledger) -> None:
    for event in (TransitionEvent.FAILED, TransitionEvent.COMPLETED):
        if event is TransitionEvent.FAILED:
            await ledger.emit(TAKEN)
        claim = await ledger.claim()
        start = await ledger.start(claim.fence, 1, TAKEN)
        assert await ledger.settle(start.run_no, *[event] * TAKEN, after_seconds=0) == []
    await ledger.emit(20)
    (flow,) = await list_due_flows(ledger.connection, 10)
    index = "pending_retry_idx"
    before = await _reads(ledger.connection, index)
    floor = await _floor(ledger, flow.flow_no)
    passed = await _reads(ledger.connection, index) - before
    assert passed >= TAKEN
    assert await claim_items(ledger.connection, [flow.flow_no], [10], [floor])
    assert (await find_next_due(ledger.connection, [flow.flow_no], [floor], [0.0]))[0].plain
    await claim_and_start_items(
        ledger.connection,
        [flow.flow_no],
        [10],
        group_nos=[0],
        apart=[False],
        floors=[floor],
        run_seconds=[None],
        worker_no=ledger.worker_no,
        lease_seconds=60,
    )
    assert await _reads(ledger.connection, index) - before - passed < TAKEN / 10


@pytest.mark.damages
@pytest.mark.usefixtures("snapshot")
async def test_a_claim_says_at_which_row_the_next_one_begins_and_none_is_left(
    ledger: Ledger,
) -> None:
    await ledger.emit(2 * TAKEN)
    (flow,) = await list_due_flows(ledger.connection, 10)
    claimed = await claim_items(ledger.connection, [flow.flow_no], [TAKEN])
    at, block = claimed.last_rows[flow.flow_no]
    floor = FLOOR_MIN._replace(at=at, block=block)
    before = await _reads(ledger.connection, "pending_available_idx")

    claimed += await claim_items(ledger.connection, [flow.flow_no], [10], [floor])

    read = await _reads(ledger.connection, "pending_available_idx") - before
    assert 10 <= read <= ITEMS_OF_A_BLOCK + 10
    rest = await claim_items(ledger.connection, [flow.flow_no], [TAKEN], [floor], with_fences=True)
    taken = [*claimed.items(), *rest.items()]
    assert len({row.item_no for row in taken}) == 2 * TAKEN
    assert rest.last_rows == {}


@pytest.mark.damages
@pytest.mark.usefixtures("snapshot")
async def test_a_claim_passes_no_serial_items_that_were_taken_below_its_floor(
    ledger: Ledger,
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    await ledger.emit(TAKEN)
    (flow,) = await list_due_flows(ledger.connection, 10)
    quotas = ([flow.flow_no], [TAKEN])
    rows = await claim_serial_items(ledger.connection, *quotas, ledger.worker_no)
    assert len(rows) == TAKEN
    await ledger.emit(10)
    index = "pending_serial_idx"
    before = await _reads(ledger.connection, index)
    floor = await _floor(ledger, flow.flow_no)
    passed = await _reads(ledger.connection, index) - before
    assert passed >= TAKEN
    rows = await claim_serial_items(ledger.connection, *quotas, ledger.worker_no, floors=[floor])
    assert len(rows) == 10
    (answer,) = await find_next_due(ledger.connection, [flow.flow_no], [floor], [0.0])
    assert not answer.serial
    assert await _reads(ledger.connection, index) - before - passed < TAKEN / 10


@pytest.mark.damages
async def test_a_claim_of_serial_items_passes_no_retries_to_reach_first_attempts(
    ledger: Ledger,
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    await ledger.emit(TAKEN)
    await ledger.connection.execute("update ledger.pending set state = 4 /* RetryableFailure */")
    wanted = await ledger.emit(10)
    (flow,) = await list_due_flows(ledger.connection, 10)
    await ledger.connection.execute("update ledger.flow set retry_share = 0")
    await ledger.connection.execute("vacuum ledger.pending")
    before = await _reads(ledger.connection, "pending_serial_idx")
    async with ledger.connection.transaction():
        rows = await claim_serial_items(ledger.connection, [flow.flow_no], [10], ledger.worker_no)
    assert {row.id for row in rows.items()} == set(wanted)
    assert await _reads(ledger.connection, "pending_serial_idx") - before < TAKEN / 10


@pytest.mark.damages
async def test_a_list_begins_at_the_lowest_row_and_returns_the_floor_of_each_sort(
    ledger: Ledger,
) -> None:
    await ledger.emit(2)
    claim = await ledger.claim(limit=1)
    start = await ledger.start(claim.fence)
    await ledger.settle(start.run_no, TransitionEvent.FAILED, after_seconds=0)
    retry_at = await ledger.connection.fetchval(
        "select available_at from ledger.pending where state = 4 /* RetryableFailure */"
    )
    (flow,) = await list_due_flows(ledger.connection, 10)
    assert flow.floor.retry_at <= retry_at
    assert flow.floor.serial_at > FLOOR_MIN.serial_at
    rows = await claim_items(ledger.connection, [flow.flow_no], [10], [flow.floor])
    assert len(rows) == 2
