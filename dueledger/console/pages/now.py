"""The first page: what is late, for whom, and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from fastapi import Response

from dueledger.console.cells import count_of
from dueledger.console.firing_alerts import firing_alerts
from dueledger.console.flow_sentences import flow_sentence, status_word
from dueledger.console.heat_strip import FLOWS_MAX as STRIP_FLOWS_MAX
from dueledger.console.heat_strip import HeatStrip, make_strip
from dueledger.console.late_flows import (
    late_flows,
    late_reasons,
    make_verdict,
    mark_late,
    name_of,
)
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.sparklines import make_sparklines
from dueledger.console.view import CurrentView, View
from dueledger.flow_status import LedgerStatus, describe_failures, make_status
from dueledger.hindrance_texts import Hindrance
from dueledger.items import ListedItems, page_open_items
from dueledger.lateness import LateCount, count_late
from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import count_findings, list_findings
from dueledger.ledger.store.flows import list_next_due, list_pauses, read_status
from dueledger.ledger.store.item_lists import ItemListFilter
from dueledger.ledger.store.overview import list_overview, read_overview_place
from dueledger.ledger.store.passes import list_watermarks
from dueledger.ledger.store.processes import ProcessRole, read_roles
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.throughput import read_throughput

read = PageRoutes(Scope.READ, "console")

FLOWS_MAX: Final = 50
COUNTED_MAX: Final = 1_000
"""Items counted of a flow; more are shown as this number and +."""
LATE_MAX: Final = 100
LATE_READ_MAX: Final = 500
"""Open items read to count those that are late."""
COMING_MAX: Final = 4
FINDINGS_MAX: Final = 1_000
ALERTS_MAX: Final = 5
PAUSES_MAX: Final = 3
_WAITS_NAMED: Final = 2
"""Hindrances that the number of due items names."""


class Figure(NamedTuple):
    """A number, what it counts, and the list behind it."""

    label: str
    value: int | None
    href: str | None
    capped: bool = False
    tone: str = "quiet"
    note: str = ""
    shown: str | None = None
    """Instead of the number."""
    at: datetime | None = None
    """The time that `shown` says, if it is one."""


@read.page("/")
async def show_now(call: CurrentCall, view: CurrentView) -> Response:
    """Show six numbers, two days by quarter hour, and the flows by what hinders them."""
    flows = await read_status(
        call.connection, tenants=call.tenants, limit=FLOWS_MAX, count_max=COUNTED_MAX
    )
    roles = await read_roles(call.connection)
    assert view.clock.now is not None  # noqa: S101 - it has a call
    late = await _late_items(call, late_flows(flows))
    flows = mark_late(flows, late.items, view.clock.now)
    first_late = late_flows(flows)
    late_count = await count_late(call.connection, late, first_late)
    status = make_status(view.clock.now, flows, roles)
    groups = [(flow_sentence(view, each.code), _rows(each.flows)) for each in status.groups]
    sparklines = make_sparklines(view, await read_throughput(call.connection, tenants=call.tenants))
    strip = await _strip(call, view, first_late)
    findings = await _findings(call, view)
    found = None if findings is None or not findings.value else _found(findings)
    return view.page(
        "now.html",
        title="Now",
        status=status,
        verdict=make_verdict(view, status, first_late, late.items, found),
        reasons=late_reasons(view, status, first_late),
        is_watched=bool(roles[ProcessRole.ALERTER].live),
        failures=describe_failures(roles, view.clock.exact),
        figures=[
            *_figures(view, flows, status, late_count),
            *([] if findings is None else [findings]),
            await _completeness(call, view, has_findings=found is not None),
        ],
        pauses=await list_pauses(call.connection, tenants=call.tenants, limit=PAUSES_MAX + 1),
        pauses_max=PAUSES_MAX,
        groups=groups,
        alerts=await firing_alerts(call.connection, call.tenants, limit=ALERTS_MAX + 1),
        alerts_max=ALERTS_MAX,
        has_system=view.has_page("/system"),
        sparklines=sparklines,
        minutes=None if sparklines is None else sparklines.listing,
        strip=strip,
        strip_listing=None if strip is None else strip.listing,
        coming=await list_next_due(call.connection, tenants=call.tenants, limit=COMING_MAX),
        listing=_listing(view, flows),
    )


async def _late_items(call: ApiCall, first_late: Sequence[Mapping[str, Any]]) -> ListedItems:
    """Return the items that are late, up to a limit.

    Of all flows few are read of each: the late one with most due items often has enough alone.
    """
    everything = ItemListFilter(tenants=call.tenants)
    tried = [everything]
    if first_late:
        largest = max(first_late, key=itemgetter("due"))
        worst = {name: largest[name] for name in ("tenant", "kind", "lane")}
        tried.insert(0, ItemListFilter(tenants=call.tenants, **worst))
    late = ListedItems([], None)
    for wanted in tried:
        late = await page_open_items(
            call.connection,
            wanted,
            limit=LATE_MAX,
            late=True,
            read_max=LATE_READ_MAX,
            read_total_max=LATE_READ_MAX,
        )
        if late.next_place is not None:
            break
    return late


def _figures(
    view: View, flows: Sequence[Mapping[str, Any]], status: LedgerStatus, late: LateCount
) -> list[Figure]:
    return [
        Figure(
            "Due now",
            status.due,
            view.url("/items", open=True, due_before=status.now),
            status.due_capped,
            note=_due_note(status),
        ),
        Figure(
            "In flight",
            flows[0]["all_in_flight"] if flows else 0,
            view.url("/items", in_flight=True),
            tone="active",
            note="handed out or running",
        ),
        Figure(
            "Late",
            late.items,
            view.url("/items", late=True),
            late.capped,
            "bad" if late.items else "good",
            "past their SLA; more are not counted" if late.capped else "past their SLA",
        ),
        Figure(
            "In review",
            status.parked,
            view.url("/items", state=State.MANUAL_REVIEW.label),
            status.parked_capped,
            "warn" if status.parked else "quiet",
            "wait for a person",
        ),
    ]


def _due_note(status: LedgerStatus) -> str:
    """Return whether items that are due may be claimed, or how many of them wait, and for what."""
    waiting = {
        group.code: sum(flow["due"] for flow in group.flows)
        for group in status.groups
        if group.code is not Hindrance.NOT_CLAIMED and any(flow["due"] for flow in group.flows)
    }
    if not waiting:
        return "may be claimed"
    of_some = status.shown_count < status.flow_count
    capped = of_some or any(
        flow["due_capped"]
        for group in status.groups
        if group.code in waiting
        for flow in group.flows
    )
    count = count_of(sum(waiting.values()), capped=capped)
    if set(waiting) == {Hindrance.PAUSED}:
        return f"{count} of them paused"
    words = [status_word(code).replace("_", " ") for code in waiting][:_WAITS_NAMED]
    more = ", …" if len(waiting) > _WAITS_NAMED else ""
    return f"{count} of them wait: {', '.join(words)}{more}"


async def _findings(call: ApiCall, view: View) -> Figure | None:
    """Return how many findings are open, and of whom the newest is, to who may see them."""
    if not view.may(Scope.AUDIT):
        return None
    rows = await count_findings(call.connection, tenants=call.tenants, count_max=FINDINGS_MAX)
    findings = sum(row["findings"] for row in rows)
    note = "of the reconciler"
    if findings:
        [newest] = await list_findings(
            call.connection, tenants=call.tenants, page_size=1, newest_first=True
        )
        note = f"{'the newest: ' if findings > 1 else ''}{_finding_name(newest)}"
    return Figure(
        "Findings open",
        findings,
        view.url("/reconciliation/findings"),
        any(row["findings_capped"] for row in rows),
        "bad" if findings else "good",
        note,
    )


def _finding_name(finding: Mapping[str, Any]) -> str:
    names = [each for each in (finding["tenant"], finding["kind"]) if each != WHOLE_LEDGER]
    whose = " ".join(filter(None, names)) or "the ledger"
    return f"{whose}, {finding['type'].replace('_', ' ').lower()}"


def _found(findings: Figure) -> str:
    """Return how many findings are open, and of whom, as a part of a sentence."""
    if findings.value == 1:
        return f"1 finding is open: {findings.note}"
    return f"{count_of(findings.value, capped=findings.capped)} findings are open; {findings.note}"


async def _strip(
    call: ApiCall, view: View, first_late: Sequence[Mapping[str, Any]]
) -> HeatStrip | None:
    """Return the strip of the last and the next 24 hours; None before they are counted first."""
    place = await read_overview_place(call.connection)
    if place is None or view.clock.now is None:
        return None
    cells = await list_overview(
        call.connection,
        tenants=call.tenants,
        flows_max=STRIP_FLOWS_MAX,
        first_flow_nos=[flow["flow_no"] for flow in first_late[:STRIP_FLOWS_MAX]],
    )
    late = {name_of(flow): flow for flow in first_late[:STRIP_FLOWS_MAX]}
    return make_strip(view, cells, place, view.clock.now, late)


async def _completeness(call: ApiCall, view: View, *, has_findings: bool) -> Figure:
    """Return up to when everything is complete: of the least complete kind, and what blocks it.

    What an open finding names does not block it: the figure says so.
    """
    label = "Complete before"
    href = view.url("/reconciliation") if view.may(Scope.AUDIT) else None
    rows = await list_watermarks(call.connection, tenants=call.tenants, limit=1)
    if not rows:
        return Figure(label, None, href, note="not reconciled yet")
    [row] = rows
    up_to_date = "all but open findings" if has_findings else "up to date"
    note = f"{row['tenant']} {row['kind']}: {row['blocked_by'] or up_to_date}"
    complete_before = row["complete_before"]
    if complete_before is None:
        return Figure(label, None, href, note=note)
    note = f"{view.clock.brief(complete_before)} · {note}"
    return Figure(
        label,
        None,
        href,
        tone="warn" if has_findings else "quiet",
        note=note,
        shown=view.clock.relative(complete_before),
        at=complete_before,
    )


def _listing(view: View, flows: Sequence[Mapping[str, Any]]) -> Listing:
    def items(**filters: object) -> Any:  # noqa: ANN401 - a function of a row
        def address(row: Row) -> str | None:
            lane = {"lane": row["lane"]} if row["lane"] else {"default_lane": True}
            return view.url("/items", tenant=row["tenant"], kind=row["kind"], **lane, **filters)

        return address

    def show(row: Row) -> str:
        return view.url(f"/flows/{row['tenant']}/{row['kind']}", lane=row["lane"] or None)

    columns = (
        Column("kind", "Flow", "flow", show),
        Column("due", "Due", "count", items(open=True, due_before=view.clock.now), "due_capped"),
        Column("oldest_due_at", "Oldest due", "time"),
        Column("is_past_sla", "Late", "flag"),
        Column("in_flight", "In flight", "count", items(in_flight=True)),
        Column(
            "retrying",
            "Retrying",
            "count",
            items(state=State.RETRYABLE_FAILURE.label),
            "retrying_capped",
        ),
        Column("blocked", "Blocked", "count", items(blocked=True), "blocked_capped"),
        Column(
            "parked", "In review", "count", items(state=State.MANUAL_REVIEW.label), "parked_capped"
        ),
    )
    return Listing(
        caption="Flows with open items",
        columns=columns,
        rows=_rows(flows),
        empty="No flow has items that are due, in flight or in review. `dueledger emit` makes one.",
    )


def _rows(flows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return flows with their items in flight; None while these are too many to be counted."""
    return [
        {
            **flow,
            "in_flight": None if flow["claimed"] is None else flow["claimed"] + flow["started"],
        }
        for flow in flows
    ]
