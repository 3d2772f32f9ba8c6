"""Routes of flows: what limits them, their limits, and pauses."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Any, Final

import orjson
from fastapi import Header, Query, Request, Response

from dueledger.audited_changes import limits_detail, pause_detail, resume_detail
from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.flow_bounds import CLEARABLE_LIMITS, FLOW_BOUNDS, WHOLE_LIMITS
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import (
    COUNTED_MAX,
    FlowLimits,
    FlowPlace,
    FlowScope,
    PausePlace,
    find_flow_next_due,
    list_flows,
    list_pauses,
    lock_flow_limits,
    pause_flows,
    resume_flows,
    set_flow_limits,
)
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.definition_documents import PauseChange
from dueledger.service.routes.fields import Instant, KindPath, TenantPath, Text
from dueledger.service.routes.flow_counts import (
    PAUSES_COUNTED,
    count_coming,
    count_in_pauses,
    flow_rates,
)
from dueledger.service.routes.flow_documents import (
    ChangedFlows,
    FlowDetails,
    FlowDocument,
    FlowLimitsChange,
    FlowLimitsDocument,
    FlowPage,
    FlowsPauseRequest,
    FlowsRequest,
    PauseDocument,
    PausePage,
)
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.service.versions import HEADER_CHARS_MAX, check_match, etag_of

read = ScopedRoutes(Scope.READ, "flows")
operate = ScopedRoutes(Scope.OPERATE, "flows")

_LIMITS: Final = tuple(FLOW_BOUNDS)
_VERSION_CHARS: Final = 32

LimitsMatch = Annotated[
    str | None,
    Header(
        max_length=HEADER_CHARS_MAX,
        description="The ETag of the limits that are changed: of the flow, as it was read. Without "
        "it they are changed whatever they are. It is refused with a `lane` of null.",
    ),
]


@read.add("GET", "/v1/flows", "listFlows", FlowPage)
async def list_by_tenant(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    lane: Annotated[str | None, Text] = None,
) -> Response:
    """List flows by tenant, kind and lane, with their limits and waiting items."""
    rows = await list_flows(
        call.connection,
        tenant=tenant,
        kind=kind,
        lane=lane,
        limit=page.rows_max,
        tenants=call.tenants,
        after=page.place(FlowPlace, str, str, str),
    )
    rates = await flow_rates(call, rows)
    rated = [{**row, "ended_per_second": rate} for row, rate in zip(rows, rates, strict=True)]
    return page.answer_rows(FlowDocument, rated, "tenant", "kind", "lane")


@read.add("GET", "/v1/flows/{tenant}/{kind}", "getFlow", FlowDetails)
async def get_flow(
    call: CurrentCall,
    tenant: TenantPath,
    kind: KindPath,
    lane: Annotated[str, Text] = "",
    *,
    until: Annotated[
        Instant | None, Query(description="counts the items that fall due until then")
    ] = None,
) -> Response:
    """Read a flow: its limits, what limits it now, and its waiting items."""
    found = await find_flow(call, tenant, kind, lane)
    coming = None if until is None else await count_coming(call, (tenant, kind, lane), until)
    [rate] = await flow_rates(call, [found])
    details = {
        "ended_per_second": rate,
        "next_due_at": await find_flow_next_due(call.connection, tenant, kind, lane),
        "falls_due": None if coming is None else coming.items,
        "falls_due_capped": None if coming is None else coming.capped,
    }
    return answer(members_of(FlowDetails, {**found, **details}), headers=_etag(found))


async def find_flow(
    call: ApiCall, tenant: str, kind: str, lane: str, *, count_max: int = COUNTED_MAX
) -> dict[str, Any]:
    """Read a flow, as `list_flows` does. Raises NotFound."""
    found = await list_flows(
        call.connection, tenant=tenant, kind=kind, lane=lane, limit=1, count_max=count_max
    )
    if not found:
        raise _unknown(tenant, kind, lane)
    return found[0]


@operate.add("PATCH", "/v1/flows/{tenant}/{kind}", "setFlowLimits", ChangedFlows)
async def change_limits(
    call: CurrentCall,
    tenant: TenantPath,
    kind: KindPath,
    change: FlowLimitsChange,
    if_match: LimitsMatch = None,
) -> Response:
    """Change the limits of a flow, or of each lane of its kind, from the next claim on."""
    scope = FlowScope(tenant, kind, change.lane)
    await _check_limits(call, scope, if_match)
    given = change.model_dump(include=change.model_fields_set & set(_LIMITS))
    limits = _limits_of(given)
    rows = await set_flow_limits(call.connection, scope, limits, actor_no=call.caller.actor_no)
    if not rows:
        raise _unknown(tenant, kind, change.lane)
    call.note_change(target=scope.path, **limits_detail(given, rows))
    headers = {} if change.lane is None else _etag(rows[0])
    flows = [members_of(FlowLimitsDocument, row) for row in rows]
    return answer({"flows": flows}, headers=headers)


@read.add("GET", "/v1/pauses", "listPauses", PausePage)
async def list_in_force(
    call: CurrentCall,
    request: Request,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    *,
    fell_due: Annotated[
        bool,
        Query(
            description="counts the items that fell due in the pauses, of a page in the first"
            f" {PAUSES_COUNTED}"
        ),
    ] = False,
) -> Response:
    """List the pauses in force, with person and reason."""
    rows = await list_pauses(
        call.connection,
        tenant,
        tenants=call.tenants,
        limit=page.rows_max,
        after=page.place(PausePlace, datetime, int),
    )
    asked = rows[: page.limit] if fell_due else []
    counted = await count_in_pauses(call, asked, request.state.now)
    shown = [
        {
            **row,
            "fell_due": None if count is None else count.items,
            "fell_due_capped": None if count is None else count.capped,
        }
        for row, count in zip_longest(rows, counted)
    ]
    return page.answer_rows(PauseDocument, shown, "paused_at", "pause_no")


@operate.add("POST", "/v1/tenants/{tenant}/pause", "pauseFlows", PauseChange)
async def pause(call: CurrentCall, tenant: TenantPath, asked: FlowsPauseRequest) -> Response:
    """Stop claims of a tenant, a kind or a lane. Items already claimed go on.

    Repeating it with another `until` moves the end.
    """
    scope = FlowScope(tenant, asked.kind, asked.lane)
    paused = await pause_flows(
        call.connection,
        scope,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        until=asked.until,
    )
    is_changed = bool(paused.pauses or paused.flows)
    call.note_change(target=scope.path, is_changed=is_changed, **pause_detail(paused, asked.until))
    return answer({"pauses": paused.pauses, "flows": paused.flows})


@operate.add("POST", "/v1/tenants/{tenant}/resume", "resumeFlows", PauseChange)
async def resume(call: CurrentCall, tenant: TenantPath, asked: FlowsRequest) -> Response:
    """End a pause, and all narrower ones in it. A wider one goes on: its flows have its reason.

    With a rate, each flow has it as its limit before any goes on.
    """
    scope = FlowScope(tenant, asked.kind, asked.lane)
    actor_no = call.caller.actor_no
    limit = asked.model_dump(include={"rate_per_second"}, exclude_none=True)
    limited: list[dict[str, Any]] = []
    if limit:
        limited = await set_flow_limits(
            call.connection, scope, _limits_of(limit), actor_no=actor_no
        )
    resumed = await resume_flows(call.connection, scope, actor_no=actor_no)
    is_changed = bool(limited or resumed.pauses or resumed.flows)
    detail = resume_detail(resumed, limit, limited)
    call.note_change(target=scope.path, is_changed=is_changed, **detail)
    flows = [
        {"tenant": each.tenant, "kind": each.kind, "lane": each.lane, "reason": each.pause_reason}
        for each in resumed.flows
    ]
    return answer({"pauses": resumed.pauses, "flows": flows})


async def _check_limits(call: ApiCall, scope: FlowScope, if_match: str | None) -> None:
    """Raise PreconditionFailed unless a flow has the limits that `if_match` names, if it is given.

    They stay as they are until they change.
    """
    if if_match is None:
        return
    if scope.kind is None or scope.lane is None:
        problem = Problem("/lane", "", "If-Match names the limits of one flow", "a lane")
        raise InvalidInput("The limits of the flow are invalid:", [problem])
    found = await lock_flow_limits(call.connection, scope.tenant, scope.kind, scope.lane)
    if found is not None:
        check_match(if_match, _version(found))


def _etag(row: Mapping[str, Any]) -> dict[str, str]:
    return {"ETag": etag_of(_version(row))}


def _version(row: Mapping[str, Any]) -> str:
    """Return the version of a flow's limits: what they are."""
    limits = orjson.dumps([row[name] for name in _LIMITS])
    return hashlib.sha256(limits).hexdigest()[:_VERSION_CHARS]


def _limits_of(given: Mapping[str, float | None]) -> FlowLimits:
    """Return the limits of a change. Raises InvalidInput for one that cannot be so."""
    problems: list[Problem] = []
    if not given:
        problems = [Problem("", "", "no limit is named", " | ".join(_LIMITS))]
    for name, number in given.items():
        text = FLOW_BOUNDS[name].text
        if number is None and name not in CLEARABLE_LIMITS:
            problems.append(Problem(f"/{name}", "", "it cannot be removed", text))
        elif number is not None and (
            not FLOW_BOUNDS[name].contains(number)
            or (name in WHOLE_LIMITS and number != int(number))
        ):
            problems.append(Problem(f"/{name}", "", f"it must be {text}"))
    if problems:
        raise InvalidInput("The limits of the flow are invalid:", problems)
    numbers: dict[str, Any] = {
        name: int(number) if name in WHOLE_LIMITS else number
        for name, number in given.items()
        if number is not None
    }
    return FlowLimits(**numbers, cleared=[name for name in given if given[name] is None])


def _unknown(tenant: str, kind: str, lane: str | None) -> NotFound:
    name = f"{tenant}/{kind}/{lane or ''}"
    return NotFound(f"There is no flow {name}. GET /v1/flows lists them.", flow=name)
