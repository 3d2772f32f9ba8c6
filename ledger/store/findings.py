"""Reads and writes of the reconciler: passes, populations, findings, repairs, watermarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

EXPEDITED_PAGE: Final = 10_000
MISSED_RANGES_PAGE: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One pass. `as_of` is the business clock at its start."""

    reconciliation_no: int
    started_at: datetime
    as_of: datetime


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
class FindingRecord:
    """One finding to record. `expected`, `actual` and `terms` are JSON text."""

    id: UUID
    type: str
    severity: str
    tenant: str
    kind: str
    subject: str
    item_id: UUID | None
    business_key: str | None
    effective_date: date | None
    due_at: datetime | None
    sentence: str
    expected: str
    actual: str
    terms: str | None
    resolution: str


@dataclass(frozen=True, slots=True)
class RecordedFinding:
    """The result for one finding. `created` is False if it was recorded before."""

    id: UUID
    opened_count: int
    resolution: str
    first_seen_at: datetime
    created: bool


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """One proposed repair. `command` is JSON text."""

    id: UUID
    finding_id: UUID
    action: str
    opened_count: int
    command: str


@dataclass(frozen=True, slots=True)
class RecordedRepair:
    """The status of a proposed repair. `created` is False if it was proposed before."""

    id: UUID
    status: str
    created: bool


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """The completeness watermark of a kind: all items expected before it are accounted for."""

    tenant: str
    kind: str
    complete_before: datetime | None
    blocked_by: str | None


@dataclass(frozen=True, slots=True)
class PageAfter:
    """The time and id of the last row of the previous page."""

    at: datetime
    id: UUID


async def list_item_outcomes(
    connection: Connection,
    from_date: date,
    to_date: date,
    *,
    after: tuple[date, int],
    page_size: int,
) -> list[Record]:
    """List items of a range of effective dates with their final transitions, by page."""
    return await connection.fetch(
        statement("list_item_outcomes"), from_date, to_date, *after, page_size
    )


async def count_items_by_day(
    connection: Connection, from_date: date, to_date: date
) -> dict[date, int]:
    """Count the items of each effective date of a half-open range."""
    rows = await connection.fetch(statement("count_items_by_day"), from_date, to_date)
    return {row["effective_date"]: row["item_count"] for row in rows}


async def list_flow_rules(connection: Connection) -> list[Record]:
    """List every flow with tenant, kind and grace."""
    return await connection.fetch(statement("list_flow_rules"))


async def list_stuck_runs(
    connection: Connection, margin_seconds: float, run_max: int
) -> list[Record]:
    """List open runs whose lease lapsed more than the margin ago."""
    return await connection.fetch(statement("list_stuck_runs"), margin_seconds, run_max)


async def list_stuck_claims(
    connection: Connection, margin_seconds: float, claim_max: int
) -> list[Record]:
    """List open claims whose deadline passed more than the margin ago."""
    return await connection.fetch(statement("list_stuck_claims"), margin_seconds, claim_max)


async def describe_open_items(connection: Connection, item_nos: Sequence[int]) -> list[Record]:
    """Describe the states of items that have not ended, in input order."""
    return await connection.fetch(statement("describe_open_items"), item_nos)


async def find_known_ids(connection: Connection, ids: Sequence[UUID]) -> set[bytes]:
    """Find which ids the ledger has, or had before their partition was dropped."""
    return {row["id"] for row in await connection.fetch(statement("find_known_ids"), ids)}


async def list_inbox_events(
    connection: Connection, types: Sequence[str], after_event_no: int, page_size: int
) -> list[Record]:
    """List recorded domain events of these types by ascending number, by page."""
    return await connection.fetch(statement("list_inbox_events"), types, after_event_no, page_size)


async def list_numbered_events(connection: Connection, event_nos: Sequence[int]) -> list[Record]:
    """List recorded domain events by their numbers."""
    return await connection.fetch(statement("list_numbered_events"), event_nos)


async def list_definition_versions(connection: Connection) -> list[Record]:
    """List every version of every definition with its materialised watermark."""
    return await connection.fetch(statement("list_definition_versions"))


async def count_rejected_writes(connection: Connection) -> list[Record]:
    """Count refused writes by verb and reason."""
    return await connection.fetch(statement("count_rejected_writes"))


async def begin_reconciliation(
    connection: Connection, *, actor_no: int, scope: str
) -> Reconciliation:
    """Open the record of one pass; `scope` is JSON text."""
    (row,) = await connection.fetch(statement("begin_reconciliation"), actor_no, scope)
    return Reconciliation(**row)


async def finish_reconciliation(
    connection: Connection, reconciliation_no: int, counts: str
) -> None:
    """Close the record of one pass; `counts` is JSON text. Repeating it changes nothing."""
    await connection.execute(statement("finish_reconciliation"), reconciliation_no, counts)


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


async def record_findings(
    connection: Connection, reconciliation_no: int, findings: Sequence[FindingRecord]
) -> list[RecordedFinding]:
    """Record the findings of a pass, locked by ascending id. Repeating it changes nothing.

    New findings open. Known ones are seen again and keep a person's resolution; cleared and
    repaired ones reopen. Each id occurs once in `findings`.
    """
    rows = await connection.fetch(
        statement("record_findings"),
        reconciliation_no,
        [finding.id for finding in findings],
        [finding.type for finding in findings],
        [finding.severity for finding in findings],
        [finding.tenant for finding in findings],
        [finding.kind for finding in findings],
        [finding.subject for finding in findings],
        [finding.item_id for finding in findings],
        [finding.business_key for finding in findings],
        [finding.effective_date for finding in findings],
        [finding.due_at for finding in findings],
        [finding.sentence for finding in findings],
        [finding.expected for finding in findings],
        [finding.actual for finding in findings],
        [finding.terms for finding in findings],
        [finding.resolution for finding in findings],
    )
    return [RecordedFinding(**row) for row in rows]


