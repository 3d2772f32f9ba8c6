"""What holds a flow back: rate, concurrency, window and circuit; credits of workers; held keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class TopicCredit:
    """A topic: how many live workers grant, how many items they want waiting, how many wait."""

    topic: str
    workers: int
    granted: int
    outstanding: int


@dataclass(frozen=True, slots=True)
class FlowAllowance:
    """How many items a limited flow may be handed; where its bucket is empty, until it is not."""

    items: int
    retry_seconds: float | None


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """A circuit that opened, half-opened or closed, and the outcomes that decided it."""

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
    """Waiting items unblocked, and the key to go on from; None once all keys were visited."""

    unblocked: int
    reached: int | None


async def lock_limited_flows(connection: Connection, flow_nos: Sequence[int]) -> dict[int, bool]:
    """Lock flows until the transaction ends; those that another allocator measures are left out.

    Says of each whether its items in flight are counted, and so need claims of their own.
    """
    rows = await connection.fetch(statement("lock_limited_flows"), flow_nos)
    return {row["flow_no"]: row["counted"] for row in rows}


async def measure_allowances(
    connection: Connection, flow_nos: Sequence[int], topic_window_items: int
) -> dict[int, int]:
    """Say how many items each locked flow may be handed now.

    In a statement after the lock, so that it counts what the one before handed out.
    `topic_window_items` bounds what is settled by topic where the flow sets no window.
    """
    rows = await connection.fetch(statement("measure_allowances"), flow_nos, topic_window_items)
    return {row["flow_no"]: row["allowance"] for row in rows}


async def estimate_allowances(
    connection: Connection, flow_nos: Sequence[int], topic_window_items: int
) -> dict[int, FlowAllowance]:
    """Say what `measure_allowances` would of flows that nobody locked: a guess, and when to look.

    It writes nothing, so that thousands of exhausted flows cost little.
    """
    rows = await connection.fetch(statement("measure_allowances"), flow_nos, topic_window_items)
    return {row["flow_no"]: FlowAllowance(row["allowance"], row["again_seconds"]) for row in rows}


async def spend_tokens(
    connection: Connection, flow_nos: Sequence[int], taken: Sequence[int]
) -> None:
    """Take what was claimed from the buckets, in the transaction that claimed it."""
    await connection.execute(statement("spend_tokens"), flow_nos, taken)


async def read_credits(connection: Connection, topics: Sequence[str]) -> list[TopicCredit]:
    """Read what workers want and what waits for them, in the order asked."""
    return [TopicCredit(**row) for row in await connection.fetch(statement("read_credits"), topics)]


async def grant_credits(
    connection: Connection,
    worker_no: int,
    topics: Sequence[str],
    items: Sequence[int],
    seconds: float,
) -> None:
    """Grant a worker's credits for `seconds`; its topics that are not named are withdrawn."""
    await connection.execute(statement("grant_credits"), worker_no, topics, items, seconds)


async def prune_credits(connection: Connection) -> None:
    """Forget grants that ended long ago."""
    await connection.execute(statement("prune_credits"))


async def prune_outcomes(connection: Connection) -> None:
    """Forget what was counted for breakers that were taken away."""
    await connection.execute(statement("prune_outcomes"))


async def update_circuits(connection: Connection) -> list[CircuitChange]:
    """Open, half-open and close circuits; return those that changed.

    Only outcomes of runs that began after a circuit's last change count.
    """
    return [CircuitChange(**row) for row in await connection.fetch(statement("update_circuits"))]


async def flag_streaks(connection: Connection, limit: int) -> list[FlaggedStreak]:
    """Flag business keys that failed too often in a row, each streak once."""
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
    """List business keys failing in a row; `failures_min` None is each kind's own limit."""
    rows = await connection.fetch(statement("list_streaks"), tenant, kind, failures_min, limit)
    return [dict(row) for row in rows]


async def release_keys(connection: Connection, after_serial: int | None, limit: int) -> WokenItems:
    """Wake what waits behind keys that nobody holds any more, `limit` keys from `after_serial`."""
    start = -(2**63) if after_serial is None else after_serial
    row = await connection.fetchrow(statement("release_keys"), start, limit)
    return WokenItems(**row) if row else WokenItems(0, None)
