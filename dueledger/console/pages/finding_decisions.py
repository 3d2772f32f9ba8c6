"""Decisions about a finding: it is explained or accepted, its repair proposed or approved."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Response
from pydantic import BaseModel

from dueledger.console.back import Back
from dueledger.console.forms import form_of
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView, View
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall
from dueledger.service.routes import findings
from dueledger.service.routes.findings import PersonsReason

approve = PageRoutes(Scope.APPROVE, "console")


class BackForm(BaseModel):
    """The list from which the finding was opened. Without it, the finding is shown next."""

    back: Back = None


class FindingDecisionForm(BackForm, PersonsReason):
    """Why a person decides so about a finding."""


class RepairApprovalForm(FindingDecisionForm):
    """Why a person approves a repair, and of which finding it is."""

    finding: UUID | None = None


@approve.action("/reconciliation/findings/{finding}/propose", "proposeRepair", "findings/{finding}")
async def propose(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[BackForm, Depends(form_of(BackForm))],
) -> Response:
    """Propose the repair of the finding."""
    await findings.propose_repair(call, finding)
    return view.done("Proposed.", f"/reconciliation/findings/{finding}", back=form.back)


@approve.action(
    "/reconciliation/findings/{finding}/explain", "explainFinding", "findings/{finding}"
)
async def explain(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[FindingDecisionForm, Depends(form_of(FindingDecisionForm))],
) -> Response:
    """Record why the finding is not wrong."""
    await findings.explain(call, finding, form)
    return _decided(view, "Explained.", finding, form)


@approve.action("/reconciliation/findings/{finding}/accept", "acceptFinding", "findings/{finding}")
async def accept(
    call: CurrentCall,
    view: CurrentView,
    finding: UUID,
    form: Annotated[FindingDecisionForm, Depends(form_of(FindingDecisionForm))],
) -> Response:
    """Record that the finding is wrong and stays so."""
    await findings.accept(call, finding, form)
    return _decided(view, "Accepted.", finding, form)


@approve.action("/reconciliation/repairs/{repair}/approve", "approveRepair", "repairs/{repair}")
async def approve_repair(
    call: CurrentCall,
    view: CurrentView,
    repair: UUID,
    form: Annotated[RepairApprovalForm, Depends(form_of(RepairApprovalForm))],
) -> Response:
    """Approve a repair that another actor has proposed."""
    await findings.approve_one(call, repair, form)
    words = "Approved. The next reconciliation that repairs executes it."
    if form.finding is None:
        return view.done(words, form.back or "/reconciliation/repairs")
    return _decided(view, words, form.finding, form)


def _decided(view: View, words: str, finding: UUID, form: BackForm) -> Response:
    """Return the answer of a decision: the list from which the finding was opened, or itself."""
    return view.done(words, form.back or f"/reconciliation/findings/{finding}")
