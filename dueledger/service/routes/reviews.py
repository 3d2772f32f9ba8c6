"""Routes of reviews: items that wait for a person, who has taken them, and comments about them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Response

from dueledger.audited_changes import taken_detail
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import AuditPlace, list_target_audit
from dueledger.ledger.store.reviews import (
    ParkedFilter,
    ReviewPlace,
    TakenReview,
    group_reviews,
    list_reviews,
)
from dueledger.reviews import (
    find_commented,
    find_group,
    of_flow,
    of_item,
    return_for_tenant,
    take_for_tenant,
)
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import NewestFirst, Taken, TenantPath, Text, taken_by
from dueledger.service.routes.review_documents import (
    CommentRequest,
    ParkedGroup,
    ParkedItems,
    ReviewComment,
    ReviewCommentPage,
    ReviewDocument,
    ReviewGroup,
    ReviewGroups,
    ReviewPage,
    TakenItem,
    TakenItems,
    TakeRequest,
    WrittenComment,
)
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "reviews")
operate = ScopedRoutes(Scope.OPERATE, "reviews")


@read.add("GET", "/v1/reviews", "listReviews", ReviewPage)
async def list_parked_items(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    *,
    newest_first: NewestFirst = False,
    taken: Taken = None,
) -> Response:
    """List items that wait for a person's decision, oldest first, with the reason."""

    async def read_some(limit: int, after: ReviewPlace | None) -> list[dict[str, Any]]:
        return await list_reviews(
            call.connection,
            limit,
            tenants=call.tenants,
            tenant=tenant,
            kind=kind,
            after=after,
            newest_first=newest_first,
            taken_by=taken_by(taken, call.caller.actor_no),
        )

    keys = {"parked_at": datetime, "item_no": int}
    return await page.answer_large(ReviewDocument, read_some, ReviewPlace, keys)


@read.add("GET", "/v1/reviews/groups", "listReviewGroups", ReviewGroups)
async def list_groups(
    call: CurrentCall,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    taken: Taken = None,
) -> Response:
    """Group the items that were parked first by flow, reason and last error."""
    rows = await group_reviews(
        call.connection,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        taken_by=taken_by(taken, call.caller.actor_no),
    )
    return answer({"items": [members_of(ReviewGroup, row) for row in rows]})


@operate.add("POST", "/v1/tenants/{tenant}/reviews/take", "takeReviews", TakenItems)
async def take(call: CurrentCall, tenant: TenantPath, asked: TakeRequest) -> Response:
    """Take parked items, so that others see who decides about them; it hinders nobody.

    What somebody else has stays his, unless `instead_of` names him: the answer says who has it.
    """
    return _answer(*await take_asked(call, tenant, asked))


@operate.add("POST", "/v1/tenants/{tenant}/reviews/return", "returnReviews", TakenItems)
async def return_(call: CurrentCall, tenant: TenantPath, asked: ParkedItems) -> Response:
    """Return parked items that the caller has taken: nobody has them then."""
    return _answer(*await return_asked(call, tenant, asked))


@operate.add(
    "POST",
    "/v1/tenants/{tenant}/reviews/comments",
    "commentOnReviews",
    WrittenComment,
    status=201,
    takes_idempotency_key=True,
)
async def comment(call: CurrentCall, tenant: TenantPath, asked: CommentRequest) -> Response:
    """Write a comment on a parked item, or on a group of them. The audit keeps it."""
    target = await find_commented(call.connection, filter_of(tenant, asked), asked.item)
    group = asked.model_dump(include={"parked_reason", "error"}, exclude_none=True)
    call.note_change(target=target, comment=asked.comment, **group)
    return answer({"actor": call.caller.name, "target": target, "comment": asked.comment}, 201)


@read.add("GET", "/v1/tenants/{tenant}/reviews/comments", "listReviewComments", ReviewCommentPage)
async def list_comments(
    call: CurrentCall,
    page: CurrentPage,
    tenant: TenantPath,
    *,
    item: UUID | None = None,
    kind: Annotated[str | None, Text] = None,
    lane: Annotated[str | None, Text] = None,
) -> Response:
    """List comments on a parked item, or on those of a kind or lane, the newest first."""
    if item is not None and kind is None:
        targets = [of_item(item)]
    elif item is None and kind is not None:
        targets = of_flow(tenant, kind, lane)
    else:
        problem = Problem("item", "", "give either item or kind")
        raise InvalidInput("What comments are about is not named:", [problem])
    rows = await list_target_audit(
        call.connection,
        targets,
        page.rows_max,
        tenants=[tenant],
        after=page.place(AuditPlace, datetime, int),
    )
    return page.answer_rows(ReviewComment, [comment_of(row) for row in rows], "at", "audit_no")


async def take_asked(
    call: ApiCall, tenant: str, asked: TakeRequest
) -> tuple[list[TakenReview], bool]:
    """Take what is asked for; return the results, and whether the group may have more items."""
    ids, is_capped = await _find(call, tenant, asked)
    taken = await take_for_tenant(
        call.connection,
        ids,
        tenant=tenant,
        actor_no=call.caller.actor_no,
        instead_of=asked.instead_of,
    )
    _note(call, taken)
    if asked.instead_of is not None:
        call.note.detail["instead_of"] = asked.instead_of
    return taken, is_capped


async def return_asked(
    call: ApiCall, tenant: str, asked: ParkedItems
) -> tuple[list[TakenReview], bool]:
    """Return what is asked for, as `take_asked` takes it."""
    ids, is_capped = await _find(call, tenant, asked)
    returned = await return_for_tenant(
        call.connection, ids, tenant=tenant, actor_no=call.caller.actor_no
    )
    _note(call, returned)
    return returned, is_capped


def _note(call: ApiCall, found: Sequence[TakenReview]) -> None:
    changed = sum(each.is_changed for each in found)
    detail = taken_detail(found) if changed else {}
    call.note_change(is_changed=changed > 0, items=changed, **detail)


def comment_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comment that an entry of the audit has."""
    detail: Mapping[str, Any] = row["detail"] or {}
    return {**row, **{name: detail.get(name) for name in ("comment", "parked_reason", "error")}}


def filter_of(tenant: str, asked: ParkedGroup) -> ParkedFilter:
    """Return which parked items of a tenant are meant."""
    return ParkedFilter(tenant, asked.kind, asked.lane, asked.parked_reason, asked.error)


async def _find(call: ApiCall, tenant: str, asked: ParkedItems) -> tuple[Sequence[UUID], bool]:
    """Return the ids that are named, or those of the group, and whether it may have more."""
    if asked.ids is not None:
        return asked.ids, False
    return await find_group(call.connection, filter_of(tenant, asked))


def _answer(found: Sequence[TakenReview], is_capped: bool) -> Response:  # noqa: FBT001 - as it is returned
    items = [members_of(TakenItem, asdict(each)) for each in found]
    return answer({"items": items, "capped": is_capped})
