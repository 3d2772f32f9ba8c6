"""Routes of completeness: up to when each kind is complete, and how many findings are open."""

from datetime import date, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import BaseModel, Field

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import MissingPlace, count_findings, count_missing
from dueledger.ledger.store.passes import list_watermarks, read_last_pass
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import LIMIT_MAX, CurrentPage, Page, PageRequest
from dueledger.service.routes.fields import Text
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "findings")

MISSING_MAX: Final = 1_000
"""Findings of missing items that a page of days is counted of, at least."""


class FindingCount(BaseModel):
    """Open findings of a type, in all and by how long ago each was found first.

    `findings_capped`: counting stopped, there may be more of each type.
    """

    type: FindingType
    severity: str
    findings: int
    findings_capped: bool
    under_an_hour: int
    under_a_day: int
    under_3_days: int
    under_7_days: int
    under_30_days: int
    older: int


class FindingCounts(BaseModel):
    """Counts of open findings, the most severe first."""

    items: list[FindingCount]


class MissingDay(BaseModel):
    """An effective date on which items of a kind are missing: how many are, and are present."""

    tenant: str
    kind: str
    effective_date: date
    missing: int
    missing_capped: Annotated[bool, Field(description="there may be more")]
    present: Annotated[
        int, Field(description="items of the kind and date in the ledger, expected or not")
    ]
    present_capped: Annotated[bool, Field(description="there may be more")]
    expected: Annotated[int, Field(description="those present and those missing")]
    expected_capped: Annotated[bool, Field(description="there may be more")]
    first_due_at: datetime
    first_seen_at: datetime


class MissingPage(Page[MissingDay]):
    """A page of days, by kind and effective date."""


class WatermarkDocument(BaseModel):
    """Up to when a kind is complete: all that was due before is accounted for."""

    tenant: str
    kind: str
    complete_before: datetime | None
    blocked_by: str | None
    as_of: datetime


class LastPass(BaseModel):
    """The last pass of reconciliation; it looked at `as_of`."""

    reconciliation_no: int
    started_at: datetime
    finished_at: Annotated[datetime | None, Field(description="null: it has not ended")]
    as_of: datetime


class WatermarkList(BaseModel):
    """Completeness watermarks, the least complete kind first."""

    items: list[WatermarkDocument]
    is_cut: Annotated[bool, Field(description="there are more kinds, which are more complete")]
    last_pass: Annotated[LastPass | None, Field(description="null: no pass has begun")]


@audit.add("GET", "/v1/findings/counts", "countFindings", FindingCounts)
async def count_open(call: CurrentCall, tenant: Annotated[str | None, Text] = None) -> Response:
    """Count open findings by type and age."""
    rows = await count_findings(call.connection, tenant=tenant, tenants=call.tenants)
    return answer({"items": [members_of(FindingCount, dict(row)) for row in rows]})


@audit.add("GET", "/v1/findings/missing", "listMissing", MissingPage)
async def list_missing(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
) -> Response:
    """List days on which items of a kind are missing, as open findings say, and how many are."""
    rows, last = await page_missing(call, page, tenant, kind)
    return page.answer(MissingDay, rows, last)


async def page_missing(
    call: ApiCall, page: PageRequest, tenant: str | None, kind: str | None
) -> tuple[list[dict[str, Any]], MissingPlace | None]:
    """Return a page of days with missing items, and the last one's place if there are more."""
    rows = await count_missing(
        call.connection,
        tenant=tenant,
        kind=kind,
        after=page.place(MissingPlace, str, str, date),
        limit=page.rows_max,
        count_max=max(MISSING_MAX, page.rows_max),
        tenants=call.tenants,
    )
    shown = rows[: page.limit]
    goes_on = len(rows) > page.limit or any(row["missing_capped"] for row in shown)
    if not goes_on:
        return shown, None
    return shown, MissingPlace(*(shown[-1][key] for key in MissingPlace._fields))


@audit.add("GET", "/v1/watermarks", "listWatermarks", WatermarkList)
async def list_kinds(
    call: CurrentCall,
    tenant: Annotated[str | None, Text] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_MAX,
) -> Response:
    """List up to when each kind is complete, and what blocks it."""
    rows = await list_watermarks(call.connection, tenant, tenants=call.tenants, limit=limit + 1)
    last_pass = await read_last_pass(call.connection)
    return answer(
        {
            "items": [members_of(WatermarkDocument, row) for row in rows[:limit]],
            "is_cut": len(rows) > limit,
            "last_pass": None if last_pass is None else members_of(LastPass, dict(last_pass)),
        }
    )
