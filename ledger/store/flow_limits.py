"""Limits of flows: allowances, credits of workers, circuits, failure streaks and held keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class TopicCredit:
    """The credit of a topic: live workers, items they grant, and items already outstanding."""

    topic: str
    workers: int
    granted: int
    outstanding: int


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


@dataclass(frozen=True, slots=True)
class WokenItems:
    """Number of unblocked items, and the key to continue after; None if all keys were visited."""

    unblocked: int
    reached: int | None


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


async def read_credits(connection: Connection, topics: Sequence[str]) -> list[TopicCredit]:
    """Read the credits and the outstanding items of topics, in input order."""
    return [TopicCredit(**row) for row in await connection.fetch(statement("read_credits"), topics)]


async def grant_credits(
    connection: Connection,
    worker_no: int,
    topics: Sequence[str],
    items: Sequence[int],
    seconds: float,
) -> None:
    """Grant a worker's credits for `seconds`; end its grants for other topics."""
    await connection.execute(statement("grant_credits"), worker_no, topics, items, seconds)


async def prune_credits(connection: Connection) -> None:
    """Delete grants that ended long ago."""
    await connection.execute(statement("prune_credits"))


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


async def release_keys(connection: Connection, after_serial: int | None, limit: int) -> WokenItems:
    """Unblock items that wait for a key that is free, for `limit` keys after `after_serial`."""
    start = -(2**63) if after_serial is None else after_serial
    row = await connection.fetchrow(statement("release_keys"), start, limit)
    return WokenItems(**row) if row else WokenItems(0, None)


async def free_ended_keys(
    connection: Connection, after_serial: int | None, limit: int
) -> tuple[int, int | None]:
    """Free keys whose items have ended, of `limit` keys after `after_serial`.

    Returns how many, and the key to continue after; None if all keys were visited.
    """
    start = -(2**63) if after_serial is None else after_serial
    row = await connection.fetchrow(statement("free_ended_keys"), start, limit)
    return (row["freed"], row["reached"]) if row else (0, None)
