"""Reviews: what waits for a person, by reason and error."""

from datetime import datetime
from typing import Any, Final

from fastapi import Response

from dueledger.console.forms import Filter
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.findings import list_conflicts_of, list_repairs_of
from dueledger.console.pages.flow_pauses import covering_pauses
from dueledger.console.pages.operations import list_operations_of
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import list_findings
from dueledger.ledger.store.operations import (
    list_operations,
)
from dueledger.ledger.store.repairs import list_waiting_repairs
from dueledger.ledger.store.reviews import ReviewPlace, group_reviews, list_reviews
from dueledger.service.calls import CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import NewestFirst

read = PageRoutes(Scope.READ, "console")

EXAMINED_MAX: Final = 1_000
"""Parked items that are grouped; more are shown as this number and +."""
SHOWN_MAX: Final = 5
"""Rows of a list that has a page of its own."""


@read.page("/reviews")
async def show_reviews(
    call: CurrentCall, view: CurrentView, *, tenant: Filter = None, kind: Filter = None
) -> Response:
    """Show what waits for a person: items by reason and error, repairs, and what was decided."""
    rows = await group_reviews(
        call.connection,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        examined_max=EXAMINED_MAX,
    )
    recorded = await list_operations(call.connection, SHOWN_MAX, tenants=call.tenants)
    repairs: list[dict[str, Any]] | None = None
    conflicts: list[dict[str, Any]] = []
    if view.may(Scope.AUDIT):
        found = await list_findings(
            call.connection,
            tenant=tenant,
            type_=FindingType.OUTCOME_CONFLICT,
            kind=kind,
            page_size=SHOWN_MAX,
            tenants=call.tenants,
        )
        conflicts = [dict(each) for each in found]
        repairs = await list_waiting_repairs(
            call.connection, tenant, kind, SHOWN_MAX, tenants=call.tenants
        )
    return view.page(
        "reviews.html",
        title="Reviews",
        filters={"tenant": tenant or "", "kind": kind or ""},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind),
        pauses=await covering_pauses(call, tenant, rows),
        pauses_max=SHOWN_MAX,
        parked=sum(row["items"] for row in rows),
        is_capped=any(row["items_capped"] for row in rows),
        repairs=None if repairs is None else list_repairs_of(view, repairs),
        conflicts=list_conflicts_of(view, conflicts),
        conflict_type=FindingType.OUTCOME_CONFLICT,
        operations=list_operations_of(view, recorded),
        listing=Listing(
            caption="Parked items by reason and error",
            order="largest group first",
            columns=_group_columns(view),
            rows=[{**row, "takers": ", ".join(row["taken_by"]) or None} for row in rows],
            empty="No item waits for a person. One is parked when its attempts are exhausted, or by"
            " `dueledger park`.",
        ),
    )


@read.page("/reviews/parked")
async def list_parked(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    newest_first: NewestFirst = False,
) -> Response:
    """List parked items, those parked first or last at the top."""
    rows = await list_reviews(
        call.connection,
        page.rows_max,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        after=page.place(ReviewPlace, datetime, int),
        newest_first=newest_first,
    )
    return view.page(
        "list.html",
        title="Parked items",
        parent=("Reviews", "/reviews"),
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "newest_first": ("Newest first", newest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind),
        changed=("review", "Parked items have changed"),
        listing=Listing(
            caption="Parked items",
            order="newest first" if newest_first else "oldest first",
            columns=_parked_columns(view),
            rows=rows[: page.limit],
            empty="No parked item matches.",
            next_cursor=page.cursor_of(rows, "parked_at", "item_no"),
        ),
    )


def _group_columns(view: View) -> list[Column]:
    def parked(row: Row) -> str:
        return view.url("/reviews/parked", tenant=row["tenant"], kind=row["kind"])

    def decide(row: Row) -> str | None:
        if not row["reason"].isprintable():
            return None
        return view.url(
            f"/reviews/{row['tenant']}/decide",
            kind=row["kind"],
            lane=row["lane"] or None,
            default_lane=None if row["lane"] else True,
            parked_reason=row["reason"],
            error=row["error"],
        )

    columns = [
        Column("kind", "Flow", "flow"),
        Column("reason", "Reason", "prose"),
        Column("error", "Last error", "code"),
        Column("message", "Message", "prose"),
        Column("items", "Items", "count", parked, "items_capped"),
        Column("oldest_at", "First parked", "time"),
        Column("takers", "Taken by", "prose"),
    ]
    if view.may(Scope.OPERATE):
        columns.append(Column("reason", "Decide", "action", decide))
    return columns


def _parked_columns(view: View) -> list[Column]:
    def item(row: Row) -> str:
        return view.url(f"/items/{row['id']}")

    return [
        Column("business_key", "Business key", "text", item),
        Column("kind", "Flow", "flow"),
        Column("reason", "Reason", "prose"),
        Column("parked_at", "Parked", "time"),
        Column("due_at", "Due", "time"),
        Column("attempt", "Attempts", "count"),
        Column("taken_by", "Taken by"),
    ]
