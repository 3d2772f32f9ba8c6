"""Flows: what each owes and what limits it; pauses and limits, and who changed them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Response
from pydantic import BaseModel, Json

from dueledger.console.forms import Filter, form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.flow_status import code_of, slowed_text
from dueledger.hindrance_texts import TEXTS
from dueledger.ledger.flow_bounds import CLEARABLE_LIMITS, FLOW_BOUNDS, WHOLE_LIMITS
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import list_target_audit
from dueledger.ledger.store.flows import (
    FlowPlace,
    FlowScope,
    list_flows,
    list_pauses,
    read_status,
)
from dueledger.ledger.store.overview import list_flow_rates
from dueledger.ledger.store.processes import read_roles
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import flows
from dueledger.service.routes.fields import KindPath, Lane, Name, Reason, TenantPath, Text
from dueledger.service.routes.flows import FlowLimitsChange, FlowsPauseRequest, FlowsRequest

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

COUNTED_MAX: Final = 1_000
"""Items counted of a flow; more are shown as this number and +."""
PAUSES_MAX: Final = 50
CHANGES_MAX: Final = 20
LIMIT_WORDS: Final = {
    "weight": "Weight among flows",
    "rate_per_second": "Items per second",
    "concurrency_max": "Items in flight",
    "window_items": "Items handed out and not started",
    "retry_share": "Share of a claim for retries",
    "circuit_failure_ratio": "Share of failures that opens the circuit",
    "circuit_calls_min": "Outcomes before it may open",
    "circuit_window_seconds": "Seconds over which they count",
    "circuit_rest_seconds": "Seconds until a probe",
    "lag_target_seconds": "Lag in seconds above which floods of other flows slow down",
}
OPERATION_WORDS: Final = {
    "pauseFlows": "Paused",
    "resumeFlows": "Resumed",
    "setFlowLimits": "Limits set",
}
_WIDTHS: Final = {"lane": "this flow", "kind": "the kind, every lane", "tenant": "the tenant"}
"""What a pause may cover."""


class FlowPauseForm(BaseModel):
    """What to pause: the flow, its kind or its tenant; and why."""

    over: Literal["lane", "kind", "tenant"]
    kind: Name
    lane: Lane = ""
    reason: Reason


class FlowResumeForm(BaseModel):
    """Which pause ends, and why. `of_kind` and `of_lane` are its own, absent where it has none."""

    kind: Name
    lane: Lane = ""
    of_kind: Name | None = None
    of_lane: Lane | None = None
    of_default_lane: bool = False
    reason: Reason


class FlowLimitsForm(BaseModel):
    """The limits as they were typed, as they were shown, and why they change."""

    lane: Lane = ""
    shown: Json[dict[str, float | None]]
    weight: float | None = None
    rate_per_second: float | None = None
    concurrency_max: float | None = None
    window_items: float | None = None
    retry_share: float | None = None
    circuit_failure_ratio: float | None = None
    circuit_calls_min: float | None = None
    circuit_window_seconds: float | None = None
    circuit_rest_seconds: float | None = None
    lag_target_seconds: float | None = None
    reason: Reason


@read.page("/flows")
async def list_all(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    lane: Filter = None,
) -> Response:
    """List flows with what waits, what limits them, and the pauses in force."""
    rows = await list_flows(
        call.connection,
        tenant=tenant,
        kind=kind,
        lane=lane,
        limit=page.rows_max,
        tenants=call.tenants,
        after=page.place(FlowPlace, str, str, str),
        count_max=COUNTED_MAX,
    )
    shown = rows[: page.limit]
    rates = await _rates(call, [(row["tenant"], row["kind"], row["lane"]) for row in shown])
    pauses = await list_pauses(call.connection, tenant, tenants=call.tenants, limit=PAUSES_MAX)
    return view.page(
        "flows.html",
        title="Flows",
        filters={"tenant": tenant or "", "kind": kind or "", "lane": lane or ""},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or lane),
        pauses=Listing(
            caption="Pauses in force",
            order="oldest first",
            columns=_PAUSE_COLUMNS,
            rows=pauses,
            empty="Nothing is paused. A flow is paused on its own page.",
        ),
        listing=Listing(
            caption="Flows",
            order="by tenant, kind and lane",
            columns=_columns(view),
            rows=[
                {**row, "status": status_of(row), "throughput": rate}
                for row, rate in zip(shown, rates, strict=True)
            ],
            empty="There is no flow yet. The first item of a kind makes one: `dueledger emit`.",
            next_cursor=page.cursor_of(rows, "tenant", "kind", "lane"),
        ),
    )


@read.page("/flows/{tenant}/{kind}")
async def show_flow(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    kind: KindPath,
    lane: Annotated[str, Text] = "",
) -> Response:
    """Show a flow: what hinders it, its limits, its pauses, and who changed them."""
    flow = await flows.find_flow(call, tenant, kind, lane, count_max=COUNTED_MAX)
    pauses = [
        each
        for each in await list_pauses(call.connection, tenant, limit=PAUSES_MAX)
        if each["kind"] in {None, kind} and each["lane"] in {None, lane}
    ]
    changes: Listing | None = None
    if view.may(Scope.AUDIT):
        changes = await _changes(call, FlowScope(tenant, kind, lane))
    hindrance, oldest_due_at = await _hindrance(call, tenant, kind, lane)
    return view.page(
        "flow.html",
        title=" ".join(filter(None, (tenant, kind, lane))),
        flow=flow,
        status=status_of(flow),
        slowed=slowed_text(flow),
        throughput=(await _rates(call, [(tenant, kind, lane)]))[0],
        hindrance=hindrance,
        oldest_due_at=oldest_due_at,
        pauses=pauses,
        limits=[
            (name, words, flow[name], FLOW_BOUNDS[name], name in CLEARABLE_LIMITS)
            for name, words in LIMIT_WORDS.items()
        ],
        shown={name: flow[name] for name in LIMIT_WORDS},
        whole=WHOLE_LIMITS,
        widths=_WIDTHS,
        items=partial(_items, view, flow),
        retrying=State.RETRYABLE_FAILURE.label,
        changes=changes,
    )


@operate.action("/flows/{tenant}/pause", "pauseFlows")
async def pause(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[FlowPauseForm, Depends(form_of(FlowPauseForm))],
) -> Response:
    """Stop claims of the flow, its kind or its tenant."""
    asked = FlowsPauseRequest(
        kind=None if form.over == "tenant" else form.kind,
        lane=form.lane if form.over == "lane" else None,
        reason=form.reason,
    )
    await flows.pause(call, tenant, asked)
    return _done(view, "Paused.", tenant, form.kind, form.lane)


@operate.action("/flows/{tenant}/resume", "resumeFlows")
async def resume(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[FlowResumeForm, Depends(form_of(FlowResumeForm))],
) -> Response:
    """End a pause, and all narrower ones in it."""
    lane = "" if form.of_default_lane else form.of_lane
    await flows.resume(call, tenant, FlowsRequest(kind=form.of_kind, lane=lane))
    return _done(view, "Resumed.", tenant, form.kind, form.lane)


@operate.action("/flows/{tenant}/{kind}/limits", "setFlowLimits")
async def set_limits(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    kind: KindPath,
    form: Annotated[FlowLimitsForm, Depends(form_of(FlowLimitsForm))],
) -> Response:
    """Change the limits that were typed otherwise than they were shown."""
    typed = form.model_dump(include=set(LIMIT_WORDS))
    changed = {name: value for name, value in typed.items() if value != form.shown.get(name)}
    await flows.change_limits(call, tenant, kind, FlowLimitsChange(lane=form.lane, **changed))
    return _done(view, "Changed, from the next claim on.", tenant, kind, form.lane)


def status_of(flow: Mapping[str, Any]) -> str:
    """Return in one word whether items of a flow are claimed."""
    if flow["paused_at"] is not None:
        return "paused"
    match flow["circuit"]:
        case "open":
            return "circuit_open"
        case "half_open":
            return "circuit_half_open"
        case _:
            return "ready"


async def _hindrance(
    call: ApiCall, tenant: str, kind: str, lane: str
) -> tuple[str | None, datetime | None]:
    """Return what hinders the items of a flow, in a sentence, and when the oldest one was due.

    None: it has none that are open, or due.
    """
    rows = await read_status(
        call.connection, tenant=tenant, kind=kind, lane=lane, limit=1, count_max=COUNTED_MAX
    )
    if not rows:
        return None, None
    code = code_of(rows[0], await read_roles(call.connection))
    return TEXTS[code].of_flow, rows[0]["oldest_due_at"]


async def _rates(call: ApiCall, flows: Sequence[tuple[str, str, str]]) -> list[float | None]:
    """Return how many items of each flow ended a second, in the last minutes."""
    found = await list_flow_rates(call.connection, flows)
    return [None if rate is None else float(f"{rate:.3g}") for rate in found]


async def _changes(call: ApiCall, scope: FlowScope) -> Listing:
    wider = (FlowScope(scope.tenant), FlowScope(scope.tenant, scope.kind), scope)
    rows = await list_target_audit(
        call.connection, [each.path for each in wider], CHANGES_MAX, tenants=call.tenants
    )
    return Listing(
        caption="Who changed what",
        order="newest first",
        columns=_CHANGE_COLUMNS,
        rows=[
            {
                **row,
                "operation": OPERATION_WORDS.get(row["operation"], row["operation"]),
                "detail": _written(row["detail"]),
            }
            for row in rows
        ],
        empty="No changes yet. Pauses, resumes and changes of limits are listed here.",
    )


def _written(detail: Mapping[str, Any] | None) -> str | None:
    if not detail:
        return None
    return ", ".join(
        f"{LIMIT_WORDS.get(name, name)}: {'none' if value is None else value}"
        for name, value in detail.items()
    )


def _done(view: View, notice: str, tenant: str, kind: str, lane: str) -> Response:
    return view.done(notice, f"/flows/{tenant}/{kind}", lane=lane or None)


def _items(view: View, row: Row, **filters: object) -> str:
    lane = {"lane": row["lane"]} if row["lane"] else {"default_lane": True}
    return view.url("/items", tenant=row["tenant"], kind=row["kind"], **lane, **filters)


def _columns(view: View) -> list[Column]:
    def show(row: Row) -> str:
        return view.url(f"/flows/{row['tenant']}/{row['kind']}", lane=row["lane"] or None)

    def due(row: Row) -> str:
        return _items(view, row, open=True, due_before=view.clock.now)

    def retrying(row: Row) -> str:
        return _items(view, row, state=State.RETRYABLE_FAILURE.label)

    return [
        Column("kind", "Flow", "flow", show),
        Column("status", "Status", "status"),
        Column("due", "Due", "count", due, "due_capped"),
        Column("available_since", "Waiting since", "time"),
        Column("later", "Later", "count", None, "later_capped"),
        Column("retries", "Retrying", "count", retrying, "retries_capped"),
        Column("serial", "In order", "count", None, "serial_capped"),
        Column("in_flight", "In flight", "count"),
        Column("concurrency_max", "In-flight limit", "count"),
        Column("throughput", "Ended/s", "count"),
        Column("rate_per_second", "Rate limit/s", "count"),
        Column("window_items", "Window", "count"),
    ]


_PAUSE_COLUMNS: Final[Sequence[Column]] = (
    Column("tenant", "Tenant"),
    Column("kind", "Kind"),
    Column("lane", "Lane"),
    Column("paused_at", "Since", "time"),
    Column("paused_by", "By"),
    Column("reason", "Reason", "prose"),
)
_CHANGE_COLUMNS: Final[Sequence[Column]] = (
    Column("at", "When", "time"),
    Column("actor", "Who"),
    Column("operation", "What"),
    Column("detail", "To", "prose"),
    Column("reason", "Why", "prose"),
    Column("target", "Target", "code"),
)
