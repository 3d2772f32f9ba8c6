"""Routes of findings and repairs: what a reconciliation found, and what people decide about it."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dueledger.audited_changes import APPROVED, resolution_detail
from dueledger.items import read_item
from dueledger.ledger.errors import Conflict, NotFound
from dueledger.ledger.finding_types import FindingType, RepairAction, RepairStatus, Resolution
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import find_tenants_of_findings
from dueledger.ledger.store.findings import (
    PageAfter,
    list_findings,
    list_findings_of_item,
    resolve_findings,
    show_finding,
)
from dueledger.ledger.store.repairs import (
    approve_repairs,
    list_repair_grounds,
    list_waiting_repairs,
    record_repairs,
)
from dueledger.reconciler.repair.planned_repairs import PlannedRepair, plan_repairs
from dueledger.refusals import finding_refusal, repair_refusal
from dueledger.reviews import unknown_finding
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import CurrentPage, Page, PageRequest
from dueledger.service.routes.fields import (
    NewestFirst,
    Reason,
    Taken,
    Text,
    taken_by,
    written,
)
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "findings")
approve = ScopedRoutes(Scope.APPROVE, "findings")

ITEM_FINDINGS_MAX: Final = 1_000
"""Findings of one item that are read, the newest ones."""


class FindingSummary(BaseModel):
    """A difference that a reconciliation found: both sides of its evidence, and one sentence."""

    id: UUID
    type: FindingType
    severity: str
    tenant: str
    kind: str
    subject: str
    item_id: UUID | None
    business_key: str | None
    effective_date: date | None
    due_at: datetime | None
    sentence: str
    expected: Any
    actual: Any
    opened_count: int
    first_seen_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None
    resolution: Resolution
    reason: str | None
    taken_by: str | None
    taken_at: datetime | None


class ListedFinding(FindingSummary):
    """A finding, and the status of its last repair; null: none was proposed."""

    repair_status: RepairStatus | None


class FindingPage(Page[ListedFinding]):
    """A page of findings, oldest first."""


class FindingRepair(BaseModel):
    """A repair of a finding, what it changes, and who proposed and approved it."""

    id: UUID
    action: str
    status: str
    would: str | None
    before: str | None
    after: str | None
    proposed_at: datetime
    proposed_by: str
    held_because: str | None
    judged_at: datetime | None
    approved_by: str | None
    approval_reason: str | None
    approved_over: list[str] | None
    executed_at: datetime | None
    outcome: Any


class FindingDocument(FindingSummary):
    """A finding, who resolved it, and its repairs.

    `differing` names what differs between `expected` and `actual`, also where it is redacted.
    """

    differing: list[str]
    resolved_by: str | None
    repairs: list[FindingRepair]


class FindingResolution(BaseModel):
    """A finding that is not open any more."""

    id: UUID
    resolution: Resolution


class RepairPlan(BaseModel):
    """What the repair of a finding does: `before` is what the finding says, `item_state` what is.

    `judged_at` is when a reconciliation that repairs last asked evidence, claims, Kafka and policy:
    `would`, `after` and `held_because` are what it would do. Null: none has, so it may do
    otherwise, or nothing. `status` is as recorded: null where nobody has proposed it.
    """

    id: UUID
    finding_id: UUID
    action: RepairAction
    would: str
    before: str
    after: str
    item_state: str | None
    item_attempt: int | None
    status: RepairStatus | None
    held_because: str | None
    judged_at: datetime | None
    proposed_by: str | None


class RepairProposal(BaseModel):
    """A proposed repair, and whether it is new."""

    id: UUID
    finding_id: UUID
    action: RepairAction
    would: str
    before: str
    after: str
    status: RepairStatus
    verdict: Literal["created", "exists"]


class WaitingRepair(BaseModel):
    """A proposed repair that was not executed yet: what it would change, and what it waits for.

    `taken_by` has taken its finding.
    """

    id: UUID
    finding_id: UUID
    type: FindingType
    tenant: str
    kind: str
    business_key: str | None
    action: str
    before: str | None
    after: str | None
    would: str | None
    held_because: str | None
    proposed_at: datetime
    proposed_by: str
    approved_at: datetime | None
    approved_by: str | None
    approval_reason: str | None
    taken_by: str | None
    taken_at: datetime | None


class RepairPage(Page[WaitingRepair]):
    """A page of proposed repairs, oldest first."""


class PersonsReason(RequestBody):
    """Why a person decides so."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "INC-1234: known and harmless"}]}
    )

    reason: Reason


