"""The route of the status: what is late, for whom, and why, and what is due next."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from dueledger.flow_status import describe_failures, make_status
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import list_next_due, read_status
from dueledger.ledger.store.processes import read_roles
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.routes.fields import Text
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "flows")

FLOWS_MAX: Final = 50
COUNTED_MAX: Final = 1_000
NEXT_MAX: Final = 4


class StatusFlow(BaseModel):
    """A flow with open items. What is capped is the least that it can be."""

    tenant: str
    kind: str
    lane: str
    due: int
    due_capped: bool
    oldest_due_at: datetime | None
    is_past_sla: Annotated[bool | None, Field(description="one of its open items is late")]
    blocked: Annotated[int, Field(description="waits for another item of its key")]
    blocked_capped: bool
    claimed: Annotated[int | None, Field(description="null: too many are in flight to be counted")]
    started: Annotated[int | None, Field(description="null: too many are in flight to be counted")]
    retrying: int
    retrying_capped: bool
    parked: int
    parked_capped: bool


class StatusGroup(BaseModel):
    """Flows with one hindrance: its code, as of `why`, its sentence, and the flows."""

    code: str
    sentence: str
    flows: list[StatusFlow]


class ComingFlow(BaseModel):
    """When the next item of a flow is available that is not due yet."""

    tenant: str
    kind: str
    lane: str
    available_at: datetime
    is_paused: bool


class StatusDocument(BaseModel):
    """Flows with open items by what hinders them; those that have waited longest are shown."""

    now: datetime
    flows: int
    shown: int
    due: int
    due_capped: bool
    parked: int
    parked_capped: bool
    failures: Annotated[
        list[str], Field(description="of each role whose processes cannot take work, and why")
    ]
    items: list[StatusGroup]
    coming: Annotated[
        list[ComingFlow],
        Field(
            description=f"of the {NEXT_MAX} flows whose next item is first, of each kind and lane"
        ),
    ]


@read.add("GET", "/v1/status", "getStatus", StatusDocument)
async def get_status(
    call: CurrentCall,
    request: Request,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    lane: Annotated[str | None, Text] = None,
    limit: Annotated[int, Query(ge=1, le=FLOWS_MAX, description="flows")] = FLOWS_MAX,
) -> Response:
    """Read which flows have open items, what hinders each, and what is due next."""
    tenants = call.tenants_of(tenant)
    flows = await read_status(
        call.connection,
        tenants=tenants,
        kind=kind,
        lane=lane,
        limit=limit,
        count_max=COUNTED_MAX,
    )
    roles = await read_roles(call.connection)
    found = make_status(request.state.now, flows, roles).document()
    coming = await list_next_due(call.connection, tenants=tenants, limit=NEXT_MAX)
    found |= {
        "failures": describe_failures(roles),
        "items": found["groups"],
        "coming": coming,
    }
    return answer(members_of(StatusDocument, found))
