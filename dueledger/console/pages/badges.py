"""Badges: one fact of a kind as a small picture, for those who are signed in to the console."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import orjson
from fastapi import Response
from markupsafe import escape

from dueledger.alerts.rules import RULES
from dueledger.console.clock import iso
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView, View
from dueledger.flow_status import code_of
from dueledger.hindrance_texts import Hindrance
from dueledger.items import page_open_items
from dueledger.ledger.errors import NotFound, NotPermitted
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.findings import list_findings
from dueledger.ledger.store.flows import list_flows, read_status
from dueledger.ledger.store.item_lists import ItemListFilter
from dueledger.ledger.store.passes import list_watermarks
from dueledger.ledger.store.processes import read_roles
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes.fields import KindPath, TenantPath

read = PageRoutes(Scope.READ, "console")

COUNTED_MAX: Final = 100
"""Late items and findings that are counted; more are shown as this number and +."""
LATE_READ_MAX: Final = 500
"""Open items read to count those that are late."""
_MOVING: Final = frozenset({Hindrance.RUNNING, Hindrance.NOT_STARTED, Hindrance.NOT_CLAIMED})
"""What flows whose items are being done wait for."""
_STALLED_SECONDS: Final = next(each.above for each in RULES if each.name == "WatermarkStalled")
COLOURS: Final = {"good": "#0b7846", "warn": "#9c5f06", "bad": "#96051c"}
"""White text on them has a contrast of AA."""
_CHAR_WIDTH: Final = 7
_PADDING: Final = 8


class BadgeFact(NamedTuple):
    """A fact in words, its tone, and what a document has of it beside these."""

    words: str
    tone: Literal["good", "warn", "bad"]
    members: Mapping[str, Any] = {}


@read.page("/badges/{tenant}/{kind}/{fact}")
async def show_badge(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    kind: KindPath,
    fact: Literal["state", "late", "settled", "findings"],
) -> Response:
    """Show one fact of a kind, as SVG or JSON. Raises NotFound."""
    if not await list_flows(call.connection, tenant=tenant, kind=kind, limit=1, count_max=1):
        raise NotFound(f"The tenant {tenant} has no kind {kind}.", tenant=tenant, kind=kind)
    match fact:
        case "state":
            shown = await _state(call, tenant, kind)
        case "late":
            shown = await _late(call, tenant, kind)
        case "settled":
            shown = await _settled(call, view, tenant, kind)
        case "findings":
            if not view.may(Scope.AUDIT):
                raise NotPermitted("The badge of findings needs a key with the scope audit.")
            shown = await _findings(call, tenant, kind)
    label = f"{kind} {fact}"
    if view.format == "json":
        document = {"label": label, "words": shown.words, "tone": shown.tone, **shown.members}
        return Response(orjson.dumps(document), media_type="application/json")
    return Response(_picture(label, shown), media_type="image/svg+xml")


async def _state(call: ApiCall, tenant: str, kind: str) -> BadgeFact:
    """Return what hinders the flow of the kind that waits longest."""
    rows = await read_status(
        call.connection, tenant=tenant, kind=kind, limit=1, count_max=COUNTED_MAX
    )
    if not rows:
        return BadgeFact("nothing open", "good")
    code = code_of(rows[0], await read_roles(call.connection))
    tone = "bad" if rows[0]["is_past_sla"] else "good" if code in _MOVING else "warn"
    return BadgeFact(code.value.replace("_", " ").lower(), tone)


async def _late(call: ApiCall, tenant: str, kind: str) -> BadgeFact:
    found = await page_open_items(
        call.connection,
        ItemListFilter(tenants=call.tenants, tenant=tenant, kind=kind),
        limit=COUNTED_MAX,
        late=True,
        read_max=LATE_READ_MAX,
        read_total_max=LATE_READ_MAX,
    )
    is_capped = found.is_cut or found.next_place is not None
    return _count(len(found.items), is_capped=is_capped)


async def _settled(call: ApiCall, view: View, tenant: str, kind: str) -> BadgeFact:
    """Return up to when the kind is complete, as the last pass of the reconciler has it.

    It is bad where the alert of a watermark that does not move fires.
    """
    rows = await list_watermarks(call.connection, tenant, tenants=call.tenants, limit=1, kind=kind)
    if not rows:
        return BadgeFact("not reconciled", "warn", {"complete_before": None, "blocked_by": None})
    complete_before, blocked_by = rows[0]["complete_before"], rows[0]["blocked_by"]
    if complete_before is None:
        return BadgeFact("not complete", "bad", {"complete_before": None, "blocked_by": blocked_by})
    assert view.clock.now is not None  # noqa: S101 - it has a call
    is_stalled = (view.clock.now - complete_before).total_seconds() > _STALLED_SECONDS
    return BadgeFact(
        f"complete before {view.clock.exact(complete_before)}",
        "bad" if is_stalled else "warn" if blocked_by else "good",
        {"complete_before": iso(complete_before), "blocked_by": blocked_by},
    )


async def _findings(call: ApiCall, tenant: str, kind: str) -> BadgeFact:
    rows = await list_findings(
        call.connection, tenant=tenant, kind=kind, page_size=COUNTED_MAX + 1, tenants=call.tenants
    )
    return _count(min(len(rows), COUNTED_MAX), is_capped=len(rows) > COUNTED_MAX)


def _count(found: int, *, is_capped: bool) -> BadgeFact:
    return BadgeFact(f"{found}{'+' if is_capped else ''}", "bad" if found or is_capped else "good")


def _picture(label: str, shown: BadgeFact) -> str:
    """Return a badge as SVG: the label, then the fact on the colour of its tone."""
    widths = [len(text) * _CHAR_WIDTH + 2 * _PADDING for text in (label, shown.words)]
    left, right = widths
    name = escape(f"{label}: {shown.words}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{name}"><title>{name}</title>'
        f'<rect width="{left}" height="20" fill="#3b3d42"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{COLOURS[shown.tone]}"/>'
        '<g fill="#fff" font-family="Verdana, sans-serif" font-size="11">'
        f'<text x="{_PADDING}" y="14">{escape(label)}</text>'
        f'<text x="{left + _PADDING}" y="14">{escape(shown.words)}</text></g></svg>\n'
    )
