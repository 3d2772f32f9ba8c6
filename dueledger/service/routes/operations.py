"""Routes of decisions about items, and of operations on all items of a filter."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

from fastapi import Path, Query, Request, Response

from dueledger.audited_changes import APPROVED, decision_detail, operation_detail
from dueledger.decisions import KeyedItems, check_until, decide_for_tenant, detail_of, find_named
from dueledger.ledger.errors import Conflict, NotFound
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.operations import (
    ChangedOperation,
    abort_operation,
    approve_operation,
    estimate_seconds,
    list_operations,
    pause_operation,
    record_operation,
    resume_operation,
    show_operation,
)
from dueledger.left_alone import count_left_alone, preview_moved, preview_open_items
from dueledger.refusals import approval_refusal, operation_refusal
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import OldestFirst, TenantPath, Text
from dueledger.service.routes.operation_documents import (
    DecisionResults,
    ItemDecision,
    OperationChange,
    OperationCount,
    OperationDocument,
    OperationFilter,
    OperationPage,
    OperationRequest,
)
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "operations")
operate = ScopedRoutes(Scope.OPERATE, "operations")
approve = ScopedRoutes(Scope.APPROVE, "operations")

_NUMBER_MAX = 2**53
OperationPath = Annotated[int, Path(ge=1, le=_NUMBER_MAX)]


@operate.add(
    "POST",
    "/v1/tenants/{tenant}/decisions",
    "decideItems",
    DecisionResults,
    takes_idempotency_key=True,
)
async def decide(call: CurrentCall, tenant: TenantPath, decision: ItemDecision) -> Response:
    """Redrive, write off, park, snooze, cancel or trigger items that are named, at once."""
    keyed = KeyedItems(
        decision.business_keys or (), tenant, decision.kind, decision.lane, "/business_keys"
    )
    results = await decide_for_tenant(
        call.connection,
        decision.verb,
        decision.ids or await find_named(call.connection, decision.verb, keyed),
        tenant=tenant,
        reason=decision.reason,
        actor_no=call.caller.actor_no,
        until=decision.until,
    )
    call.note_change(
        is_changed=any(each.is_accepted for each in results),
        **decision_detail(decision.verb, results, decision.until),
    )
    decided = [{"id": each.id, "result": each.result, "reason": each.reason} for each in results]
    return answer({"items": decided})


@operate.add(
    "POST",
    "/v1/tenants/{tenant}/operations/preview",
    "previewOperation",
    OperationCount,
    is_audited=False,
)
async def preview(call: CurrentCall, tenant: TenantPath, asked: OperationFilter) -> Response:
    """Count the items of a tenant that an operation would move now. It changes nothing."""
    await check_until(call.connection, asked.verb, asked.until)
    wanted = asked.items_of(tenant)
    open_items = await preview_open_items(call.connection, wanted)
    found = await preview_moved(call.connection, asked.verb, wanted, open_items, until=asked.until)
    seconds = await estimate_seconds(call.connection, asked.verb, tenant, found.items)
    left = count_left_alone(asked.verb, wanted, found, open_items, asked.until)
    groups = [asdict(group) for group in found.groups]
    counted = {"items": found.items, "capped": found.capped, "seconds": seconds}
    approval = {name: getattr(found, name) for name in ("approval_above", "needs_approval")}
    left_alone = [{"reason": why, "items": items} for why, items in left.counts.items()]
    return answer(
        {
            **counted,
            **approval,
            "groups": groups,
            "left_alone": left_alone,
            "left_alone_capped": left.is_capped,
        }
    )


@operate.add(
    "POST",
    "/v1/tenants/{tenant}/operations",
    "createOperation",
    OperationDocument,
    status=202,
    takes_idempotency_key=True,
)
async def create(
    call: CurrentCall, request: Request, tenant: TenantPath, asked: OperationRequest
) -> Response:
    """Record an operation on all items of a filter. Upkeep carries it out."""
    operation_no = await record(call, tenant, asked)
    location = f"{request.scope['root_path']}/v1/operations/{operation_no}"
    return answer(await find_operation(call, operation_no), 202, {"Location": location})


async def record(call: ApiCall, tenant: str, asked: OperationRequest) -> int:
    """Record an operation on all items of a filter, and return its number.

    Raises NotFound if no item matches.
    """
    await check_until(call.connection, asked.verb, asked.until)
    operation_no = await record_operation(
        call.connection,
        asked.verb,
        asked.items_of(tenant),
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        until=asked.until,
    )
    if operation_no is None:
        raise NotFound("No item matches; no operation was recorded.", tenant=tenant)
    call.note_change(target=f"operations/{operation_no}", verb=asked.verb, **detail_of(asked.until))
    return operation_no


@read.add("GET", "/v1/operations", "listOperations", OperationPage)
async def list_recorded(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    *,
    awaits_approval: Annotated[
        bool, Query(description="those alone that wait for a second person")
    ] = False,
    oldest_first: OldestFirst = False,
) -> Response:
    """List operations with their progress, newest or oldest first."""
    [after_no] = page.after(int)
    rows = await list_operations(
        call.connection,
        page.rows_max,
        tenants=call.tenants,
        after_no=after_no,
        tenant=tenant,
        awaits_approval=awaits_approval,
        oldest_first=oldest_first,
    )
    return page.answer_rows(OperationDocument, rows, "operation_no")


@read.add("GET", "/v1/operations/{operation}", "getOperation", OperationDocument)
async def get_operation(call: CurrentCall, operation: OperationPath) -> Response:
    """Read one operation."""
    return answer(await find_operation(call, operation))


@operate.add("POST", "/v1/operations/{operation}/pause", "pauseOperation", OperationDocument)
async def pause(call: CurrentCall, operation: OperationPath, asked: OperationChange) -> Response:
    """Pause an operation: no item is moved until it is resumed."""
    paused = await pause_operation(
        call.connection,
        operation,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    return await _changed(call, operation, "pause", paused)


@operate.add("POST", "/v1/operations/{operation}/resume", "resumeOperation", OperationDocument)
async def resume(call: CurrentCall, operation: OperationPath, asked: OperationChange) -> Response:  # noqa: ARG001 - the audit has the reason
    """Resume a paused operation. It goes on after the items that it had moved."""
    resumed = await resume_operation(call.connection, operation, tenants=call.tenants)
    return await _changed(call, operation, "resume", resumed)


@operate.add("POST", "/v1/operations/{operation}/abort", "abortOperation", OperationDocument)
async def abort(call: CurrentCall, operation: OperationPath, asked: OperationChange) -> Response:
    """End an operation. Items that it has moved stay as they are."""
    aborted = await abort_operation(
        call.connection,
        operation,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    return await _changed(call, operation, "abort", aborted)


@approve.add("POST", "/v1/operations/{operation}/approve", "approveOperation", OperationDocument)
async def approve_one(
    call: CurrentCall, operation: OperationPath, asked: OperationChange
) -> Response:
    """Approve an operation that waits for a second person, and that another actor asked for."""
    result = await approve_operation(
        call.connection,
        operation,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    found = await find_operation(call, operation)
    if result != "done":
        message = f"The operation is not approved: {approval_refusal(result)}."
        raise Conflict(message, result=result)
    call.note_change(tenants=_tenants_of(found), **APPROVED)
    return answer(found)


async def _changed(
    call: ApiCall, operation_no: int, action: str, changed: ChangedOperation | None
) -> Response:
    """Answer an operation that was changed, or is already as it was asked to be.

    Raises NotFound; Conflict where it has ended otherwise.
    """
    found = await find_operation(call, operation_no)
    is_changed = changed is not None
    tenants = _tenants_of(found)
    call.note_change(tenants=tenants, is_changed=is_changed, **operation_detail(changed))
    is_as_asked = found["ended_at"] is None or (action, found["status"]) == ("abort", "aborted")
    if not (is_changed or is_as_asked):
        refusal = operation_refusal(action, str(found["status"]))
        message = f"The operation stays as it is: {refusal}. Nothing was changed."
        raise Conflict(message, operation=operation_no)
    return answer(found)


def _tenants_of(found: Mapping[str, object]) -> list[str] | None:
    return None if found["tenant"] is None else [str(found["tenant"])]


async def find_operation(call: ApiCall, operation_no: int) -> dict[str, object]:
    """Read an operation of the call's tenants. Raises NotFound."""
    found = await show_operation(call.connection, operation_no, tenants=call.tenants)
    if found is None:
        message = f"There is no operation {operation_no}. GET /v1/operations lists them."
        raise NotFound(message, operation=operation_no)
    return members_of(OperationDocument, found)
