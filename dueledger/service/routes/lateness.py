"""The route of lateness: how long late items have been due, and the worst of them."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field

from dueledger.items import page_open_items
from dueledger.lateness import LATENESS_READ, WORST, lateness_bars
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.item_lists import ItemListFilter
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.routes.fields import Text
from dueledger.service.routes.items import READ_MAX, ItemSummary
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
    found = await page_open_items(
        call.connection,
        ItemListFilter(tenants=call.tenants, tenant=tenant, kind=kind, lane=lane),
        limit=LATENESS_READ,
        late=True,
        read_max=READ_MAX,
        read_total_max=READ_MAX,
    )
    bars = lateness_bars(found.items, request.state.now)
    return answer(
        {
            "counted": len(found.items),
            "is_cut": found.next_place is not None or found.is_cut,
            "bars": [members_of(LatenessDocument, bar._asdict()) for bar in bars],
            "items": [members_of(ItemSummary, item) for item in found.items[:WORST]],
        }
    )
