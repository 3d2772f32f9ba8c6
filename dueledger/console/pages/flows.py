"""Flows: what each owes and what limits it; pauses and limits, and who changed them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Response
from pydantic import BaseModel, Json

from dueledger.console.audit_words import value_words
from dueledger.console.cells import count_of
from dueledger.console.flow_sentences import status_word
from dueledger.console.forms import Filter, Moment, form_of, in_zone, minutes
from dueledger.console.heat_strip import QUARTERS_TABLE, HeatStrip, list_quarters, make_strip
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.flow_pauses import (
    COUNTED_MAX,
    after_text,
    drain_text,
    fell_due,
    flow_page,
    pause_columns,
    pause_impacts,
    typed_impacts,
)
from dueledger.console.suggestions import suggest_names
from dueledger.console.typed_numbers import TypedNumber
from dueledger.console.view import CurrentView, View
from dueledger.flow_status import code_of, slowed_text
from dueledger.hindrance_texts import TEXTS, Hindrance
from dueledger.hindrances import Roles
from dueledger.ledger.flow_bounds import CLEARABLE_LIMITS, FLOW_BOUNDS, WHOLE_LIMITS
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import list_target_audit
from dueledger.ledger.store.flows import (
    SAMPLE_MAX,
    FlowPlace,
    FlowScope,
    find_flow_next_due,
    list_flows,
    list_pauses,
    read_status,
)
from dueledger.ledger.store.overview import list_flow_overview, read_overview_place
from dueledger.ledger.store.processes import read_roles
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import flows
from dueledger.service.routes.fields import KindPath, Lane, Reason, TenantPath, Text
from dueledger.service.routes.flow_counts import count_coming, flow_rates
from dueledger.service.routes.flow_documents import FlowLimitsChange

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

_FILTERS: Final = ("tenant", "kind", "lane")
PAUSES_MAX: Final = 50
CHANGES_MAX: Final = 20
LIMIT_WORDS: Final = {
    "weight": "Weight among flows",
    "rate_per_second": "Items per second",
    "concurrency_max": "Items in flight",
    "window_items": "Items handed out and not started",
    "retry_share": "Share of a claim for retries",
    "circuit_failure_ratio": "Share of failures that opens the circuit",
    "circuit_calls_min": "Outcomes needed before the circuit may open",
    "circuit_window_seconds": "Seconds whose outcomes the circuit looks at",
    "circuit_rest_seconds": "Seconds before an open circuit lets one item through",
    "lag_target_seconds": "Lag in seconds above which floods of other flows slow down",
}
_TARGET_WORDS: Final = ("the flow", "its kind", "its lane of all kinds", "its tenant")
OPERATION_WORDS: Final = {
    "pauseFlows": "Paused",
    "resumeFlows": "Resumed",
    "setFlowLimits": "Limits set",
}
_CIRCUITS: Final = {"open": Hindrance.CIRCUIT_OPEN, "half_open": Hindrance.CIRCUIT_PROBING}
_SAMPLE_MAX: Final = 5
"""Due items of a flow of the list whose due times are read."""


class FlowLimitsForm(BaseModel):
    """The limits as they were typed, as they were shown, and why they change."""

    lane: Lane = ""
    shown: Json[dict[str, float | None]]
    weight: TypedNumber = None
    rate_per_second: TypedNumber = None
    concurrency_max: TypedNumber = None
    window_items: TypedNumber = None
    retry_share: TypedNumber = None
    circuit_failure_ratio: TypedNumber = None
    circuit_calls_min: TypedNumber = None
    circuit_window_seconds: TypedNumber = None
    circuit_rest_seconds: TypedNumber = None
    lag_target_seconds: TypedNumber = None
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
    rates = await flow_rates(call, shown)
    statuses = await _statuses(call, shown)
    found = await list_pauses(
        call.connection,
        tenant,
        tenants=call.tenants,
        kind=kind,
        lane=lane,
        limit=view.rows_max(PAUSES_MAX) + 1,
    )
    pauses = found[: view.rows_max(PAUSES_MAX)]
    return view.page(
        "flows.html",
        title="Flows",
        filters={"tenant": tenant or "", "kind": kind or "", "lane": lane or ""},
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or lane),
        pauses=Listing(
            caption="Pauses in force",
            order="oldest first",
            columns=pause_columns(view),
            rows=pauses,
            empty="Nothing is paused. A flow is paused on its own page.",
            filters=_FILTERS,
            unmatched="No pause covers a flow that matches the filter.",
            note=view.cut_note(found, PAUSES_MAX),
        ),
        tenant_pauses=await fell_due(call, view, pauses) if tenant else [],
        flow=None,
        drain=None,
        listing=Listing(
            caption="Flows",
            order="by tenant, kind and lane",
            columns=_columns(view),
            rows=[
                {**row, **status, "throughput": rate}
                for row, status, rate in zip(shown, statuses, rates, strict=True)
            ],
            empty="There is no flow yet. The first item of a kind makes one: `dueledger emit`.",
            filters=_FILTERS,
            unmatched="No flow matches the filter.",
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
    *,
    until: Moment = None,
) -> Response:
    """Show a flow: what hinders it, its limits, its pauses, and who changed them.

    With `until`, how many items a pause until then would keep waiting.
    """
    flow = await flows.find_flow(call, tenant, kind, lane, count_max=COUNTED_MAX)
    pauses = await list_pauses(call.connection, tenant, kind=kind, lane=lane, limit=PAUSES_MAX)
    changes: Listing | None = None
    if view.may(Scope.AUDIT):
        changes = await _changes(call, _targets(tenant, kind, lane))
    [status] = await _statuses(call, [flow], SAMPLE_MAX)
    [throughput] = await flow_rates(call, [flow])
    impacts = await pause_impacts(call, flow) if view.may(Scope.OPERATE) else []
    strip, quarters = await _strip(call, view, flow, status["late"])
    end = in_zone(until, view.clock.zone)
    coming, coming_words, end_field = None, None, ""
    if end is not None:
        coming = await count_coming(call, (tenant, kind, lane), end)
        coming_words = count_of(coming.items, capped=coming.capped)
        end_field = minutes(end.astimezone(view.clock.zone).isoformat())
    return view.page(
        "flow.html",
        title=" ".join(filter(None, (tenant, kind, lane))),
        flow=flow,
        **status,
        slowed=slowed_text(flow, view.clock.exact),
        throughput=throughput,
        next_at=await find_flow_next_due(call.connection, tenant, kind, lane),
        pauses=await fell_due(call, view, pauses),
        limits=[
            (name, words, flow[name], FLOW_BOUNDS[name], name in CLEARABLE_LIMITS)
            for name, words in LIMIT_WORDS.items()
        ],
        shown={name: flow[name] for name in LIMIT_WORDS},
        whole=WHOLE_LIMITS,
        impacts=impacts,
        coming=coming_words,
        end=end,
        end_field=end_field,
        impacts_shown={each.over: each.due for each in impacts},
        to_type=typed_impacts(impacts),
        after=after_text(flow, throughput, coming),
        drain=drain_text(flow, throughput),
        strip=strip,
        strip_listing=None if strip is None else strip.listing,
        quarters=quarters,
        items=partial(_items, view, flow),
        retrying=State.RETRYABLE_FAILURE.label,
        changes=changes,
        targets=[
            (words, view.url("/audit", target=each.path))
            for words, each in zip(_TARGET_WORDS, _targets(tenant, kind, lane), strict=True)
        ],
    )


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
    return flow_page(view, "Changed, from the next claim on.", tenant, kind, form.lane)


async def _statuses(
    call: ApiCall, flows: Sequence[Mapping[str, Any]], sample_max: int = _SAMPLE_MAX
) -> list[dict[str, Any]]:
    """Return of each flow what hinders its items, when the oldest one was due, and if it is late.

    `status` is a word of it, `hindrance` the sentence; None: no item is open.
    """
    names = [(flow["tenant"], flow["kind"], flow["lane"]) for flow in flows]
    rows = await read_status(
        call.connection,
        flows=names,
        limit=len(names),
        count_max=COUNTED_MAX,
        sample_max=sample_max,
    )
    found = {(row["tenant"], row["kind"], row["lane"]): row for row in rows}
    roles = await read_roles(call.connection)
    return [_status(flow, found.get(name), roles) for flow, name in zip(flows, names, strict=True)]


def _status(
    flow: Mapping[str, Any], found: Mapping[str, Any] | None, roles: Roles
) -> dict[str, Any]:
    code = None if found is None else code_of(found, roles)
    if flow["paused_at"] is not None:
        code = Hindrance.PAUSED
    elif code is None:
        code = _CIRCUITS.get(flow["circuit"])
    return {
        "status": "idle" if code is None else status_word(code),
        "hindrance": None if code is None else TEXTS[code].of_flow,
        "oldest_due_at": None if found is None else found["oldest_due_at"],
        "is_past_sla": None if found is None else found["is_past_sla"],
        "late": found if found is not None and found["is_past_sla"] else None,
    }


async def _strip(
    call: ApiCall, view: View, flow: Mapping[str, Any], status: Mapping[str, Any] | None
) -> tuple[HeatStrip | None, Listing | None]:
    """Return the last and the next 24 hours of a flow; None before they are counted first.

    The second is the same as numbers, if the page is asked for it.
    """
    place = await read_overview_place(call.connection)
    if place is None or view.clock.now is None:
        return None, None
    name = flow["tenant"], flow["kind"], flow["lane"]
    cells = await list_flow_overview(call.connection, *name)
    late = {} if status is None else {name: status}
    asked = view.table == QUARTERS_TABLE
    quarters = list_quarters(view, cells, view.clock.now) if asked else None
    return make_strip(view, cells, place, view.clock.now, late), quarters


def _targets(tenant: str, kind: str, lane: str) -> tuple[FlowScope, ...]:
    """Return what was changed where a flow was: itself, its kind, its lane, and its tenant."""
    return (
        *(FlowScope(tenant, kind, lane), FlowScope(tenant, kind)),
        *(FlowScope(tenant, lane=lane), FlowScope(tenant)),
    )


async def _changes(call: ApiCall, targets: Sequence[FlowScope]) -> Listing:
    paths = [each.path for each in targets]
    rows = await list_target_audit(call.connection, paths, CHANGES_MAX + 1, tenants=call.tenants)
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
            for row in rows[:CHANGES_MAX]
        ],
        empty="No changes yet. Pauses, resumes and changes of limits are listed here.",
        note="The audit has older ones." if len(rows) > CHANGES_MAX else None,
    )


def _written(detail: Mapping[str, Any] | None) -> str | None:
    if not detail:
        return None
    before: Mapping[str, Any] = detail.get("before", {})

    def text(name: str, value: object) -> str:
        was = f"{value_words(before[name])} → " if name in before else ""
        return f"{LIMIT_WORDS.get(name, name)}: {was}{value_words(value)}"

    return ", ".join(text(name, value) for name, value in detail.items() if name != "before")


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

    def later(row: Row) -> str:
        return _items(view, row, open=True, due_from=view.clock.now)

    def serial(row: Row) -> str:
        return _items(view, row, serial=True)

    def in_flight(row: Row) -> str:
        return _items(view, row, in_flight=True)

    return [
        Column("kind", "Flow", "flow", show),
        Column("status", "Status", "status"),
        Column("due", "Due", "count", due, "due_capped"),
        Column("oldest_due_at", "Oldest due", "time"),
        Column("is_past_sla", "Late", "flag"),
        Column("later", "Not due", "count", later, "later_capped"),
        Column("retries", "Retrying", "count", retrying, "retries_capped"),
        Column("serial", "In key order", "count", serial, "serial_capped"),
        Column("in_flight", "In flight", "count", in_flight),
        Column("concurrency_max", "In flight at most", "count"),
        Column("throughput", "Ended/s", "count"),
        Column("rate_per_second", "Rate limit/s", "count"),
    ]


_CHANGE_COLUMNS: Final[Sequence[Column]] = (
    Column("at", "When", "time"),
    Column("actor", "Who"),
    Column("role", "Role"),
    Column("operation", "What"),
    Column("detail", "To", "prose"),
    Column("reason", "Why", "prose"),
    Column("target", "Target", "prose"),
)
