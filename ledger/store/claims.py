"""Claims: due flows, claiming items under a fence, and reaping of claims and runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final, NamedTuple, TypeVar

from dueledger.ledger.claim_id import ClaimId, first_and_last
from dueledger.ledger.store.claimed_rows import ClaimedRows
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.counted import fetch_counted, repeat_counted
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
from dueledger.ledger.store.statements import statement

_ValueT = TypeVar("_ValueT", date, int)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class PendingFloor(NamedTuple):
    """The lower bound of a flow's pending rows. Only rows that commit late may be below it.

    First attempts begin at `at`; `block` orders rows of the same instant, a thousand item numbers
    each. Retries begin at `retry_at`, serial items at `serial_at`.
    """

    at: datetime
    block: int
    retry_at: datetime = _EARLIEST
    serial_at: datetime = _EARLIEST

    def lowered(self, since: datetime) -> "PendingFloor":
        """Return a floor that no plain row available since then is below."""
        if since >= self.at and since >= self.retry_at:
            return self
        return PendingFloor(
            min(self.at, since), 0, min(self.retry_at, since), serial_at=self.serial_at
        )


FLOOR_MIN: Final = PendingFloor(_EARLIEST, 0)
OVERLAP_SECONDS: Final = 1.0
"""How far a floor stays behind now: rows of transactions shorter than this are never below it."""


class DueFlow(NamedTuple):
    """A flow with plain or serial rows (or both) that are available in `due_seconds`.

    The fields have the order of list_due_flows: thousands of these are made at once.

    A flow that `is_limited` is locked and measured before its items are claimed. If it
    `is_counted`, its items in flight are counted and go into claims of its own; a rate counts
    claimed items only. With `settled_by_topic` the consumers of the topic report outcomes by Kafka.
    `compression` is the codec of its topic; None for that of the settings.
    """

    flow_no: int
    tenant: str
    kind: str
    lane: str
    topic: str
    weight: int
    queue_seconds: int
    dispatch_seconds: int
    run_seconds: float | None
    lease_seconds: int
    compression: str | None = None
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
    lag_target_seconds: float | None = None

    @property
    def floor(self) -> PendingFloor:
        """The lower bound of its rows."""
        return PendingFloor(
            self.floor_at, self.floor_block, self.retry_floor_at, self.serial_floor_at
        )


class NextDue(NamedTuple):
    """When a flow's next row is available (None: no row is pending), and its floor.

    The fields have the order of find_next_due.
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
        """The lower bound of its rows."""
        return PendingFloor(
            self.floor_at, self.floor_block, self.retry_floor_at, self.serial_floor_at
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch for one topic-partition: item `position` p (from 1) is `item_nos[p − 1]`.

    `attempts` and `starts` include this claim's own. `batch_max` is set for suspects, the items of
    a dead run. Kafka must acknowledge the claim within `dispatch_seconds`; workers must start it
    within `queue_seconds` after that. `flow_no` is set if all items are of one limited flow,
    `topic_actor_no` if it is settled by topic: its acknowledgement then starts it as one run.
    `flow_nos` are the flows of its items. `lag_flow_no` is the flow of the item that is the first
    to be later than the lag target of its flow, and `available_since` since when it could be
    claimed.
    """

    id: ClaimId
    allocator_no: int
    topic: str
    partition: int
    item_nos: Sequence[int]
    effective_dates: Sequence[date]
    attempts: Sequence[int]
    starts: Sequence[int]
    queue_seconds: float
    dispatch_seconds: float
    batch_max: int | None = None
    run_seconds: float | None = None
    flow_no: int | None = None
    topic_actor_no: int | None = None
    lease_seconds: float | None = None
    flow_nos: Sequence[int] | None = None
    lag_flow_no: int | None = None
    available_since: datetime | None = None

    @property
    def fence(self) -> int:
        """Its number."""
        return self.id.fence


@dataclass(frozen=True, slots=True)
class ReapedClaims:
    """Claims closed after their deadline. `released` and `parked` count items."""

    claims: int
    released: int
    parked: int
    fences: frozenset[int] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class ReapedRuns:
    """Runs closed after their lease. `retried`, `released` and `parked` count items.

    Items are released if they are settled by topic and no outcome was reported.
    """

    runs: int
    retried: int
    released: int
    parked: int
    run_nos: frozenset[int] = field(default=frozenset(), compare=False)


async def list_due_flows(
    connection: Connection,
    limit: int,
    kinds: Sequence[str] | None = None,
    *,
    horizon_seconds: float = 0.0,
    without: Sequence[int] = (),
) -> list[DueFlow]:
    """List the flows with rows available within the horizon that are not paused.

    Flows whose numbers are among `without` are left out: the caller knows that they have rows.
    Without `kinds`: the flows that allocators publish. With `kinds`: the flows of these kinds, with
    any dispatch.
    """
    rows = await connection.fetch(
        statement("list_due_flows"), limit, kinds, horizon_seconds, OVERLAP_SECONDS, without
    )
    return list(map(DueFlow._make, rows))


async def find_next_due(
    connection: Connection,
    flow_nos: Sequence[int],
    floors: Sequence[PendingFloor],
    overlap_seconds: Sequence[float],
) -> list[NextDue]:
    """Find when each flow has rows again. Paused flows are left out.

    `overlap_seconds` is how far the new floor stays behind now. It is 0 for a flow that is drained
    so fast that rows that commit late may wait for the next list.
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
    return list(map(NextDue._make, rows))


async def claim_items(
    connection: Connection,
    flow_nos: Sequence[int],
    quotas: Sequence[int],
    floors: Sequence[PendingFloor] | None = None,
    measured: Sequence[bool] | None = None,
    *,
    mosts: Sequence[int] | None = None,
    with_fences: bool = False,
    lag_flow_nos: Sequence[int] = (),
) -> ClaimedRows:
    """Claim due rows, up to each flow's quota; rows that others have locked are skipped.

    A flow without due retries may have as many as `mosts` says, until the sum of the quotas is
    reached: then flows after it have none.

    The scan starts at each flow's floor: while an old snapshot is held, a scan from the beginning
    reads all rows claimed since. Limited flows are skipped unless `measured`: this transaction
    locked and measured them. `with_fences` draws one fence per item; each claim uses one of them.
    The rows then have `due_seconds`, too, of each flow that is not paused or skipped and has no due
    retries; without fences, of each that could have had more than its quota and had fewer items.
    They have `available_since` of each of `lag_flow_nos` that has items among them.
    Call it only in a transaction that also records the claims: a rollback leaves all rows pending.

    Raises UnseenPartition if a partition is newer than the plan. The transaction must be rolled
    back; a new one finds the partition.
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
        lag_flow_nos,
        quotas if mosts is None else mosts,
        sum(quotas),
    )
    return ClaimedRows.of_groups(rows)


async def claim_serial_items(
    connection: Connection,
    flow_nos: Sequence[int],
    quotas: Sequence[int],
    actor_no: int,
    *,
    floors: Sequence[PendingFloor] | None = None,
    measured: Sequence[bool] | None = None,
    with_fences: bool = False,
    tenants: Sequence[str] | None = None,
) -> ClaimedRows:
    """Claim due rows whose keys are free, and hold the keys; otherwise as `claim_items`.

    Draw fences here only if no later statement of the transaction locks items: another transaction
    may meanwhile have given such an item a higher fence.

    An item whose key is held waits for it, is skipped, or requests the holder's end, by its overlap
    policy. One claimer at a time decides about a key with such a policy, in a statement after the
    lock, so it sees what the one before did. Call it only in a transaction that also records the
    claims. With `tenants`, flows of others are left out.
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
            tenants,
        )
    return ClaimedRows.before_count(rows)


