"""Limits of flows: allowances, circuits and failure streaks."""

from collections.abc import Sequence
from dataclasses import dataclass

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class FlowAllowance:
    """How many items a limited flow may be given now; if its bucket is empty, when to retry."""

    items: int
    retry_seconds: float | None


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """A circuit that opened, half-opened or closed, with the outcomes that caused it."""

    flow_no: int
    before: str
    after: str
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class FlaggedStreak:
    """A business key whose failures in a row reached its kind's limit."""

    tenant: str
    kind: str
    business_key: str
    failures: int
    reason: str | None


async def lock_limited_flows(connection: Connection, flow_nos: Sequence[int]) -> dict[int, bool]:
    """Lock flows until the transaction ends; flows that another allocator has locked are left out.

    Returns for each flow whether its items in flight are counted, and so need claims of their own.
    """
    rows = await connection.fetch(statement("lock_limited_flows"), flow_nos)
    return {row["flow_no"]: row["counted"] for row in rows}


async def measure_allowances(
    connection: Connection, flow_nos: Sequence[int], topic_window_items: int
) -> dict[int, int]:
    """Compute how many items each locked flow may be given now.

    This statement follows the lock, so it counts the items of the previous lock's owner.
    `topic_window_items` is the window of flows settled by topic that set none.
    """
    rows = await connection.fetch(statement("measure_allowances"), flow_nos, topic_window_items)
    return {row["flow_no"]: row["allowance"] for row in rows}


async def estimate_allowances(
    connection: Connection, flow_nos: Sequence[int], topic_window_items: int
) -> dict[int, FlowAllowance]:
    """Estimate the allowances of flows without locking them, and when to check again.

    Writes nothing, so thousands of exhausted flows cost little.
    """
    rows = await connection.fetch(statement("measure_allowances"), flow_nos, topic_window_items)
    return {row["flow_no"]: FlowAllowance(row["allowance"], row["again_seconds"]) for row in rows}


async def spend_tokens(
    connection: Connection, flow_nos: Sequence[int], taken: Sequence[int]
) -> None:
    """Subtract claimed items from the token buckets, in the transaction that claimed them."""
    await connection.execute(statement("spend_tokens"), flow_nos, taken)


async def prune_outcomes(connection: Connection) -> None:
    """Delete the outcome counts of circuits that were removed."""
    await connection.execute(statement("prune_outcomes"))


async def update_circuits(connection: Connection) -> list[CircuitChange]:
    """Open, half-open and close circuits; return those that changed.

    Only outcomes of runs that began after a circuit's last change count.
    """
    return [CircuitChange(**row) for row in await connection.fetch(statement("update_circuits"))]


async def flag_streaks(connection: Connection, limit: int) -> list[FlaggedStreak]:
    """Flag failure streaks that reached their kind's limit, each once."""
    return [
        FlaggedStreak(**row) for row in await connection.fetch(statement("flag_streaks"), limit)
    ]


async def list_streaks(
    connection: Connection,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    failures_min: int | None = None,
    limit: int = 100,
) -> list[dict[str, object]]:
    """List failure streaks. `failures_min` None means each kind's own limit."""
    rows = await connection.fetch(statement("list_streaks"), tenant, kind, failures_min, limit)
    return [dict(row) for row in rows]
