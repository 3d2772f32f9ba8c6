"""Search: one field for items, business keys, claims, events and Kafka records."""

from typing import Annotated

import orjson
from fastapi import Response

from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView, View, redirect
from dueledger.ledger.store.api_keys import Scope
from dueledger.search import CLAIMS_MAX, ITEMS_MAX, Found, Named, is_record, search, suggest_keys
from dueledger.service.calls import CurrentCall
from dueledger.service.routes.fields import Text

read = PageRoutes(Scope.READ, "console")


@read.page("/search")
async def find(call: CurrentCall, view: CurrentView, q: Annotated[str, Text] = "") -> Response:
    """Lead to what a text names, or list what it may mean."""
    text = q.strip()
    found = await search(call.connection, text, call.tenants) if text else []
    if len(found) == 1:
        [only] = found
        if len(only.items) == 1 and only.event is None:
            return redirect(view.url(f"/items/{only.items[0]['id']}"))
        if only.named is Named.BUSINESS_KEY:
            return redirect(view.url("/items", q=text))
    tables = {f"found_{place}": _listing(view, each) for place, each in enumerate(found)}
    return view.page(
        "search.html",
        title=f"Search: {text}" if text else "Search",
        text=text,
        claims_max=CLAIMS_MAX,
        is_record=is_record(text),
        results=tables,
        **tables,
    )


@read.page("/search/keys")
async def suggest(call: CurrentCall, q: Annotated[str, Text] = "") -> Response:
    """Return business keys that begin with a text, as a list in JSON."""
    keys = await suggest_keys(call.connection, q.strip(), call.tenants)
    return Response(orjson.dumps(keys), media_type="application/json")


def _words(found: Found) -> str:
    match found.named:
        case Named.EVENT if found.event is not None:
            event = found.event
            return f"Event {event.id} of {event.source} ({event.tenant}, number {event.event_no})"
        case Named.CLAIM:
            return "Claim"
        case Named.RECORD:
            return "Kafka record"
        case _:
            return found.named.value.capitalize()


def _listing(view: View, found: Found) -> Listing:
    def address(row: Row) -> str:
        return view.url(f"/items/{row['id']}")

    columns = [Column("business_key", "Business key", "text", address), Column("tenant", "Tenant")]
    columns.append(Column("kind", "Kind"))
    if found.items and "due_at" in found.items[0]:
        columns.append(Column("due_at", "Due", "time"))
    if found.items and "position" in found.items[0]:
        columns += [Column("position", "Position", "count"), Column("attempt", "Attempt", "count")]
    is_cut = len(found.items) >= ITEMS_MAX
    return Listing(
        caption=_words(found),
        columns=columns,
        rows=found.items,
        empty="It created no item.",
        note=f"The first {ITEMS_MAX} items." if is_cut else None,
    )
