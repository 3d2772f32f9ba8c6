"""Routes of reports: what reconciliations reported, as it was recorded then."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from io import StringIO
from typing import Annotated, Any, Final

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict

from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.reports import ReportList, list_report_rows, list_reports, read_report
from dueledger.reconciler.report.csv_list import CsvList
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import (
    FindingDetail,
    ReconciliationReport,
    RepairDetail,
    ReportStatement,
    StatementVerdict,
)
from dueledger.service.calls import ApiCall, CurrentCall, HeldCall, WaitingCall
from dueledger.service.downloads import Download
from dueledger.service.pages import CurrentPage, Page
from dueledger.service.routes.fields import PRINTABLE, OldestFirst, Text
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "reports")
download = ScopedRoutes(Scope.AUDIT, "reports", waits=True)

_ROWS_A_PAGE: Final = 1_000
_NUMBER_MAX: Final = 2**53
_MODELS: Final = {ReportList.FINDINGS: FindingDetail, ReportList.REPAIRS: RepairDetail}
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
}
"""The page has styles and no scripts."""

Number = Annotated[int, Path(ge=1, le=_NUMBER_MAX)]
OfTenant = Annotated[
    str | None,
    Query(
        max_length=512,
        pattern=PRINTABLE,
        description="default is the whole ledger, or the one tenant of the key",
    ),
]


class ReportSummary(BaseModel):
    """A report of a list. Its tenant is `*` if it is of the whole ledger."""

    reconciliation_no: int
    tenant: str
    as_of: datetime
    verdict: StatementVerdict
    sentence: str
    findings_open: int


class ReportPage(Page[ReportSummary]):
    """A page of reports, newest first."""


class ReportDocument(BaseModel):
    """A report. Its other members are those of docs/report.schema.json."""

    model_config = ConfigDict(extra="allow")

    schema_version: str
    reconciliation_no: int
    tenant: str | None
    as_of: datetime
    statement: ReportStatement


@audit.add("GET", "/v1/reports", "listReports", ReportPage)
async def list_recorded(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    *,
    oldest_first: OldestFirst = False,
) -> Response:
    """List reports, newest first: of a tenant, or of the whole ledger or all tenants of the key."""
    number, after = page.after(int, str)
    rows = await list_reports_of(
        call, tenant, last=(number, after), limit=page.rows_max, oldest_first=oldest_first
    )
    return page.answer_rows(ReportSummary, rows, "reconciliation_no", "tenant")


async def list_reports_of(
    call: ApiCall,
    tenant: str | None,
    *,
    last: tuple[int, str] | tuple[None, None] = (None, None),
    limit: int,
    oldest_first: bool = False,
) -> list[dict[str, Any]]:
    """List reports of a tenant, or of the whole ledger or all tenants of the call."""
    tenants = call.tenants or [WHOLE_LEDGER]
    if tenant is not None:
        tenants = [tenant] if call.may_reach(tenant) else []
    return await list_reports(
        call.connection, tenants, last=last, limit=limit, oldest_first=oldest_first
    )


@audit.add("GET", "/v1/reports/{number}", "getReport", ReportDocument)
async def get_report(call: CurrentCall, number: Number, tenant: OfTenant = None) -> Response:
    """Read a report, as it was recorded."""
    document = await _read(call, number, _tenant_of(call, tenant))
    return Response(document, media_type="application/json")


@download.add("GET", "/v1/reports/{number}/page", "getReportPage", text_type="text/html")
async def get_report_page(call: HeldCall, number: Number, tenant: OfTenant = None) -> Response:
    """Read the page of a report: HTML without scripts, which can be printed."""
    async with call.open() as opened:
        document = await _read(opened, number, _tenant_of(opened, tenant))
    page = await asyncio.to_thread(_page_of, document)
    return Response(page, media_type="text/html", headers=_PAGE_HEADERS)


@download.add(
    "GET", "/v1/reports/{number}/findings", "downloadReportFindings", text_type="text/csv"
)
async def download_findings(call: HeldCall, number: Number, tenant: OfTenant = None) -> Response:
    """Download all findings of a report as CSV."""
    return await _download(call, number, tenant, ReportList.FINDINGS)


@download.add("GET", "/v1/reports/{number}/repairs", "downloadReportRepairs", text_type="text/csv")
async def download_repairs(call: HeldCall, number: Number, tenant: OfTenant = None) -> Response:
    """Download all repairs of a report as CSV."""
    return await _download(call, number, tenant, ReportList.REPAIRS)


async def _download(
    call: WaitingCall, number: int, tenant: str | None, list_: ReportList
) -> Response:
    async with call.open() as opened:
        await _read(opened, number, _tenant_of(opened, tenant))
    name = f"reconciliation-{number}-{list_}.csv"
    return Download(
        call.request,
        _csv(call, number, tenant, list_),
        shares=call.host.downloads,
        actor_no=call.caller.actor_no,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
        media_type="text/csv",
    )


async def _csv(
    call: WaitingCall, number: int, tenant: str | None, list_: ReportList
) -> AsyncGenerator[str]:
    """Yield the rows as CSV, some at a time; the key is checked for each."""
    written, model = StringIO(newline=""), _MODELS[list_]
    csv = CsvList(written, model)
    after: tuple[str, int] | tuple[None, None] = (None, None)
    while True:
        async with call.open() as opened:
            rows = await list_report_rows(
                opened.connection,
                number,
                list_,
                _tenant_of(opened, tenant),
                after=after,
                limit=_ROWS_A_PAGE,
            )
        csv.add(model.model_validate_json(row["content"]) for row in rows)
        yield written.getvalue()
        if len(rows) < _ROWS_A_PAGE:
            return
        written.seek(0)
        written.truncate()
        after = (rows[-1]["tenant"], rows[-1]["row_no"])


def _page_of(document: str) -> str:
    return render_page(ReconciliationReport.model_validate_json(document))


def _tenant_of(call: ApiCall, tenant: str | None) -> str:
    """Return of which tenant a report is meant. Raises NotFound or InvalidInput."""
    if tenant is not None and not call.may_reach(tenant):
        raise NotFound(f"The key knows no tenant {tenant}.", tenant=tenant)
    match tenant, call.tenants:
        case None, None:
            return WHOLE_LEDGER
        case None, [only]:
            return only
        case None, several:
            problem = Problem("tenant", "", "the key has several", " | ".join(several or ()))
            raise InvalidInput("The request does not say of which tenant.", [problem])
        case str(), _:
            return tenant


async def _read(call: ApiCall, number: int, tenant: str) -> str:
    document = await read_report(call.connection, number, tenant)
    if document is None:
        message = f"There is no report {number} of that tenant. GET /v1/reports lists them."
        raise NotFound(message, reconciliation_no=number)
    return document
