"""The route of domain events: one is recorded as the intake from Kafka records it."""

from datetime import datetime
from functools import partial
from time import monotonic
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dueledger.ledger.errors import KeyConflict, NotPermitted, Problem
from dueledger.ledger.intake.event_recorder import EventRules, record_event
from dueledger.ledger.intake.parse import STRUCTURED, parse_event
from dueledger.ledger.kafka.envelope import CONTENT_TYPE
from dueledger.ledger.runtime.tracing import TracedItem, record_spans
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.routes.fields import written
from dueledger.service.scoped_routes import ScopedRoutes

emit = ScopedRoutes(Scope.EMIT, "events", role="intake")

_HEADERS = [(CONTENT_TYPE, STRUCTURED.encode())]
_Attribute = Annotated[str, Field(min_length=1, max_length=1_024, pattern=r"^[^\x00]*$")]


class CloudEvent(BaseModel):
    """A domain event: CloudEvents 1.0 in JSON. Source and id are its identity."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "specversion": "1.0",
                    "id": "8f1c2b1e",
                    "source": "/policies",
                    "type": "PolicyActivated",
                    "time": "2026-03-01T09:00:00Z",
                    "duetenant": "acme",
                    "data": {"policy": "P-1001", "renews_on": "2027-03-01"},
                }
            ]
        },
    )

    specversion: Literal["1.0"]
    id: _Attribute
    source: _Attribute
    type: _Attribute
    time: Annotated[datetime, BeforeValidator(written)]
    subject: _Attribute | None = None
    duetenant: Annotated[
        str | None, Field(description="tenant; default: the first segment of a path-like source")
    ] = None
    data: Any = None


class EventResult(BaseModel):
    """What an event changed. `is_new` is false for one that was recorded before.

    Without `is_matched` no rule in force reads its type. Items `skipped` came too late to be owed.
    """

    is_new: bool
    is_matched: bool
    emitted: int
    skipped: int
    revised: int
    withdrawn: int


async def _rules_of(request: Request) -> EventRules:
    """Return the rules that the application keeps since its first event."""
    state = request.app.state
    if not hasattr(state, "event_rules"):
        state.event_rules = EventRules()
    return state.event_rules


@emit.add("POST", "/v1/events", "recordEvent", EventResult, is_audited=False)
async def record(
    call: CurrentCall,
    rules: Annotated[EventRules, Depends(_rules_of)],
    _event: CloudEvent,
) -> Response:
    """Record a domain event, and emit, revise or withdraw items by the rules in force.

    Repeating it changes nothing; another event with its source and id is a conflict.
    """
    began_at = monotonic()
    event = parse_event(_HEADERS, call.body)
    if not call.may_reach(event.tenant):
        problem = Problem("/duetenant", "", "the key is not for this tenant")
        raise NotPermitted("The key is not for this tenant.", problems=[problem])
    applied = await record_event(call.connection, rules, event, actor_no=call.caller.actor_no)
    if applied.altered:
        problem = Problem("/id", "", "an event of this source has it, with another time or content")
        raise KeyConflict("The event exists otherwise. Nothing was changed.", problems=[problem])
    traced = TracedItem(event.type, event.traceparent, {"dueledger.tenant": event.tenant})
    call.on_commit.append(partial(record_spans, "record", began_at, [traced]))
    return answer(
        {
            "is_new": not applied.duplicates,
            "is_matched": not applied.unmatched,
            "emitted": applied.emitted,
            "skipped": applied.skipped,
            "revised": applied.revised,
            "withdrawn": applied.withdrawn,
        }
    )
