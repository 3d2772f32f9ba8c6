"""Reviews: what waits for a person, by reason and error."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from fastapi import Response

from dueledger.console.back import back_to
from dueledger.console.cells import count_of
from dueledger.console.forms import TAKEN_CHOICES, TAKEN_FILTERS, Filter, TakenFilter
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.findings import list_repairs_of, list_undecided_of
from dueledger.console.pages.flow_pauses import covering_pauses
from dueledger.console.pages.operations import list_operations_of
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.hindrances import has_upkeep
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import find_undecided_findings, read_findings
from dueledger.ledger.store.operations import list_operations
from dueledger.ledger.store.processes import read_roles
from dueledger.ledger.store.repairs import list_waiting_repairs
from dueledger.ledger.store.reviews import ReviewPlace, group_reviews, list_reviews
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import NewestFirst, taken_by

read = PageRoutes(Scope.READ, "console")

EXAMINED_MAX: Final = 1_000
"""Parked items that are grouped; more are shown as this number and +."""
COUNTED_MAX: Final = 100
"""Repairs, findings and operations that are counted; more are shown as this number and +."""
SHOWN_MAX: Final = 5
"""Rows of a list that has a page of its own."""
NOTHING: Final[dict[TakenFilter, str]] = {
    None: "Nothing waits for a person.",
    "mine": "You have taken nothing that waits.",
    "nobody": "Nothing waits that nobody has taken.",
}
NOTHING_MATCHES: Final = "Nothing that waits for a person matches the filter."


_NONE_PARKED: Final = (
    "No item waits for a person. One is parked when its attempts are exhausted, or by"
    " `dueledger park`."
)


class Waiting(NamedTuple):
    """A section of the page: what of it waits, how many, and whether there are more."""

    listing: Listing
    number: int
    is_capped: bool


@read.page("/reviews")
async def show_reviews(
    call: CurrentCall,
    view: CurrentView,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    taken: TakenFilter = None,
) -> Response:
    """Show what waits for a person: items by reason and error, repairs, findings, operations."""
    rows = await group_reviews(
        call.connection,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        examined_max=EXAMINED_MAX,
        taken_by=taken_by(taken, call.caller.actor_no),
    )
    recorded = await list_operations(
        call.connection, SHOWN_MAX, tenants=call.tenants, tenant=tenant, kind=kind
    )
    runs = has_upkeep(await read_roles(call.connection))
    awaited = await _awaited(call, view, tenant, kind, taken, runs=runs)
    parked = _parked(view, rows, taken)
    repairs: Waiting | None = None
    undecided: Waiting | None = None
    if view.may(Scope.AUDIT):
        wanted = Wanted(tenant, kind, taken_by(taken, call.caller.actor_no))
        repairs = await _waiting_repairs(call, view, wanted)
        undecided = await _undecided(call, view, wanted)
    return view.page(
        "reviews.html",
        title="Reviews",
        verdict=_verdict(
            NOTHING_MATCHES if tenant or kind else NOTHING[taken],
            *(parked, repairs, undecided, awaited),
        ),
        filters={"tenant": tenant or "", "kind": kind or "", "taken": taken or ""},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or taken),
        pauses=await covering_pauses(call, tenant, rows),
        pauses_max=SHOWN_MAX,
        parked=parked,
        repairs=repairs,
        undecided=undecided,
        awaited=awaited,
        operations=list_operations_of(view, recorded, runs=runs),
        listing=parked.listing,
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
    taken: TakenFilter = None,
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
        taken_by=taken_by(taken, call.caller.actor_no),
    )
    return view.page(
        "list.html",
        title="Parked items",
        parent=("Reviews", "/reviews"),
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "taken": ("Taken by", taken, TAKEN_CHOICES),
            "newest_first": ("Newest first", newest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or taken or newest_first),
        changed=("review", "Parked items have changed"),
        pauses=await covering_pauses(call, tenant, rows[: page.limit]),
        pauses_max=SHOWN_MAX,
        listing=Listing(
            caption="Parked items",
            order="newest first" if newest_first else "oldest first",
            turns=("parked_at", "newest_first", not newest_first),
            columns=_parked_columns(view),
            rows=rows[: page.limit],
            empty=_NONE_PARKED,
            filters=TAKEN_FILTERS,
            unmatched="No parked item matches the filter.",
            next_cursor=page.cursor_of(rows, "parked_at", "item_no"),
        ),
    )


class Wanted(NamedTuple):
    """What the page is filtered by."""

    tenant: str | None
    kind: str | None
    taken_by: int | None


def _parked(view: View, rows: Sequence[Row], taken: TakenFilter) -> Waiting:
    listing = Listing(
        caption="Parked items by reason and error",
        order="largest group first",
        columns=_group_columns(view, taken),
        rows=[{**row, "takers": ", ".join(row["taken_by"]) or None} for row in rows],
        empty=_NONE_PARKED,
        filters=TAKEN_FILTERS,
        unmatched="No parked item matches the filter.",
    )
    is_capped = any(row["items_capped"] for row in rows)
    return Waiting(listing, sum(row["items"] for row in rows), is_capped)


async def _waiting_repairs(call: ApiCall, view: View, wanted: Wanted) -> Waiting:
    rows = await list_waiting_repairs(
        call.connection,
        wanted.tenant,
        wanted.kind,
        COUNTED_MAX + 1,
        tenants=call.tenants,
        taken_by=wanted.taken_by,
    )
    count = min(len(rows), COUNTED_MAX)
    return Waiting(list_repairs_of(view, rows[:SHOWN_MAX]), count, len(rows) > COUNTED_MAX)


async def _undecided(call: ApiCall, view: View, wanted: Wanted) -> Waiting:
    ids = await find_undecided_findings(
        call.connection, COUNTED_MAX + 1, tenants=call.tenants, **wanted._asdict()
    )
    rows = await read_findings(call.connection, ids[:SHOWN_MAX], call.tenants)
    count = min(len(ids), COUNTED_MAX)
    return Waiting(list_undecided_of(view, rows), count, len(ids) > COUNTED_MAX)


async def _awaited(
    call: ApiCall,
    view: View,
    tenant: str | None,
    kind: str | None,
    taken: TakenFilter,
    *,
    runs: bool,
) -> Waiting:
    """Return operations that wait for a second person. Nobody takes one."""
    rows: Sequence[Row] = ()
    if taken != "mine":
        rows = await list_operations(
            call.connection,
            COUNTED_MAX + 1,
            tenants=call.tenants,
            tenant=tenant,
            kind=kind,
            awaits_approval=True,
        )
    listing = replace(
        list_operations_of(view, rows[:SHOWN_MAX], runs=runs),
        empty="No operation waits for a second person. One waits if it matches more items than"
        " the policy `operations.approval_above` of their kind allows without one.",
        filters=TAKEN_FILTERS,
        unmatched="No operation that waits for a second person matches the filter.",
    )
    return Waiting(listing, min(len(rows), COUNTED_MAX), len(rows) > COUNTED_MAX)


def _verdict(nothing: str, *sections: Waiting | None) -> str:
    """Return in one sentence what waits, in the order of the page; `nothing` if nothing does."""
    words = (
        *(("item", "items"), ("repair", "repairs")),
        *(("finding", "findings"), ("operation", "operations")),
    )
    found = [
        (each, one if each.number == 1 else many)
        for each, (one, many) in zip(sections, words, strict=True)
        if each is not None and each.number
    ]
    if not found:
        return nothing
    named = [f"{count_of(each.number, capped=each.is_capped)} {noun}" for each, noun in found]
    *first, last = named
    waits = "waits" if [each.number for each, _ in found] == [1] else "wait"
    return (
        f"{', '.join(first)} and {last} {waits} for a person."
        if first
        else (f"{last} {waits} for a person.")
    )


def _group_columns(view: View, taken: TakenFilter) -> list[Column]:
    def parked(row: Row) -> str:
        return view.url("/reviews/parked", tenant=row["tenant"], kind=row["kind"], taken=taken)

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
    back = back_to(view)

    def item(row: Row) -> str:
        return view.url(f"/items/{row['id']}", back=back)

    return [
        Column("business_key", "Business key", "text", item),
        Column("kind", "Flow", "flow"),
        Column("reason", "Reason", "prose"),
        Column("parked_at", "Parked", "time"),
        Column("due_at", "Due", "time"),
        Column("attempt", "Attempts", "count"),
        Column("taken_by", "Taken by"),
    ]
