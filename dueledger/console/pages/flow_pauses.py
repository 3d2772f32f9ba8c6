"""Pauses of flows: what each would cover, who may begin and end it, and those in force."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Depends, Response
from pydantic import BaseModel, Json

from dueledger.console.cells import count_of
from dueledger.console.forms import Moment, form_of, in_zone
from dueledger.console.listing import Column, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.typed_numbers import TypedNumber, require_typed, typed_pattern
from dueledger.console.view import CurrentView, View
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import list_pauses, read_status
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes import flows
from dueledger.service.routes.fields import Lane, Name, Reason, TenantPath
from dueledger.service.routes.flow_counts import CountedItems, count_in_pauses
from dueledger.service.routes.flow_documents import (
    FlowLimitsChange,
    FlowsPauseRequest,
    FlowsRequest,
)
from dueledger.time_spans import brief_span

operate = PageRoutes(Scope.OPERATE, "console")

COUNTED_MAX: Final = 1_000
"""Items counted of a flow; more are shown as this number and +."""
_PAUSES_READ: Final = 100
PauseWidth = Literal["lane", "kind", "region", "tenant"]
"""What a pause may cover."""
_WIDTHS: Final[Mapping[PauseWidth, str]] = {
    "lane": "this flow",
    "kind": "the kind, every lane",
    "region": "the lane, every kind",
    "tenant": "the tenant",
}
_NO_FLOWS: Final[Mapping[str, Any]] = {"flows": 0, "all_due": 0, "all_due_capped": False}
CONFIRM_ABOVE: Final = 100
"""Due items above which their number is typed, before they are paused."""


class PauseImpact(NamedTuple):
    """What a pause covers: how many items are due in how many flows with open items."""

    over: PauseWidth
    words: str
    flows: int
    due: int
    capped: bool


class FlowPauseForm(BaseModel):
    """What to pause: the flow, its kind, its lane of every kind, or its tenant; why, until when.

    `shown` is how many items were shown as due in each, `typed` the number that was typed.
    """

    over: PauseWidth
    kind: Name
    lane: Lane = ""
    until: Moment = None
    reason: Reason
    shown: Json[dict[PauseWidth, int]] = {}
    typed: str | None = None


class FlowResumeForm(BaseModel):
    """Which pause ends, and why. `of_kind` and `of_lane` are its own, absent where it has none.

    `kind` and `lane` are of the flow whose page is shown next; without it, the tenant's flows are.
    Its items, or without it those of each flow of the pause, are claimed at `rate_per_second` at
    most from then on; None: as the limits are.
    """

    kind: Name | None = None
    lane: Lane = ""
    of_kind: Name | None = None
    of_lane: Lane | None = None
    of_default_lane: bool = False
    rate_per_second: TypedNumber = None
    reason: Reason


@operate.action("/flows/{tenant}/pause", "pauseFlows")
async def pause(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[FlowPauseForm, Depends(form_of(FlowPauseForm))],
) -> Response:
    """Stop claims of the flow, its kind, its lane of every kind, or its tenant."""
    shown = form.shown.get(form.over, 0)
    if shown > CONFIRM_ABOVE:
        message = "Many items are due. Type their number to pause them."
        require_typed(form.typed, shown, message)
    asked = FlowsPauseRequest(
        kind=form.kind if form.over in {"lane", "kind"} else None,
        lane=form.lane if form.over in {"lane", "region"} else None,
        reason=form.reason,
        until=in_zone(form.until, view.clock.zone),
    )
    await flows.pause(call, tenant, asked)
    return flow_page(view, "Paused.", tenant, form.kind, form.lane)


@operate.action("/flows/{tenant}/resume", "resumeFlows")
async def resume(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[FlowResumeForm, Depends(form_of(FlowResumeForm))],
) -> Response:
    """End a pause, and all narrower ones in it, after the flow, or each of them, got its limit."""
    lane = "" if form.of_default_lane else form.of_lane
    if form.kind is not None and form.rate_per_second is not None:
        limit = FlowLimitsChange(lane=form.lane, rate_per_second=form.rate_per_second)
        await flows.change_limits(call, tenant, form.kind, limit)
    rate = form.rate_per_second if form.kind is None else None
    asked = FlowsRequest(kind=form.of_kind, lane=lane, rate_per_second=rate)
    await flows.resume(call, tenant, asked)
    if form.kind is None:
        return view.done("Resumed.", "/flows", tenant=tenant)
    return flow_page(view, "Resumed.", tenant, form.kind, form.lane)


async def pause_impacts(call: ApiCall, flow: Mapping[str, Any]) -> list[PauseImpact]:
    """Return what a pause of a flow, of its kind, lane and tenant would cover."""
    impacts = [
        PauseImpact("lane", _WIDTHS["lane"], 1, flow["due"], capped=flow["due_capped"]),
    ]
    widths: Sequence[tuple[PauseWidth, str | None, str | None]] = (
        *(("kind", flow["kind"], None), ("region", None, flow["lane"])),
        ("tenant", None, None),
    )
    for over, kind, lane in widths:
        rows = await read_status(
            call.connection,
            tenant=flow["tenant"],
            kind=kind,
            lane=lane,
            limit=1,
            count_max=COUNTED_MAX,
            sample_max=1,
        )
        first: Mapping[str, Any] = rows[0] if rows else _NO_FLOWS
        covered = first["flows"], first["all_due"], first["all_due_capped"]
        impacts.append(PauseImpact(over, _WIDTHS[over], *covered))
    return impacts


class TypedImpacts(NamedTuple):
    """What is typed before many items are paused, in words, and as a field accepts it."""

    words: str
    pattern: str


def typed_impacts(impacts: Sequence[PauseImpact]) -> TypedImpacts | None:
    """Return the numbers that confirm the pauses of many items; None if none is of many."""
    many = [each for each in impacts if each.due > CONFIRM_ABOVE]
    numbers = list(dict.fromkeys(each.due for each in many))
    if not many:
        return None
    if len(many) == len(impacts) and len(numbers) == 1:
        return TypedImpacts(f"Type {numbers[0]:,} to confirm", typed_pattern(*numbers))
    named = ", ".join(f"{each.due:,} ({each.words})" for each in many)
    return TypedImpacts(f"To confirm, type what is due: {named}", typed_pattern(*numbers))


async def fell_due(
    call: ApiCall, view: View, pauses: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return pauses with how many items fell due in each, and where to decide about them.

    Both are None for who may not end a pause, and of the last of many pauses.
    """
    counted: Sequence[CountedItems | None] = [None] * len(pauses)
    if view.may(Scope.OPERATE) and view.clock.now is not None:
        counted = await count_in_pauses(call, pauses, view.clock.now)
    return [
        {
            **each,
            "fell_due": None if found is None else count_of(found.items, capped=found.capped),
            "decide": _decide(view, each) if found is not None and any(found) else None,
        }
        for each, found in zip(pauses, counted, strict=True)
    ]