class RepairApproval(BaseModel):
    """A repair that is approved. The next reconciliation that repairs executes it."""

    id: UUID
    result: Annotated[str, Field(json_schema_extra={"const": "done"})]


@audit.add("GET", "/v1/findings", "listFindings", FindingPage)
async def list_found(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    type: FindingType | None = None,  # noqa: A002 - the parameter's name
    effective_date: Annotated[date | None, BeforeValidator(written)] = None,
    item: Annotated[UUID | None, Query(description="of this item alone")] = None,
    closed: bool = False,
    newest_first: NewestFirst = False,
) -> Response:
    """List open findings, oldest first; with `closed`, the closed ones, too."""
    if item is not None:
        wanted = {"tenant": tenant, "kind": kind, "type": type, "effective_date": effective_date}
        given = {name: value for name, value in wanted.items() if value is not None}
        return await _answer_of_item(
            call, page, item, given, closed=closed, newest_first=newest_first
        )
    rows = await list_findings(
        call.connection,
        open_only=not closed,
        tenant=tenant,
        type_=type,
        kind=kind,
        effective_date=effective_date,
        after=page.place(PageAfter, datetime, UUID),
        page_size=page.rows_max,
        tenants=call.tenants,
        newest_first=newest_first,
    )
    return page.answer_rows(ListedFinding, list(map(dict, rows)), "first_seen_at", "id")


async def _answer_of_item(
    call: ApiCall,
    page: PageRequest,
    item: UUID,
    wanted: Mapping[str, object],
    *,
    closed: bool,
    newest_first: bool,
) -> Response:
    """Answer with a page of the findings of an item: it has few, and all are read."""
    found = await list_findings_of_item(
        call.connection, item, ITEM_FINDINGS_MAX, tenants=call.tenants
    )
    after = page.place(PageAfter, datetime, UUID)
    last = None if after is None else (after.at, after.id)
    rows = [
        row
        for row in sorted(found, key=_place, reverse=newest_first)
        if (closed or row["closed_at"] is None)
        and all(row[name] == value for name, value in wanted.items())
        and (last is None or (_place(row) < last if newest_first else _place(row) > last))
    ]
    return page.answer_rows(ListedFinding, rows, "first_seen_at", "id")


def _place(row: Mapping[str, Any]) -> tuple[datetime, UUID]:
    return row["first_seen_at"], row["id"]


@audit.add("GET", "/v1/findings/{finding}", "getFinding", FindingDocument)
async def get_finding(call: CurrentCall, finding: UUID) -> Response:
    """Read a finding with both sides of its evidence, who resolved it, and its repairs."""
    return answer(members_of(FindingDocument, await find_finding(call, finding)))


async def find_finding(call: ApiCall, finding: UUID) -> dict[str, Any]:
    """Read a finding of the call's tenants. Raises NotFound."""
    found = await show_finding(call.connection, finding, call.tenants)
    if found is None:
        raise unknown_finding(finding)
    return found


@audit.add("GET", "/v1/findings/{finding}/repair", "planRepair", RepairPlan)
async def plan_repair(call: CurrentCall, finding: UUID) -> Response:
    """Show what the repair of an open finding would change, as it was last judged.

    Nothing is recorded. A reconciliation that repairs judges all open findings in each pass.
    """
    return answer(await describe_repair(call, finding))


async def describe_repair(call: ApiCall, finding: UUID) -> dict[str, object]:
    """Return a `RepairPlan`. Raises NotFound; Conflict if there is no repair now."""
    plan = await _plan(call, finding)
    found = await show_finding(call.connection, finding, call.tenants) or {}
    repairs: list[dict[str, Any]] = found["repairs"]
    known = next((each for each in repairs if each["id"] == str(plan.id)), dict[str, Any]())
    item: dict[str, Any] = {}
    if found["item_id"] is not None:
        with suppress(NotFound):  # as of a finding that it is missing
            item = await read_item(call.connection, found["item_id"], call.tenants)
    said = ("would", "before", "after")
    judged = {name: known[name] for name in said} if known.get("judged_at") else {}
    recorded = ("status", "held_because", "judged_at", "proposed_by")
    return {
        **_plan_members(plan),
        **judged,
        "item_state": item.get("state"),
        "item_attempt": item.get("attempt"),
        **{name: known.get(name) for name in recorded},
    }


