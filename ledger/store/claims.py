"""Claims: batches handed to a topic-partition under a fence, and what becomes of late ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from ledger.store.connection import Connection, Record
from ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class DueFlow:
    """A flow with rows available now."""

    flow_no: int
    tenant: str
    kind: str
    lane: str
    topic: str
    weight: int
    queue_seconds: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch for one topic-partition: item `position` p (from 1) is `item_nos[p − 1]`.

    `attempts` and `starts` count the one that this claim is for. `batch_max` marks items that a
    dead run left behind.
    """

    fence: int
    allocator_no: int
    topic: str
    partition: int
    item_nos: Sequence[int]
    effective_dates: Sequence[date]
    attempts: Sequence[int]
    starts: Sequence[int]
    queue_seconds: float
    batch_max: int | None = None


@dataclass(frozen=True, slots=True)
class ReapedRuns:
    """What became of runs past their lease: `retried` and `parked` count items."""

    runs: int
    retried: int
    parked: int


@dataclass(frozen=True, slots=True)
class Withdrawals:
    """Withdrawal requests honoured, and those whose item had ended first."""

    applied: int
    too_late: int


async def list_due_flows(connection: Connection, limit: int) -> list[DueFlow]:
    """List flows that have rows available now and are not paused."""
    return [DueFlow(**row) for row in await connection.fetch(statement("list_due_flows"), limit)]


async def claim_items(
    connection: Connection, flow_nos: Sequence[int], quotas: Sequence[int]
) -> list[Record]:
    """Take due rows, up to each flow's quota, skipping what others hold.

    Only in a transaction that also records the claims: a rollback leaves everything waiting.
    """
    return await connection.fetch(statement("claim_items"), flow_nos, quotas)


async def next_fences(connection: Connection, count: int) -> list[int]:
    """Draw fences; those left unused are simply never seen."""
    return [row["fence"] for row in await connection.fetch(statement("next_fences"), count)]


async def record_claims(connection: Connection, claims: Sequence[Claim]) -> None:
    """Record claims, in the transaction that took their rows."""
    await connection.executemany(
        statement("record_claims"),
        [
            (
                claim.fence,
                claim.allocator_no,
                claim.topic,
                claim.partition,
                claim.item_nos,
                claim.effective_dates,
                claim.attempts,
                claim.starts,
                claim.batch_max,
                claim.queue_seconds,
            )
            for claim in claims
        ],
    )


async def mark_published(
    connection: Connection, fences: Sequence[int], base_offsets: Sequence[int]
) -> list[int]:
    """Mark acknowledged claims; return those still in force.

    A fence that is missing was closed before its acknowledgement came, or was marked already.
    """
    rows = await connection.fetch(statement("mark_published"), fences, base_offsets)
    return [row["fence"] for row in rows if not row["closed"]]


async def release_claims(connection: Connection, fences: Sequence[int], allocator_no: int) -> int:
    """Give back what was not started; return the number of items.

    Only ever after a send that certainly never left: an ambiguous one is left to its deadline.
    """
    return await connection.fetchval(statement("release_claims"), fences, allocator_no)


async def reap_claims(connection: Connection, limit: int) -> int:
    """Release what claims past their deadline never started; return the number of items."""
    row = await connection.fetchrow(statement("reap_claims"), limit)
    return row["released"] if row else 0


async def reap_runs(connection: Connection, limit: int, actor_no: int) -> ReapedRuns:
    """Close up to `limit` runs past their lease and send what had not ended back, or park it."""
    row = await connection.fetchrow(statement("reap_runs"), limit, actor_no)
    return ReapedRuns(**row) if row else ReapedRuns(0, 0, 0)


async def apply_withdrawals(connection: Connection, limit: int) -> Withdrawals:
    """Honour requests whose item waits again, and forget those whose item has ended."""
    row = await connection.fetchrow(statement("apply_withdrawals"), limit)
    return Withdrawals(**row) if row else Withdrawals(0, 0)


async def next_wake_seconds(connection: Connection) -> float | None:
    """Say how long until something is due, late or lapsed; negative when it is already."""
    return await connection.fetchval(statement("next_wake_seconds"))
