"""Routes of items: emit, read, explain."""

from datetime import date, datetime
from functools import partial
from time import monotonic
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from dueledger.items import (
    ListedItems,
    explain_item,
    lists_open_items,
    of_definition,
    page_items,
    page_open_items,
    read_item,
)
from dueledger.ledger.errors import KeyConflict, NotPermitted, Problem
from dueledger.ledger.runtime.tracing import TracedItem, record_spans
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.emission import emit_by_key, find_other_terms
from dueledger.ledger.store.item_lists import DuePlace, ItemListFilter, ItemPlace, Label
from dueledger.ledger.store.items import StepPlace, item_timeline
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import CurrentPage, Page, PageRequest
from dueledger.service.routes.fields import (
    PRINTABLE,
    Instant,
    Key,
    Lane,
    Name,
    OldestFirst,
    RedactedFields,
    StateName,
    Text,
    written,
)
from dueledger.service.scoped_routes import ScopedRoutes

ITEMS_MAX = 10_000
_EXAMINED_MAX = 2_000
READ_MAX = 1_000
"""Of each flow, for a list of open items."""

AttemptMin = Annotated[
    int | None,
    Query(
        ge=1,
        le=32_767,
        description="only open items that were tried so often, or are being so; with a state in "
        "which items end: those that ended in such an attempt",
    ),
]
VersionFilter = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="only items of this version of `definition`")
]

STEP_KEYS = {"at": datetime, "number": int}
"""The keys of a step by which a page goes on."""

read = ScopedRoutes(Scope.READ, "items")
emit = ScopedRoutes(Scope.EMIT, "items")


class ItemToEmit(BaseModel):
    """An item to emit. Tenant, kind, key, cycle and effective date are its identity."""

    model_config = ConfigDict(extra="forbid")

    tenant: Name
    kind: Name
    business_key: Key
    effective_date: Annotated[date, BeforeValidator(written)]
    due_at: Annotated[AwareDatetime, BeforeValidator(written)]
    payload: Annotated[Any, Field(description="JSON for the handler, kept to the letter")] = None
    cycle: Annotated[str, Field(max_length=200, pattern=PRINTABLE)] = ""
    lane: Lane = ""
    partition_key: Key | None = None
    labels: dict[str, Any] | None = None
    traceparent: Annotated[str, Field(max_length=100, pattern=r"^[0-9a-f-]+$")] | None = None


