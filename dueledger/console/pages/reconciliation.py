"""Reconciliation: up to when everything is complete, what differs, its repairs, and the reports."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Final

from fastapi import Response

from dueledger.console.forms import Filter
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.findings import list_repairs_of
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import count_findings, count_missing
from dueledger.ledger.store.passes import WatermarkPlace, list_watermarks, read_last_pass
from dueledger.ledger.store.repairs import list_waiting_repairs
from dueledger.service.calls import CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import reports
from dueledger.service.routes.completeness import page_missing
from dueledger.service.routes.fields import OldestFirst
from dueledger.service.routes.reports import Number, OfTenant

audit = PageRoutes(Scope.AUDIT, "console")
download = PageRoutes(Scope.AUDIT, "console", waits=True)

FINDINGS_MAX: Final = 1_000
"""Findings counted; more are shown as this number and +."""
WATERMARKS_MAX: Final = 50
SHOWN_MAX: Final = 5
"""Rows of a list that has a page of its own."""


@audit.page("/reconciliation")
async def show_reconciliation(call: CurrentCall, view: CurrentView) -> Response:
    """Show watermarks, findings by type and age, repairs that wait, and the newest reports."""
    counts = [
        dict(row)
        for row in await count_findings(
            call.connection, tenants=call.tenants, count_max=FINDINGS_MAX
        )
    ]
    watermarks = await list_watermarks(
        call.connection, tenants=call.tenants, limit=view.rows_max(WATERMARKS_MAX) + 1
    )
    missing = await count_missing(
        call.connection, limit=SHOWN_MAX, count_max=FINDINGS_MAX, tenants=call.tenants
    )
    repairs = await list_waiting_repairs(
        call.connection, None, None, SHOWN_MAX, tenants=call.tenants
    )
    recorded = await reports.list_reports_of(call, None, limit=SHOWN_MAX)
    return view.page(
        "reconciliation.html",
        title="Reconciliation",
        findings=sum(row["findings"] for row in counts),
        is_capped=any(row["findings_capped"] for row in counts),
        counts=_list_counts(view, counts),
        missing=_list_missing(view, missing),
        repairs=list_repairs_of(view, repairs),
        reports=_list_reports(view, recorded),
        last_pass=await read_last_pass(call.connection),
        listing=replace(
            _list_watermarks(watermarks[: view.rows_max(WATERMARKS_MAX)], downloads=True),
            note=view.cut_note(watermarks, WATERMARKS_MAX),
        ),
    )


@audit.page("/reconciliation/watermarks")
async def list_complete(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
) -> Response:
    """List up to when each kind is complete, the least complete first."""
    rows = await list_watermarks(
        call.connection,
        tenant,
        tenants=call.tenants,
        limit=page.rows_max,
        kind=kind,
        after=page.place(WatermarkPlace, datetime | None, str, str),
    )
    cursor = page.cursor_of(rows, "complete_before", "tenant", "kind")
    return view.page(
        "list.html",
        title="Completeness watermarks",
        parent=("Reconciliation", "/reconciliation"),
        filters={"tenant": ("Tenant", tenant, None), "kind": ("Kind", kind, None)},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind),
        changed=("watermark", "Watermarks have changed"),
        listing=_list_watermarks(rows[: page.limit], cursor, downloads=True),
    )


@audit.page("/reconciliation/missing")
async def list_missing(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
) -> Response:
    """List days of a kind of which items are missing, and how many are."""
    rows, last = await page_missing(call, page, tenant, kind)
    return view.page(
        "list.html",
        title="Missing items by day",
        parent=("Reconciliation", "/reconciliation"),
        filters={"tenant": ("Tenant", tenant, None), "kind": ("Kind", kind, None)},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind),
        changed=("finding", "Findings have changed"),
        listing=_list_missing(view, rows, page.cursor_after(last), downloads=True),
    )


@audit.page("/reconciliation/reports")
async def list_recorded(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    oldest_first: OldestFirst = False,
) -> Response:
    """List reports, newest or oldest first, by month."""
    number, after = page.after(int, str)
    rows = await reports.list_reports_of(
        call, tenant, last=(number, after), limit=page.rows_max, oldest_first=oldest_first
    )
    shown = rows[: page.limit]
    return view.page(
        "list.html",
        title="Reports",
        parent=("Reconciliation", "/reconciliation"),
        filters={
            "tenant": ("Tenant", tenant, None),
            "oldest_first": ("Oldest first", oldest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=tenant is not None or oldest_first,
        changed=("report", "Reports have changed"),
        groups=list(_by_month(view, shown)),
        listing=replace(
            _list_reports(
                view, shown, page.cursor_of(rows, "reconciliation_no", "tenant"), downloads=True
            ),
            order="oldest first" if oldest_first else "newest first",
            turns=("as_of", "oldest_first", oldest_first),
        ),
    )


@audit.page("/reconciliation/reports/{number}")
async def get_report(
    call: CurrentCall, view: CurrentView, number: Number, tenant: OfTenant = None
) -> Response:
    """Give a report as it was recorded, as JSON."""
    del view
    return await reports.get_report(call, number, tenant)


download.page("/reconciliation/reports/{number}/page")(reports.get_report_page)
download.page("/reconciliation/reports/{number}/findings")(reports.download_findings)
download.page("/reconciliation/reports/{number}/repairs")(reports.download_repairs)


def _list_counts(view: View, counts: Sequence[Row]) -> Listing:
    def found(row: Row) -> str:
        return view.url("/reconciliation/findings", type=row["type"])

    return Listing(
        caption="Open findings by type and by how long ago each was found",
        order="most severe first",
        columns=(
            Column("type", "Type", "text", found),
            Column("severity", "Severity", "status"),
            Column("under_an_hour", "Under 1 h", "count"),
            Column("under_a_day", "1–24 h", "count"),
            Column("under_3_days", "1–3 d", "count"),
            Column("under_7_days", "3–7 d", "count"),
            Column("under_30_days", "7–30 d", "count"),
            Column("older", "Over 30 d", "count"),
            Column("findings", "All", "count", found, "findings_capped"),
        ),
        rows=counts,
        empty="No finding is open.",
    )


def _list_watermarks(
    rows: Sequence[Row], next_cursor: str | None = None, *, downloads: bool = False
) -> Listing:
    return Listing(
        caption="Completeness watermarks",
        order="least complete first",
        columns=_WATERMARK_COLUMNS,
        rows=[{**row, "lane": ""} for row in rows],
        empty="No kind was reconciled yet. `dueledger reconcile` compares what was owed with what"
        " happened.",
        filters=("tenant", "kind"),
        unmatched="No kind that was reconciled matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )


def _list_missing(
    view: View, rows: Sequence[Row], next_cursor: str | None = None, *, downloads: bool = False
) -> Listing:
    def found(row: Row) -> str:
        return view.url(
            "/reconciliation/findings",
            tenant=row["tenant"],
            kind=row["kind"],
            type=FindingType.MISSING,
            effective_date=row["effective_date"],
        )

    return Listing(
        caption="Missing items",
        order="by kind and effective date",
        columns=(
            Column("effective_date", "Effective date", "date", found),
            Column("kind", "Flow", "flow"),
            Column("expected", "Expected", "count", capped="expected_capped"),
            Column("present", "Present", "count", capped="present_capped"),
            Column("missing", "Missing", "count", found, "missing_capped"),
            Column("first_due_at", "First due", "time"),
            Column("first_seen_at", "Found", "time"),
        ),
        rows=[{**row, "lane": ""} for row in rows],
        empty="No item is missing, as far as a reconciliation has compared.",
        filters=("tenant", "kind"),
        unmatched="No missing item matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )


def _list_reports(
    view: View, rows: Sequence[Row], next_cursor: str | None = None, *, downloads: bool = False
) -> Listing:
    def part(name: str) -> Column:
        def address(row: Row) -> str:
            tenant = row["tenant"]
            path = f"/reconciliation/reports/{row['reconciliation_no']}{_PARTS[name]}"
            return view.url(path, tenant=tenant)

        return Column("reconciliation_no", name, "action", address)

    return Listing(
        caption="Reports",
        order="newest first",
        columns=(
            Column("as_of", "As of", "time"),
            Column("reconciliation_no", "Number"),
            Column("tenant", "Tenant", "scope"),
            Column("verdict", "Verdict", "status"),
            Column("findings_open", "Findings", "count"),
            Column("sentence", "Statement", "prose"),
            *map(part, _PARTS),
        ),
        rows=rows,
        empty="There is no report yet. `dueledger reconcile --once` records one.",
        filters=("tenant",),
        unmatched="No report matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )


def _by_month(view: View, rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for month, those in groupby(rows, key=lambda row: view.clock.month(row["as_of"])):
        yield month, list(those)


_PARTS: Final = {
    "Page": "/page",
    "JSON": "",
    "Findings": "/findings",
    "Repairs": "/repairs",
}
"""What a report can be had as, by the words of its link."""
_WATERMARK_COLUMNS: Final[Sequence[Column]] = (
    Column("kind", "Kind", "flow"),
    Column("complete_before", "Complete before", "time"),
    Column("blocked_by", "Blocked by", "prose"),
    Column("as_of", "As of", "time"),
)
