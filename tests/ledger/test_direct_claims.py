"""A direct claim: the runs that it starts, the suspects that it takes, and its scans of flows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dueledger.ledger.store.claims import FLOOR_MIN, PendingFloor, claim_serial_items
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.direct_claims import (
    DirectClaimResult,
    FlowScan,
    claim_and_start_items,
)
from tests.claim_ids import claims_of_other_flows

from .conftest import Ledger, limit

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
TRACEPARENT: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LATE_ROWS: Final = """
update ledger.pending set available_at = $2, state = $3, batch_max = $4, serial = $5, overlap = $6,
  serial_due_at = case when $5::bigint is not null then $2::timestamptz end
where item_no in (select item_no from ledger.due_item where business_key like $1 || '-%')
"""


async def _pend(
    ledger: Ledger,
    name: str,
    available_at: datetime,
    *,
    lane: str,
    count: int = 1,
    state: int = 1,
    batch_max: int | None = None,
    serial: int | None = None,
) -> None:
    await ledger.emit(count, prefix=name, lane=lane)
    await ledger.connection.execute(
        LATE_ROWS, name, available_at, state, batch_max, serial, serial and 1
    )


async def _claim(
    ledger: Ledger,
    lanes: Sequence[str],
    *,
    floors: Sequence[PendingFloor] | None = None,
    quotas: Sequence[int] | None = None,
    run_seconds: Sequence[float | None] | None = None,
    **options: Any,  # noqa: ANN401 - of claim_and_start_items
) -> DirectClaimResult:
    """Claim from the flows of these lanes, each a group of its own. They were made in order."""
    rows = await ledger.connection.fetch(
        "select flow_no from ledger.flow where lane = any ($1::text[]) order by flow_no", lanes
    )
    return await claim_and_start_items(
        ledger.connection,
        [row["flow_no"] for row in rows],
        quotas or [10] * len(lanes),
        group_nos=range(len(lanes)),
        apart=[False] * len(lanes),
        floors=floors or [FLOOR_MIN] * len(lanes),
        run_seconds=run_seconds or [None] * len(lanes),
        worker_no=ledger.worker_no,
        lease_seconds=60,
        **options,
    )


def _names(result: DirectClaimResult) -> list[str]:
    return sorted(key.rpartition("-")[0] for run in result.runs for key in run.business_keys)


async def test_g2_each_group_of_a_direct_claim_has_a_run_a_limit_and_withdrawals_of_its_own(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    for lane, count in (("a", 2), ("b", 3), ("c", 1), ("later", 1)):
        due_at = noon + HOUR if lane == "later" else noon
        await ledger.emit(count, prefix=lane, lane=lane, due_at=due_at)
    await ledger.connection.execute(
        "update ledger.due_item set traceparent = $1 where business_key = 'b-000000'", TRACEPARENT
    )
    await limit(ledger, concurrency_max=1000)
    # In whatever order a run has its items, no other run's places would do for it.
    withdrawn = {"a-000001", "b-000001", "b-000002", "c-000000", "later-000000"}
    await ledger.connection.execute(
        "insert into ledger.withdrawal"
        " select item_no, effective_date, 11 /* cancelled */, 'sold', null, $2, ledger.now()"
        " from ledger.due_item where business_key = any ($1::text[])",
        sorted(withdrawn),
        ledger.worker_no,
    )

    lanes = ("a", "b", "c")
    result = await _claim(ledger, lanes, limited=True, run_seconds=[None, 30, 90])

    assert sorted((run.group_no, len(run.ids), run.lease_seconds) for run in result.runs) == [
        (0, 2, 60),
        (1, 3, 30),
        (2, 1, 60),
    ]
    for run in result.runs:
        assert {run.business_keys[place - 1] for place in run.withdrawn} == withdrawn & {
            *run.business_keys
        }
        carried = dict(zip(run.business_keys, run.traceparents or (), strict=False))
        assert [key for key, value in carried.items() if value] == (
            ["b-000000"] if run.group_no == 1 else []
        )
        assert (run.traceparents is None) == (run.group_no != 1)
        row = await ledger.connection.fetchrow(
            "select r.ended::text, r.closed_at, r.flow_no, c.flow_no as claim_flow_no,"
            " c.run_seconds from ledger.run r join ledger.claim c using (fence, claimed_at)"
            " where r.run_no = $1",
            run.run_no,
        )
        assert row is not None
        places = range(1, len(run.ids) + 1)
        assert row["ended"] == "".join(str(int(place in run.withdrawn)) for place in places)
        assert row["closed_at"] == (noon if run.group_no == 2 else None)
        assert {row["flow_no"], row["claim_flow_no"]} == {*run.flow_nos}
        assert row["run_seconds"] == (None, 30, 90)[run.group_no]
    left = await ledger.connection.fetch(
        "select business_key from ledger.withdrawal join ledger.due_item using (item_no)"
    )
    assert [row["business_key"] for row in left] == ["later-000000"]
    journal = await ledger.connection.fetchval(
        "select array_agg(business_key order by business_key)"
        " from ledger.transition join ledger.due_item using (item_no)"
    )
    assert journal == ["a-000001", "b-000001", "b-000002", "c-000000"]
    assert await claims_of_other_flows(ledger.connection) == []


async def test_g9_suspects_are_claimed_by_themselves_and_no_more_than_may_run_together(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    await _pend(ledger, "suspect", noon, lane="a", count=3, batch_max=2)
    await _pend(ledger, "plain", noon, lane="a", count=2)
    await _pend(ledger, "suspect retry", noon, lane="a", state=4, batch_max=2)
    await _pend(ledger, "plain retry", noon, lane="a", state=4)
    await _pend(ledger, "other plain", noon, lane="b", state=4)
    await _pend(ledger, "other suspect", noon, lane="c", state=4, batch_max=5)

    plain = await _claim(ledger, ["a"])
    assert _names(plain) == ["plain", "plain", "plain retry"]
    assert [run.batch_max for run in plain.runs] == [None]
    assert [scan.has_suspects for scan in plain.scans] == [True]

    for taken in (["suspect"] * 2, ["suspect"], ["suspect retry"]):
        suspects = await _claim(ledger, ["a"], suspects=True)
        assert _names(suspects) == taken
        assert [run.batch_max for run in suspects.runs] == [2]
    assert not (await _claim(ledger, ["a"], suspects=True)).runs

    suspects = await _claim(ledger, ["b", "c"], suspects=True)
    assert _names(suspects) == ["other suspect"]
    assert [run.batch_max for run in suspects.runs] == [5]


async def test_a_direct_claim_says_what_it_saw_of_each_flow_and_when_its_next_row_is_due(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 1)
    block, ago = 5, noon - MINUTE
    await ledger.connection.execute(
        "select setval(pg_get_serial_sequence('ledger.due_item', 'item_no'), $1)", block << 10
    )
    await _pend(ledger, "a before", ago - MINUTE, lane="a")
    await _pend(ledger, "a", ago, lane="a")
    await _pend(ledger, "a serial", noon + HOUR, lane="a", serial=1)
    await _pend(ledger, "a next", noon + 2 * HOUR, lane="a")
    await _pend(ledger, "a retry", noon + 3 * HOUR, lane="a", state=4)
    await _pend(ledger, "b", ago, lane="b", state=4)
    await _pend(ledger, "b serial", noon + 4 * HOUR, lane="b", state=4, serial=2)
    await _pend(ledger, "b retry", noon + 5 * HOUR, lane="b", state=4)
    await _pend(ledger, "b next", noon + 6 * HOUR, lane="b")
    await _pend(ledger, "c", ago, lane="c", count=2)
    await _pend(ledger, "d retry", noon + 7 * HOUR, lane="d", state=4)
    await _pend(ledger, "e", ago, lane="e")
    await _pend(ledger, "e next", noon + HOUR, lane="e")

    floor = PendingFloor(ago - HOUR, 3)
    lanes = ("a", "b", "c", "d", "e")
    result = await _claim(ledger, lanes, floors=[floor] * 5, quotas=[10, 10, 10, 10, 1])

    assert _names(result) == ["a", "a before", "b", "c", "c", "e"]
    assert [_seen(scan) for scan in sorted(result.scans, key=lambda scan: scan.flow_no)] == [
        (2, 2, ago, 0),
        (1, 5, floor.at, floor.block),
        (2, None, ago, block),
        (0, 7, floor.at, floor.block),
        (1, None, ago, block),
    ]


def _seen(scan: FlowScan) -> tuple[int, int | None, datetime, int]:
    hours = None if scan.due_seconds is None else round(scan.due_seconds / 3600)
    return scan.seen, hours, scan.floor.at, scan.floor.block


async def test_a_claim_for_tenants_takes_items_of_their_kinds_alone(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    await ledger.connection.execute(
        """select ledger.ensure_flows('{other}', '{OtherDue}', '{""}')"""
    )
    await _pend(ledger, "own", noon, lane="a")
    await _pend(ledger, "ordered", noon, lane="b", serial=7)
    (flow_no,) = await ledger.connection.fetchrow(
        "select flow_no from ledger.flow where lane = 'b'"
    ) or (0,)
    quotas = ([flow_no], [10], ledger.worker_no)
    for tenants, counts in ((["other"], (0, 0)), (["other", "acme"], (1, 1))):
        result = await _claim(ledger, ["a"], tenants=tenants)
        ordered = await claim_serial_items(ledger.connection, *quotas, tenants=tenants)
        assert (len(_names(result)), len(ordered)) == counts
