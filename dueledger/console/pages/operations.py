"""Operations: what was decided about all items of a filter, and how far each has got."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final

from fastapi import Depends, Response

from dueledger.console.forms import Filter, form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.hindrances import has_upkeep
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.operations import list_operations
from dueledger.ledger.store.processes import read_roles
from dueledger.refusals import approval_refusal, operation_refusal
from dueledger.service.calls import CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import operations
from dueledger.service.routes.fields import OldestFirst
from dueledger.service.routes.operation_documents import OperationChange
from dueledger.service.routes.operations import OperationPath
from dueledger.time_spans import about

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")
approve = PageRoutes(Scope.APPROVE, "console")

_ACTIONS: Final = ("pause", "resume", "abort")


@read.page("/reviews/operations")
async def list_recorded(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    awaits_approval: bool = False,
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
        kind=kind,
        awaits_approval=awaits_approval,
        oldest_first=oldest_first,
    )
    shown = list_operations_of(
        view,
        rows[: page.limit],
        page.cursor_of(rows, "operation_no"),
        runs=has_upkeep(await read_roles(call.connection)),
        downloads=True,
    )
    return view.page(
        "list.html",
        title="Operations",
        parent=("Reviews", "/reviews"),
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "awaits_approval": ("Waits for a second person", awaits_approval, ()),
            "oldest_first": ("Oldest first", oldest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or awaits_approval or oldest_first),
        changed=("operation", "Operations have changed"),
        listing=replace(
            shown,
            order="oldest first" if oldest_first else "newest first",
            turns=("as_of", "oldest_first", oldest_first),
        ),
    )


@read.page("/reviews/operations/{operation}")
async def show_operation(
    call: CurrentCall, view: CurrentView, operation: OperationPath
) -> Response:
    """Show an operation: its filter, how far it is, who asked and why."""
    found = await operations.find_operation(call, operation)
    refusals = {each: operation_refusal(each, str(found["status"])) for each in _ACTIONS}
    is_open = found["ended_at"] is None
    left = found["seconds_left"]
    runs = has_upkeep(await read_roles(call.connection))
    return view.page(
        "operation.html",
        title=f"Operation {operation}",
        operation=found,
        left=about(timedelta(seconds=left)) if isinstance(left, float) else None,
        actions=[each for each, refusal in refusals.items() if refusal is None],
        refused=[(each.capitalize(), why) for each, why in refusals.items() if why]
        if view.may(Scope.OPERATE)
        else [],
        may_approve=view.may(Scope.APPROVE),
        approval=approval_refusal(_approval_result(found, call.caller.name)),
        has_upkeep=runs or not is_open or found["awaits_approval"],
        status=_status(found, runs=runs),
    )


@operate.action("/reviews/operations/{operation}/pause", "pauseOperation", "operations/{operation}")
async def pause(
    call: CurrentCall,
    view: CurrentView,
    operation: OperationPath,
    form: Annotated[OperationChange, Depends(form_of(OperationChange))],
) -> Response:
    """Pause an operation: no item is moved until it is resumed."""
    await operations.pause(call, operation, form)
    return view.done("Paused.", f"/reviews/operations/{operation}")


@operate.action(
    "/reviews/operations/{operation}/resume", "resumeOperation", "operations/{operation}"
)
async def resume(
    call: CurrentCall,
    view: CurrentView,
    operation: OperationPath,
    form: Annotated[OperationChange, Depends(form_of(OperationChange))],
) -> Response:
    """Resume a paused operation. It goes on after the items that it had moved."""
    await operations.resume(call, operation, form)
    return view.done("Resumed.", f"/reviews/operations/{operation}")


@operate.action("/reviews/operations/{operation}/abort", "abortOperation", "operations/{operation}")
async def abort(
    call: CurrentCall,
    view: CurrentView,
    operation: OperationPath,
    form: Annotated[OperationChange, Depends(form_of(OperationChange))],
) -> Response:
    """End an operation. Items that it has moved stay as they are."""
    await operations.abort(call, operation, form)
    return view.done("Ended.", f"/reviews/operations/{operation}")


@approve.action(
    "/reviews/operations/{operation}/approve", "approveOperation", "operations/{operation}"
)
async def approve_operation(
    call: CurrentCall,
    view: CurrentView,
    operation: OperationPath,
    form: Annotated[OperationChange, Depends(form_of(OperationChange))],
) -> Response:
    """Approve an operation that another actor asked for."""
    await operations.approve_one(call, operation, form)
    return view.done("Approved.", f"/reviews/operations/{operation}")


def _approval_result(found: Row, caller: str) -> str:
    """Return what `approve_operation` would answer about an operation that awaits approval."""
    return "own" if found["requested_by"] == caller else "done"


def _status(found: Row, *, runs: bool) -> str:
    """Return the status of an operation; none is running unless a process carries them out."""
    status: str = found["status"]
    return status if runs or status != "running" else "waiting"


def _waits_for(found: Row, *, runs: bool) -> str | None:
    if found["awaits_approval"]:
        return "a second person"
    is_stopped = not runs and found["status"] in {"waiting", "running"}
    return "a process: `dueledger allocate`" if is_stopped else None


def list_operations_of(
    view: View,
    rows: Sequence[Row],
    next_cursor: str | None = None,
    *,
    runs: bool,
    downloads: bool = False,
) -> Listing:
    """Return operations as a list. `runs`: a process carries them out."""

    def show(row: Row) -> str:
        return view.url(f"/reviews/operations/{row['operation_no']}")

    return Listing(
        caption="Operations",
        order="newest first",
        columns=(
            Column("operation_no", "Operation", "id", show),
            Column("verb", "Verb", "word"),
            Column("status", "Status", "status"),
            Column("waits_for", "Waits for", "prose"),
            Column("tenant", "Tenant", "scope"),
            Column("kind", "Kind", "scope"),
            Column("matched", "Matched", "count", None, "matched_capped"),
            Column("done", "Done", "count"),
            Column("requested_by", "Asked by"),
            Column("reason", "Reason", "prose"),
            Column("as_of", "Asked", "time"),
        ),
        rows=[
            {
                **row,
                "status": _status(row, runs=runs),
                "waits_for": _waits_for(row, runs=runs),
            }
            for row in rows
        ],
        empty="There is no operation yet. A decision about all items of a list, in Reviews or in"
        " Items, is recorded as one.",
        filters=("tenant", "kind", "awaits_approval"),
        unmatched="No operation matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )
