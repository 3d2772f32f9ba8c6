"""A function for each operation of the service; each returns a call, which a client sends.

Names and parameters are those of the OpenAPI document, docs/openapi.json. A call that needs an
Idempotency-Key has one of its own, unless it is given: sent again, it has no second effect.
"""

from __future__ import annotations  # models may not be generated yet

from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel, TypeAdapter

from dueledger.client import models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

Answer = TypeVar("Answer", bound=BaseModel)
_JSON: TypeAdapter[Any] = TypeAdapter(Any)


class TextAnswer(BaseModel):
    """A text: a page, or rows as CSV."""

    text: str


@dataclass(frozen=True, slots=True)
class ServiceCall(Generic[Answer]):
    """A request, and the model of its answer. Parameters and headers that are None are not sent."""

    method: str
    path: str
    model: type[Answer]
    query: Mapping[str, object] = field(default_factory=dict[str, object])
    body: bytes | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    wait_seconds: float = 0.0

    def answer(self, content: bytes) -> Answer:
        """Return the answer that a body has."""
        if issubclass(self.model, TextAnswer):
            return self.model(text=content.decode())
        return self.model.model_validate_json(content)

    def parameters(self) -> dict[str, str]:
        """Return the query's parameters as texts."""
        return {name: _text(value) for name, value in self.query.items() if value is not None}

    def after(self, page: BaseModel) -> ServiceCall[Answer] | None:
        """Return the call for the page after one; None if that was the last."""
        cursor = getattr(page, "next_cursor", None)
        return None if cursor is None else replace(self, query={**self.query, "cursor": cursor})


def emit_items(emission: models.Emission) -> ServiceCall[models.EmissionResult]:
    """Emit up to 10,000 items, all or none. It may be repeated."""
    return ServiceCall("POST", "/v1/items", models.EmissionResult, body=_body(emission))


def list_items(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    business_key: str | None = None,
    state: str | None = None,
    label: str | None = None,
    due_from: datetime | None = None,
    due_before: datetime | None = None,
    late: bool | None = None,
    open: bool | None = None,  # noqa: A002 - the parameter's name
    in_flight: bool | None = None,
    attempt_min: int | None = None,
    worker: str | None = None,
    definition: str | None = None,
    definition_version: int | None = None,
    serial: bool | None = None,
    blocked: bool | None = None,
    oldest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.ItemPage]:
    """List items: open and late ones first due first, others by effective date."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/items", models.ItemPage, query)


def get_item(item: UUID) -> ServiceCall[models.ItemDocument]:
    """Read an item and its state."""
    return ServiceCall("GET", f"/v1/items/{item}", models.ItemDocument)


def get_item_timeline(
    item: UUID, *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[models.Timeline]:
    """List what happened to an item, in order."""
    query = {"limit": limit, "cursor": cursor}
    return ServiceCall("GET", f"/v1/items/{item}/timeline", models.Timeline, query)


def explain_item(item: UUID) -> ServiceCall[models.WhyDocument]:
    """Explain why an item has not been done yet, and what to do."""
    return ServiceCall("GET", f"/v1/items/{item}/why", models.WhyDocument)


def list_definitions(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.DefinitionPage]:
    """List the versions of definitions that are in force or to come."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/definitions", models.DefinitionPage, query)


def get_definition(
    tenant: str, name: str, *, if_none_match: str | None = None
) -> ServiceCall[models.DefinitionDocument]:
    """Read the newest version of a definition; a known one is answered as a problem, HTTP_304."""
    headers = {"If-None-Match": if_none_match}
    path = _definition(tenant, name)
    return ServiceCall("GET", path, models.DefinitionDocument, headers=headers)


