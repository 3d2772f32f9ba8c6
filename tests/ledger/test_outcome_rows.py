"""Which rows record_outcomes leaves of items that their run did not complete."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.claims import ReapedRuns, reap_runs
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs
from tests.claim_ids import run_ids

from .conftest import Ledger

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAY: Final = timedelta(days=1)
SCHEDULED, RETRY = State.SCHEDULED, State.RETRYABLE_FAILURE
EVENTS: Final = (
    TransitionEvent.RELEASED,
    TransitionEvent.FAILED,
    TransitionEvent.SNOOZED,
    TransitionEvent.PARKED,
)
ITEMS: Final = "join ledger.due_item i using (item_no)"
STREAKS: Final = "join ledger.due_item i using (flow_no, business_key)"
PENDING: Final = f"state, attempt, starts, available_at > ledger.now() from ledger.pending {ITEMS}"
REVIEW: Final = f"attempt, starts, reason from ledger.review {ITEMS}"
STREAK: Final = f"failures, first_at, last_at, reason from ledger.failure_streak {STREAKS}"
RECORD: Final = """
select o.* from ledger.record_outcomes(array(
  select row(item_no, '2027-03-01', 1, event, 1, 1, null, false, 0, null, null, null)
    ::ledger.item_outcome
  from unnest($1::bigint[], $2::smallint[]) e (item_no, event)), $3) o
"""


async def _rows(ledger: Ledger, columns: str) -> dict[int, tuple[Any, ...]]:
    """Return columns of a table by item."""
    rows = await ledger.connection.fetch(f"select i.item_no, {columns}")
    return {row[0]: tuple(row)[1:] for row in rows}


async def _run_four(ledger: Ledger) -> tuple[int | None, Sequence[int]]:
    """Start a run of four items; return its number and theirs."""
    await set_clock(ledger.connection, NOON, 0)
    await ledger.emit(4)
    claim = await ledger.claim()
    return (await ledger.start(claim.fence, 1, 4)).run_no, claim.item_nos


async def test_a_failure_and_a_parked_item_count_and_only_a_failure_waits(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    run_no, numbers = await _run_four(ledger)
    released, failed, snoozed, parked = numbers

    assert await ledger.settle(run_no, *EVENTS) == []

    assert await _rows(ledger, PENDING) == {
        released: (SCHEDULED, 0, 0, False),
        failed: (RETRY, 1, 1, True),
        snoozed: (SCHEDULED, 0, 1, False),
    }
    assert await _rows(ledger, REVIEW) == {parked: (1, 1, "test")}
    streaks = dict.fromkeys((failed, parked), (1, NOON, NOON, "test"))
    assert await _rows(ledger, STREAK) == streaks

    await set_clock(ledger.connection, NOON + DAY, 0)
    claim = await ledger.claim()
    place = claim.item_nos.index(failed) + 1
    (run,) = await run_ids(
        ledger.connection, [(await ledger.start(claim.fence, place, place)).run_no or 0]
    )
    again = Settlement(run, [Outcome(TransitionEvent.FAILED, '{"reason":"again"}')])
    assert await settle_runs(ledger.connection, [again], ledger.worker_no) == []
    assert await _rows(ledger, STREAK) == {**streaks, failed: (2, NOON, NOON + DAY, "again")}


async def test_outcomes_are_counted_by_what_is_recorded(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    run_no, numbers = await _run_four(ledger)
    await ledger.settle(run_no, *[TransitionEvent.FAILED] * 4)
    await ledger.connection.execute("delete from ledger.pending")
    row = await ledger.connection.fetchrow(RECORD, numbers, EVENTS, ledger.worker_no)
    assert row is not None
    assert dict(row) == {"items": 4, "released": 1, "retried": 1, "parked": 1}


SLOT: Final = "update ledger.run set isolated_in = 'slot' where run_no = $1"
LOST: Final[dict[str, str]] = {
    "lost": "update ledger.run set isolated_in = null where run_no = $1",
    "slot": SLOT,
    "circuit": SLOT,
    "overran": "update ledger.run set overran = b'1' where run_no = $1",
    "unreported": "with late as (update ledger.run set run_until = lease_until where run_no = $1"
    " returning fence, worker_no) update ledger.claim c"
    " set topic_actor_no = late.worker_no, lease_seconds = 60"
    " from late where c.fence = late.fence",
}
"""What is written about the run of each lane before its lease lapses."""


async def test_of_items_whose_lease_lapsed_only_those_to_blame_count_and_wait(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, run_late="park"))
    numbers: dict[str, int] = {}
    for lane, write in LOST.items():
        placed = await ledger.place(State.RUNNING, lane=lane)
        await ledger.connection.execute(write, placed.run_no)
        numbers[lane] = await ledger.connection.fetchval(
            "select item_no from ledger.due_item where id = $1", placed.id
        )
    await ledger.connection.execute(
        "update ledger.flow set circuit_failure_ratio = 0.5 where lane = 'circuit'"
    )
    await ledger.end_leases()

    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no)

    assert reaped == ReapedRuns(runs=5, retried=3, released=1, parked=1)
    assert await _rows(ledger, PENDING) == {
        numbers["lost"]: (RETRY, 0, 1, False),
        numbers["slot"]: (RETRY, 1, 1, True),
        numbers["circuit"]: (RETRY, 1, 1, True),
        numbers["unreported"]: (SCHEDULED, 0, 0, False),
    }
    overran = "it ran longer than its kind may"
    assert await _rows(ledger, REVIEW) == {numbers["overran"]: (1, 1, overran)}
    died = "its worker died or lost its lease each time it ran"
    assert await _rows(ledger, STREAK) == {
        numbers[lane]: (1, NOON, NOON, overran if lane == "overran" else died)
        for lane in ("slot", "circuit", "overran")
    }
    outcomes = await ledger.connection.fetch(
        "select lane, completed, failed from ledger.flow_outcome join ledger.flow using (flow_no)"
    )
    assert [tuple(row) for row in outcomes] == [("circuit", 0, 1)]
