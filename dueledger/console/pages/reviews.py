"""Reviews: what waits for a person, by reason and error, and what is decided about all of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response
from pydantic import BeforeValidator, Field

from dueledger.console.forms import Filter, blank, form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.findings import list_conflicts_of, list_repairs_of
from dueledger.console.pages.flow_pauses import covering_pauses
from dueledger.console.pages.operations import list_operations_of
from dueledger.console.pages.taken_reviews import ReviewPeople, people_of, read_comments
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import list_findings
from dueledger.ledger.store.operations import (
    ItemFilter,
    estimate_seconds,
    list_operations,
    preview_operation,
)
from dueledger.ledger.store.repairs import list_waiting_repairs
from dueledger.ledger.store.reviews import ReviewPlace, group_reviews, list_reviews
from dueledger.reviews import of_flow
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import operations
from dueledger.service.routes.fields import PRINTABLE, NewestFirst, TenantPath
from dueledger.service.routes.operation_documents import OperationRequest
from dueledger.time_spans import about

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

EXAMINED_MAX: Final = 1_000
"""Parked items that are grouped; more are shown as this number and +."""
PREVIEW_EXAMINED_MAX: Final = 100_000
PREVIEW_COUNTED_MAX: Final = 10_000
SHOWN_MAX: Final = 5
"""Rows of a list that has a page of its own."""
CONFIRM_ABOVE: Final = 100
"""Items above which their number is typed, before they end without being done."""
_REASON_CHARS_MAX: Final = 2_000
VERB_TEXTS: Final = {
    OperationVerb.REDRIVE: (
        "Redrive",
        "They start again: they are available now, and their attempts start at zero.",
    ),
    OperationVerb.WRITE_OFF: ("Write off", "They end without being done."),
    OperationVerb.CANCEL: ("Cancel", "They end."),
}
"""What may be decided about all parked items of a group."""
ParkedReason = Annotated[
    str | None, Query(max_length=_REASON_CHARS_MAX, pattern=PRINTABLE), BeforeValidator(blank)
]


class OperationForm(OperationRequest):
    """An operation, the number of items that the page showed, and the number that was typed."""

    default_lane: bool = False
    shown: Annotated[int, Field(ge=0)]
    typed: str | None = None


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
    repairs: Sequence[Row] | None = None
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


@operate.page("/reviews/{tenant}/decide")
async def preview_decision(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    *,
    verb: OperationVerb = OperationVerb.REDRIVE,
    kind: Filter = None,
    lane: Filter = None,
    default_lane: bool = False,
    parked_reason: ParkedReason = None,
    error: Filter = None,
) -> Response:
    """Show which items an operation would move now. It changes nothing."""
    wanted = ItemFilter(tenant, kind, "" if default_lane else lane, parked_reason, error)
    groups = await group_reviews(
        call.connection, tenants=call.tenants, tenant=tenant, kind=kind, examined_max=EXAMINED_MAX
    )
    found = await preview_operation(
        call.connection,
        verb,
        wanted,
        examined_max=PREVIEW_EXAMINED_MAX,
        counted_max=PREVIEW_COUNTED_MAX,
    )
    seconds = await estimate_seconds(call.connection, verb, tenant, found.items)
    fields = {
        "kind": kind,
        "lane": lane,
        "default_lane": default_lane or None,
        "parked_reason": parked_reason,
        "error": error,
    }
    people = await _people(call, wanted, groups, fields)
    return view.page(
        "decide.html",
        title="Decide about parked items",
        tenant=tenant,
        verb=verb,
        verbs=[(each, words) for each, (words, _) in VERB_TEXTS.items()],
        words=VERB_TEXTS.get(verb, (verb.replace("_", " ").capitalize(), "")),
        fields=fields,
        preview=found,
        takes=None if seconds is None else about(timedelta(seconds=seconds)),
        left=_count_left(groups, wanted),
        people=people,
        comments=None if people is None else people.comments,
        examined_max=EXAMINED_MAX,
        must_type=_must_type(verb, found.items),
        listing=Listing(
            caption="Items that match now",
            columns=_MATCHED_COLUMNS,
            rows=[
                {
                    "tenant": group.tenant,
                    "kind": group.kind,
                    "lane": group.lane,
                    "state": group.state,
                    "items": group.items,
                    "oldest_at": group.oldest_at,
                    "newest_at": group.newest_at,
                    "business_keys": ", ".join(group.business_keys),
                }
                for group in found.groups
            ],
            empty="No item matches now: somebody may have decided already.",
        ),
    )


@operate.action("/reviews/{tenant}/decide", "createOperation")
async def decide_about_all(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[OperationForm, Depends(form_of(OperationForm))],
) -> Response:
    """Record an operation on all items of the filter. Upkeep carries it out."""
    if _must_type(form.verb, form.shown) and form.typed != str(form.shown):
        problem = Problem("/typed", "", "it is not the number of items", f"{form.shown}")
        raise InvalidInput("Items would end without being done. Type their number.", [problem])
    asked = form.model_copy(update={"lane": ""}) if form.default_lane else form
    recorded = await operations.create(call, tenant, asked)
    operation_no = recorded.headers["Location"].rpartition("/")[2]
    return view.done("Recorded.", f"/reviews/operations/{operation_no}")


def _count_left(groups: Sequence[Row], wanted: ItemFilter) -> Counter[str]:
    """Count the parked items of the tenant and kind that the filter leaves alone, by the reason."""
    counts: Counter[str] = Counter()
    for row in groups:
        if why := _why_left(row, wanted):
            counts[why] += row["items"]
    return counts


async def _people(
    call: ApiCall, wanted: ItemFilter, groups: Sequence[Row], fields: Mapping[str, object]
) -> ReviewPeople | None:
    """Return who has taken the items of a filter that names their kind; None if none is parked."""
    matched = [row for row in groups if _why_left(row, wanted) is None]
    if wanted.tenant is None or wanted.kind is None or not matched:
        return None
    review = {
        "tenant": wanted.tenant,
        "items": sum(row["items"] for row in matched),
        "taken": sum(row["taken"] for row in matched),
        "taken_by": sorted({name for row in matched for name in row["taken_by"]}),
    }
    targets = of_flow(wanted.tenant, wanted.kind, wanted.lane)
    return people_of(call, review, fields, await read_comments(call, wanted.tenant, targets))


def _why_left(row: Row, wanted: ItemFilter) -> str | None:
    """Return why the filter leaves a group of parked items alone; None if it does not."""
    if wanted.lane not in {None, row["lane"]}:
        return "in another lane"
    if wanted.parked_reason not in {None, row["reason"]}:
        return "parked for another reason"
    if wanted.error not in {None, row["error"]}:
        return "with another last error"
    return None


def _must_type(verb: OperationVerb, items: int) -> bool:
    return items > CONFIRM_ABOVE and verb is not OperationVerb.REDRIVE


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


_MATCHED_COLUMNS: Final[Sequence[Column]] = (
    Column("kind", "Flow", "flow"),
    Column("state", "State", "state"),
    Column("items", "Items", "count"),
    Column("oldest_at", "Since", "time"),
    Column("newest_at", "Last", "time"),
    Column("business_keys", "First keys", "prose"),
)