def list_definition_versions(
    tenant: str, name: str, *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[models.DefinitionPage]:
    """List all versions of a definition, the newest first."""
    query = {"limit": limit, "cursor": cursor}
    path = f"{_definition(tenant, name)}/versions"
    return ServiceCall("GET", path, models.DefinitionPage, query)


def list_executions(
    tenant: str,
    name: str,
    *,
    oldest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.ExecutionPage]:
    """List the items of a definition with durations and evidence."""
    query = {"oldest_first": oldest_first, "limit": limit, "cursor": cursor}
    path = f"{_definition(tenant, name)}/executions"
    return ServiceCall("GET", path, models.ExecutionPage, query)


def list_occurrences(
    tenant: str,
    name: str,
    *,
    count: int | None = None,
    from_: datetime | None = None,
) -> ServiceCall[models.Occurrences]:
    """List the next times at which a schedule is due."""
    query = {"count": count, "from": from_}
    path = f"{_definition(tenant, name)}/occurrences"
    return ServiceCall("GET", path, models.Occurrences, query)


def put_definition(
    tenant: str,
    name: str,
    document: Mapping[str, Any],
    *,
    if_match: str | None = None,
    effective_from: datetime | None = None,
    backfill: bool | None = None,
    accept_disagreement: str | None = None,
) -> ServiceCall[models.DefinitionChangeDocument]:
    """Put a definition in force; `if_match` is the version that it replaces, in double quotes."""
    return ServiceCall(
        "PUT",
        _definition(tenant, name),
        models.DefinitionChangeDocument,
        {
            "effective_from": effective_from,
            "backfill": backfill,
            "accept_disagreement": accept_disagreement,
        },
        _body(document),
        {"If-Match": if_match},
    )


def preview_definition(
    tenant: str,
    name: str,
    document: Mapping[str, Any],
    *,
    effective_from: datetime | None = None,
    backfill: bool | None = None,
) -> ServiceCall[models.DefinitionChangeDocument]:
    """Compute what a document would change; change nothing."""
    query = {"effective_from": effective_from, "backfill": backfill}
    path = f"{_definition(tenant, name)}/preview"
    return ServiceCall("POST", path, models.DefinitionChangeDocument, query, _body(document))


def convert_schedules(
    tenant: str, asked: models.ConvertRequest
) -> ServiceCall[models.ConvertedFile]:
    """Convert a file of another scheduler into definitions; change nothing."""
    path = f"{_tenant(tenant)}/definitions/convert"
    return ServiceCall("POST", path, models.ConvertedFile, body=_body(asked))


def pause_definition(
    tenant: str, name: str, reason: str, *, until: datetime | None = None
) -> ServiceCall[models.PauseChange]:
    """Stop handing out items of the definition's kind, until somebody resumes it or `until`."""
    path = f"{_definition(tenant, name)}/pause"
    asked = {"reason": reason} if until is None else {"reason": reason, "until": until}
    return ServiceCall("POST", path, models.PauseChange, body=_body(asked))


def resume_definition(tenant: str, name: str) -> ServiceCall[models.PauseChange]:
    """End the pause of the definition's kind."""
    return ServiceCall("POST", f"{_definition(tenant, name)}/resume", models.PauseChange)


def trigger_definition(
    tenant: str,
    name: str,
    reason: str,
    *,
    cycle: str | None = None,
    idempotency_key: str | None = None,
) -> ServiceCall[models.TriggeredItem]:
    """Owe one item of a schedule now."""
    asked = models.TriggerRequest(reason=reason, cycle=cycle)
    return ServiceCall(
        "POST",
        f"{_definition(tenant, name)}/trigger",
        models.TriggeredItem,
        body=_body(asked),
        headers=_once(idempotency_key),
    )


def list_calendars(
    *, tenant: str | None = None, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[models.CalendarPage]:
    """List the newest version of each calendar, by tenant and name."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/calendars", models.CalendarPage, query)


def get_calendar(
    tenant: str, name: str, *, version: int | None = None, if_none_match: str | None = None
) -> ServiceCall[models.CalendarDetail]:
    """Read a version of a calendar with its days; a known one is a problem, HTTP_304."""
    path = f"/v1/calendars/{tenant}/{name}"
    headers = {"If-None-Match": if_none_match}
    return ServiceCall("GET", path, models.CalendarDetail, {"version": version}, headers=headers)


def put_calendar(
    tenant: str, name: str, document: Mapping[str, Any], *, if_match: str | None = None
) -> ServiceCall[models.CalendarChange]:
    """Put a calendar's first version, or the next; `if_match` as for `put_definition`."""
    path = f"/v1/calendars/{tenant}/{name}"
    headers = {"If-Match": if_match}
    return ServiceCall("PUT", path, models.CalendarChange, body=_body(document), headers=headers)


def record_event(event: models.CloudEvent) -> ServiceCall[models.EventResult]:
    """Record a domain event, and what it implies. It may be repeated."""
    return ServiceCall("POST", "/v1/events", models.EventResult, body=_body(event))


def list_keys(
    *, name: str | None = None, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[models.KeyPage]:
    """List API keys without their secrets, the newest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/keys", models.KeyPage, query)


def create_key(
    name: str,
    scopes: Sequence[str],
    tenants: Sequence[str] | None,
    *,
    expires_at: datetime | None = None,
    rate_per_second: float | None = None,
    rate_burst: int | None = None,
    idempotency_key: str | None = None,
) -> ServiceCall[models.NewKeyDocument]:
    """Make an API key; its first answer alone has the secret. Without `tenants` it is for all."""
    asked = dict(locals())
    headers = _once(asked.pop("idempotency_key"))
    body = _body(asked)
    return ServiceCall("POST", "/v1/keys", models.NewKeyDocument, body=body, headers=headers)


def rotate_key(
    prefix: str,
    *,
    overlap_hours: float = 24.0,
    expires_at: datetime | None = None,
    idempotency_key: str | None = None,
) -> ServiceCall[models.NewKeyDocument]:
    """Make a key with the rights of another one, which expires soon."""
    body = _body({"overlap_hours": overlap_hours, "expires_at": expires_at})
    path, headers = f"/v1/keys/{prefix}/rotate", _once(idempotency_key)
    return ServiceCall("POST", path, models.NewKeyDocument, body=body, headers=headers)


def revoke_key(prefix: str) -> ServiceCall[models.RevokedKey]:
    """Revoke an API key at once."""
    return ServiceCall("POST", f"/v1/keys/{prefix}/revoke", models.RevokedKey)


def claim_items(asked: models.PullRequest) -> ServiceCall[models.PullResponse]:
    """Claim due items, or wait until some are."""
    seconds = asked.wait_seconds or 0.0
    return ServiceCall(
        "POST", "/v1/claims", models.PullResponse, body=_body(asked), wait_seconds=seconds
    )


def report_outcomes(reports: models.OutcomeReports) -> ServiceCall[models.OutcomeVerdicts]:
    """Report outcomes and heartbeats. It may be repeated."""
    return ServiceCall("POST", "/v1/outcomes", models.OutcomeVerdicts, body=_body(reports))


def list_reviews(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    newest_first: bool | None = None,
    taken: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.ReviewPage]:
    """List items that wait for a person's decision, oldest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/reviews", models.ReviewPage, query)


def list_review_groups(
    *, tenant: str | None = None, kind: str | None = None, taken: str | None = None
) -> ServiceCall[models.ReviewGroups]:
    """Group the items that were parked first by flow, reason and last error."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/reviews/groups", models.ReviewGroups, query)


def take_reviews(tenant: str, asked: models.TakeRequest) -> ServiceCall[models.TakenItems]:
    """Take parked items, so that others see who decides about them."""
    path = f"{_tenant(tenant)}/reviews/take"
    return ServiceCall("POST", path, models.TakenItems, body=_body(asked))


def return_reviews(tenant: str, asked: models.ParkedItems) -> ServiceCall[models.TakenItems]:
    """Return parked items that the caller has taken."""
    path = f"{_tenant(tenant)}/reviews/return"
    return ServiceCall("POST", path, models.TakenItems, body=_body(asked))


def comment_on_reviews(
    tenant: str, asked: models.CommentRequest, *, idempotency_key: str | None = None
) -> ServiceCall[models.WrittenComment]:
    """Write a comment on a parked item, or on a group of them."""
    path, headers = f"{_tenant(tenant)}/reviews/comments", _once(idempotency_key)
    return ServiceCall("POST", path, models.WrittenComment, body=_body(asked), headers=headers)


def list_review_comments(
    tenant: str,
    *,
    item: UUID | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.ReviewCommentPage]:
    """List comments on a parked item, or on those of a kind or lane, the newest first."""
    query = dict(locals())
    path = f"{_tenant(query.pop('tenant'))}/reviews/comments"
    return ServiceCall("GET", path, models.ReviewCommentPage, query)


def decide_items(
    tenant: str, decision: models.ItemDecision, *, idempotency_key: str | None = None
) -> ServiceCall[models.DecisionResults]:
    """Redrive, write off, park, snooze, cancel or trigger items that are named."""
    path, headers = f"{_tenant(tenant)}/decisions", _once(idempotency_key)
    return ServiceCall("POST", path, models.DecisionResults, body=_body(decision), headers=headers)


def preview_operation(
    tenant: str, asked: models.OperationFilter
) -> ServiceCall[models.OperationCount]:
    """Count the items of a tenant that an operation would move now."""
    path = f"{_tenant(tenant)}/operations/preview"
    return ServiceCall("POST", path, models.OperationCount, body=_body(asked))


def create_operation(
    tenant: str, asked: models.OperationRequest, *, idempotency_key: str | None = None
) -> ServiceCall[models.OperationDocument]:
    """Record an operation on all items of a filter."""
    path, headers = f"{_tenant(tenant)}/operations", _once(idempotency_key)
    return ServiceCall("POST", path, models.OperationDocument, body=_body(asked), headers=headers)


def list_operations(
    *,
    tenant: str | None = None,
    awaits_approval: bool | None = None,
    oldest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.OperationPage]:
    """List operations with their progress, newest or oldest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/operations", models.OperationPage, query)


def get_operation(operation: int) -> ServiceCall[models.OperationDocument]:
    """Read one operation."""
    return ServiceCall("GET", f"/v1/operations/{operation}", models.OperationDocument)


def pause_operation(operation: int, reason: str) -> ServiceCall[models.OperationDocument]:
    """Pause an operation: no item is moved until it is resumed."""
    path, body = f"/v1/operations/{operation}/pause", _body({"reason": reason})
    return ServiceCall("POST", path, models.OperationDocument, body=body)


def resume_operation(operation: int, reason: str) -> ServiceCall[models.OperationDocument]:
    """Resume a paused operation. It goes on after the items that it had moved."""
    path, body = f"/v1/operations/{operation}/resume", _body({"reason": reason})
    return ServiceCall("POST", path, models.OperationDocument, body=body)


def abort_operation(operation: int, reason: str) -> ServiceCall[models.OperationDocument]:
    """End an operation. Items that it has moved stay as they are."""
    path, body = f"/v1/operations/{operation}/abort", _body({"reason": reason})
    return ServiceCall("POST", path, models.OperationDocument, body=body)


def approve_operation(operation: int, reason: str) -> ServiceCall[models.OperationDocument]:
    """Approve an operation that waits for a second person, and that another actor asked for."""
    path, body = f"/v1/operations/{operation}/approve", _body({"reason": reason})
    return ServiceCall("POST", path, models.OperationDocument, body=body)


def list_flows(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.FlowPage]:
    """List flows with their limits and waiting items."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/flows", models.FlowPage, query)


def get_flow(
    tenant: str, kind: str, lane: str = "", *, until: datetime | None = None
) -> ServiceCall[models.FlowDetails]:
    """Read a flow: its limits, what limits it now, and its waiting items."""
    query = {"lane": lane, "until": until}
    return ServiceCall("GET", _flow(tenant, kind), models.FlowDetails, query)


def set_flow_limits(
    tenant: str, kind: str, change: models.FlowLimitsChange, *, if_match: str | None = None
) -> ServiceCall[models.ChangedFlows]:
    """Change the limits of a flow; those that are not set stay, and None removes one.

    `if_match` is the ETag of the flow: then only limits that are still these are changed.
    """
    path, headers = _flow(tenant, kind), {"If-Match": if_match}
    return ServiceCall("PATCH", path, models.ChangedFlows, body=_body(change), headers=headers)


def list_pauses(
    *,
    tenant: str | None = None,
    fell_due: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.PausePage]:
    """List the pauses in force."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/pauses", models.PausePage, query)


def get_throughput(*, tenant: str | None = None) -> ServiceCall[models.ThroughputDocument]:
    """Read how many items were completed in each minute of the last hour, and how late."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/throughput", models.ThroughputDocument, query)


def get_overview(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int | None = None,
) -> ServiceCall[models.OverviewDocument]:
    """Read what the worst flows, or one, were and are due in each quarter hour of two days."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/overview", models.OverviewDocument, query)


def get_status(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int | None = None,
) -> ServiceCall[models.StatusDocument]:
    """Read which flows have open items, what hinders each, and what is due next."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/status", models.StatusDocument, query)


def list_past_days(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    zone: str | None = None,
    from_: date | None = None,
    days: int | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.PastDaysDocument]:
    """List the results of the items of each kind that were due on each day."""
    query = dict(locals())
    query["from"] = query.pop("from_")
    return ServiceCall("GET", "/v1/past-load/days", models.PastDaysDocument, query)


def list_past_hours(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    zone: str | None = None,
    from_: date | None = None,
    days: int | None = None,
) -> ServiceCall[models.PastHoursDocument]:
    """List the results of the items that were due in each hour."""
    query = dict(locals())
    query["from"] = query.pop("from_")
    return ServiceCall("GET", "/v1/past-load/hours", models.PastHoursDocument, query)


def get_lateness(
    *, tenant: str | None = None, kind: str | None = None, lane: str | None = None
) -> ServiceCall[models.LateItems]:
    """Count open items past their SLA by how long they have been due, and list the worst."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/lateness", models.LateItems, query)


