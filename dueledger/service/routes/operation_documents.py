"""What routes of decisions and operations take and answer."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.store.operations import STATES, ItemFilter
from dueledger.service.bodies import RequestBody
from dueledger.service.pages import Page
from dueledger.service.routes.fields import PRINTABLE, Instant, Key, Lane, Name, Reason, StateName

ITEMS_MAX: Final = 1_000
KEYS_MAX: Final = 100
STATE_PATTERN: Final = f"^({'|'.join(state.label for state in STATES)})$"

Until = Annotated[
    Instant | None,
    Field(description="of snooze, which needs it: when the items may be handed out; in the future"),
]
_EXAMPLE: Final[dict[str, Any]] = {
    "verb": "redrive",
    "kind": "PolicyRenewalDue",
    "parked_reason": "attempts exhausted",
    "reason": "INC-1234: the archive is back",
}


class ItemDecision(RequestBody):
    """What is decided about items, and why: of ids, or of business keys."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "verb": "redrive",
                    "business_keys": ["P-1001"],
                    "reason": "INC-1234: the archive is back",
                }
            ]
        },
    )

    verb: OperationVerb
    reason: Reason
    ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=ITEMS_MAX)] = None
    business_keys: Annotated[
        list[Key] | None,
        Field(
            min_length=1,
            max_length=KEYS_MAX,
            description="their items in a state to which the verb is applied",
        ),
    ] = None
    kind: Annotated[Name | None, Field(description="of business keys")] = None
    lane: Annotated[Lane | None, Field(description="of business keys")] = None
    until: Until = None

    @model_validator(mode="after")
    def _name_items_one_way(self) -> Self:
        if (self.ids is None) == (self.business_keys is None):
            raise PydanticCustomError("items", "give either ids or business_keys")
        if self.ids is not None and (self.kind, self.lane) != (None, None):
            raise PydanticCustomError("items", "kind and lane belong to business_keys, not to ids")
        return self


class DecisionResult(BaseModel):
    """What came of a decision about an item."""

    id: UUID
    result: Annotated[
        Literal["done", "requested", "finished", "illegal", "unknown"],
        Field(
            description="requested: it is in flight and ends at its next start, or completes; "
            "finished: it had ended; illegal: its state does not allow it"
        ),
    ]
    reason: Annotated[str | None, Field(description="why it was refused")]


class DecisionResults(BaseModel):
    """A result for each item."""

    items: list[DecisionResult]


class OperationFilter(RequestBody):
    """Which items of the tenant are meant, and what is done to each. Null: all."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{name: _EXAMPLE[name] for name in _EXAMPLE if name != "reason"}]
        },
    )

    verb: OperationVerb
    kind: Name | None = None
    lane: Annotated[Lane | None, Field(description="empty: the default lane")] = None
    parked_reason: Annotated[str | None, Field(max_length=2_000, pattern=PRINTABLE)] = None
    error: Annotated[
        str | None,
        Field(max_length=500, pattern=PRINTABLE, description="class of the last error"),
    ] = None
    since: Annotated[
        Instant | None,
        Field(description="in their state since then or later"),
    ] = None
    state: Annotated[
        str | None,
        Field(
            pattern=STATE_PATTERN,
            description="with one, items in flight are not meant",
            json_schema_extra={"enum": [*(state.label for state in STATES), None]},
        ),
    ] = None
    due_from: Annotated[Instant | None, Field(description="due then or later")] = None
    due_before: Instant | None = None
    until: Until = None

    def items_of(self, tenant: str) -> ItemFilter:
        """Return the filter for items of a tenant."""
        state = next((each for each in STATES if each.label == self.state), None)
        of_state = self.parked_reason, self.error, self.since, state
        return ItemFilter(tenant, self.kind, self.lane, *of_state, self.due_from, self.due_before)


class OperationRequest(OperationFilter):
    """An operation on all items of a filter, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    reason: Reason


class MatchedItems(BaseModel):
    """Items of one flow and state that a filter matches now."""

    tenant: str
    kind: str
    lane: str
    state: StateName
    items: int
    oldest_at: datetime
    newest_at: datetime
    business_keys: Annotated[list[str], Field(description="the first 20")]


class LeftAloneItems(BaseModel):
    """How many open items an operation would leave alone now, for one reason."""

    reason: str
    items: int


class OperationCount(BaseModel):
    """How many items an operation would move now, and how many it would leave alone."""

    items: int
    capped: Annotated[bool, Field(description="there may be more")]
    seconds: Annotated[
        float | None,
        Field(
            description="how long so many would take, by the tenant's last operations with the"
            " verb; null: these have moved too few items to say so"
        ),
    ]
    approval_above: Annotated[
        int | None,
        Field(
            description="of more items than these the operation waits for a second person, by the"
            " policies of their kinds; null: of no number"
        ),
    ]
    needs_approval: Annotated[
        bool,
        Field(description="whether it would wait now: of more items, or if there may be more"),
    ]
    groups: list[MatchedItems]
    left_alone: Annotated[
        list[LeftAloneItems],
        Field(description="open items with the same flows, due times and reason of parking"),
    ]
    left_alone_capped: Annotated[bool, Field(description="there may be more, for other reasons")]


class OperationDocument(BaseModel):
    """An operation: its filter, its bounds, its progress, who asked and why."""

    operation_no: int
    verb: OperationVerb
    status: Literal["waiting", "running", "paused", "done", "aborted"]
    tenant: str | None
    kind: str | None
    lane: str | None
    parked_reason: str | None
    error: str | None
    since: datetime | None
    state: StateName | None
    due_from: datetime | None
    due_before: datetime | None
    until: datetime | None
    as_of: datetime
    matched: int
    matched_capped: bool
    done: int
    requested: int
    requested_by: str
    reason: str
    advanced_at: datetime | None
    ended_at: datetime | None
    aborted_by: str | None
    abort_reason: str | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    needs_approval: Annotated[
        bool, Field(description="a policy of its kinds asked for a second person")
    ]
    awaits_approval: Annotated[bool, Field(description="until then, no item is moved")]
    approved_at: datetime | None
    approved_by: str | None
    approval_reason: str | None
    worked_seconds: Annotated[float, Field(description="so far, without pauses")]
    seconds_left: Annotated[
        float | None,
        Field(
            description="at the rate so far, without pauses; null: it has ended or not begun, or"
            " how many items match is not known"
        ),
    ]


class OperationPage(Page[OperationDocument]):
    """A page of operations, newest first."""


class OperationChange(RequestBody):
    """Why an operation is paused, resumed, ended or approved."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "it meant another kind"}]})

    reason: Reason
