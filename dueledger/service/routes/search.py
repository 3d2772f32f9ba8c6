"""Routes of the search: what one text names, and business keys that begin with it."""

from datetime import date, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from pydantic import BaseModel, Field

from dueledger.ledger.store.api_keys import Scope
from dueledger.search import ITEMS_MAX, Found, Named, search, suggest_keys
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.routes.fields import PRINTABLE
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "items")

Searched = Annotated[
    str,
    Query(
        max_length=512,
        pattern=PRINTABLE,
        description="a business key, the id of an item or of its record, `topic/partition/offset`,"
        " the number of a claim, or the number or the id of an event",
    ),
]


class FoundItem(BaseModel):
    """An item that a text names; of a Kafka record or a claim with its place there."""

    id: UUID
    tenant: str
    kind: str
    business_key: str
    effective_date: date | None
    due_at: datetime | None
    position: Annotated[int | None, Field(description="in the claim, from 1")]
    attempt: int | None


class FoundEventDocument(BaseModel):
    """A recorded event that a text names."""

    event_no: int
    occurred_at: datetime
    tenant: str
    source: str
    id: str


class FoundDocument(BaseModel):
    """One meaning of a text: what it names, and its items."""

    named: Named
    event: FoundEventDocument | None
    items: Annotated[list[FoundItem], Field(description=f"the first {ITEMS_MAX}")]


class SearchResult(BaseModel):
    """All that a text names, none if there is nothing of it."""

    items: list[FoundDocument]


class KeyList(BaseModel):
    """Business keys that begin with a text."""

    items: list[str]


@read.add("GET", "/v1/search", "search", SearchResult)
async def find(call: CurrentCall, q: Searched) -> Response:
    """Find what a text names: items, a claim, events, a Kafka record.

    Each is found by an index. Of a Kafka record, the claims around its offset and the latest are
    read: an older record of a topic with few claims may not be found.
    """
    text = q.strip()
    found = await search(call.connection, text, call.tenants) if text else []
    return answer({"items": [_document(each) for each in found]})


@read.add("GET", "/v1/search/keys", "suggestKeys", KeyList)
async def suggest(call: CurrentCall, q: Searched) -> Response:
    """List business keys that begin with a text.

    Of 500 items: those whose keys come next; for a key that is bound to tenants, those of its
    tenants with the latest effective dates.
    """
    keys = await suggest_keys(call.connection, q.strip(), call.tenants)
    return answer({"items": keys})


def _document(found: Found) -> dict[str, Any]:
    absent = dict.fromkeys(FoundItem.model_fields)
    return {
        "named": found.named,
        "event": None if found.event is None else found.event._asdict(),
        "items": [members_of(FoundItem, absent | dict(item)) for item in found.items],
    }