async def next_fences(connection: Connection, count: int) -> list[int]:
    """Draw fences. Unused ones never appear in the ledger."""
    return [row["fence"] for row in await connection.fetch(statement("next_fences"), count)]


async def record_claims(connection: Connection, claims: Sequence[Claim]) -> None:
    """Record claims, in the transaction that claimed their rows."""
    await connection.executemany(
        statement("record_claims"),
        [
            (
                *claim.id,
                claim.allocator_no,
                claim.topic,
                claim.partition,
                claim.item_nos,
                _one_or_each(claim.effective_dates),
                _one_or_each(claim.attempts),
                _one_or_each(claim.starts),
                claim.batch_max,
                claim.dispatch_seconds,
                claim.queue_seconds,
                claim.run_seconds,
                claim.flow_no,
                claim.topic_actor_no,
                claim.lease_seconds,
                claim.flow_nos,
                claim.lag_flow_no,
                claim.available_since,
            )
            for claim in claims
        ],
    )


def _one_or_each(values: Sequence[_ValueT]) -> Sequence[_ValueT]:
    """Return one value if all are equal: asyncpg examines each element of an array."""
    return values[:1] if len(set(values)) == 1 else values


async def mark_published(
    connection: Connection, claim_ids: Sequence[ClaimId], base_offsets: Sequence[int]
) -> list[int]:
    """Mark acknowledged claims; return the fences of those that are still open.

    A missing fence was closed before its acknowledgement, or was marked before.
    """
    claimed_ats = [claim_id.claimed_at for claim_id in claim_ids]
    rows = await connection.fetch(
        statement("mark_published"),
        [claim_id.fence for claim_id in claim_ids],
        claimed_ats,
        base_offsets,
        *first_and_last(claimed_ats),
    )
    return [row["fence"] for row in rows if not row["closed"]]


