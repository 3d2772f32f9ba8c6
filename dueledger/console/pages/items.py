"""Items: found by key or id or by filters, and each with its history and why it waits."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query, Response
from pydantic import BaseModel, BeforeValidator

from dueledger.audited_changes import decision_detail
from dueledger.console.back import Back, back_link, back_to
from dueledger.console.clock import NEVER
from dueledger.console.forms import Filter, Moment, blank, form_of, in_zone, minutes
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.operation_preview import bulk_action
from dueledger.console.pages.taken_reviews import ReviewPeople, people_of, read_comments
from dueledger.console.suggestions import suggest_item_names
from dueledger.console.timeline import CAUSES, ended_after_due, timeline_of
from dueledger.console.view import CurrentView, View, redirect
from dueledger.decisions import decide_for_tenant
from dueledger.hindrance_texts import Hindrance
from dueledger.items import explain_item, lists_open_items, of_definition, read_item
from dueledger.lateness import LATENESS_READ, WORST, lateness_bars
from dueledger.ledger.errors import Conflict
from dueledger.ledger.item_verbs import OperationVerb, refusal
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import list_findings_of_item
from dueledger.ledger.store.flows import list_pauses
from dueledger.ledger.store.item_lists import DuePlace, ItemListFilter
from dueledger.ledger.store.items import RequestResult
from dueledger.ledger.store.operations import find_operation_of_item, show_operation
from dueledger.reviews import of_flow, of_item
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import OldestFirst, Reason
from dueledger.service.routes.items import (
    STEP_KEYS,
    AttemptMin,
    VersionFilter,
    find_page,
    read_steps,
)

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

_STATE_OF: Final = {state.label: state for state in State}
_VERB_TEXTS: Final = {
    OperationVerb.TRIGGER: ("Start now", "It is available now; its due time stays."),
    OperationVerb.PARK: ("Park", "It waits for a person."),
    OperationVerb.REDRIVE: (
        "Redrive",
        "It starts again: it is available now, and its attempts start at zero.",
    ),
    OperationVerb.WRITE_OFF: ("Write off", "It ends without being done."),
    OperationVerb.SNOOZE: (
        "Snooze",
        "It is not handed out before then; its due time stays, so that it may become late.",
    ),
    OperationVerb.CANCEL: ("Cancel", "It ends; one that is handed out ends at its next start."),
}
_ENDED_BY_VERB: Final = frozenset(
    {
        *(Hindrance.NOT_DUE, Hindrance.RETRY, Hindrance.SNOOZED, Hindrance.PUT_OFF),
        *(Hindrance.RELEASED, Hindrance.EXPIRED, Hindrance.PARKED),
    }
)
"""Hindrances that the first verb of the state ends."""
_OF_FLOW: Final = frozenset(
    {
        *(Hindrance.PAUSED, Hindrance.CIRCUIT_OPEN, Hindrance.CIRCUIT_PROBING),
        *(Hindrance.CONCURRENCY, Hindrance.RATE, Hindrance.WINDOW, Hindrance.SILENT_CONSUMER),
    }
)
"""Hindrances that the page of the flow ends, or explains."""
_OF_OPERATION: Final = frozenset(
    {
        *(Hindrance.OPERATION_RUNS, Hindrance.OPERATION_WAITS),
        *(Hindrance.OPERATION_PAUSED, Hindrance.OPERATION_UNAPPROVED),
    }
)
"""Hindrances that the page of the operation ends, or explains."""
_STATES: Final = tuple(_STATE_OF)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PAUSED: Final = {None, State.SCHEDULED.label, State.RETRYABLE_FAILURE.label}
"""States of items that a pause concerns, as a filter has them."""
_PAUSES_SHOWN: Final = 3
_FINDINGS_SHOWN: Final = 10
_CAUSE_CHARS_MAX: Final = 300
"""Of an error, a message or a reason beside its step; all of it is in the detail."""


class ItemDecisionForm(BaseModel):
    """What a person decides about one item, and why. `until` is of snooze.

    `back` is the list that is shown next; without it, the item is.
    """

    back: Back = None
    verb: OperationVerb
    until: Moment = None
    reason: Reason


@read.page("/items")
async def list_items(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    q: Annotated[Filter, Query(description="a business key, or the id of an item")] = None,
    tenant: Filter = None,
    kind: Filter = None,
    lane: Filter = None,
    state: Filter = None,
    due_from: Moment = None,
    due_before: Moment = None,
    late: bool = False,
    is_open: Annotated[bool, Query(alias="open")] = False,
    in_flight: bool = False,
    default_lane: Annotated[bool, Query(description="only the default lane")] = False,
    attempt_min: Annotated[AttemptMin, BeforeValidator(blank)] = None,
    worker: Filter = None,
    definition: Filter = None,
    definition_version: Annotated[VersionFilter, BeforeValidator(blank)] = None,
    serial: bool = False,
    blocked: bool = False,
    oldest_first: OldestFirst = False,
) -> Response:
    """List items of a filter, or lead to the one that is named."""
    named = (q or "").strip()
    if _UUID.fullmatch(named):
        return redirect(view.url(f"/items/{named.lower()}"))
    wanted = ItemListFilter(
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        lane="" if default_lane else lane,
        business_key=named or None,
        state=state,
        due_from=in_zone(due_from, view.clock.zone),
        due_before=in_zone(due_before, view.clock.zone),
        in_flight=in_flight,
        attempt_min=attempt_min,
        worker=worker,
        serial=serial,
        blocked=blocked,
    )
    wanted = await of_definition(call.connection, wanted, definition, definition_version)
    # The first page of late items has a histogram of more than it lists.
    has_bars = late and page.cursor is None and view.format == "html"
    read_page = replace(page, limit=max(page.limit, LATENESS_READ)) if has_bars else page
    found = await find_page(
        call, read_page, wanted, late=late, is_open=is_open, oldest_first=oldest_first
    )
    by_due_time = lists_open_items(wanted, late=late, is_open=is_open)
    items, next_place = found.items[: page.limit], found.next_place
    if len(found.items) > page.limit:
        next_place = DuePlace(items[-1]["due_at"], items[-1]["item_no"])
    if named and len(found.items) == 1 and page.cursor is None and view.format == "html":
        return redirect(view.url(f"/items/{found.items[0]['id']}"))
    query = view.request.query_params
    filters = {
        "q": named,
        "tenant": tenant or "",
        "kind": kind or "",
        "lane": lane or "",
        "state": state or "",
        "due_from": minutes(query.get("due_from", "")),
        "due_before": minutes(query.get("due_before", "")),
        "late": late,
        "open": is_open,
        "in_flight": in_flight,
        "default_lane": default_lane,
        "attempt_min": attempt_min or "",
        "worker": worker or "",
        "definition": definition or "",
        "definition_version": definition_version or "",
        "serial": serial,
        "blocked": blocked,
    }
    return view.page(
        "items.html",
        title="Items",
        filters=filters,
        oldest_first=oldest_first,
        names=await suggest_item_names(call),
        is_filtered=any(filters.values()),
        bulk=bulk_action(view, wanted, filters)
        if view.may(Scope.OPERATE) and any(filters.values()) and items
        else None,
        states=_STATES,
        pauses=await _pauses(call, wanted, is_waiting=late or is_open),
        pauses_shown=_PAUSES_SHOWN,
        lateness=lateness_bars(found.items, view.clock.now)
        if has_bars and found.items and view.clock.now is not None
        else None,
        lateness_items=len(found.items),
        lateness_is_cut=found.next_place is not None or found.is_cut,
        worst=WORST,
        listing=Listing(
            caption="Late items" if late else "Items",
            order="first due first"
            if by_due_time
            else f"{'earliest' if oldest_first else 'latest'} effective date first",
            turns=None if by_due_time else ("effective_date", "oldest_first", oldest_first),
            columns=_columns(view),
            rows=items,
            empty="There is no item yet. `dueledger emit` makes one, a schedule many.",
            filters=tuple(filters),
            unmatched=_unmatched(filters),
            note="Open items may be missing: a flow has more than are read at a time."
            if found.is_cut
            else None,
            next_cursor=page.cursor_after(next_place),
        ),
    )


@read.page("/items/{item}")
async def show_item(
    call: CurrentCall, view: CurrentView, page: CurrentPage, item: UUID, *, back: Back = None
) -> Response:
    """Show an item: why it is as it is, what is owed, and what happened."""
    found = await read_item(call.connection, item, call.tenants)
    steps = await read_steps(call, page, item)
    refusals = _refusals(found) if view.may(Scope.OPERATE) else {}
    verbs = [verb for verb, why in refusals.items() if why is None]
    why = await explain_item(call.connection, found, call.tenants, at=view.clock.exact)
    people = await _people(call, found, back)
    return view.page(
        "item.html",
        title=found["business_key"],
        back=back_link(back),
        item=found,
        why=why,
        lead=await _lead(call, view, found, why),
        remedy=verbs[0] if verbs and why["code"] in _ENDED_BY_VERB else None,
        flow=_flow(view, found),
        never=NEVER,
        cause_max=_CAUSE_CHARS_MAX,
        causes=CAUSES,
        after_due=ended_after_due(found),
        steps=timeline_of(steps[: page.limit], found["due_at"]),
        next_cursor=page.cursor_of(steps, *STEP_KEYS),
        verbs=[(verb, *_VERB_TEXTS[verb]) for verb in verbs],
        refused=[(_VERB_TEXTS[verb][0], why) for verb, why in refusals.items() if why is not None],
        findings=await _findings(call, view, item),
        people=people,
        comments=None if people is None else people.comments,
    )


@operate.action("/items/{item}/decide", "decideItems", "items/{item}")
async def decide(
    call: CurrentCall,
    view: CurrentView,
    item: UUID,
    form: Annotated[ItemDecisionForm, Depends(form_of(ItemDecisionForm))],
) -> Response:
    """Redrive, write off, park, snooze, cancel or trigger the item."""
    found = await read_item(call.connection, item, call.tenants)
    until = in_zone(form.until, view.clock.zone)
    [decided] = await decide_for_tenant(
        call.connection,
        form.verb,
        [item],
        tenant=found["tenant"],
        reason=form.reason,
        actor_no=call.caller.actor_no,
        until=until,
    )
    call.note_change(tenants=[found["tenant"]], **decision_detail(form.verb, [decided], until))
    words = _VERB_TEXTS[form.verb][0]
    if decided.reason is not None:
        message = f"{words}: {decided.reason}. Nothing was changed."
        raise Conflict(message, item=str(item))
    said = "Requested" if decided.result is RequestResult.REQUESTED else "Done"
    if form.back is not None:
        return view.done(f"{said}: {words.lower()} {found['business_key']}.", form.back)
    return view.done(f"{said}: {words.lower()}.", f"/items/{item}")


def _refusals(item: Row) -> dict[OperationVerb, str | None]:
    """Return why each verb is not applied to an item as it is now; None for those that are."""
    waits_for_key = item["available_at"] == NEVER
    return {
        verb: refusal(verb, _STATE_OF[item["state"]], waits_for_key=waits_for_key)
        for verb in OperationVerb
    }


def _flow(view: View, item: Row) -> str:
    return view.url(f"/flows/{item['tenant']}/{item['kind']}", lane=item["lane"] or None)


async def _lead(
    call: ApiCall, view: View, item: Row, why: Mapping[str, object]
) -> tuple[str, str] | None:
    """Return the words and the address of the page for what hinders an item; None without one."""
    if why["behind"] is not None:
        return "Open the item before it", view.url(f"/items/{why['behind']}")
    if why["code"] in _OF_OPERATION:
        return await _lead_to_operation(call, view, item)
    return ("Open the flow", _flow(view, item)) if why["code"] in _OF_FLOW else None


async def _lead_to_operation(call: ApiCall, view: View, item: Row) -> tuple[str, str] | None:
    """Return the words and the address of the operation that is to change an item.

    None if that has ended, or is none of the caller's tenants.
    """
    found = await find_operation_of_item(call.connection, item["item_no"])
    if found is None:
        return None
    number = found.operation_no
    if await show_operation(call.connection, number, tenants=call.tenants) is None:
        return None
    return "Open the operation", view.url(f"/reviews/operations/{number}")


async def _findings(call: ApiCall, view: View, item: UUID) -> Listing | None:
    """Return the newest findings of an item and what becomes of them; None if not for the key."""
    if not view.may(Scope.AUDIT):
        return None

    def show(row: Row) -> str:
        return view.url(f"/reconciliation/findings/{row['id']}")

    rows = await list_findings_of_item(
        call.connection, item, _FINDINGS_SHOWN + 1, tenants=call.tenants
    )
    return Listing(
        caption="Findings",
        order="newest first",
        columns=(
            Column("type", "Type", "text", show),
            Column("sentence", "What is wrong", "prose"),
            Column("resolution", "Resolution", "status"),
            Column("action", "Repair", "word"),
            Column("repair_status", "Status", "status"),
            Column("first_seen_at", "Found", "time"),
        ),
        rows=rows[:_FINDINGS_SHOWN],
        empty="",
        note=f"The {_FINDINGS_SHOWN} newest." if len(rows) > _FINDINGS_SHOWN else None,
    )


async def _people(call: ApiCall, item: Row, back: Back) -> ReviewPeople | None:
    """Return who has taken an item, and the comments on it and its flow; None unless it is parked.

    Those on an item that was parked before stay in the audit.
    """
    if item["state"] != State.MANUAL_REVIEW.label:
        return None
    tenant, names = item["tenant"], [item["taken_by"]] if item["taken_by"] else []
    review = {
        "tenant": tenant,
        "items": 1,
        "taken": len(names),
        "taken_by": names,
        "taken_at": item["taken_at"],
    }
    targets = [of_item(item["id"]), *of_flow(tenant, item["kind"], item["lane"])]
    comments = await read_comments(call, tenant, targets)
    return people_of(call, review, {"item": item["id"], "back": back}, comments)


async def _pauses(
    call: ApiCall, wanted: ItemListFilter, *, is_waiting: bool
) -> list[dict[str, Any]]:
    """Return the pauses of what a filter lists, if it lists what waits of something."""
    is_narrow = is_waiting or (wanted.tenant, wanted.kind, wanted.lane) != (None, None, None)
    if wanted.state not in _PAUSED or wanted.in_flight or not is_narrow:
        return []
    return await list_pauses(
        call.connection,
        wanted.tenant,
        tenants=call.tenants,
        kind=wanted.kind,
        lane=wanted.lane,
        limit=_PAUSES_SHOWN + 1,
    )


def _columns(view: View) -> list[Column]:
    back = back_to(view)

    def address(row: Row) -> str:
        return view.url(f"/items/{row['id']}", back=back)

    return [
        Column("business_key", "Business key", "text", address),
        Column("state", "State", "state"),
        Column("kind", "Flow", "flow"),
        Column("due_at", "Due", "time"),
        Column("effective_date", "Effective date", "date"),
        Column("cycle", "Cycle"),
        Column("attempt", "Attempt", "count"),
        Column("ended_at", "Ended", "time"),
    ]


def _unmatched(filters: dict[str, Any]) -> str:
    if filters["q"]:
        return f"No item has the business key {filters['q']}, with these filters."
    if filters["late"]:
        is_alone = [name for name, value in filters.items() if value] == ["late"]
        return "No item is late." if is_alone else "No item that matches the filter is late."
    return "No item matches the filter."
