"""Routes of completeness: up to when each kind is complete, and how many findings are open."""

from datetime import datetime
from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import count_findings, list_watermarks
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import LIMIT_MAX
from dueledger.service.routes.fields import Text
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "findings")


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


class WatermarkDocument(BaseModel):
    """Up to when a kind is complete: all that was due before is accounted for."""

    tenant: str
    kind: str
    complete_before: datetime | None
    blocked_by: str | None
    as_of: datetime


class WatermarkList(BaseModel):
    """Completeness watermarks, the least complete kind first."""

    items: list[WatermarkDocument]


@audit.add("GET", "/v1/findings/counts", "countFindings", FindingCounts)
async def count_open(call: CurrentCall, tenant: Annotated[str | None, Text] = None) -> Response:
    """Count open findings by type and age."""
    rows = await count_findings(call.connection, tenant=tenant, tenants=call.tenants)
    return answer({"items": [members_of(FindingCount, dict(row)) for row in rows]})


@audit.add("GET", "/v1/watermarks", "listWatermarks", WatermarkList)
async def list_kinds(
    call: CurrentCall,
    tenant: Annotated[str | None, Text] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_MAX,
) -> Response:
    """List up to when each kind is complete, and what blocks it."""
    rows = await list_watermarks(call.connection, tenant, tenants=call.tenants, limit=limit)
    return answer({"items": [members_of(WatermarkDocument, row) for row in rows]})
