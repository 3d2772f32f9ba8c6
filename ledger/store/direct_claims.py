"""Direct mode: a worker claims and starts items in one statement, without Kafka."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Final, final, overload
from uuid import UUID

from asyncpg import BitString

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.store.claimed_rows import ClaimedRow, read_instant
from dueledger.ledger.store.claims import Claim, DueFlow, PendingFloor
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
from dueledger.ledger.store.runs import RunId, RunIsolation
from dueledger.ledger.store.statements import statement

DIRECT_TOPIC: Final = "direct"
"""The topic of a direct claim."""
DIRECT_PARTITION: Final = -1
_RUN_FIELDS: Final = 17
_DUE_ATS: Final = 12


@final
class LazyInstants(Sequence[datetime]):
    """Instants as Postgres sends them, parsed on access."""

    __slots__ = ("_sent",)

    def __init__(self, sent: Sequence[bytes]) -> None:
        self._sent = sent

    def __len__(self) -> int:
        return len(self._sent)

    @overload
    def __getitem__(self, index: int) -> datetime: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[datetime]: ...
    def __getitem__(self, index: int | slice) -> datetime | Sequence[datetime]:
        if isinstance(index, slice):
            return LazyInstants(self._sent[index])
        return read_instant(self._sent[index])


@dataclass(frozen=True, slots=True)
class DirectRun:
    """A claim started as one run: the item at position p (from 1) is at p − 1 of each column.

    `withdrawn` positions ended at this start. `traceparents` is None if no item has one, and
    `batch_max` unless they are suspects. `token` is for a pull worker, to name the claim. The
    fields have the order of claim_and_start_items.
    """

    run_no: int
    started_at: datetime
    fence: int
    group_no: int
    lease_seconds: float
    withdrawn: Sequence[int]
    attempts: Sequence[int]
    ids: Sequence[UUID]
    flow_nos: Sequence[int]
    business_keys: Sequence[str]
    cycles: Sequence[str]
    effective_dates: Sequence[date]
    due_ats: Sequence[datetime]
    payloads: Sequence[bytes]
    traceparents: Sequence[str | None] | None
    batch_max: int | None
    token: str | None = None

    @property
    def claim_id(self) -> ClaimId:
        """Its claim. Without a token, no start and no outcome can name it."""
        return ClaimId(self.fence, self.started_at, self.token or "")


@dataclass(frozen=True, slots=True)
class FlowScan:
    """The scan of a flow: how many due rows it has, and whether some are suspects.

    If fewer rows than the quota were seen, `due_seconds` is when the next row is due, None if no
    row is pending. More rows may be at or above `floor`; only rows that commit late are below it.
    """

    flow_no: int
    seen: int
    has_suspects: bool
    due_seconds: float | None
    floor: PendingFloor


@dataclass(frozen=True, slots=True)
class DirectClaimResult:
    """The started runs, and the scans of the flows. A paused flow has no scan."""

    runs: Sequence[DirectRun]
    scans: Sequence[FlowScan]


@dataclass(frozen=True, slots=True)
class OpenRunRow:
    """An open run of a worker, and the indexes (from 0) of its items that have not ended."""

    id: RunId
    size: int
    open_indexes: Sequence[int]


async def claim_and_start_items(
    connection: Connection,
    flow_nos: Sequence[int],
    quotas: Sequence[int],
    *,
    group_nos: Sequence[int],
    apart: Sequence[bool],
    floors: Sequence[PendingFloor],
    run_seconds: Sequence[float | None],
    worker_no: int,
    lease_seconds: float,
    limited: bool = False,
    suspects: bool = False,
    isolation: RunIsolation | None = None,
    with_token: bool = False,
    tenants: Sequence[str] | None = None,
    bytes_max: int | None = None,
    lag_flow_nos: Sequence[int] = (),
) -> DirectClaimResult:
    """Claim due rows, up to each flow's quota, and start them: one claim and run per group.

    `group_nos` has each flow's group number. Flows of a group have the same `run_seconds`, the hard
    end of their runs, None for none. `flow_nos` ascend, otherwise ValueError. With `apart`, each
    item of the flow has a claim of its own. Limited flows are skipped unless `limited`; then they
    must be locked and measured in the same transaction, and each has a group of its own. With
    `suspects` only the suspects of one flow are claimed, at most as many as may run together, for
    the given isolation. With `tenants`, flows of others are left out. With `bytes_max`, rows beyond
    so many bytes of payloads stay pending. The lag of `lag_flow_nos` is counted.

    Raises UnseenPartition if a partition is newer than the plan: nothing is claimed then, and a new
    transaction finds the partition.
    """
    if any(after <= before for before, after in pairwise(flow_nos)):
        raise ValueError("flow numbers must ascend")
    with mapped_unseen_partition():
        rows = await connection.fetch(
            statement("claim_and_start_items"),
            flow_nos,
            quotas,
            group_nos,
            apart,
            [floor.at for floor in floors],
            [floor.block for floor in floors],
            limited,
            suspects,
            worker_no,
            lease_seconds,
            [floor.retry_at for floor in floors],
            run_seconds,
            isolation,
            with_token,
            tenants,
            bytes_max,
            lag_flow_nos,
        )
    runs: list[DirectRun] = []
    scans: list[FlowScan] = []
    for row in rows:
        if row["run_no"] is None:
            scans += _scans(row)
        else:
            columns = list(row)[:_RUN_FIELDS]
            columns[_DUE_ATS] = LazyInstants(columns[_DUE_ATS])
            runs.append(DirectRun(*columns))
    return DirectClaimResult(runs, scans)


def _scans(row: Record) -> list[FlowScan]:
    if row["flow_nos"] is None:
        return []
    floors = map(PendingFloor, row["floor_ats"], row["floor_blocks"])
    columns = (row["flow_nos"], row["seen"], row["has_suspects"], row["due_seconds"], floors)
    return list(map(FlowScan, *columns))


def direct_claim(
    claim_id: ClaimId, rows: Sequence[ClaimedRow], flow: DueFlow, worker_no: int
) -> Claim:
    """Return a direct claim of rows of `claim_serial_items`, all of one flow."""
    return Claim(
        id=claim_id,
        allocator_no=worker_no,
        topic=DIRECT_TOPIC,
        partition=DIRECT_PARTITION,
        item_nos=[row.item_no for row in rows],
        effective_dates=[row.effective_date for row in rows],
        attempts=[row.attempt + 1 for row in rows],
        starts=[row.starts + 1 for row in rows],
        batch_max=rows[0].batch_max,
        queue_seconds=flow.queue_seconds,
        dispatch_seconds=flow.dispatch_seconds,
        run_seconds=flow.run_seconds,
        flow_no=flow.flow_no if flow.is_limited else None,
        flow_nos=[flow.flow_no],
    )


def run_of_rows(claim_id: ClaimId, rows: Sequence[ClaimedRow]) -> DirectRun:
    """Return rows of `claim_serial_items` as columns; their run is not known yet."""
    return DirectRun(
        run_no=0,
        started_at=claim_id.claimed_at,
        fence=claim_id.fence,
        group_no=0,
        lease_seconds=0.0,
        withdrawn=(),
        attempts=[row.attempt + 1 for row in rows],
        ids=[row.id for row in rows],
        flow_nos=[row.flow_no for row in rows],
        business_keys=[row.business_key.decode() for row in rows],
        cycles=[row.cycle for row in rows],
        effective_dates=[row.effective_date for row in rows],
        due_ats=LazyInstants([row.due_at for row in rows]),
        payloads=[row.payload for row in rows],
        traceparents=[row.traceparent for row in rows],
        batch_max=rows[0].batch_max,
        token=claim_id.token,
    )


async def list_open_runs(connection: Connection, worker_no: int) -> list[OpenRunRow]:
    """List the open runs of a worker, the latest first, at most 10,000."""
    rows = await connection.fetch(statement("list_open_runs"), worker_no)
    return [
        OpenRunRow(
            RunId(row["run_no"], row["started_at"], row["claimed_at"]),
            len(row["ended"]),
            _open_indexes(row["ended"]),
        )
        for row in rows
    ]


def _open_indexes(bits: BitString) -> list[int]:
    return [index for index in range(len(bits)) if not bits[index]]