@approve.add("POST", "/v1/findings/{finding}/repair", "proposeRepair", RepairProposal)
async def propose_repair(call: CurrentCall, finding: UUID) -> Response:
    """Propose the repair of an open finding. A reconciliation that repairs executes it.

    Where the policy of its kind asks for it, another actor approves it first. Repeating it changes
    nothing.
    """
    plan = await _plan(call, finding)
    actor_no = call.caller.actor_no
    (recorded,) = await record_repairs(call.connection, [plan.record()], actor_no=actor_no)
    await _note_tenant(call, finding, {}, is_changed=recorded.created)
    verdict = "created" if recorded.created else "exists"
    return answer(_plan_members(plan) | {"status": recorded.status, "verdict": verdict})


@approve.add("POST", "/v1/findings/{finding}/explain", "explainFinding", FindingResolution)
async def explain(call: CurrentCall, finding: UUID, decision: PersonsReason) -> Response:
    """Record why an open finding is not wrong. It stays listed as explained."""
    return await _resolve(call, finding, Resolution.EXPLAINED, decision.reason)


@approve.add("POST", "/v1/findings/{finding}/accept", "acceptFinding", FindingResolution)
async def accept(call: CurrentCall, finding: UUID, decision: PersonsReason) -> Response:
    """Record that an open finding is wrong and stays so. Nothing repairs it any more."""
    return await _resolve(call, finding, Resolution.ACCEPTED, decision.reason)


@audit.add("GET", "/v1/repairs", "listRepairs", RepairPage)
async def list_repairs(
    call: CurrentCall,
    page: CurrentPage,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    taken: Taken = None,
    *,
    newest_first: NewestFirst = False,
) -> Response:
    """List proposed repairs that were not executed yet, with what they would change."""
    rows = await list_waiting_repairs(
        call.connection,
        tenant,
        kind,
        page.rows_max,
        tenants=call.tenants,
        after=page.place(PageAfter, datetime, UUID),
        taken_by=taken_by(taken, call.caller.actor_no),
        newest_first=newest_first,
    )
    return page.answer_rows(WaitingRepair, rows, "proposed_at", "id")


@approve.add("POST", "/v1/repairs/{repair}/approve", "approveRepair", RepairApproval)
async def approve_one(call: CurrentCall, repair: UUID, decision: PersonsReason) -> Response:
    """Approve a repair that another actor has proposed."""
    results = await approve_repairs(
        call.connection,
        [repair],
        reason=decision.reason,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    result = results[repair]
    if result == "unknown":
        raise NotFound(f"There is no repair {repair}. GET /v1/repairs lists them.")
    if result != "done":
        message = f"The repair {repair} is not approved: {repair_refusal(result)}."
        raise Conflict(message, result=result)
    await _note_tenant(call, repair, APPROVED)
    return answer({"id": repair, "result": result})


async def _plan(call: ApiCall, finding: UUID) -> PlannedRepair:
    rows = await list_repair_grounds(call.connection, finding, call.tenants)
    if not rows:
        message = f"There is no open finding {finding}. GET /v1/findings lists them."
        raise NotFound(message, finding=str(finding))
    plans = [each for each in plan_repairs(rows) if each.finding_id == finding]
    if not plans:
        message = (
            "The finding has no repair that can be applied now: its type has none, its item is in "
            "another state, or a source failed or was changed."
        )
        raise Conflict(message, finding=str(finding))
    return plans[0]


def _plan_members(plan: PlannedRepair) -> dict[str, object]:
    names = ("id", "finding_id", "action", "would", "before", "after")
    return {name: getattr(plan, name) for name in names}


async def _resolve(call: ApiCall, finding: UUID, resolution: Resolution, reason: str) -> Response:
    results = await resolve_findings(
        call.connection,
        [finding],
        resolution=resolution,
        reason=reason,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    result = results[finding]
    if result == "unknown":
        raise unknown_finding(finding)
    if result != "done":
        message = f"The finding {finding} is not {resolution}: {finding_refusal(result)}."
        raise Conflict(message, result=result)
    await _note_tenant(call, finding, resolution_detail(resolution))
    return answer({"id": finding, "resolution": resolution})


async def _note_tenant(
    call: ApiCall, decided: UUID, detail: Mapping[str, Any], *, is_changed: bool = True
) -> None:
    found = await find_tenants_of_findings(call.connection, [decided])
    call.note_change(tenants=[found[decided]], is_changed=is_changed, **detail)