class Emission(RequestBody):
    """Items to emit. Repeating it changes nothing, so it needs no Idempotency-Key."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {
                            "tenant": "acme",
                            "kind": "PolicyRenewalDue",
                            "business_key": "P-1001",
                            "cycle": "2027",
                            "effective_date": "2027-03-31",
                            "due_at": "2027-03-01T09:00:00Z",
                            "payload": {"premium": "123.45"},
                        }
                    ]
                }
            ]
        },
    )

    items: Annotated[list[ItemToEmit], Field(min_length=1, max_length=ITEMS_MAX)]


class EmissionVerdict(BaseModel):
    """The result for one item: it is new, or it was there before."""

    id: UUID
    verdict: Literal["created", "exists"]


class EmissionResult(BaseModel):
    """A verdict for each item, in the order of the request."""

    items: list[EmissionVerdict]


class ItemSummary(BaseModel):
    """An item of a list, and its state."""

    id: UUID
    tenant: str
    kind: str
    lane: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    start_by: datetime | None
    complete_by: datetime | None
    labels: dict[str, Any] | None
    state: StateName
    attempt: int | None
    available_at: datetime | None
    ended_at: datetime | None


class ItemPage(Page[ItemSummary]):
    """A page of items."""

    is_cut: Annotated[
        bool,
        Field(description="open items may be missing: a flow has more than are read at a time"),
    ]


class ItemDocument(BaseModel):
    """An item: what is owed, and its state."""

    id: UUID
    tenant: str
    kind: str
    lane: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    start_by: datetime | None
    complete_by: datetime | None
    partition_key: str | None
    payload: Any
    redacted_fields: RedactedFields
    labels: dict[str, Any] | None
    definition: str | None
    definition_version: int | None
    nominal: str | None
    zone: str | None
    decision: str | None
    smear_seconds: float | None
    emitted_at: datetime
    emitted_by: str
    state: StateName
    attempt: int | None
    available_at: datetime | None
    review_reason: str | None
    parked_at: datetime | None
    taken_by: str | None
    taken_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    withdrawal_requested: bool


class TransitionDocument(BaseModel):
    """A step in the history of an item."""

    at: datetime
    event: str
    actor: str
    fence: int | None
    attempt: int | None
    topic: str | None
    partition: int | None
    kafka_offset: int | None
    detail: Any


class Timeline(Page[TransitionDocument]):
    """A page of the history of an item, in order."""


class WhyDocument(BaseModel):
    """Why an item has not been done yet, and what to do."""

    item: UUID
    state: str
    code: str
    sentence: str
    remedy: str | None
    behind: Annotated[UUID | None, Field(description="the item that has to end before it")]


@emit.add("POST", "/v1/items", "emitItems", EmissionResult, is_audited=False)
async def emit_items(call: CurrentCall, emission: Emission) -> Response:
    """Emit up to 10,000 items, all or none."""
    others = [
        Problem(f"/items/{number}/tenant", "", "the key is not for this tenant")
        for number, item in enumerate(emission.items)
        if not call.may_reach(item.tenant)
    ]
    if others:
        raise NotPermitted("The key is not for these tenants.", problems=others)
    document, began_at = call.body.decode(), monotonic()
    emitted = await emit_by_key(call.connection, document)
    if known := [ord_ for ord_, (_, created) in enumerate(emitted, start=1) if not created]:
        differences = [
            Problem(f"/items/{ord_ - 1}/{member}", "", "the item exists with another one")
            for ord_, member in await find_other_terms(call.connection, document, known)
        ]
        if differences:
            message = "Items exist with other terms. Nothing was emitted."
            raise KeyConflict(message, problems=differences)
    traced = [TracedItem(item.kind, item.traceparent, {}) for item in emission.items]
    call.on_commit.append(partial(record_spans, "emit", began_at, traced))
    return answer(
        {
            "items": [
                {"id": item, "verdict": "created" if created else "exists"}
                for item, created in emitted
            ]
        }
    )


@read.add("GET", "/v1/items", "listItems", ItemPage)
async def list_items(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    lane: Annotated[str | None, Text] = None,
    business_key: Annotated[str | None, Text] = None,
    state: Annotated[StateName | None, Text] = None,
    label: Annotated[
        str | None,
        Query(max_length=8_192, pattern=r"^[^\x00=]+=[^\x00]*$", description="NAME=VALUE"),
    ] = None,
    due_from: Instant | None = None,
    due_before: Instant | None = None,
    late: Annotated[bool, Query(description="only open items past their SLA")] = False,
    is_open: Annotated[
        bool, Query(alias="open", description="only items that have not ended")
    ] = False,
    in_flight: Annotated[
        bool, Query(description="only items that are handed out or running")
    ] = False,
    attempt_min: AttemptMin = None,
    worker: Annotated[
        str | None,
        Query(
            max_length=512,
            pattern=PRINTABLE,
            description="only items that run there: a process or a key by its name; with a state "
            "in which items end: those whose end it recorded",
        ),
    ] = None,
    definition: Annotated[
        str | None,
        Query(max_length=512, pattern=PRINTABLE, description="only items of it; with `tenant`"),
    ] = None,
    definition_version: VersionFilter = None,
    serial: Annotated[
        bool, Query(description="only items that wait and have a place in the order of their key")
    ] = False,
    blocked: Annotated[
        bool, Query(description="only items that wait for another item of their key")
    ] = False,
    oldest_first: OldestFirst = False,
) -> Response:
    """List items: open ones, late ones, those in flight or in an open state first due first.

    So are those of a number of attempts or of a worker, unless `state` is one in which items end.
    All others by effective date, the latest first, or with `oldest_first` the earliest; of these a
    page may have fewer items than `limit`, or none, although there is a next one: 2,000 are
    examined for each.
    """
    wanted = ItemListFilter(
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        lane=lane,
        business_key=business_key,
        state=state,
        label=None if label is None else Label(*label.split("=", 1)),
        due_from=due_from,
        due_before=due_before,
        in_flight=in_flight,
        attempt_min=attempt_min,
        worker=worker,
        serial=serial,
        blocked=blocked,
    )
    wanted = await of_definition(call.connection, wanted, definition, definition_version)
    found = await find_page(
        call, page, wanted, late=late, is_open=is_open, oldest_first=oldest_first
    )
    return page.answer(ItemSummary, found.items, found.next_place, is_cut=found.is_cut)


async def find_page(
    call: ApiCall,
    page: PageRequest,
    wanted: ItemListFilter,
    *,
    late: bool,
    is_open: bool,
    oldest_first: bool,
) -> ListedItems:
    """Return a page of items: open ones first due first, all others by effective date.

    Raises InvalidCursor; InvalidInput for a state that no item of the list has.
    """
    if lists_open_items(wanted, late=late, is_open=is_open):
        return await page_open_items(
            call.connection,
            wanted,
            limit=page.limit,
            after=page.place(DuePlace, datetime, int),
            late=late,
            read_max=max(READ_MAX, page.limit),
            read_total_max=max(READ_MAX, page.limit),
        )
    return await page_items(
        call.connection,
        wanted,
        limit=page.limit,
        after=page.place(ItemPlace, date, int),
        examined_max=_EXAMINED_MAX,
        oldest_first=oldest_first,
    )


@read.add("GET", "/v1/items/{item}", "getItem", ItemDocument)
async def get_item(call: CurrentCall, item: UUID) -> Response:
    """Read an item and its state."""
    return answer(members_of(ItemDocument, await read_item(call.connection, item, call.tenants)))


@read.add("GET", "/v1/items/{item}/timeline", "getItemTimeline", Timeline)
async def get_item_timeline(call: CurrentCall, page: CurrentPage, item: UUID) -> Response:
    """List what happened to an item, in order."""
    await read_item(call.connection, item, call.tenants)
    return page.answer_rows(TransitionDocument, await read_steps(call, page, item), *STEP_KEYS)


async def read_steps(call: ApiCall, page: PageRequest, item: UUID) -> list[dict[str, Any]]:
    """Read a page of an item's history, and one row more. Raises InvalidCursor."""
    after = page.place(StepPlace, *STEP_KEYS.values())
    limit = page.rows_max
    return await item_timeline(call.connection, item, call.tenants, after=after, limit=limit)


@read.add("GET", "/v1/items/{item}/why", "explainItem", WhyDocument)
async def explain_item_delay(call: CurrentCall, item: UUID) -> Response:
    """Explain why an item has not been done yet, in one sentence, and what to do."""
    found = await read_item(call.connection, item, call.tenants)
    return answer(await explain_item(call.connection, found, call.tenants))
