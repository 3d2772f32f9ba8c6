"""Routes of pull workers: claim due items, for clients without Kafka."""

import asyncio
from datetime import date, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from dueledger.ledger.store.api_keys import Scope
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import HeldCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pulls import IDLE_SECONDS, Pull, Pulls, Subscription
from dueledger.service.routes.fields import Lane, Name, Number, Whole
from dueledger.service.scoped_routes import ScopedRoutes

ITEMS_MAX: Final = 1_000
WAIT_SECONDS_MAX: Final = 300
LEASE_SECONDS_MAX: Final = 86_400

work = ScopedRoutes(Scope.WORK, "work", waits=True)


class PullRequest(RequestBody):
    """What a pull worker asks for, and how long it waits for it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kinds": ["PolicyRenewalDue"], "items_max": 10, "wait_seconds": 30}]
        },
    )

    kinds: Annotated[list[Name], Field(min_length=1, max_length=100)]
    lanes: Annotated[
        list[Lane] | None, Field(max_length=100, description="of these kinds; null: all")
    ] = None
    items_max: Annotated[Whole, Field(ge=1, le=ITEMS_MAX)] = 1
    wait_seconds: Annotated[
        Number, Field(ge=0, le=WAIT_SECONDS_MAX, description="how long, if nothing is due")
    ] = 0.0
    lease_seconds: Annotated[
        Number | None,
        Field(ge=1, le=LEASE_SECONDS_MAX, description="null: the shortest of the kinds"),
    ] = None


class PulledItem(BaseModel):
    """An item to do. Its outcome repeats `item`, `fence`, `token` and `position`."""

    item: UUID
    fence: int
    token: str
    position: int
    lease_seconds: Annotated[
        float,
        Field(description="until then, a heartbeat or an outcome; else it is handed out again"),
    ]
    tenant: str
    kind: str
    lane: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    attempt: int
    traceparent: str | None
    payload: Any


class PullResponse(BaseModel):
    """Items that are now this worker's; none if nothing was due in time."""

    items: list[PulledItem]


async def _pulls_of(request: Request) -> Pulls:
    return request.app.state.pulls


@work.add("POST", "/v1/claims", "claimItems", PullResponse, is_audited=False)
async def claim_items(
    call: HeldCall, asked: PullRequest, pulls: Annotated[Pulls, Depends(_pulls_of)]
) -> Response:
    """Claim items that are due, or wait until some are.

    Repeating it claims others: items whose response was lost are handed out again when their
    lease lapses.
    """
    tenants = call.caller.tenants
    pull = Pull(
        Subscription(
            None if tenants is None else frozenset(tenants),
            frozenset(asked.kinds),
            None if asked.lanes is None else frozenset(asked.lanes),
        ),
        asked.items_max,
        asked.lease_seconds,
        call.caller.actor_no,
        call.open_claim,
        asyncio.get_running_loop().create_future(),
        needs_list=asked.wait_seconds < IDLE_SECONDS,
    )
    gone = asyncio.create_task(call.until_gone())
    try:
        runs = await pulls.pull(pull, asked.wait_seconds, gone=gone)
    finally:
        gone.cancel()
    items = [members_of(PulledItem, item) for run in runs for item in run.items()]
    return answer({"items": items})
