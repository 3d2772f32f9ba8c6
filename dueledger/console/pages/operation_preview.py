"""Decisions about all items of a filter: which they are now, and the operation that is recorded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Query, Response
from pydantic import BeforeValidator, Field

from dueledger.console.forms import Filter, Moment, blank, form_of, in_zone
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.flow_pauses import covering_pauses
from dueledger.console.pages.reviews import EXAMINED_MAX, SHOWN_MAX
from dueledger.console.pages.taken_reviews import ReviewPeople, people_of, read_comments
from dueledger.console.typed_numbers import require_typed, typed_pattern
from dueledger.console.view import CurrentView, View
from dueledger.ledger.item_verbs import VERB_STATES, OperationVerb
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.item_lists import ItemListFilter
from dueledger.ledger.store.operations import (
    STATES,
    ItemFilter,
    OperationPreview,
    estimate_seconds,
    preview_operation,
)
from dueledger.ledger.store.reviews import group_reviews
from dueledger.left_alone import (
    FULL,
    PreviewLimits,
    count_left_alone,
    preview_moved,
    preview_open_items,
)
from dueledger.reviews import of_flow
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes import operations
from dueledger.service.routes.fields import PRINTABLE, TenantPath
from dueledger.service.routes.operation_documents import STATE_PATTERN, OperationRequest
from dueledger.time_spans import about

operate = PageRoutes(Scope.OPERATE, "console")


QUICK: Final = PreviewLimits(examined_max=1_000, counted_max=500)
"""What a page counts in some milliseconds."""
KEYS_SHOWN: Final = 20
"""Business keys of each flow and state that `preview_operation` returns."""
CONFIRM_ABOVE: Final = 100
"""Items above which their number is typed, before they end undone or start before they are due."""
_REASON_CHARS_MAX: Final = 2_000
VERB_TEXTS: Final = {
    OperationVerb.TRIGGER: ("Start now", "They are available now; their due times stay."),
    OperationVerb.PARK: ("Park", "They wait for a person."),
    OperationVerb.REDRIVE: (
        "Redrive",
        "They start again: they are available now, and their attempts start at zero.",
    ),
    OperationVerb.WRITE_OFF: ("Write off", "They end without being done."),
    OperationVerb.SNOOZE: (
        "Snooze",
        (
            "None is handed out before the time below; those that wait longer anyway stay as they"
            " are. Due times stay, so items may become late."
        ),
    ),
    OperationVerb.CANCEL: ("Cancel", "They end."),
}
"""What may be decided about all items of a filter."""
_CONFIRMED: Final = {
    OperationVerb.TRIGGER: "Items would start before they are due. Type their number.",
    OperationVerb.WRITE_OFF: "Items would end without being done. Type their number.",
    OperationVerb.CANCEL: "Items would end without being done. Type their number.",
}
_BEYOND: Final = {
    "q": "Business key",
    "late": "Late",
    "in_flight": "In flight",
    "serial": "In key order",
    "blocked": "Blocked",
    "attempt_min": "Attempts",
    "worker": "Worker",
    "definition": "Definition",
    "definition_version": "Version",
}
"""What a list of items may be filtered by and an operation is not."""
_NEEDED: Final = {"tenant": "a tenant", "kind": "a kind"}
_STATE_OF: Final = {state.label: state for state in State}
ParkedReason = Annotated[
    str | None, Query(max_length=_REASON_CHARS_MAX, pattern=PRINTABLE), BeforeValidator(blank)
]

FilterState = Annotated[str | None, Query(pattern=STATE_PATTERN), BeforeValidator(blank)]


class OperationForm(OperationRequest):
    """An operation, the number of items that the page showed, and the number that was typed."""

    default_lane: bool = False
    until: Moment = None
    shown: Annotated[int, Field(ge=0)]
    typed: str | None = None


class BulkAction(NamedTuple):
    """What leads from a list of items to a decision about all of them: a link, or why not."""

    address: str | None
    sentence: str | None


def bulk_action(view: View, wanted: ItemListFilter, filters: Mapping[str, Any]) -> BulkAction:
    """Return the link by which a list of items is decided about, or what its filter has to be."""
    state = _STATE_OF.get(wanted.state or "")
    if wanted.is_ended:
        return BulkAction(None, "Items that have ended stay as they are.")
    beyond = [words for name, words in _BEYOND.items() if filters[name]]
    if state is not None and state not in STATES:
        beyond.append("State")
    if beyond:
        words = ", ".join(beyond)
        return BulkAction(
            None,
            f"To act on all that match, remove {words}: an operation takes items by tenant, kind,"
            " lane, due time, and a state in which they are not handed out.",
        )
    absent = [words for name, words in _NEEDED.items() if not filters[name]]
    if absent:
        return BulkAction(None, f"To act on all that match, choose {' and '.join(absent)}.")
    address = view.url(
        f"/reviews/{filters['tenant']}/decide",
        kind=filters["kind"],
        lane=filters["lane"] or None,
        default_lane=True if filters["default_lane"] else None,
        state=wanted.state,
        due_from=wanted.due_from and wanted.due_from.isoformat(),
        due_before=wanted.due_before and wanted.due_before.isoformat(),
    )
    return BulkAction(address, None)


@operate.page("/reviews/{tenant}/decide")
async def preview_decision(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    *,
    verb: OperationVerb | None = None,
    kind: Filter = None,
    lane: Filter = None,
    default_lane: bool = False,
    parked_reason: ParkedReason = None,
    error: Filter = None,
    state: FilterState = None,
    due_from: Moment = None,
    due_before: Moment = None,
    count: bool = False,
) -> Response:
    """Show which items an operation would move now. It changes nothing.

    `count`: beyond the first ones, where they are many.
    """
    limits = FULL if count else QUICK
    wanted = ItemFilter(
        tenant,
        kind,
        "" if default_lane else lane,
        parked_reason,
        error,
        state=None if state is None else _STATE_OF[state],
        due_from=in_zone(due_from, view.clock.zone),
        due_before=in_zone(due_before, view.clock.zone),
    )
    is_parked = parked_reason is not None
    verbs = _verbs_of(State.MANUAL_REVIEW if is_parked else wanted.state)
    verb, found, open_items = await _first_moving(call, [verb] if verb else verbs, wanted, limits)
    seconds = await estimate_seconds(call.connection, verb, tenant, found.items)
    must_type = _must_type(verb, found.items)
    fields = {
        "kind": kind,
        "lane": lane,
        "default_lane": default_lane or None,
        "parked_reason": parked_reason,
        "error": error,
        "state": state,
        "due_from": wanted.due_from and wanted.due_from.isoformat(),
        "due_before": wanted.due_before and wanted.due_before.isoformat(),
    }
    groups, people = [], None
    is_narrow = (state, wanted.due_from, wanted.due_before) != (None, None, None)
    if State.MANUAL_REVIEW in VERB_STATES[verb] and not is_narrow:
        groups = await group_reviews(
            call.connection,
            tenants=call.tenants,
            tenant=tenant,
            kind=kind,
            examined_max=EXAMINED_MAX,
        )
        people = await _people(call, wanted, groups, fields)
    rows: list[dict[str, Any]] = [
        {
            "tenant": group.tenant,
            "kind": group.kind,
            "lane": group.lane,
            "state": group.state,
            "items": group.items,
            "oldest_at": group.oldest_at,
            "newest_at": group.newest_at,
            "business_keys": ", ".join(sorted(group.business_keys)),
        }
        for group in found.groups
    ]
    return view.page(
        "decide.html",
        title="Decide about items",
        tenant=tenant,
        pauses=await covering_pauses(call, tenant, rows),
        pauses_max=SHOWN_MAX,
        verb=verb,
        verbs=[(each, VERB_TEXTS[each][0]) for each in verbs],
        words=VERB_TEXTS[verb],
        fields=fields,
        wanted=wanted,
        is_parked=is_parked,
        ends_in_flight=verb is OperationVerb.CANCEL and not wanted.names_state,
        preview=found,
        takes=None if seconds is None else about(timedelta(seconds=seconds)),
        left=_count_left(groups, wanted),
        unmoved=None
        if is_parked or open_items is None
        else count_left_alone(verb, wanted, found, open_items),
        is_counted=count,
        may_count=found.capped and not count,
        is_approval_sure=verb is not OperationVerb.SNOOZE
        and (count or found.items > (found.approval_above or 0)),
        people=people,
        comments=None if people is None else people.comments,
        examined_max=EXAMINED_MAX,
        must_type=must_type,
        typed_pattern=typed_pattern(found.items),
        must_count=must_type and found.capped and not count,
        listing=Listing(
            caption="Items that match now",
            columns=_MATCHED_COLUMNS,
            rows=rows,
            empty="No item matches now: somebody may have decided already."
            if is_parked
            else "No item to which this is applied matches now.",
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
    if _must_type(form.verb, form.shown):
        require_typed(form.typed, form.shown, _CONFIRMED[form.verb])
    changes: dict[str, Any] = {"lane": ""} if form.default_lane else {}
    asked = form.model_copy(update={**changes, "until": in_zone(form.until, view.clock.zone)})
    operation_no = await operations.record(call, tenant, asked)
    return view.done("Recorded.", f"/reviews/operations/{operation_no}")


def _verbs_of(state: State | None) -> list[OperationVerb]:
    """Return the verbs that are applied to items of a state; of no state, all."""
    return [each for each in OperationVerb if state is None or state in VERB_STATES[each]]


async def _first_moving(
    call: ApiCall, verbs: Sequence[OperationVerb], wanted: ItemFilter, limits: PreviewLimits
) -> tuple[OperationVerb, OperationPreview, OperationPreview | None]:
    """Return the first verb that is applied to an item of a filter, to how many, and what is open.

    If none is, the first verb. Where a part of what the first verb moves is all that a page counts,
    what is open is not counted: another part of it would not say what the verb leaves alone.
    """
    connection, (first, *others) = call.connection, verbs
    if limits is QUICK:
        found = await preview_operation(connection, first, wanted, **limits._asdict())
        if found.capped and found.items:
            return first, found, None
        open_items = await preview_open_items(connection, wanted, limits)
    else:
        open_items = await preview_open_items(connection, wanted, limits)
        found = await preview_moved(connection, first, wanted, open_items, limits=limits)
    if found.items:
        return first, found, open_items
    for verb in others:
        if open_items.capped or open_items.states & VERB_STATES[verb]:
            moved = await preview_moved(connection, verb, wanted, open_items, limits=limits)
            if moved.items:
                return verb, moved, open_items
    return first, found, open_items


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
    return items > CONFIRM_ABOVE and verb in _CONFIRMED


_MATCHED_COLUMNS: Final[Sequence[Column]] = (
    Column("kind", "Flow", "flow"),
    Column("state", "State", "state"),
    Column("items", "Items", "count"),
    Column("oldest_at", "First entered its state", "time"),
    Column("newest_at", "Last entered its state", "time"),
    Column("business_keys", f"Business keys, at most {KEYS_SHOWN}", "prose"),
)