def _decide(view: View, each: Mapping[str, Any]) -> str:
    """Return the address where what fell due in a pause is decided about."""
    return view.url(
        f"/reviews/{each['tenant']}/decide",
        kind=each["kind"],
        lane=each["lane"] or None,
        default_lane=True if each["lane"] == "" else None,
        due_from=each["paused_at"],
        due_before=view.clock.now,
    )


async def covering_pauses(
    call: ApiCall, tenant: str | None, flows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the pauses in force that cover one of these flows, the oldest first."""
    found = await list_pauses(call.connection, tenant, tenants=call.tenants, limit=_PAUSES_READ)
    return [each for each in found if any(_covers(each, flow) for flow in flows)]


def _covers(found: Mapping[str, Any], flow: Mapping[str, Any]) -> bool:
    names = ("kind", "lane")
    return found["tenant"] == flow["tenant"] and all(
        found[name] in {None, flow[name]} for name in names
    )


def after_text(
    flow: Mapping[str, Any], throughput: float | None, coming: CountedItems | None
) -> str | None:
    """Return how long what is due after a pause of a flow takes, by the rate at which items end.

    `coming` is how many fall due in it, and whether there may be more; without it, those that are
    due now are meant. None: nothing would be due.
    """
    more, is_capped = coming or CountedItems(0, capped=False)
    items, capped = flow["due"] + more, is_capped or flow["due_capped"]
    if not items:
        return None
    limit = flow["rate_per_second"]
    rate = min(throughput, limit or throughput) if throughput else limit
    then = "now" if coming is None else "by then"
    due = (
        f"{count_of(items, capped=capped)} of this flow {'is' if items == 1 else 'are'} due {then}"
    )
    if not rate:
        return f"{due}; how long that takes once it ends is not known: none ended lately."
    least = "at least" if capped else "about"
    span = brief_span(timedelta(seconds=items / rate))
    measured = "the rate of the last minutes" if throughput else "its limit"
    return f"{due}: that takes {least} {span} once it ends, at {measured}, {rate:g} a second."


def drain_text(flow: Mapping[str, Any], throughput: float | None) -> str | None:
    """Return how long the due items of a paused flow take by its rate; None if that is unknown."""
    rate = flow["rate_per_second"] or throughput
    if not flow["due"] or not rate:
        return None
    least = "at least " if flow["due_capped"] else "about "
    span = brief_span(timedelta(seconds=flow["due"] / rate))
    items = count_of(flow["due"], capped=flow["due_capped"])
    return f"{items} items of this flow are due: {least}{span} at {rate:g} a second."


def flow_page(view: View, notice: str, tenant: str, kind: str, lane: str) -> Response:
    """Return the answer of an action: the page of a flow."""
    return view.done(notice, f"/flows/{tenant}/{kind}", lane=lane or None)


def pause_columns(view: View) -> list[Column]:
    """Return the columns of a list of pauses; each leads to where it can be ended."""

    def show(row: Row) -> str:
        return view.url("/flows", tenant=row["tenant"], kind=row["kind"])

    return [
        Column("tenant", "Tenant", "text", show),
        Column("kind", "Kind"),
        Column("lane", "Lane"),
        Column("paused_at", "Since", "time"),
        Column("paused_until", "Until", "time"),
        Column("paused_by", "By"),
        Column("reason", "Reason", "prose"),
    ]
