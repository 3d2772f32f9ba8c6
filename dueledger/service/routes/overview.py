"""The route of the overview: what each flow was and is due in each quarter hour of two days."""

from datetime import datetime
from itertools import groupby
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.overview import (
    OverviewCell,
    list_flow_overview,
    list_overview,
    read_overview_place,
)
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.routes.fields import PRINTABLE, Text
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "flows")

FLOWS_MAX: Final = 50
_FLOWS_DEFAULT: Final = 8


class OverviewQuarter(BaseModel):
    """The items of a flow that are due in a quarter hour, if it has any."""

    since: datetime
    due: int
    completed: int
    completed_late: int
    past_grace: Annotated[
        int, Field(description="those that are open, once the grace of all is over")
    ]
    failed: Annotated[int, Field(description="failed, or in review")]
    open: Annotated[int, Field(description="in flight or waiting, late or not")]
    capped: Annotated[bool, Field(description="more wait than were counted")]


class OverviewFlow(BaseModel):
    """A flow, how long ago it was counted, and its quarter hours."""

    tenant: str
    kind: str
    lane: str
    age_seconds: float
    quarters: list[OverviewQuarter]


class OverviewDocument(BaseModel):
    """The last and the next 24 hours of the worst flows.

    These have most items past their grace, then most failed, then most. It is counted while a page
    of the console is open. `since` is its first quarter hour, null if it never was counted. Of runs
    that started before `complete_since` it has not what they completed; null: it has all.
    """

    since: datetime | None
    complete_since: datetime | None
    items: list[OverviewFlow]


@read.add("GET", "/v1/overview", "getOverview", OverviewDocument)
async def get_overview(
    call: CurrentCall,
    request: Request,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[
        str | None,
        Query(
            max_length=512, pattern=PRINTABLE, description="a flow alone, by `tenant` and its kind"
        ),
    ] = None,
    lane: Annotated[str, Query(max_length=512, pattern=PRINTABLE, description="of that flow")] = "",
    limit: Annotated[int, Query(ge=1, le=FLOWS_MAX, description="flows")] = _FLOWS_DEFAULT,
) -> Response:
    """Read what the worst flows, or one, were and are due in each quarter hour of two days."""
    tenants = call.tenants_of(tenant)
    if kind is not None and tenant is None:
        problem = Problem("tenant", "", "a kind needs its tenant")
        raise InvalidInput("The filter cannot be used:", [problem])
    place = await read_overview_place(call.connection)
    if place is None:
        return answer({"since": None, "complete_since": None, "items": []})
    if tenant is None or kind is None:
        cells = await list_overview(call.connection, tenants=tenants, flows_max=limit)
    elif tenants:
        cells = await list_flow_overview(call.connection, tenant, kind, lane)
    else:
        cells = []
    items = [
        _flow(list(given), request.state.now)
        for _, given in groupby(cells, key=lambda cell: cell.place)
    ]
    return answer({"since": place.begins, "complete_since": place.read_from, "items": items})


def _flow(cells: list[OverviewCell], now: datetime) -> dict[str, object]:
    first = cells[0]
    return {
        "tenant": first.tenant,
        "kind": first.kind,
        "lane": first.lane,
        "age_seconds": first.age_seconds,
        "quarters": [
            {
                "since": cell.quarter,
                "due": cell.due,
                "completed": cell.completed,
                "completed_late": cell.completed_late,
                "past_grace": cell.open if cell.is_over(now) else 0,
                "failed": cell.failed,
                "open": cell.open,
                "capped": cell.is_capped,
            }
            for cell in cells
            if cell.due
        ],
    }
