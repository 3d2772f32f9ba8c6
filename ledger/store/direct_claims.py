"""Direct mode: items claimed and started at once by who works them, without Kafka between."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, final, overload
from uuid import UUID

from asyncpg import BitString

from dueledger.ledger.store.claims import PendingFloor
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_unseen_partition
from dueledger.ledger.store.statements import statement

DIRECT_TOPIC: Final = "direct"
"""What a claim says where another names its topic."""
DIRECT_PARTITION: Final = -1
_RUN_FIELDS: Final = 14
_DUE_ATS: Final = 11
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


@final
class LazyInstants(Sequence[datetime]):
    """Instants as Postgres sends them, read when they are asked for.

    Reading one takes half a microsecond, nearly as long as all else of an item.
    """

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
        microseconds = int.from_bytes(self._sent[index], "big", signed=True)
        return _EPOCH + timedelta(microseconds=microseconds)


@dataclass(frozen=True, slots=True)
class DirectRun:
    """A whole claim opened as one run: item `position` p (from 1) is at p − 1 of each column.

    `withdrawn` positions ended at this start. `traceparents` is None where no item has one. The
    fields stand in the order of claim_and_start_items.
    """

    run_no: int
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


@dataclass(frozen=True, slots=True)
class FlowScan:
    """What was seen of a flow: so many due rows, and of suspects, whose worker died with them.

    Where fewer than its quota were seen, `due_seconds` is how soon the next row is due, None if
    none waits. From `floor` on there may be more; rows that commit late may lie below it.
    """

    flow_no: int
    seen: int
    has_suspects: bool
    due_seconds: float | None
    floor: PendingFloor


@dataclass(frozen=True, slots=True)
class DirectClaimResult:
    """The runs that were begun, and what was seen of the flows; of a paused one, nothing."""

    runs: Sequence[DirectRun]
    scans: Sequence[FlowScan]


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """An open run of a worker, and which of its items have not ended, by index from 0."""

    run_no: int
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
) -> DirectClaimResult:
    """Take due rows, up to each flow's quota, and start them: one claim and run a crew number.

    Flows of a crew number have the same `run_seconds`, the hard end of their runs, None for none.
    `flow_nos` ascend; ValueError where they do not. Where `apart`, each item has a claim of its
    own. Limited flows are passed by unless `limited`; then they must be locked and measured in the
    same transaction, and have a crew number each. With `suspects`, of one flow, those alone are
    taken, at most as many as may be together.

    Raises UnseenPartition where a partition is newer than the plan: nothing is taken then, and the
    same in a new transaction finds it.
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
        )
    runs: list[DirectRun] = []
    looks: list[FlowScan] = []
    for row in rows:
        if row["run_no"] is None:
            looks += _looks(row)
        else:
            columns = list(row)[:_RUN_FIELDS]
            columns[_DUE_ATS] = LazyInstants(columns[_DUE_ATS])
            runs.append(DirectRun(*columns))
    return DirectClaimResult(runs, looks)


def _looks(row: Record) -> list[FlowScan]:
    if row["flow_nos"] is None:
        return []
    floors = map(PendingFloor, row["floor_ats"], row["floor_blocks"])
    columns = (row["flow_nos"], row["seen"], row["has_suspects"], row["due_seconds"], floors)
    return list(map(FlowScan, *columns))


async def list_unfinished_runs(connection: Connection, worker_no: int) -> list[UnfinishedRun]:
    """List the open runs of a worker, the latest first, at most 10,000."""
    rows = await connection.fetch(statement("list_unfinished_runs"), worker_no)
    return [
        UnfinishedRun(row["run_no"], len(row["ended"]), _open_indexes(row["ended"])) for row in rows
    ]


def _open_indexes(bits: BitString) -> list[int]:
    return [index for index in range(len(bits)) if not bits[index]]
