"""Routes of findings before a decision: those that wait for a person, who has taken one, comments.

Who may decide about a finding, or about its repair, may take it.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Response

from dueledger.audited_changes import taken_detail
from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import (
    AuditPlace,
    find_tenants_of_findings,
    list_target_audit,
)
from dueledger.ledger.store.findings import PageAfter, list_undecided_findings
from dueledger.ledger.store.reviews import (
    TakenReview,
    TakeResult,
    return_findings,
    take_findings,
)
from dueledger.reviews import find_commented_finding, of_finding, taken_refusal, unknown_finding
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import NewestFirst, Taken, Text, taken_by
from dueledger.service.routes.findings import FindingPage, ListedFinding, find_finding
from dueledger.service.routes.review_documents import (
    Commented,
    FindingComment,
    FindingCommentPage,
    TakenFinding,
    TakeOver,
    WrittenComment,
)
from dueledger.service.routes.reviews import comment_of
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "findings")
approve = ScopedRoutes(Scope.APPROVE, "findings")


@audit.add("GET", "/v1/findings/undecided", "listUndecidedFindings", FindingPage)
async def list_undecided(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    taken: Taken = None,
    *,
    newest_first: NewestFirst = False,
) -> Response:
    """List open findings that a person decides, oldest or newest first.

    Those are of types that no repair is applied to, and those that somebody has taken.
    """
    rows = await list_undecided_findings(
        call.connection,
        page.rows_max,
        tenants=call.tenants,
        tenant=tenant,
        kind=kind,
        taken_by=taken_by(taken, call.caller.actor_no),
        after=page.place(PageAfter, datetime, UUID),
        newest_first=newest_first,
    )
    return page.answer_rows(ListedFinding, rows, "first_seen_at", "id")


@approve.add("POST", "/v1/findings/{finding}/take", "takeFinding", TakenFinding)
async def take(call: CurrentCall, finding: UUID, asked: TakeOver) -> Response:
    """Take an open finding, so that others see who decides about it and its repair.

    It hinders nobody. What somebody else has stays his, unless `instead_of` names him: 409.
    """
    [taken] = await take_findings(
        call.connection,
        [finding],
        actor_no=call.caller.actor_no,
        instead_of=asked.instead_of,
        tenants=call.tenants,
    )
    if asked.instead_of is not None:
        call.note.detail["instead_of"] = asked.instead_of
    return await _answer(call, taken, "taken")


@approve.add("POST", "/v1/findings/{finding}/return", "returnFinding", TakenFinding)
async def return_(call: CurrentCall, finding: UUID) -> Response:
    """Return a finding that the caller has taken: nobody has it then."""
    [returned] = await return_findings(
        call.connection, [finding], actor_no=call.caller.actor_no, tenants=call.tenants
    )
    return await _answer(call, returned, "returned")


@approve.add(
    "POST",
    "/v1/findings/{finding}/comments",
    "commentOnFinding",
    WrittenComment,
    status=201,
    takes_idempotency_key=True,
)
async def comment(call: CurrentCall, finding: UUID, asked: Commented) -> Response:
    """Write a comment on an open finding and its repair. The audit keeps it."""
    target, tenant = await find_commented_finding(call.connection, finding, call.tenants)
    call.note_change(target=target, tenants=[tenant], comment=asked.comment)
    return answer({"actor": call.caller.name, "target": target, "comment": asked.comment}, 201)


@audit.add("GET", "/v1/findings/{finding}/comments", "listFindingComments", FindingCommentPage)
async def list_comments(call: CurrentCall, page: CurrentPage, finding: UUID) -> Response:
    """List comments on a finding, the newest first."""
    found = await find_finding(call, finding)
    rows = await list_target_audit(
        call.connection,
        [of_finding(finding)],
        page.rows_max,
        tenants=[found["tenant"]],
        after=page.place(AuditPlace, datetime, int),
    )
    return page.answer_rows(FindingComment, [comment_of(row) for row in rows], "at", "audit_no")


async def _answer(call: ApiCall, taken: TakenReview, verb: str) -> Response:
    """Answer who has the finding. Raises NotFound, and Conflict with who has it instead."""
    if taken.result is TakeResult.UNKNOWN:
        raise unknown_finding(taken.id)
    if taken.result is not TakeResult.DONE:
        message = f"The finding {taken.id} is not {verb}: {taken_refusal(taken)}."
        raise Conflict(message, result=taken.result, taken_by=taken.taken_by)
    found = await find_tenants_of_findings(call.connection, [taken.id])
    detail = taken_detail([taken]) if taken.is_changed else {}
    call.note_change(tenants=[found[taken.id]], is_changed=taken.is_changed, **detail)
    return answer({"id": taken.id, "taken_by": taken.taken_by, "taken_at": taken.taken_at})
