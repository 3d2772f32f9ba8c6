"""Findings and their repairs: both sides' evidence, and what a repair would change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import orjson
from fastapi import Response
from pydantic import BeforeValidator

from dueledger.console.back import Back, back_link, back_to
from dueledger.console.forms import TAKEN_CHOICES, TAKEN_FILTERS, Filter, TakenFilter, blank
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.taken_reviews import people_of_finding
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.errors import Conflict
from dueledger.ledger.finding_types import (
    FINDING_RULES,
    FindingType,
    RepairStatus,
    Resolution,
)
from dueledger.ledger.rules.redaction import members_of_side
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import PageAfter, list_findings, list_undecided_findings
from dueledger.ledger.store.repairs import list_waiting_repairs
from dueledger.refusals import finding_refusal, repair_refusal
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes import findings
from dueledger.service.routes.fields import NewestFirst, taken_by

audit = PageRoutes(Scope.AUDIT, "console")

_PARENT: Final = ("Reconciliation", "/reconciliation")
_TYPES: Final = tuple(FindingType)


class Evidence(NamedTuple):
    """A field of the evidence, as it was expected and as it was.

    `differs` is of the values as they are: redacted, two may be shown alike.
    """

    name: str
    expected: object
    actual: object
    differs: bool


@audit.page("/reconciliation/findings")
async def list_found(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    type: Annotated[FindingType | None, BeforeValidator(blank)] = None,  # noqa: A002 - the parameter's name
    effective_date: Annotated[date | None, BeforeValidator(blank)] = None,
    closed: bool = False,
    newest_first: NewestFirst = False,
) -> Response:
    """List findings, oldest or newest first."""
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
    shown = list(map(dict, rows))
    return view.page(
        "list.html",
        title="Findings",
        parent=_PARENT,
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "type": ("Type", type, _TYPES),
            "effective_date": ("Effective date", effective_date, "date"),
            "closed": ("Include closed", closed, ()),
            "newest_first": ("Newest first", newest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=any((tenant, kind, type, effective_date, closed, newest_first)),
        changed=("finding", "Findings have changed"),
        listing=Listing(
            caption="Findings",
            order="newest first" if newest_first else "oldest first",
            turns=("first_seen_at", "newest_first", not newest_first),
            columns=_columns(view),
            rows=shown[: page.limit],
            empty=("No finding was recorded yet. " if closed else "No finding is open. ")
            + "`dueledger reconcile` compares what was owed with what happened.",
            filters=("tenant", "kind", "type", "effective_date"),
            unmatched=f"No {'' if closed else 'open '}finding matches the filter.",
            next_cursor=page.cursor_of(shown, "first_seen_at", "id"),
        ),
    )


@audit.page("/reconciliation/findings/{finding}")
async def show_finding(
    call: CurrentCall, view: CurrentView, finding: UUID, *, back: Back = None
) -> Response:
    """Show a finding: both sides of its evidence, its repairs, and what may be decided."""
    found = await findings.find_finding(call, finding)
    is_open = found["resolution"] == Resolution.OPEN
    plan, no_plan = await _plan(call, finding) if is_open else (None, None)
    people = await people_of_finding(call, found, back)
    return view.page(
        "finding.html",
        title=f"{found['type']} {found['business_key'] or found['subject']}",
        back=back_link(back),
        finding=found,
        rule=FINDING_RULES[FindingType(found["type"])],
        is_open=is_open,
        evidence_list=Listing(
            caption="Evidence",
            columns=_EVIDENCE_COLUMNS,
            rows=[_evidence_row(each) for each in _evidence(found)],
        ),
        plan=plan,
        no_plan=no_plan,
        is_pending=any(each["status"] == "proposed" for each in found["repairs"]),
        repairs=[
            {
                **each,
                "proposed_at": datetime.fromisoformat(each["proposed_at"]),
                "refusal": repair_refusal(_approval_result(each, call.caller.name)),
            }
            for each in found["repairs"]
        ],
        may_decide=view.may(Scope.APPROVE),
        people=people,
        comments=people.comments,
        refusal=finding_refusal(_resolution_result(found, call.caller.name)),
    )


@audit.page("/reconciliation/repairs")
async def list_repairs(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    taken: TakenFilter = None,
    newest_first: NewestFirst = False,
) -> Response:
    """List proposed repairs that were not executed yet, oldest or newest first."""
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
    cursor = page.cursor_of(rows, "proposed_at", "id")
    listing = list_repairs_of(view, rows[: page.limit], cursor, downloads=True)
    return view.page(
        "list.html",
        title="Pending repairs",
        parent=_PARENT,
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "taken": ("Taken by", taken, TAKEN_CHOICES),
            "newest_first": ("Newest first", newest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or taken or newest_first),
        changed=("repair", "Repairs have changed"),
        listing=replace(
            listing,
            order="newest first" if newest_first else "oldest first",
            turns=("proposed_at", "newest_first", not newest_first),
        ),
    )


@audit.page("/reviews/findings")
async def list_undecided(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
    taken: TakenFilter = None,
    newest_first: NewestFirst = False,
) -> Response:
    """List findings that wait for a person's decision, oldest or newest first."""
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
    cursor = page.cursor_of(rows, "first_seen_at", "id")
    listing = list_undecided_of(view, rows[: page.limit], cursor, downloads=True)
    return view.page(
        "list.html",
        title="Findings that wait for a decision",
        parent=("Reviews", "/reviews"),
        filters={
            "tenant": ("Tenant", tenant, None),
            "kind": ("Kind", kind, None),
            "taken": ("Taken by", taken, TAKEN_CHOICES),
            "newest_first": ("Newest first", newest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=bool(tenant or kind or taken or newest_first),
        changed=("finding", "Findings have changed"),
        listing=replace(
            listing,
            order="newest first" if newest_first else "oldest first",
            turns=("first_seen_at", "newest_first", not newest_first),
        ),
    )


def list_undecided_of(
    view: View,
    rows: Sequence[Row],
    next_cursor: str | None = None,
    *,
    downloads: bool = False,
) -> Listing:
    """Return findings that a person decides as a list, with who has taken each."""
    return Listing(
        caption="Findings that wait for a decision",
        order="oldest first",
        columns=(*_columns(view)[:-1], Column("taken_by", "Taken by")),
        rows=rows,
        empty="No finding waits for a decision. One waits if no repair resolves findings of its"
        " type, or if somebody has taken it.",
        filters=TAKEN_FILTERS,
        unmatched="No finding that waits for a decision matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )


def list_repairs_of(
    view: View,
    rows: Sequence[Row],
    next_cursor: str | None = None,
    *,
    downloads: bool = False,
) -> Listing:
    """Return repairs that wait as a list: what each would change, and what it waits for."""
    back = back_to(view)

    def show(row: Row) -> str:
        return view.url(f"/reconciliation/findings/{row['finding_id']}", back=back)

    return Listing(
        caption="Pending repairs",
        order="oldest first",
        columns=(
            Column("type", "Finding", "text", show),
            Column("kind", "Flow", "flow"),
            Column("business_key", "Business key"),
            Column("action", "Repair", "word"),
            Column("before", "Before", "prose"),
            Column("after", "After", "prose"),
            Column("status", "Status", "status"),
            Column("held_because", "Waits for", "prose"),
            Column("proposed_by", "Proposed by"),
            Column("proposed_at", "Proposed", "time"),
            Column("taken_by", "Taken by"),
        ),
        rows=[
            {**row, "lane": "", "status": "approved" if row["approved_by"] else "waiting"}
            for row in rows
        ],
        empty="No repair is pending. One is proposed on the page of its finding.",
        filters=TAKEN_FILTERS,
        unmatched="No pending repair matches the filter.",
        next_cursor=next_cursor,
        downloads=downloads,
    )


def _resolution_result(found: Mapping[str, Any], caller: str) -> str:
    """Return what `resolve_findings` would answer to a caller about a finding as it is now."""
    if found["resolution"] != Resolution.OPEN:
        return found["resolution"]
    is_own = any(
        each["status"] == RepairStatus.PROPOSED and each["proposed_by"] == caller
        for each in found["repairs"]
    )
    return "own" if is_own else "done"


def _approval_result(repair: Mapping[str, Any], caller: str) -> str:
    """Return what `approve_repairs` would answer about a repair of an open finding."""
    if repair["status"] != RepairStatus.PROPOSED:
        return "finished"
    if repair["proposed_by"] == caller:
        return "own"
    held_because, covered = repair["held_because"], repair["approved_over"] or ()
    is_covered = held_because is None or held_because in covered
    return "approved" if repair["approved_by"] and is_covered else "done"


async def _plan(call: ApiCall, finding: UUID) -> tuple[Mapping[str, object] | None, str | None]:
    """Return what the repair of a finding would change, or why there is none now."""
    try:
        return await findings.describe_repair(call, finding), None
    except Conflict as error:
        return None, error.message


def _columns(view: View) -> list[Column]:
    back = back_to(view)

    def show(row: Row) -> str:
        return view.url(f"/reconciliation/findings/{row['id']}", back=back)

    return [
        Column("type", "Type", "text", show),
        Column("severity", "Severity", "status"),
        Column("tenant", "Tenant", "scope"),
        Column("kind", "Kind", "scope"),
        Column("business_key", "Business key"),
        Column("sentence", "What is wrong", "prose"),
        Column("due_at", "Due", "time"),
        Column("first_seen_at", "Found", "time"),
        Column("repair_status", "Repair", "status"),
        Column("resolution", "Resolution", "status"),
    ]


def _evidence(found: Mapping[str, Any]) -> list[Evidence]:
    """Return both sides field by field; what is no object is one field."""
    expected, actual = members_of_side(found["expected"]), members_of_side(found["actual"])
    return [
        Evidence(name, expected.get(name), actual.get(name), name in found["differing"])
        for name in dict.fromkeys([*expected, *actual])
    ]


def _evidence_row(each: Evidence) -> Row:
    sides = {"expected": each.expected, "actual": each.actual}
    texts = {
        name: None if side is None else orjson.dumps(side).decode() for name, side in sides.items()
    }
    return {"field": each.name, "differs": each.differs, "evidence": each, **texts}


_EVIDENCE_COLUMNS: Final[Sequence[Column]] = (
    Column("field", "Field"),
    Column("expected", "Expected", "code"),
    Column("actual", "Actual", "code"),
    Column("differs", "Differs", "flag"),
)
