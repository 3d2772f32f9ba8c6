"""`ledger.depth` agrees with the accounting, at a cost that does not grow with the items."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import (
    Claim,
    DueFlow,
    claim_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.runs import Outcome, RunId, Settlement, settle_runs, start_runs
from tests.logins import with_login

MakeDrafts = Callable[..., list[ItemDraft]]

LATER = datetime(2099, 1, 1, tzinfo=UTC)
ROWS_READ = """
select c.relname as name, pg_stat_get_xact_numscans(c.oid) as scans,
  pg_stat_get_xact_tuples_returned(c.oid) as rows, c.relkind = 'i' as is_index
from pg_class c where c.relnamespace = 'ledger'::regnamespace and c.relkind in ('r', 'i')
"""


async def depth(connection: Connection, where: str = "true") -> list[dict[str, Any]]:
    rows = await connection.fetch(f"select * from ledger.depth where {where} order by kind, lane")  # noqa: S608
    return [dict(row) for row in rows]


async def claim_and_start(
    connection: Connection, actor_no: int, flow: DueFlow, *, claim: int, start: int
) -> RunId:
    """Claim items of a flow, and start the first of them."""
    async with connection.transaction():
        rows = await claim_items(connection, [flow.flow_no], [claim])
        items = rows.items()
        assert len(items) == claim
        (fence,) = await next_fences(connection, 1)
        made = Claim(
            new_claim_id(fence, rows.claimed_at),
            actor_no,
            flow.topic,
            0,
            [row.item_no for row in items],
            [row.effective_date for row in items],
            [row.attempt + 1 for row in items],
            [row.starts + 1 for row in items],
            120,
            30,
            flow_no=flow.flow_no if flow.lane else None,
        )
        await record_claims(connection, [made])
    (started,) = await start_runs(
        connection, [made.id], [1], [start], worker_no=actor_no, lease_seconds=60
    )
    assert started.run is not None
    return started.run


async def test_depth_agrees_with_the_accounting_of_every_kind(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts, kind: str
) -> None:
    other = f"{kind}Other"
    await emit_items(
        connection,
        [
            *make_drafts(20),
            *make_drafts(9, kind=other, lane="eu"),
            *make_drafts(4, prefix="later", due_at=LATER),
        ],
        actor_no=actor_no,
    )
    plain, limited = sorted(await list_due_flows(connection, 100), key=lambda flow: flow.lane)
    listed = await list_due_flows(connection, 100, without=[plain.flow_no, plain.flow_no + 99])
    assert [flow.flow_no for flow in listed] == [limited.flow_no]
    run = await claim_and_start(connection, actor_no, plain, claim=8, start=6)
    await claim_and_start(connection, actor_no, limited, claim=5, start=2)
    retry, park = (
        Outcome(event, '{"reason":"test"}')
        for event in (TransitionEvent.FAILED, TransitionEvent.PARKED)
    )
    completed = Outcome(TransitionEvent.COMPLETED, "{}")
    outcomes = [completed, retry, park, None, None, None]
    assert await settle_runs(connection, [Settlement(run, outcomes)], actor_no) == []

    rows = await depth(connection)
    accounts = await connection.fetch("select * from ledger.accounting() order by kind")

    assert [(row["tenant"], row["kind"], row["lane"], row["topic"]) for row in rows] == [
        ("acme", kind, "", f"due.{kind}"),
        ("acme", other, "eu", f"due.{other}"),
    ]
    assert [
        {
            "pending": row["due"] + row["waiting"] + row["blocked"],
            "handed_out": row["claimed"],
            "running": row["running"],
            "reviews": row["parked"],
        }
        for row in rows
    ] == [
        {each: account[each] for each in ("pending", "handed_out", "running", "reviews")}
        for account in accounts
    ]
    assert [(row["claimed"], row["running"]) for row in rows] == [(2, 3), (3, 2)]
    assert [(row["retrying"], row["parked"]) for row in rows] == [(1, 1), (0, 0)]
    assert rows[0]["available_since"] is not None


async def test_items_that_wait_for_their_key_are_blocked_and_not_waiting(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    drafts = [
        replace(
            draft, due_at=draft.due_at + timedelta(minutes=n), overlap=Overlap.WAIT, overlap_key="k"
        )
        for n, draft in enumerate(make_drafts(4))
    ]
    await emit_items(connection, drafts, actor_no=actor_no)
    await connection.execute(
        "update ledger.pending set available_at = 'infinity'"
        " where serial_due_at > (select min(serial_due_at) from ledger.pending)"
    )
    (row,) = await depth(connection)

    assert (row["due"], row["waiting"], row["blocked"]) == (1, 0, 3)


async def test_a_count_that_stops_says_so_and_reads_no_more_rows(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(3000), actor_no=actor_no)
    await emit_items(connection, make_drafts(3000, prefix="later", due_at=LATER), actor_no=actor_no)
    await connection.execute("vacuum analyze")
    async with connection.transaction():
        before = {row["name"]: row for row in await connection.fetch(ROWS_READ)}
        (row,) = await connection.fetch("select * from ledger.measure_depth(50)")
        after = await connection.fetch(ROWS_READ)

    assert (row["count_max"], row["due"], row["waiting"]) == (50, 50, 50)
    read = {row["name"]: row["rows"] - before[row["name"]]["rows"] for row in after}
    scanned = {
        row["name"]
        for row in after
        if not row["is_index"] and row["scans"] > before[row["name"]]["scans"]
    }
    assert read["pending_available_idx"] <= 2 * 51
    assert sum(read.values()) < 1000
    assert scanned <= {"flow", "kind", "cell"}


async def test_a_count_that_does_not_stop_is_exact(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(49), actor_no=actor_no)

    (row,) = await connection.fetch("select * from ledger.measure_depth(50)")

    assert (row["count_max"], row["due"]) == (50, 49)


async def test_flows_are_counted_alone_and_what_waits_only_if_it_is_asked_for(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts, kind: str
) -> None:
    drafts = make_drafts(3), make_drafts(3, prefix="later", due_at=LATER)
    more = make_drafts(2, kind=f"{kind}Other", lane="eu")
    await emit_items(connection, [*drafts[0], *drafts[1], *more], actor_no=actor_no)
    flows = await list_due_flows(connection, 100)
    plain, limited = sorted(flows, key=lambda flow: flow.lane)
    await claim_and_start(connection, actor_no, plain, claim=2, start=1)
    await claim_and_start(connection, actor_no, limited, claim=2, start=1)

    counts = "due, waiting, claimed, running, count_max"
    counted = f"select {counts} from ledger.measure_depth(150000, array[$1::integer], $2)"  # noqa: S608
    for counts_waiting, waiting in ((True, 3), (False, None)):
        (row,) = await connection.fetch(counted, plain.flow_no, counts_waiting)
        assert tuple(row) == (1, waiting, 1, 1, 150_000)


@pytest.mark.damages
async def test_in_flight_items_beyond_the_bound_are_not_counted_and_not_guessed(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(2), actor_no=actor_no)
    await connection.execute(
        """
        insert into ledger.claim (fence, claimed_at, allocator_no, topic, partition, size, item_no,
          effective_date, attempt, starts, deadline, token)
        select 1, now(), $1, 'due.Test', 0, size, array_agg(n), array_agg(date '2027-03-01'),
          array_agg(1), array_agg(1), now() + interval '1 hour', '0123456789abcdef'
        from (values (100001)) s (size), generate_series(1, size) n group by size
        """,
        actor_no,
    )

    (row,) = await depth(connection)

    assert (row["due"], row["claimed"], row["running"]) == (2, None, None)


async def test_a_monitor_reads_depth_and_no_item(
    database: str, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(2), actor_no=actor_no)
    monitor = await asyncpg.connect(with_login(database, "monitor"))
    try:
        assert await monitor.fetchval("select due from ledger.depth") == 2
        assert await monitor.fetch("select * from ledger.watermark") == []
        for table in ("pending", "due_item", "claim", "kind"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await monitor.fetch(f"select * from ledger.{table}")  # noqa: S608
    finally:
        await monitor.close()
