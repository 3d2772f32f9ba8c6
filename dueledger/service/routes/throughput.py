"""The route of throughput: what was completed in each minute of the last hour."""

from datetime import datetime
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, Field

from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.routes.fields import Text
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.throughput import read_throughput

read = ScopedRoutes(Scope.READ, "flows")


class CompletedDocument(BaseModel):
    """What runs completed from an instant on, in a minute or in the hour."""

    since: datetime
    completed: Annotated[int, Field(description="an estimate if fewer items were sampled")]
    sampled: int
    p99_seconds: Annotated[
        float | None,
        Field(
            description="99 of 100 were completed within so long after they were due; at most 9 %"
            " too much. null: none was completed"
        ),
    ]


class ThroughputDocument(BaseModel):
    """The last hour that was counted, and its 60 minutes, or those that are counted.

    It is counted while a page of the console is open. `until` and `hour` are null if it never was.
    """

    until: datetime | None
    hour: CompletedDocument | None
    items: list[CompletedDocument]


@read.add("GET", "/v1/throughput", "getThroughput", ThroughputDocument)
async def get_throughput(call: CurrentCall, tenant: Annotated[str | None, Text] = None) -> Response:
    """Read how many items were completed in each minute of the last hour, and how late."""
    tenants = call.tenants_of(tenant)
    found = await read_throughput(call.connection, tenants=tenants)
    if found is None:
        return answer({"until": None, "hour": None, "items": []})
    return answer({"until": found.until, "hour": found.hour, "items": found.minutes})
