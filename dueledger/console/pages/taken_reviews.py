"""Who has taken parked items or a finding, and what people write about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Response
from pydantic import BaseModel, model_validator

from dueledger.console.back import Back
from dueledger.console.cells import count_of
from dueledger.console.forms import form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import Conflict
from dueledger.ledger.finding_types import Resolution
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import list_target_audit
from dueledger.ledger.store.reviews import TakenReview, TakeResult
from dueledger.reviews import of_finding
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes import reviews
from dueledger.service.routes.fields import TenantPath
from dueledger.service.routes.review_documents import CommentRequest, ParkedItems, TakeRequest

operate = PageRoutes(Scope.OPERATE, "console")

COMMENTS_MAX: Final = 20


class GroupFields(BaseModel):
    """What a form of a group has beside what REST takes: an empty field would be an absent one.

    `back` is the list that the page of an item leads back to.
    """

    default_lane: bool = False
    back: Back = None

    @model_validator(mode="before")
    @classmethod
    def _name_lane(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "lane": ""} if "default_lane" in given else given


class ItemField(BaseModel):
    """One item, in place of ids."""

    item: UUID | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_ids(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "ids": [given["item"]]} if "item" in given else given


class TakeForm(GroupFields, ItemField, TakeRequest):
    """Parked items to take."""


class ReturnForm(GroupFields, ItemField, ParkedItems):
    """Parked items to return."""


class CommentForm(GroupFields, CommentRequest):
    """A comment on parked items."""


@dataclass(frozen=True, slots=True)
class ReviewForms:
    """The path below which the forms are, the scope they need, and fields that name the items."""

    path: str
    scope: Scope
    fields: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPeople:
    """Who has taken parked items or a finding, and what a caller may do about it.

    `others` have some of them. Of a finding that is closed there are only the comments.
    """

    forms: ReviewForms
    comments: Listing
    sentence: str
    since: datetime | None
    others: Sequence[str]
    has_free: bool
    has_own: bool
    is_open: bool = True


@operate.action("/reviews/{tenant}/take", "takeReviews", "tenants/{tenant}/reviews")
async def take(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[TakeForm, Depends(form_of(TakeForm))],
) -> Response:
    """Take the items that nobody has, or those of one who is named."""
    found, _ = await reviews.take_asked(call, tenant, form)
    return _done(view, tenant, form, "Taken", found)


@operate.action("/reviews/{tenant}/return", "returnReviews", "tenants/{tenant}/reviews")
async def return_(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[ReturnForm, Depends(form_of(ReturnForm))],
) -> Response:
    """Return the items that the caller has: nobody has them then."""
    found, _ = await reviews.return_asked(call, tenant, form)
    return _done(view, tenant, form, "Returned", found)


@operate.action("/reviews/{tenant}/comments", "commentOnReviews")
async def comment(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    form: Annotated[CommentForm, Depends(form_of(CommentForm))],
) -> Response:
    """Write a comment on the items."""
    await reviews.comment(call, tenant, form)
    return _shown(view, tenant, form, "Written.")


async def read_comments(call: ApiCall, tenant: str, targets: Sequence[str]) -> Listing:
    """Return the newest comments on these targets, as the audit names them."""
    rows = await list_target_audit(call.connection, targets, COMMENTS_MAX + 1, tenants=[tenant])
    return Listing(
        caption="Comments",
        order="newest first",
        columns=(
            Column("at", "When", "time"),
            Column("actor", "Who"),
            Column("comment", "Comment", "prose"),
            Column("about", "About", "prose"),
        ),
        rows=[{**reviews.comment_of(row), "about": _about(row)} for row in rows[:COMMENTS_MAX]],
        empty="",
        note="The audit has older ones." if len(rows) > COMMENTS_MAX else None,
    )


def people_of(
    call: ApiCall, review: Row, fields: Mapping[str, object], comments: Listing
) -> ReviewPeople:
    """Return who has the items of a review: of a group, as it is listed, or of an item."""
    path = f"/reviews/{review['tenant']}"
    return _people(call, review, ReviewForms(path, Scope.OPERATE, fields), comments)


async def people_of_finding(call: ApiCall, finding: Row, back: Back) -> ReviewPeople:
    """Return who has a finding, and what was written about it."""
    names = [finding["taken_by"]] if finding["taken_by"] else []
    review = {"items": 1, "taken": len(names), "taken_by": names, "taken_at": finding["taken_at"]}
    path = f"/reconciliation/findings/{finding['id']}"
    forms = ReviewForms(path, Scope.APPROVE, {"back": back})
    comments = await read_comments(call, finding["tenant"], [of_finding(finding["id"])])
    people = _people(call, review, forms, comments)
    return replace(people, is_open=finding["resolution"] == Resolution.OPEN)


def _people(call: ApiCall, review: Row, forms: ReviewForms, comments: Listing) -> ReviewPeople:
    names: Sequence[str] = review["taken_by"]
    items, taken, own = review["items"], review["taken"], call.caller.name
    share = "" if taken == items else f", {count_of(taken)} of {count_of(items)}"
    them = "it" if items == 1 else "any of them"
    return ReviewPeople(
        forms=forms,
        comments=comments,
        sentence=f"Taken by {', '.join(names)}{share}." if taken else f"Nobody has taken {them}.",
        since=review.get("taken_at"),
        others=[name for name in names if name != own],
        has_free=taken < items,
        has_own=own in names,
    )


def _about(row: Row) -> str:
    if row["target"].startswith("items/"):
        return "this item"
    if row["target"].startswith("findings/"):
        return "this finding"
    found = reviews.comment_of(row)
    named = [found[name] for name in ("parked_reason", "error") if found[name]]
    return " · ".join(named) or "all of the flow"


def _done(
    view: View,
    tenant: str,
    form: TakeForm | ReturnForm,
    words: str,
    found: Sequence[TakenReview],
) -> Response:
    """Return to the items. Raises Conflict if nothing was done, with who has them."""
    done = sum(each.result is TakeResult.DONE for each in found)
    taken = [each.taken_by for each in found if each.result is TakeResult.TAKEN]
    named = ", ".join(sorted({name for name in taken if name is not None}))
    if not done:
        message = f"{named} has taken it." if taken else "It is parked no more."
        raise Conflict(f"{message} Nothing was changed.", tenant=tenant)
    items = "item" if done == 1 else "items"
    rest = f" {count_of(len(taken))} stay with {named}." if taken else ""
    return _shown(view, tenant, form, f"{words}: {count_of(done)} {items}.{rest}")


def _shown(
    view: View, tenant: str, form: TakeForm | ReturnForm | CommentForm, notice: str
) -> Response:
    """Return the answer of an action: the page of the item or of the group."""
    if form.item is not None:
        return view.done(notice, f"/items/{form.item}", back=form.back)
    fields = {
        "kind": form.kind,
        "lane": form.lane or None,
        "default_lane": form.default_lane or None,
        "parked_reason": form.parked_reason,
        "error": form.error,
    }
    return view.done(notice, f"/reviews/{tenant}/decide", **fields)
