"""Items without a state are recovered, and nothing else is changed."""

from datetime import date, datetime, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.item_check import RECOVERED_MAX, ItemCheck
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, Pool, connect
from dueledger.ledger.store.claims import Claim, reap_claims, reap_runs, release_claims
from dueledger.ledger.store.items import item_timeline
from dueledger.ledger.store.partitions import (
    count_lost,
    lock_partitions,
    make_partitions,
    recover_items,
    take_unchecked_month,
)

from .conftest import Ledger

MONTH = (date(2027, 3, 1), date(2027, 4, 1))
FAILED = TransitionEvent.FAILED


@pytest.fixture
def check(pool: Pool, ledger: Ledger) -> ItemCheck:
    return ItemCheck(pool, actor_no=ledger.worker_no, role="test")


async def _lose(ledger: Ledger, prefix: str) -> None:
    """Let pending items vanish, as a claim once let them."""
    await ledger.connection.execute(
        "delete from ledger.pending p using ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like $1 || '%'",
        prefix,
    )


async def _delete_item(ledger: Ledger, item_no: int) -> None:
    await ledger.connection.execute("delete from ledger.due_item where item_no = $1", item_no)


async def _pass_hours(ledger: Ledger) -> None:
    await ledger.connection.execute(
        "update ledger.partition_span set made_at = made_at - interval '2 minutes',"
        " checked_at = checked_at - interval '2 hours'"
    )


async def _tick(check: ItemCheck) -> int:
    """Check a month now, without the pause that follows one."""
    cast("Any", check)._next_at = 0.0
    return (await check.tick()).get("recovered", 0)


async def _check_all(ledger: Ledger, check: ItemCheck) -> int:
    """Check every month once; return how many items were recovered."""
    await _pass_hours(ledger)
    months = await ledger.connection.fetchval(
        "select count(*) from ledger.partition_span where parent = 'due_item'"
    )
    return sum([await _tick(check) for _ in range(months)])


async def test_g5_an_item_without_a_state_is_pending_again_and_is_worked(
    ledger: Ledger, check: ItemCheck
) -> None:
    whole = [await ledger.place(state) for state in State]
    states = [await ledger.state_of(placed.id) for placed in whole]
    lost = await ledger.emit(3, prefix="lost")
    await ledger.connection.execute(
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
        " select effective_date, item_no, 6, 1, $2, now() from ledger.due_item where id = $1",
        lost[1],  # it has failed before
        ledger.worker_no,
    )
    await _lose(ledger, "lost")
    assert await count_lost(ledger.connection, *MONTH) == 3

    with capture_logs() as logged:
        assert await _check_all(ledger, check) == 3

    (alert,) = logged
    assert (alert["event"], alert["log_level"], alert["items"]) == (
        LogEvent.ITEM_RECOVERED,
        "error",
        3,
    )
    assert sorted(alert["ids"]) == sorted(map(str, lost))
    assert [await ledger.state_of(item) for item in lost] == [State.SCHEDULED] * 3
    assert [await ledger.state_of(placed.id) for placed in whole] == states
    timeline = await item_timeline(ledger.connection, lost[0])
    assert [event["event"] for event in timeline] == ["emitted", "recovered"]
    claim = await ledger.claim()
    run_no = (await ledger.start(claim.fence, 1, len(claim.item_nos))).run_no
    await ledger.settle(run_no, *[TransitionEvent.COMPLETED] * len(claim.item_nos))
    assert [await ledger.state_of(item) for item in lost] == [State.COMPLETED] * 3


async def test_nothing_is_recovered_where_nothing_is_lost(ledger: Ledger, check: ItemCheck) -> None:
    for state in State:
        await ledger.place(state)
    before = await ledger.journal()
    with capture_logs() as logged:
        assert await _check_all(ledger, check) == 0
    assert logged == []
    async with ledger.connection.transaction():
        assert await lock_partitions(ledger.connection)
        assert not await recover_items(
            ledger.connection, *MONTH, limit=1000, actor_no=ledger.worker_no
        )
    assert await ledger.journal() == before


@pytest.mark.damages
async def test_a_pending_row_without_an_item_hides_no_lost_item(
    ledger: Ledger, check: ItemCheck
) -> None:
    await ledger.emit(1, prefix="deleted")
    await ledger.emit(1, prefix="lost")
    await ledger.connection.execute(
        "delete from ledger.due_item where business_key like 'deleted%'"
    )
    await _lose(ledger, "lost")
    assert await _check_all(ledger, check) == 1


@pytest.mark.damages
async def test_more_than_a_claim_can_lose_is_reported_and_left_to_a_person(
    ledger: Ledger, check: ItemCheck
) -> None:
    await ledger.emit(RECOVERED_MAX + 1, prefix="lost")
    await _lose(ledger, "lost")
    with capture_logs() as logged:
        assert await _check_all(ledger, check) == 0
    (alert,) = logged
    assert (alert["event"], alert["lost"]) == (LogEvent.ITEM_MISPLACED, RECOVERED_MAX + 1)


@pytest.mark.damages
async def test_an_item_with_two_states_is_reported(ledger: Ledger, check: ItemCheck) -> None:
    placed = await ledger.place(State.COMPLETED)
    await ledger.connection.execute(
        "insert into ledger.pending (item_no, effective_date, flow_no, available_at)"
        " select item_no, effective_date, flow_no, now() from ledger.due_item where id = $1",
        placed.id,
    )
    with capture_logs() as logged:
        assert await _check_all(ledger, check) == 0
    assert [(line["event"], line["lost"]) for line in logged] == [(LogEvent.ITEM_MISPLACED, -1)]


