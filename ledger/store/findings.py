"""Findings: what the reconciler found, what was decided about it, and lists of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.rules.redaction import redact_row
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

COUNTED_MAX: Final = 100_000


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
class CheckedFindings:
    """The findings that a pass checked: it closes those that it did not find again.

    They are of `types`, without each (type, tenant, kind) of `unchecked`, and within `dates`, a
    half-open range of effective dates. Of findings about records, those at or after the offset from
    which their partition was read, by topic and partition.
    """

    types: Collection[str]
    unchecked: Collection[tuple[str, str, str]]
    dates: tuple[date, date]
    read_from: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PageAfter:
    """The time and id of the last row of the previous page."""

    at: datetime
    id: UUID


class MissingPlace(NamedTuple):
    """The last kind and effective date of the page before."""

    tenant: str
    kind: str
    effective_date: date


async def record_findings(
    connection: Connection, reconciliation_no: int, findings: Sequence[FindingRecord]
) -> list[RecordedFinding]:
    """Record the findings of a pass, locked by ascending id. Repeating it changes nothing.

    New findings open. Known ones are seen again and keep a person's resolution, unless their
    evidence is another; cleared and repaired ones reopen. Each id occurs once in `findings`.
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


async def find_known_findings(
    connection: Connection, findings: Sequence[FindingRecord]
) -> dict[UUID, Record]:
    """Find which findings are recorded, by id, and whether each reopens if it is found again."""
    rows = await connection.fetch(
        statement("find_known_findings"),
        [finding.id for finding in findings],
        [finding.resolution for finding in findings],
        [finding.expected for finding in findings],
        [finding.actual for finding in findings],
    )
    return {row["id"]: row for row in rows}


async def list_cleared_findings(
    connection: Connection, reconciliation_no: int | None, checked: CheckedFindings
) -> dict[UUID, str]:
    """List open findings that were checked and no pass from this number on saw, to be closed.

    None is a pass after all that are recorded. Returns the resolution of each: repaired if a repair
    was executed, else explained.
    """
    unchecked = sorted(checked.unchecked)
    rows = await connection.fetch(
        statement("list_cleared_findings"),
        reconciliation_no,
        sorted(checked.types),
        *map(list, zip(*unchecked, strict=True)) if unchecked else ([], [], []),
        *checked.dates,
        [topic for topic, _ in checked.read_from],
        [partition for _, partition in checked.read_from],
        list(checked.read_from.values()),
    )
    return {row["id"]: row["resolution"] for row in rows}


async def close_findings(
    connection: Connection, reconciliation_no: int, cleared: Mapping[UUID, str]
) -> list[str]:
    """Close findings, given with their resolution, unless a pass from this number on saw them.

    Returns the resolutions of those that were closed now.
    """
    rows = await connection.fetch(
        statement("close_findings"), reconciliation_no, list(cleared), list(cleared.values())
    )
    return [row["resolution"] for row in rows]


async def list_findings(
    connection: Connection,
    *,
    open_only: bool = True,
    tenant: str | None = None,
    type_: str | None = None,
    kind: str | None = None,
    effective_date: date | None = None,
    after: PageAfter | None = None,
    page_size: int = 1_000,
    tenants: Sequence[str] | None = None,
    newest_first: bool = False,
) -> list[dict[str, Any]]:
    """List findings, oldest or newest first, by page; with `tenants`, theirs alone."""
    place = (after.at, after.id) if after else (None, None)
    values = open_only, tenant, type_, *place, page_size, tenants, kind, effective_date
    text = statement("list_newest_findings") if newest_first else statement("list_findings")
    return [redact_row(row) for row in await connection.fetch(text, *values)]


async def list_undecided_findings(
    connection: Connection,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    taken_by: int | None = None,
    after: PageAfter | None = None,
    newest_first: bool = False,
) -> list[dict[str, Any]]:
    """List open findings that a person decides, and those that somebody has taken, by page.

    Oldest or newest first. With `tenants`, theirs alone; with `taken_by`, those of this actor, or
    of `NOBODY`.
    """
    ids = await find_undecided_findings(
        connection,
        limit,
        tenants=tenants,
        tenant=tenant,
        kind=kind,
        taken_by=taken_by,
        after=after,
        newest_first=newest_first,
    )
    found = await read_findings(connection, ids, tenants)
    return found[::-1] if newest_first else found


