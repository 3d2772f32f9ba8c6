"""Upkeep puts back what stands nowhere, and leaves everything else as it is."""

from datetime import date, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Pool, connect
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.items import item_timeline
from dueledger.ledger.store.partitions import (
    count_lost,
    lock_partitions,
    make_partitions,
    recover_items,
    take_unchecked_month,
)
from dueledger.ledger.upkeep import Upkeep

from .conftest import Ledger

MONTH = (date(2027, 3, 1), date(2027, 4, 1))


@pytest.fixture
def upkeep(pool: Pool, ledger: Ledger) -> Upkeep:
    return Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")


async def _lose(ledger: Ledger, prefix: str) -> None:
    """Let items that wait vanish, as a claim once let them."""
    await ledger.connection.execute(
        "delete from ledger.pending p using ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like $1 || '%'",
        prefix,
    )


async def _let_months_be_due(ledger: Ledger) -> None:
    await ledger.connection.execute(
        "update ledger.partition_span set made_at = made_at - interval '2 minutes',"
        " checked_at = checked_at - interval '2 hours'"
    )


async def _check_all(ledger: Ledger, upkeep: Upkeep) -> int:
    """Let upkeep look at every month once; return how many items it put back."""
    await _let_months_be_due(ledger)
    months = await ledger.connection.fetchval(
        "select count(*) from ledger.partition_span where parent = 'due_item'"
    )
    recovered = 0
    for _ in range(months):
        cast("Any", upkeep)._check_at = 0.0
        recovered += (await upkeep.tick())["recovered"]
    return recovered


async def test_g5_what_stands_nowhere_waits_again_and_is_worked(
    ledger: Ledger, upkeep: Upkeep
) -> None:
    whole = [await ledger.place(state) for state in State]
    states = [await ledger.state_of(placed.id) for placed in whole]
    lost = await ledger.emit(3, prefix="lost")
    await _lose(ledger, "lost")
    assert await count_lost(ledger.connection, *MONTH) == 3

    with capture_logs() as logged:
        assert await _check_all(ledger, upkeep) == 3

    (alert,) = [line for line in logged if line["event"] == LogEvent.ITEM_RECOVERED]
    assert (alert["log_level"], alert["items"]) == ("error", 3)
    assert sorted(alert["ids"]) == sorted(map(str, lost))
    assert [await ledger.state_of(item) for item in lost] == [State.SCHEDULED] * 3
    assert [await ledger.state_of(placed.id) for placed in whole] == states
    told = await item_timeline(ledger.connection, lost[0])
    assert [event["event"] for event in told] == ["emitted", "recovered"]
    claim = await ledger.claim()
    run_no = (await ledger.start(claim.fence, 1, len(claim.item_nos))).run_no
    await ledger.settle(run_no, *[TransitionEvent.COMPLETED] * len(claim.item_nos))
    assert [await ledger.state_of(item) for item in lost] == [State.COMPLETED] * 3


async def test_nothing_is_put_back_where_nothing_is_lost(ledger: Ledger, upkeep: Upkeep) -> None:
    for state in State:
        await ledger.place(state)
    before = await ledger.journal()
    with capture_logs() as logged:
        assert await _check_all(ledger, upkeep) == 0
    assert logged == []
    async with ledger.connection.transaction():
        assert await lock_partitions(ledger.connection)
        assert not await recover_items(
            ledger.connection, *MONTH, limit=1000, actor_no=ledger.worker_no
        )
    assert await ledger.journal() == before


async def test_nothing_is_put_back_while_a_partition_is_being_made(
    ledger: Ledger, upkeep: Upkeep, database: str
) -> None:
    await ledger.emit(1, prefix="lost")
    await _lose(ledger, "lost")
    await upkeep.tick()  # which makes partitions ahead
    maker = await connect(database, application_name="maker")
    transaction = maker.transaction()
    await transaction.start()
    assert await maker.fetchval("select ledger.make_partition('due_item', '2040-05-01')")

    assert await _check_all(ledger, upkeep) == 0

    await transaction.commit()
    cast("Any", upkeep)._check_at = 0.0
    assert (await upkeep.tick())["recovered"] == 1  # the month was kept in mind
    await maker.close()


async def test_each_month_is_taken_once_an_hour_the_one_first_that_waits_longest(
    ledger: Ledger, database: str
) -> None:
    other = await connect(database, application_name="other")
    await make_partitions(ledger.connection, ahead=timedelta(days=100))
    await _let_months_be_due(ledger)
    months = await ledger.connection.fetchval(
        "select count(*) from ledger.partition_span where parent = 'due_item'"
    )

    async def take(connection: object = ledger.connection) -> tuple[date, date] | None:
        return await take_unchecked_month(connection, rest_seconds=3600, first_seconds=60)  # pyright: ignore[reportArgumentType]

    first = [await take(connection) for connection in (ledger.connection, other)]
    rest = [await take() for _ in range(months - 2)]
    assert len({*first, *rest}) == months
    assert None not in {*first, *rest}
    assert await take() is None
    now = await ledger.connection.fetchval("select ledger.machine_now()")
    await set_machine_clock(ledger.connection, now + timedelta(hours=1), 1)
    assert await take() == first[0]
    await other.close()
