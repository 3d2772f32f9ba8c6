"""Actions on a finding before a decision: to take it, to return it, to comment on it."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Response

from dueledger.console.forms import form_of
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.finding_decisions import BackForm
from dueledger.console.view import CurrentView
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall
from dueledger.service.routes import taken_findings
from dueledger.service.routes.review_documents import Commented, TakeOver

approve = PageRoutes(Scope.APPROVE, "console")


class TakeFindingForm(BackForm, TakeOver):
    """From whom the finding is taken, if from anybody."""


class FindingCommentForm(BackForm, Commented):
    """A comment on the finding."""


@approve.action("/reconciliation/findings/{finding}/take", "takeFinding", "findings/{finding}")
async def take(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[TakeFindingForm, Depends(form_of(TakeFindingForm))],
) -> Response:
    """Take the finding that nobody has, or one who is named."""
    await taken_findings.take(call, finding, form)
    return view.done("Taken.", f"/reconciliation/findings/{finding}", back=form.back)


@approve.action("/reconciliation/findings/{finding}/return", "returnFinding", "findings/{finding}")
async def return_(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[BackForm, Depends(form_of(BackForm))],
) -> Response:
    """Return the finding that the caller has: nobody has it then."""
    await taken_findings.return_(call, finding)
    return view.done("Returned.", f"/reconciliation/findings/{finding}", back=form.back)


@approve.action(
    "/reconciliation/findings/{finding}/comments", "commentOnFinding", "findings/{finding}"
)
async def comment(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[FindingCommentForm, Depends(form_of(FindingCommentForm))],
) -> Response:
    """Write a comment on the finding."""
    await taken_findings.comment(call, finding, form)
    return view.done("Written.", f"/reconciliation/findings/{finding}", back=form.back)