def get_load(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    start: datetime | None = None,
    quiet: int | None = None,
    hour: datetime | None = None,
) -> ServiceCall[models.LoadDocument]:
    """Count what schedules owe in a week, by quarter of an hour, with peaks and quiet windows."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/load", models.LoadDocument, query)


def search(q: str) -> ServiceCall[models.SearchResult]:
    """Find what a text names: items, a claim, events, a Kafka record."""
    return ServiceCall("GET", "/v1/search", models.SearchResult, {"q": q})


def suggest_keys(q: str) -> ServiceCall[models.KeyList]:
    """List business keys that begin with a text; none for a key that is bound to tenants."""
    return ServiceCall("GET", "/v1/search/keys", models.KeyList, {"q": q})


def pause_flows(tenant: str, asked: models.FlowsPauseRequest) -> ServiceCall[models.PauseChange]:
    """Stop claims of a tenant, a kind or a lane."""
    return ServiceCall("POST", f"{_tenant(tenant)}/pause", models.PauseChange, body=_body(asked))


def resume_flows(tenant: str, asked: models.FlowsRequest) -> ServiceCall[models.PauseChange]:
    """End a pause, and all narrower ones in it."""
    return ServiceCall("POST", f"{_tenant(tenant)}/resume", models.PauseChange, body=_body(asked))


def list_findings(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    type: str | None = None,  # noqa: A002 - the parameter's name
    effective_date: date | None = None,
    item: UUID | None = None,
    closed: bool | None = None,
    newest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.FindingPage]:
    """List open findings, oldest first; with `closed`, the closed ones, too."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/findings", models.FindingPage, query)


