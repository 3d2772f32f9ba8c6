"""What the reconciler records of its passes: each start, the populations read, the watermarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class PassStart:
    """One pass. `as_of` is the business clock at its start, `latest_as_of` at any pass before.

    `witness_credit_seconds` is the CPU time of the witness that earlier passes have left, and a
    tenth of a second for each day since the last one. A pass that is not recorded has no number.
    """

    started_at: datetime
    as_of: datetime
    witness_credit_seconds: float
    latest_as_of: datetime | None
    reconciliation_no: int | None = None


@dataclass(frozen=True, slots=True)
class PopulationRecord:
    """The read of one source in one pass. `hash_total` is unsigned."""

    name: str
    origin: str
    query_digest: str | None
    extracted_at: datetime
    duration_seconds: float
    row_count: int
    skipped_count: int
    hash_total: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """The completeness watermark of a kind: all items expected before it are accounted for."""

    tenant: str
    kind: str
    complete_before: datetime | None
    blocked_by: str | None


class WatermarkPlace(NamedTuple):
    """A watermark of a list, after which the next page begins."""

    complete_before: datetime | None
    tenant: str
    kind: str


async def read_pass_start(connection: Connection) -> PassStart:
    """Read the moment of a pass that begins now, and what those before it left."""
    (row,) = await connection.fetch(statement("read_pass_start"))
    return PassStart(**row)


async def read_last_pass(connection: Connection) -> Record | None:
    """Read when the last pass started and finished, by the machine's time, and its business time.

    None without one.
    """
    return await connection.fetchrow(statement("read_last_pass"))


async def begin_reconciliation(
    connection: Connection, start: PassStart, *, actor_no: int, scope: str
) -> int:
    """Open the record of one pass and return its number; `scope` is JSON text."""
    (row,) = await connection.fetch(
        statement("begin_reconciliation"),
        start.started_at,
        start.as_of,
        actor_no,
        scope,
        start.witness_credit_seconds,
    )
    return row["reconciliation_no"]


async def finish_reconciliation(
    connection: Connection, reconciliation_no: int, counts: str, *, witness_credit_seconds: float
) -> None:
    """Close the record of one pass; `counts` is JSON text. Repeating it changes nothing."""
    values = reconciliation_no, counts, witness_credit_seconds
    await connection.execute(statement("finish_reconciliation"), *values)


async def record_populations(
    connection: Connection, reconciliation_no: int, populations: Sequence[PopulationRecord]
) -> None:
    """Record the read of each source."""
    await connection.fetch(
        statement("record_populations"),
        reconciliation_no,
        [population.name for population in populations],
        [population.origin for population in populations],
        [population.query_digest for population in populations],
        [population.extracted_at for population in populations],
        [population.duration_seconds for population in populations],
        [population.row_count for population in populations],
        [population.skipped_count for population in populations],
        [_signed(population.hash_total) for population in populations],
        [population.failure for population in populations],
    )


async def record_watermarks(
    connection: Connection, watermarks: Sequence[WatermarkRecord], as_of: datetime
) -> None:
    """Record the completeness watermarks of kinds at the start of a pass.

    None keeps the stored watermark.
    """
    await connection.fetch(
        statement("record_watermarks"),
        [watermark.tenant for watermark in watermarks],
        [watermark.kind for watermark in watermarks],
        [watermark.complete_before for watermark in watermarks],
        [watermark.blocked_by for watermark in watermarks],
        as_of,
    )


async def list_watermarks(
    connection: Connection,
    tenant: str | None = None,
    *,
    tenants: Sequence[str] | None = None,
    limit: int = 10_000,
    kind: str | None = None,
    after: WatermarkPlace | None = None,
) -> list[dict[str, Any]]:
    """List the completeness watermarks of kinds and what blocks each, the least complete first.

    With `tenants`, of theirs alone.
    """
    place = after or (None, None, None)
    rows = await connection.fetch(
        statement("list_watermarks"), tenants, tenant, limit, kind, *place
    )
    return [dict(row) for row in rows]


def _signed(total: int) -> int:
    """Return an unsigned 64-bit total as the bigint with the same bits."""
    return total - (1 << 64) if total >= 1 << 63 else total
