"""What routes of reviews take and answer."""

from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from dueledger.service.bodies import RequestBody
from dueledger.service.pages import Page
from dueledger.service.routes.fields import PRINTABLE, Key, Lane, Name, Reason, RedactedFields
from dueledger.service.routes.operation_documents import ITEMS_MAX

_GROUP: Final[dict[str, Any]] = {
    "kind": "PolicyRenewalDue",
    "lane": "",
    "parked_reason": "attempts exhausted",
    "error": "TimeoutError",
}


class ReviewDocument(BaseModel):
    """An item that waits for a person's decision, and why."""

    id: UUID
    tenant: str
    kind: str
    lane: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    parked_at: datetime
    reason: str
    attempt: int
    starts: int
    taken_by: str | None
    taken_at: datetime | None
    payload: Any
    redacted_fields: RedactedFields


class ReviewPage(Page[ReviewDocument]):
    """A page of parked items, oldest first."""


class ReviewGroup(BaseModel):
    """Parked items of one flow, reason and class of the last error, and the last error's message.

    `items_capped`: there are more parked items than were grouped. `taken`: items that somebody has
    taken; `taken_by` names three of these at most.
    """

    tenant: str
    kind: str
    lane: str
    reason: str
    error: str | None
    message: str | None
    items: int
    items_capped: bool
    oldest_at: datetime
    newest_at: datetime
    taken: int
    taken_by: list[str]


class ReviewGroups(BaseModel):
    """Groups of parked items, the largest first."""

    items: list[ReviewGroup]


class ParkedGroup(RequestBody):
    """Parked items of a kind. Null: all."""

    kind: Name | None = None
    lane: Annotated[Lane | None, Field(description="empty: the default lane")] = None
    parked_reason: Annotated[str | None, Field(max_length=2_000, pattern=PRINTABLE)] = None
    error: Annotated[
        str | None,
        Field(max_length=500, pattern=PRINTABLE, description="class of the last error"),
    ] = None

    def require_one_way(self, named: object, member: str) -> None:
        """Raise PydanticCustomError unless either the member or a kind names what is meant."""
        group = (self.kind, self.lane, self.parked_reason, self.error)
        if named is None and self.kind is None:
            raise PydanticCustomError("items", "give {member} or kind", {"member": member})
        if named is not None and any(each is not None for each in group):
            message = "kind, lane, parked_reason and error belong to no {member}"
            raise PydanticCustomError("items", message, {"member": member})


class ParkedItems(ParkedGroup):
    """Parked items of ids, or of a group."""

    model_config = ConfigDict(json_schema_extra={"examples": [_GROUP]})

    ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=ITEMS_MAX)] = None

    @model_validator(mode="after")
    def _name_items_one_way(self) -> Self:
        self.require_one_way(self.ids, "ids")
        return self


class TakeOver(RequestBody):
    """From whom something is taken, if from anybody."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"instead_of": "key:bob"}]})

    instead_of: Annotated[
        Key | None,
        Field(description="who has it now, as key:bob; without it nothing is taken from others"),
    ] = None


class TakeRequest(TakeOver, ParkedItems):
    """Parked items to take, of ids or of a group."""

    model_config = ConfigDict(json_schema_extra={"examples": [_GROUP]})


class TakenItem(BaseModel):
    """What came of taking or returning an item, and who has it now; null: nobody."""

    id: UUID
    result: Annotated[
        Literal["done", "taken", "illegal", "unknown"],
        Field(description="taken: somebody else has it; illegal: it is not parked"),
    ]
    taken_by: str | None
    taken_at: datetime | None


class TakenItems(BaseModel):
    """A result for each item."""

    items: list[TakenItem]
    capped: Annotated[
        bool, Field(description="the group may have more items than the 1,000 that were found")
    ]


class TakenFinding(BaseModel):
    """Who has a finding now, and since when; null: nobody."""

    id: UUID
    taken_by: str | None
    taken_at: datetime | None


class Commented(RequestBody):
    """A comment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"comment": "the domain is asked, INC-1234"}]}
    )

    comment: Reason


class CommentRequest(Commented, ParkedGroup):
    """A comment on a parked item, or on a group of them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [_GROUP | {"comment": "the archive is asked, INC-1234"}]}
    )

    item: UUID | None = None

    @model_validator(mode="after")
    def _name_items_one_way(self) -> Self:
        self.require_one_way(self.item, "item")
        return self


class WrittenComment(BaseModel):
    """A comment as the audit has it."""

    actor: str
    target: Annotated[str, Field(description="what it is about, as the audit names it")]
    comment: str


class FindingComment(BaseModel):
    """A comment: by whom, when."""

    at: datetime
    actor: str
    comment: str


class FindingCommentPage(Page[FindingComment]):
    """A page of comments on a finding, the newest first."""


class ReviewComment(FindingComment):
    """A comment: by whom, when; of a group, why its items were parked, and their last error."""

    parked_reason: str | None
    error: str | None


class ReviewCommentPage(Page[ReviewComment]):
    """A page of comments, the newest first."""