async def test_nothing_is_recovered_while_a_partition_is_being_made(
    ledger: Ledger, check: ItemCheck, database: str
) -> None:
    await ledger.emit(1, prefix="lost")
    await _lose(ledger, "lost")
    maker = await connect(database, application_name="maker")
    transaction = maker.transaction()
    await transaction.start()
    # A maker's own lock would let the check wait before it takes a month.
    await maker.execute("lock table ledger.partition_span in row exclusive mode")
    await _pass_hours(ledger)
    while cast("Any", check)._postponed is None:
        assert await _tick(check) == 0

    await transaction.commit()

    assert await _tick(check) == 1  # the month was postponed, not forgotten
    await maker.close()


async def test_two_processes_never_recover_beside_each_other(ledger: Ledger, database: str) -> None:
    other = await connect(database, application_name="other")
    async with ledger.connection.transaction():
        assert await lock_partitions(ledger.connection)
        async with other.transaction():
            assert not await lock_partitions(other)
    await other.close()


async def test_each_month_is_taken_once_an_hour_the_one_first_that_waits_longest(
    ledger: Ledger, database: str
) -> None:
    other = await connect(database, application_name="other")
    await make_partitions(ledger.connection, ahead=timedelta(days=100))
    await _pass_hours(ledger)
    months = await ledger.connection.fetchval(
        "select count(*) from ledger.partition_span where parent = 'due_item'"
    )

    async def take(connection: Connection) -> tuple[date, date] | None:
        return await take_unchecked_month(connection, rest_seconds=3600, first_seconds=60)

    first = [await take(connection) for connection in (ledger.connection, other)]
    rest = [await take(ledger.connection) for _ in range(months - 2)]
    assert len({*first, *rest}) == months
    assert None not in {*first, *rest}
    assert await take(ledger.connection) is None
    await _pass_hours(ledger)
    assert await take(ledger.connection) == first[0]
    await other.close()


@pytest.mark.damages
async def test_g5_a_deleted_item_does_not_prevent_the_release_of_others(
    ledger: Ledger,
) -> None:
    # One claim is released and one is late; one run fails and the lease of one lapses.
    claims: list[Claim] = []
    for _ in range(4):
        await ledger.emit(2)
        claims.append(await ledger.claim())
    runs = [(await ledger.start(claim.fence, 1, 2)).run_no for claim in claims[2:]]
    for claim in claims:
        await _delete_item(ledger, claim.item_nos[0])

    assert await release_claims(ledger.connection, [claims[0].id], ledger.worker_no) == 1
    assert await ledger.settle(runs[0], FAILED, FAILED) == []
    await ledger.end_leases()
    assert (await reap_claims(ledger.connection, 10, ledger.worker_no)).released == 1
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).retried == 1

    left = await ledger.connection.fetch("select item_no from ledger.pending order by item_no")
    assert [row["item_no"] for row in left] == sorted(claim.item_nos[1] for claim in claims)


async def test_only_items_of_the_dates_asked_for_are_recovered_serial_ones_with_their_keys(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    days = [date(2027, 2, 28), date(2027, 3, 1), date(2027, 3, 31), date(2027, 4, 1)]
    for day in days:
        await ledger.emit(effective_date=day, prefix=f"lost-{day}")
        await ledger.emit(effective_date=day, prefix=f"whole-{day}")
    await ledger.connection.execute(
        "update ledger.due_item set serial = 42, overlap = 3 where effective_date = '2027-03-31'"
    )
    whole = await ledger.connection.fetch(
        "select p.* from ledger.pending p join ledger.due_item i using (item_no)"
        " where business_key like 'whole%' order by item_no"
    )
    await _lose(ledger, "lost")

    ids = await recover_items(
        ledger.connection, *MONTH, limit=1000, actor_no=ledger.other_worker_no
    )

    rows = await ledger.connection.fetch(
        "select i.id, p.flow_no = i.flow_no as same, p.available_at, p.state, p.attempt, p.starts,"
        " p.serial, p.serial_due_at, p.overlap, i.due_at from ledger.pending p"
        " join ledger.due_item i using (item_no, effective_date)"
        " where i.business_key like 'lost%' order by i.effective_date"
    )
    assert {row["id"] for row in rows} == {*ids}
    due = rows[0]["due_at"]
    plain, serial = ((None, None, None), (42, due, 1))  # it waits for its key, whatever the policy
    assert [tuple(row)[1:-1] for row in rows] == [
        (True, noon, 1, 0, 0, *key) for key in (plain, serial)
    ]
    assert whole == await ledger.connection.fetch(
        "select p.* from ledger.pending p join ledger.due_item i using (item_no)"
        " where business_key like 'whole%' order by item_no"
    )
    journal = await ledger.connection.fetch(
        "select effective_date, event, attempt, actor_no from ledger.transition order by 1"
    )
    assert [tuple(row) for row in journal] == [
        (day, TransitionEvent.RECOVERED, 0, ledger.other_worker_no) for day in days[1:3]
    ]
    await recover_items(
        ledger.connection,
        date(2027, 1, 1),
        date(2028, 1, 1),
        limit=1000,
        actor_no=ledger.worker_no,
    )