async def read_findings(
    connection: Connection, ids: Sequence[UUID], tenants: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Read findings with who has taken each, oldest first; with `tenants`, theirs alone."""
    rows = await connection.fetch(statement("read_findings"), ids, tenants)
    return [redact_row(row) for row in rows]


async def find_undecided_findings(
    connection: Connection,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    taken_by: int | None = None,
    after: PageAfter | None = None,
    newest_first: bool = False,
) -> list[UUID]:
    """Find the findings that `list_undecided_findings` lists, to count them."""
    place = (after.at, after.id) if after else (None, None)
    values = tenant, kind, taken_by, limit, tenants, *place
    if newest_first:
        rows = await connection.fetch(statement("find_newest_undecided_findings"), *values)
    else:
        rows = await connection.fetch(statement("find_undecided_findings"), *values)
    return [row["id"] for row in rows]


async def list_open_findings(
    connection: Connection, *, after: PageAfter | None = None, page_size: int = 1_000
) -> list[Record]:
    """List open findings as they were recorded, to repair them: their payloads are whole."""
    place = (after.at, after.id) if after else (None, None)
    filters = (True, None, None, *place, page_size, None, None, None)
    return await connection.fetch(statement("list_findings"), *filters)


async def count_findings(
    connection: Connection,
    *,
    open_only: bool = True,
    tenant: str | None = None,
    type_: str | None = None,
    tenants: Sequence[str] | None = None,
    count_max: int = COUNTED_MAX,
) -> list[Record]:
    """Count findings by type and severity, the most severe first; with `tenants`, theirs alone.

    `under_an_hour` and so on are of those found first so long ago, on business time.
    After `count_max` counting stops, and `findings_capped` is true of each row.
    """
    return await connection.fetch(
        statement("count_findings"), open_only, tenant, type_, count_max, tenants
    )


PRESENT_MAX: Final = 50_000
"""Items that are counted beside missing ones, of all days of a page."""


async def count_missing(
    connection: Connection,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    after: MissingPlace | None = None,
    limit: int,
    count_max: int,
    tenants: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Count open findings of missing items by kind and effective date, in this order.

    `count_max` findings are read: the last day may then have more, which `missing_capped` says, and
    other days may follow. Of the items beside them as many are counted as each day has a share of
    `PRESENT_MAX`: `present_capped`.
    """
    present_max = max(1, PRESENT_MAX // limit)
    place = after or (None, None, None)
    given = (tenants, tenant, kind, *place, count_max, limit, present_max)
    return [dict(row) for row in await connection.fetch(statement("count_missing"), *given)]


async def list_findings_of_period(
    connection: Connection,
    from_at: datetime,
    to_at: datetime | None,
    *,
    after: PageAfter | None = None,
    page_size: int = 1_000,
    reconciliation_no: int | None = None,
) -> list[Record]:
    """List findings that are open, were open in a half-open period, or are of something due in it.

    And those that a pass from this number on found, though a person resolved them. Oldest first,
    by page. A period without an end ends now.
    """
    return await connection.fetch(
        statement("list_findings_of_period"),
        from_at,
        to_at,
        after.at if after else None,
        after.id if after else None,
        page_size,
        reconciliation_no,
    )


async def show_finding(
    connection: Connection, finding: UUID, tenants: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Read one finding, who resolved it, and its repairs; None if no tenant of these has it."""
    row = await connection.fetchrow(statement("show_finding"), finding, tenants)
    return redact_row(row) if row else None


async def find_finding(
    connection: Connection, finding: UUID, tenants: Sequence[str] | None = None
) -> Record | None:
    """Find the tenant of a finding, and whether it is open; None if no tenant of these has it."""
    return await connection.fetchrow(statement("find_finding"), finding, tenants)


async def list_findings_of_item(
    connection: Connection, item: UUID, limit: int, *, tenants: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """List the findings of an item, newest first, each with its last repair if it has one."""
    rows = await connection.fetch(statement("list_findings_of_item"), item, tenants, limit)
    return [redact_row(row) for row in rows]


async def resolve_findings(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    resolution: str,
    reason: str,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> dict[UUID, str]:
    """Record a person's resolution of open findings; return a result by id.

    `done`; its resolution, if it is not open; `own`: the same actor proposed its repair; `unknown`,
    also if it is of others than `tenants`.
    """
    values = ids, resolution, reason, actor_no, tenants
    rows = await connection.fetch(statement("resolve_findings"), *values)
    return {row["id"]: row["result"] for row in rows}
