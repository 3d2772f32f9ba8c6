"""The identities of claims and runs, as the ledger has them: tests know fences and run numbers."""

from collections.abc import Iterable
from datetime import UTC, datetime

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.store import Connection
from dueledger.ledger.store.runs import RunId

NEVER = datetime(2000, 1, 1, tzinfo=UTC)
NO_TOKEN = "0" * 16


async def claim_ids(connection: Connection, fences: Iterable[int]) -> list[ClaimId]:
    """Return the identities of claims in order; of a fence that never was, a wrong one."""
    asked = list(fences)
    rows = await connection.fetch(
        "select fence, claimed_at, coalesce(token, '') as token from ledger.claim"
        " where fence = any ($1::bigint[])",
        asked,
    )
    found = {row["fence"]: ClaimId(row["fence"], row["claimed_at"], row["token"]) for row in rows}
    return [found.get(fence, ClaimId(fence, NEVER, NO_TOKEN)) for fence in asked]


async def run_ids(connection: Connection, run_nos: Iterable[int]) -> list[RunId]:
    """Return the identities of runs in order; of a run that never was, a wrong one."""
    asked = list(run_nos)
    rows = await connection.fetch(
        "select run_no, started_at, claimed_at from ledger.run where run_no = any ($1::bigint[])",
        asked,
    )
    found = {
        row["run_no"]: RunId(row["run_no"], row["started_at"], row["claimed_at"]) for row in rows
    }
    return [found.get(run_no, RunId(run_no, NEVER, NEVER)) for run_no in asked]


async def claims_of_other_flows(connection: Connection) -> list[int]:
    """Return the claims whose flows are not those of their items: lists would miss these."""
    rows = await connection.fetch(
        "select c.fence from ledger.claim c"
        " cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)"
        " join ledger.due_item i on i.item_no = u.item_no and i.effective_date = u.effective_date"
        " group by c.fence, c.flow_nos"
        " having array_agg(distinct i.flow_no order by i.flow_no)"
        "  is distinct from (select array_agg(f order by f) from unnest(c.flow_nos) f)"
    )
    return [row["fence"] for row in rows]
