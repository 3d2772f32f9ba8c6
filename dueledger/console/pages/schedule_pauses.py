"""Pauses on the page of a schedule: those of its kind, under the rules of pauses of flows."""

from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from dueledger.console.forms import Moment, form_of, in_zone
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.flow_pauses import CONFIRM_ABOVE, COUNTED_MAX
from dueledger.console.pages.schedule_texts import schedule_path
from dueledger.console.typed_numbers import TypedNumber, require_typed
from dueledger.console.view import CurrentView
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import list_pauses, read_status
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes import flows
from dueledger.service.routes.definition_documents import PauseRequest
from dueledger.service.routes.definitions import (
    NamePath,
    flow_scope_of,
    pause_definition,
    resume_definition,
)
from dueledger.service.routes.fields import Reason, TenantPath
from dueledger.service.routes.flow_documents import FlowLimitsChange

operate = PageRoutes(Scope.OPERATE, "console")

PAUSES_MAX: Final = 200


class DefinitionPauseForm(BaseModel):
    """Why the work of a definition pauses, and until when.

    `shown` is how many items of its kind were shown as due, `typed` the number that was typed.
    """

    until: Moment = None
    shown: Annotated[int, Field(ge=0)] = 0
    typed: str | None = None
    reason: Reason


class DefinitionResumeForm(BaseModel):
    """Why a pause ends, and the limit of each flow of the kind from then on.

    Without a rate the limits stay.
    """

    rate_per_second: TypedNumber = None
    reason: Reason


class DueOfKind(NamedTuple):
    """How many items of a kind are due in how many flows; with `capped` there may be more."""

    items: int = 0
    flows: int = 0
    capped: bool = False

    @property
    def must_type(self) -> bool:
        """Return whether their number is typed before they are paused."""
        return self.items > CONFIRM_ABOVE


@operate.action(
    "/schedules/{tenant}/{name}/pause", "pauseDefinition", "definitions/{tenant}/{name}"
)
async def pause(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    name: NamePath,
    form: Annotated[DefinitionPauseForm, Depends(form_of(DefinitionPauseForm))],
) -> Response:
    """Stop handing out items of the definition's kind."""
    if form.shown > CONFIRM_ABOVE:
        message = "Many items are due. Type their number to pause them."
        require_typed(form.typed, form.shown, message)
    until = in_zone(form.until, view.clock.zone)
    await pause_definition(call, tenant, name, PauseRequest(reason=form.reason, until=until))
    return view.done(f"Paused the kind of {tenant} {name}.", schedule_path(tenant, name))


@operate.action(
    "/schedules/{tenant}/{name}/resume", "resumeDefinition", "definitions/{tenant}/{name}"
)
async def resume(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    name: NamePath,
    form: Annotated[DefinitionResumeForm, Depends(form_of(DefinitionResumeForm))],
) -> Response:
    """End the pause of the definition's kind, after each of its flows got the rate.

    The audit has the reason of the form.
    """
    if form.rate_per_second is not None:
        kind = (await flow_scope_of(call.connection, tenant, name)).kind
        assert kind is not None  # noqa: S101 - a definition has one
        limit = FlowLimitsChange(lane=None, rate_per_second=form.rate_per_second)
        await flows.change_limits(call, tenant, kind, limit)
    await resume_definition(call, tenant, name)
    pauses = await list_pauses(call.connection, tenant, tenants=call.tenants, limit=PAUSES_MAX)
    still = f" All kinds of {tenant} are paused still."
    said = f"Resumed the kind of {tenant} {name}."
    is_wider = any(each["kind"] is None for each in pauses)
    return view.done(said + still * is_wider, schedule_path(tenant, name))


async def count_due_of_kind(call: ApiCall, tenant: str, kind: str) -> DueOfKind:
    """Return how many items a pause of a kind would keep waiting now."""
    rows = await read_status(
        call.connection, tenant=tenant, kind=kind, limit=1, count_max=COUNTED_MAX, sample_max=1
    )
    if not rows:
        return DueOfKind()
    return DueOfKind(rows[0]["all_due"], rows[0]["flows"], rows[0]["all_due_capped"])
