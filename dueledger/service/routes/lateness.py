"""The route of lateness: how long late items have been due, and the worst of them."""

from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import BaseModel, Field

from dueledger.items import ListedItems, page_open_items
from dueledger.lateness import (
    LATE_COUNTED_MAX,
    LATENESS_READ,
    WORST,
    LateCount,
    count_late,
    lateness_bars,
)
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.flows import read_status
from dueledger.ledger.store.item_lists import ItemListFilter
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.routes.fields import Text
from dueledger.service.routes.items import READ_MAX, ItemSummary
from dueledger.service.routes.status import COUNTED_MAX, FLOWS_MAX
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "items")


class LatenessDocument(BaseModel):
    """How many late items have been due for so long."""

    from_seconds: int
    below_seconds: Annotated[int | None, Field(description="null: without an end")]
    items: int


class LateItems(BaseModel):
    """Late items by the time since each was due, and the worst: those that are due longest."""

    counted: int
    is_cut: Annotated[
        bool, Field(description=f"there are more: these {LATENESS_READ} are due longest")
    ]
    late: Annotated[
        int,
        Field(
            description="how many are late; of more than `counted`, also those are that wait, among"
            f" {LATE_COUNTED_MAX:,} of flows that are late"
        ),
    ]
    late_capped: Annotated[bool, Field(description="there may be more")]
    bars: list[LatenessDocument]
    items: Annotated[list[ItemSummary], Field(description=f"the {WORST} worst")]


@read.add("GET", "/v1/lateness", "getLateness", LateItems)
async def get_lateness(
    call: CurrentCall,
    request: Request,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    lane: Annotated[str | None, Text] = None,
) -> Response:
    """Count open items past their SLA by how long they have been due, and list the worst."""
    wanted = ItemListFilter(tenants=call.tenants, tenant=tenant, kind=kind, lane=lane)
    found = await page_open_items(
        call.connection,
        wanted,
        limit=LATENESS_READ,
        late=True,
        read_max=READ_MAX,
        read_total_max=READ_MAX,
    )
    bars = lateness_bars(found.items, request.state.now)
    late = await _count(call, wanted, found)
    return answer(
        {
            "counted": len(found.items),
            "is_cut": late.capped,
            "late": late.items,
            "late_capped": late.capped,
            "bars": [members_of(LatenessDocument, bar._asdict()) for bar in bars],
            "items": [members_of(ItemSummary, item) for item in found.items[:WORST]],
        }
    )


async def _count(call: ApiCall, wanted: ItemListFilter, found: ListedItems) -> LateCount:
    """Count the items that are late, of which some were listed."""
    flows: list[dict[str, Any]] = []
    if found.next_place is not None or found.is_cut:
        flows = await read_status(
            call.connection,
            tenants=call.tenants_of(wanted.tenant),
            kind=wanted.kind,
            lane=wanted.lane,
            limit=FLOWS_MAX,
            count_max=COUNTED_MAX,
        )
    return await count_late(call.connection, found, [each for each in flows if each["is_past_sla"]])