def get_finding(finding: UUID) -> ServiceCall[models.FindingDocument]:
    """Read a finding with both sides of its evidence, and its repairs."""
    return ServiceCall("GET", f"/v1/findings/{finding}", models.FindingDocument)


def list_undecided_findings(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    taken: str | None = None,
    newest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.FindingPage]:
    """List open findings that a person decides, oldest or newest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/findings/undecided", models.FindingPage, query)


def take_finding(
    finding: UUID, *, instead_of: str | None = None
) -> ServiceCall[models.TakenFinding]:
    """Take an open finding, so that others see who decides about it and its repair."""
    path, body = f"/v1/findings/{finding}/take", _body({"instead_of": instead_of})
    return ServiceCall("POST", path, models.TakenFinding, body=body)


def return_finding(finding: UUID) -> ServiceCall[models.TakenFinding]:
    """Return a finding that the caller has taken."""
    return ServiceCall("POST", f"/v1/findings/{finding}/return", models.TakenFinding)


def comment_on_finding(
    finding: UUID, comment: str, *, idempotency_key: str | None = None
) -> ServiceCall[models.WrittenComment]:
    """Write a comment on an open finding and its repair."""
    path, headers = f"/v1/findings/{finding}/comments", _once(idempotency_key)
    body = _body({"comment": comment})
    return ServiceCall("POST", path, models.WrittenComment, body=body, headers=headers)


def list_finding_comments(
    finding: UUID, *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[models.FindingCommentPage]:
    """List comments on a finding, the newest first."""
    query = dict(locals())
    path = f"/v1/findings/{query.pop('finding')}/comments"
    return ServiceCall("GET", path, models.FindingCommentPage, query)


def explain_finding(finding: UUID, reason: str) -> ServiceCall[models.FindingResolution]:
    """Record why an open finding is not wrong."""
    path, body = f"/v1/findings/{finding}/explain", _body({"reason": reason})
    return ServiceCall("POST", path, models.FindingResolution, body=body)


def accept_finding(finding: UUID, reason: str) -> ServiceCall[models.FindingResolution]:
    """Record that an open finding is wrong and stays so."""
    path, body = f"/v1/findings/{finding}/accept", _body({"reason": reason})
    return ServiceCall("POST", path, models.FindingResolution, body=body)


def list_repairs(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    taken: str | None = None,
    newest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.RepairPage]:
    """List proposed repairs that were not executed yet, oldest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/repairs", models.RepairPage, query)


