"""Claims: batches handed to a topic-partition under a fence, and what becomes of late ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.store.claimed_rows import ClaimedRow
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.counted import fetch_counted
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
from dueledger.ledger.store.statements import statement

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class PendingFloor(NamedTuple):
    """Where a flow's waiting rows begin: none lies below, save what commits late.

    First attempts from `at` on; `block` orders those of the same instant, a thousand item numbers
    each. Retries from `retry_at`, serial items from `serial_at`.
    """

    at: datetime
    block: int
    retry_at: datetime = _EARLIEST
    serial_at: datetime = _EARLIEST


FLOOR_MIN: Final = PendingFloor(_EARLIEST, 0)
OVERLAP_SECONDS: Final = 1.0
"""How far a floor stays behind now: rows of transactions shorter than this never lie below it."""


@dataclass(frozen=True, slots=True)
class DueFlow:
    """A flow with rows available in `due_seconds`: `plain` ones, or `serial` ones, or both.

    The fields stand in the order of list_due_flows: thousands of these are made in one go.

    A `limited` flow is locked and measured before it is claimed from. Where what is in flight is
    `counted`, its items go into claims of its own; a rate counts what is claimed. `held_by_topic`:
    its outcomes come by Kafka, from whoever consumes the topic.
    """

    flow_no: int
    tenant: str
    kind: str
    lane: str
    topic: str
    weight: int
    queue_seconds: int
    dispatch_seconds: int = 30
    run_seconds: float | None = None
    lease_seconds: int = 60
    settled_by_topic: bool = False
    is_limited: bool = False
    is_counted: bool = False
    has_plain: bool = True
    has_serial: bool = False
    rate_per_second: float | None = None
    due_seconds: float = 0.0
    floor_at: datetime = FLOOR_MIN.at
    floor_block: int = FLOOR_MIN.block
    retry_floor_at: datetime = FLOOR_MIN.retry_at
    serial_floor_at: datetime = FLOOR_MIN.serial_at

    @property
    def floor(self) -> PendingFloor:
        """Where its rows begin."""
        return PendingFloor(
            self.floor_at, self.floor_block, self.retry_floor_at, self.serial_floor_at
        )


@dataclass(frozen=True, slots=True)
class NextDue:
    """How soon a flow's next row is available, None if none waits, and where to look for it.

    The fields stand in the order of find_next_due.
    """

    flow_no: int
    plain: bool
    serial: bool
    due_seconds: float | None
    floor_at: datetime
    floor_block: int
    retry_floor_at: datetime = FLOOR_MIN.retry_at
    serial_floor_at: datetime = FLOOR_MIN.serial_at

    @property
    def floor(self) -> PendingFloor:
        """Where to look for its rows from."""
        return PendingFloor(
            self.floor_at, self.floor_block, self.retry_floor_at, self.serial_floor_at
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch for one topic-partition: item `position` p (from 1) is `item_nos[p − 1]`.

    `attempts` and `starts` count the one that this claim is for. `batch_max` marks items that a
    dead run left behind. It must be acknowledged within `dispatch_seconds` and started within
    `queue_seconds` of that. `flow_no` is set where all items are of one limited flow, `holder_no`
    where outcomes come by topic: it is then started as one run by its acknowledgement.
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
    dispatch_seconds: float = 30.0
    run_seconds: float | None = None
    flow_no: int | None = None
    settled_by_no: int | None = None
    lease_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReapedClaims:
    """What became of claims past their deadline: `released` and `parked` count items."""

    claims: int
    released: int
    parked: int


@dataclass(frozen=True, slots=True)
class ReapedRuns:
    """What became of runs past their lease: `retried`, `released` and `parked` count items.

    Released is what its topic settles and nobody answered.
    """

    runs: int
    retried: int
    released: int
    parked: int


@dataclass(frozen=True, slots=True)
class WithdrawalCounts:
    """Withdrawal requests honoured, and those whose item had ended first."""

    applied: int
    too_late: int


async def list_due_flows(
    connection: Connection,
    limit: int,
    kinds: Sequence[str] | None = None,
    *,
    horizon_seconds: float = 0.0,
) -> list[DueFlow]:
    """List flows that have rows available now, or within a horizon, and are not paused.

    Those an allocator publishes, or where `kinds` are given, theirs, however they are dispatched.
    """
    rows = await connection.fetch(
        statement("list_due_flows"), limit, kinds, horizon_seconds, OVERLAP_SECONDS
    )
    return [DueFlow(*row) for row in rows]


async def find_next_due(
    connection: Connection,
    flow_nos: Sequence[int],
    floors: Sequence[PendingFloor],
    overlap_seconds: Sequence[float],
) -> list[NextDue]:
    """Say of each flow that is not paused when it has work again; the others are left out.

    `overlap_seconds` say how far the new floor stays behind now: 0 where a flow is drained so fast
    that what commits late may wait for the next list.
    """
    rows = await connection.fetch(
        statement("find_next_due"),
        flow_nos,
        [floor.at for floor in floors],
        [floor.block for floor in floors],
        [floor.retry_at for floor in floors],
        [floor.serial_at for floor in floors],
        overlap_seconds,
    )
    return [NextDue(*row) for row in rows]


async def claim_items(
    connection: Connection,
    flow_nos: Sequence[int],
    quotas: Sequence[int],
    floors: Sequence[PendingFloor] | None = None,
    measured: Sequence[bool] | None = None,
    *,
    with_fences: bool = False,
) -> list[ClaimedRow]:
    """Take due rows, up to each flow's quota, skipping what others hold.

    They are looked for from each flow's floor on: where a snapshot is held, a look from the
    beginning passes all that was taken since. Limited flows are passed by unless `measured`, which
    says of each flow whether this transaction locked and measured it. `with_fences` draws one an
    item, for claims to take theirs from. Only in a transaction that also records the claims: a
    rollback leaves everything waiting.

    Raises UnseenPartition where a partition is newer than the plan: the transaction must be rolled
    back, and the same in a new one finds it.
    """
    known = [FLOOR_MIN] * len(flow_nos) if floors is None else floors
    rows = await connection.fetch(
        statement("claim_items"),
        flow_nos,
        quotas,
        [floor.at for floor in known],
        [floor.block for floor in known],
        [floor.retry_at for floor in known],
        [False] * len(flow_nos) if measured is None else measured,
        with_fences,
        record_class=ClaimedRow,
    )
    return _without_count_row(rows)


async def claim_serial_items(
    connection: Connection,
    flow_nos: Sequence[int],
    quotas: Sequence[int],
    actor_no: int,
    *,
    floors: Sequence[PendingFloor] | None = None,
    measured: Sequence[bool] | None = None,
    with_fences: bool = False,
) -> list[ClaimedRow]:
    """Take due rows whose keys are free, and hold the keys; otherwise as `claim_items`.

    Draw fences here only where the transaction locks no item in a statement behind this one: they
    would be lower than one that another transaction has given such an item meanwhile.

    What comes while its key is held waits behind it, or is skipped, or asks the holder to end, as
    its overlap policy says. One claimer at a time judges a key of such a policy, in a statement
    after it has locked it: so it sees what the one before did. Only in a transaction that also
    records the claims.
    """
    floor_ats = [floor.serial_at for floor in floors or [FLOOR_MIN] * len(flow_nos)]
    known = [False] * len(flow_nos) if measured is None else measured
    locked = await connection.fetch(
        statement("lock_serial_stripes"), flow_nos, quotas, floor_ats, known
    )
    stripes = [row["stripe"] for row in locked]
    with mapped_unseen_partition():
        rows = await connection.fetch(
            statement("claim_serial_items"),
            flow_nos,
            quotas,
            floor_ats,
            known,
            stripes,
            actor_no,
            with_fences,
            record_class=ClaimedRow,
        )
    return _without_count_row(rows)


def _without_count_row(rows: list[ClaimedRow]) -> list[ClaimedRow]:
    """Return rows without their last, which says how many were taken."""
    taken: int = rows.pop().item_no
    if taken != len(rows):
        message = f"{taken} items were taken and {len(rows)} of them found: nothing is claimed"
        raise UnseenPartition(message, taken=taken, found=len(rows))
    return rows


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
                claim.dispatch_seconds,
                claim.queue_seconds,
                claim.run_seconds,
                claim.flow_no,
                claim.settled_by_no,
                claim.lease_seconds,
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
    (row,) = await fetch_counted(connection, "release_claims", fences, allocator_no)
    return row["released"]


async def reap_claims(connection: Connection, limit: int, actor_no: int) -> ReapedClaims:
    """Close claims past their deadline; what was never started waits again, or is parked."""
    (row,) = await fetch_counted(connection, "reap_claims", limit, actor_no)
    return ReapedClaims(**row)


async def reap_runs(connection: Connection, limit: int, actor_no: int) -> ReapedRuns:
    """Close up to `limit` runs past their lease and send what had not ended back, or park it."""
    (row,) = await fetch_counted(connection, "reap_runs", limit, actor_no)
    return ReapedRuns(**row)


async def apply_withdrawals(connection: Connection, limit: int) -> WithdrawalCounts:
    """Honour requests whose item waits again, and forget those whose item has ended."""
    row = await connection.fetchrow(statement("apply_withdrawals"), limit)
    return WithdrawalCounts(**row) if row else WithdrawalCounts(0, 0)