async def release_claims(
    connection: Connection, claim_ids: Sequence[ClaimId], allocator_no: int
) -> int:
    """Release the items that were not started; return how many.

    Call it only for claims that were certainly not sent. The deadline decides ambiguous ones.
    """
    claimed_ats = [claim_id.claimed_at for claim_id in claim_ids]
    (row,) = await fetch_counted(
        connection,
        "release_claims",
        [claim_id.fence for claim_id in claim_ids],
        claimed_ats,
        allocator_no,
        *first_and_last(claimed_ats),
    )
    return row["released"]


async def reap_claims(
    connection: Connection, limit: int, actor_no: int, *, fences: Collection[int] | None = None
) -> ReapedClaims:
    """Close claims past their deadline; release or park items not started.

    At most the `limit` that are oldest; with `fences`, of those claims alone.
    """
    none = ReapedClaims(0, 0, 0)
    named = None if fences is None else list(fences)
    # Usually there is none, and it costs less to ask.
    if not await connection.fetch(statement("lock_late_claims"), 1, named):
        return none

    async def reap() -> ReapedClaims:
        async with connection.transaction():
            late = await connection.fetch(statement("lock_late_claims"), limit, named)
            if not late:
                return none
            claimed_ats = [row["claimed_at"] for row in late]
            (row,) = await connection.fetch(
                statement("reap_claims"),
                [row["fence"] for row in late],
                claimed_ats,
                actor_no,
                *first_and_last(claimed_ats),
            )
        return ReapedClaims(**row, fences=frozenset(each["fence"] for each in late))

    return await repeat_counted(connection, reap)


async def reap_runs(
    connection: Connection, limit: int, actor_no: int, *, run_nos: Collection[int] | None = None
) -> ReapedRuns:
    """Close runs past their lease; retry, release or park their open items.

    At most the `limit` that are oldest; with `run_nos`, of those runs alone.
    """
    none = ReapedRuns(0, 0, 0, 0)
    named = None if run_nos is None else list(run_nos)
    if not await connection.fetchval(statement("has_lapsed_runs")):  # usually, and it costs less
        return none

    async def reap() -> ReapedRuns:
        async with connection.transaction():
            lapsed = await connection.fetch(statement("lock_lapsed_runs"), limit, named)
            if not lapsed:
                return none
            started_ats = [row["started_at"] for row in lapsed]
            (row,) = await connection.fetch(
                statement("reap_runs"),
                [row["run_no"] for row in lapsed],
                started_ats,
                [row["lost_count"] for row in lapsed],
                actor_no,
                *first_and_last(started_ats),
                *first_and_last(row["claimed_at"] for row in lapsed),
            )
        return ReapedRuns(**row, run_nos=frozenset(each["run_no"] for each in lapsed))

    return await repeat_counted(connection, reap)


async def apply_withdrawals(connection: Connection, limit: int) -> int:
    """Apply requests whose item is pending again, and delete those whose item has ended.

    Returns the number of applied ones.
    """
    return await connection.fetchval(statement("apply_withdrawals"), limit)