def plan_repair(finding: UUID) -> ServiceCall[models.RepairPlan]:
    """Show what the repair of an open finding would change."""
    return ServiceCall("GET", f"/v1/findings/{finding}/repair", models.RepairPlan)


def propose_repair(finding: UUID) -> ServiceCall[models.RepairProposal]:
    """Propose the repair of an open finding. It may be repeated."""
    return ServiceCall("POST", f"/v1/findings/{finding}/repair", models.RepairProposal)


def approve_repair(repair: UUID, reason: str) -> ServiceCall[models.RepairApproval]:
    """Approve a repair that another actor has proposed."""
    path, body = f"/v1/repairs/{repair}/approve", _body({"reason": reason})
    return ServiceCall("POST", path, models.RepairApproval, body=body)


def list_audit(
    *,
    tenant: str | None = None,
    actor: str | None = None,
    operation: str | None = None,
    target: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    oldest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.AuditPage]:
    """List what people, API keys and tokens changed, the newest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/audit", models.AuditPage, query)


def count_findings(*, tenant: str | None = None) -> ServiceCall[models.FindingCounts]:
    """Count open findings by type and age."""
    return ServiceCall("GET", "/v1/findings/counts", models.FindingCounts, {"tenant": tenant})


def list_missing(
    *,
    tenant: str | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.MissingPage]:
    """List days on which items of a kind are missing, as open findings say, and how many are."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/findings/missing", models.MissingPage, query)