async def close_findings(
    connection: Connection,
    reconciliation_no: int,
    judged_types: Sequence[str],
    unjudged: Sequence[tuple[str, str, str]],
    dates: tuple[date, date],
) -> list[Record]:
    """Close open findings of `judged_types` that this pass did not see again.

    `unjudged` has each (type, tenant, kind) that could not be checked; `dates` is the half-open
    range of effective dates that was checked. Returns the closed findings with their resolution.
    """
    return await connection.fetch(
        statement("close_findings"),
        reconciliation_no,
        judged_types,
        [type_ for type_, _, _ in unjudged],
        [tenant for _, tenant, _ in unjudged],
        [kind for _, _, kind in unjudged],
        *dates,
    )


async def list_findings(
    connection: Connection,
    *,
    open_only: bool = True,
    tenant: str | None = None,
    type_: str | None = None,
    since_reconciliation_no: int | None = None,
    after: PageAfter | None = None,
    page_size: int = 1_000,
) -> list[Record]:
    """List findings, oldest first, by page."""
    return await connection.fetch(
        statement("list_findings"),
        open_only,
        tenant,
        type_,
        since_reconciliation_no,
        after.at if after else None,
        after.id if after else None,
        page_size,
    )


async def resolve_findings(
    connection: Connection, ids: Sequence[UUID], *, resolution: str, reason: str, actor_no: int
) -> set[UUID]:
    """Record a person's resolution of open findings; return the ids it applied to."""
    rows = await connection.fetch(statement("resolve_findings"), ids, resolution, reason, actor_no)
    return {row["id"] for row in rows}


async def record_repairs(
    connection: Connection, repairs: Sequence[RepairRecord], *, actor_no: int
) -> list[RecordedRepair]:
    """Record repairs as proposed; known ones do not change. Returns results in input order."""
    rows = await connection.fetch(
        statement("record_repairs"),
        [repair.id for repair in repairs],
        [repair.finding_id for repair in repairs],
        [repair.action for repair in repairs],
        [repair.opened_count for repair in repairs],
        [repair.command for repair in repairs],
        actor_no,
    )
    return [RecordedRepair(**row) for row in rows]


async def take_repairs(connection: Connection, ids: Sequence[UUID]) -> list[Record]:
    """Lock proposed repairs until the transaction ends, and return them."""
    return await connection.fetch(statement("take_repairs"), ids)


async def finish_repairs(
    connection: Connection,
    ids: Sequence[UUID],
    statuses: Sequence[str],
    outcomes: Sequence[str],
    *,
    actor_no: int,
) -> set[UUID]:
    """Record how proposed repairs ended. Repairs that ended before do not change.

    `outcomes` are JSON text. Returns the ids of the repairs that ended now.
    """
    rows = await connection.fetch(statement("finish_repairs"), ids, statuses, outcomes, actor_no)
    return {row["id"] for row in rows}


async def list_repairs(
    connection: Connection,
    *,
    since_reconciliation_no: int | None = None,
    after: PageAfter | None = None,
    page_size: int = 1_000,
) -> list[Record]:
    """List repairs with the findings they repair, oldest first, by page."""
    return await connection.fetch(
        statement("list_repairs"),
        since_reconciliation_no,
        after.at if after else None,
        after.id if after else None,
        page_size,
    )


async def record_watermarks(connection: Connection, watermarks: Sequence[WatermarkRecord]) -> None:
    """Record the completeness watermarks of kinds. None keeps the stored watermark."""
    await connection.fetch(
        statement("record_watermarks"),
        [watermark.tenant for watermark in watermarks],
        [watermark.kind for watermark in watermarks],
        [watermark.complete_before for watermark in watermarks],
        [watermark.blocked_by for watermark in watermarks],
    )


async def list_watermarks(
    connection: Connection, tenant: str | None = None
) -> list[dict[str, Any]]:
    """List the completeness watermark of each kind and what blocks it."""
    return [dict(row) for row in await connection.fetch(statement("list_watermarks"), tenant)]


def _signed(total: int) -> int:
    """Return an unsigned 64-bit total as the bigint with the same bits."""
    return total - (1 << 64) if total >= 1 << 63 else total


async def list_missed_ranges(connection: Connection) -> dict[int, list[tuple[datetime, datetime]]]:
    """Return the recorded missed ranges, half-open, by definition, in time order."""
    found: dict[int, list[tuple[datetime, datetime]]] = {}
    after = (0, _EPOCH)
    while True:
        rows = await connection.fetch(statement("list_missed_ranges"), *after, MISSED_RANGES_PAGE)
        for row in rows:
            found.setdefault(row["definition_no"], []).append((row["from_at"], row["until_at"]))
        if len(rows) < MISSED_RANGES_PAGE:
            return found
        after = rows[-1]["definition_no"], rows[-1]["from_at"]


async def list_expedited(connection: Connection) -> set[int]:
    """Return the numbers of the items that a person expedited or triggered."""
    found: set[int] = set()
    after = 0
    while True:
        rows = await connection.fetch(statement("list_expedited"), after, EXPEDITED_PAGE)
        found.update(row["item_no"] for row in rows)
        if len(rows) < EXPEDITED_PAGE:
            return found
        after = rows[-1]["item_no"]