def list_watermarks(
    *, tenant: str | None = None, limit: int | None = None
) -> ServiceCall[models.WatermarkList]:
    """List up to when each kind is complete, and what blocks it."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/watermarks", models.WatermarkList, query)


def list_processes(*, limit: int | None = None) -> ServiceCall[models.ProcessList]:
    """List processes that live, are silent, or are gone since an hour."""
    return ServiceCall("GET", "/v1/processes", models.ProcessList, {"limit": limit})


def drain_process(process: str, request: models.DrainRequest) -> ServiceCall[models.DrainAnswer]:
    """Ask a process to end what it has and stop, as SIGTERM does. It begins within a second."""
    path = f"/v1/processes/{quote(process, safe='')}/drain"
    return ServiceCall("POST", path, models.DrainAnswer, body=_body(request))


def list_topics(*, limit: int | None = None) -> ServiceCall[models.TopicList]:
    """List the topics of kinds, with what lies there."""
    return ServiceCall("GET", "/v1/topics", models.TopicList, {"limit": limit})


def list_topic_partitions(
    topic: str, *, limit: int | None = None
) -> ServiceCall[models.PartitionList]:
    """List the partitions of a topic in which published items wait; none of an unknown topic."""
    path = f"/v1/topics/{quote(topic, safe='')}/partitions"
    return ServiceCall("GET", path, models.PartitionList, {"limit": limit})


def list_alerts() -> ServiceCall[models.AlertList]:
    """List the alerts that stand."""
    return ServiceCall("GET", "/v1/alerts", models.AlertList)


def list_checks() -> ServiceCall[models.CheckList]:
    """Check the database, its schema, clock and partitions, its processes and operations."""
    return ServiceCall("GET", "/v1/checks", models.CheckList)


def list_settings() -> ServiceCall[models.SettingList]:
    """List the settings of the process that answers, without secrets."""
    return ServiceCall("GET", "/v1/settings", models.SettingList)


def list_reports(
    *,
    tenant: str | None = None,
    oldest_first: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[models.ReportPage]:
    """List reports, newest first."""
    query = dict(locals())
    return ServiceCall("GET", "/v1/reports", models.ReportPage, query)


def get_report(number: int, *, tenant: str | None = None) -> ServiceCall[models.ReportDocument]:
    """Read a report, as it was recorded."""
    return ServiceCall("GET", f"/v1/reports/{number}", models.ReportDocument, {"tenant": tenant})


def get_report_page(number: int, *, tenant: str | None = None) -> ServiceCall[TextAnswer]:
    """Read the page of a report, HTML without scripts."""
    return ServiceCall("GET", f"/v1/reports/{number}/page", TextAnswer, {"tenant": tenant})


def download_report_findings(number: int, *, tenant: str | None = None) -> ServiceCall[TextAnswer]:
    """Download all findings of a report as CSV."""
    return ServiceCall("GET", f"/v1/reports/{number}/findings", TextAnswer, {"tenant": tenant})


def download_report_repairs(number: int, *, tenant: str | None = None) -> ServiceCall[TextAnswer]:
    """Download all repairs of a report as CSV."""
    return ServiceCall("GET", f"/v1/reports/{number}/repairs", TextAnswer, {"tenant": tenant})


def _tenant(tenant: str) -> str:
    return f"/v1/tenants/{quote(tenant, safe='')}"


def _flow(tenant: str, kind: str) -> str:
    return f"/v1/flows/{quote(tenant, safe='')}/{quote(kind, safe='')}"


def _definition(tenant: str, name: str) -> str:
    return f"/v1/definitions/{quote(tenant, safe='')}/{quote(name, safe='')}"


def _once(idempotency_key: str | None) -> dict[str, str | None]:
    """Return the header under which a call has one effect, however often it is sent."""
    return {"Idempotency-Key": idempotency_key or str(uuid4())}


def _body(value: object) -> bytes:
    if isinstance(value, BaseModel):
        return value.model_dump_json(exclude_unset=True).encode()
    return _JSON.dump_json(value)


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
