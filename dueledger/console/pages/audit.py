"""The audit: what people, API keys and tokens changed, by whom, when and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fastapi import Response

from dueledger.console.audit_words import words_of
from dueledger.console.forms import Filter, Moment, in_zone, minutes
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import AuditFilter, AuditPlace, list_audit
from dueledger.service.calls import CurrentCall
from dueledger.service.pages import CurrentPage
from dueledger.service.routes.fields import OldestFirst

audit = PageRoutes(Scope.AUDIT, "console")

_FILTERS: Final = ("tenant", "actor", "operation", "target", "since", "until")
_ELSEWHERE: Final = "Emissions, claims and outcomes are in the history of their items."
_NOTHING_YET: Final = (
    "Nobody has changed anything yet. Define a schedule, pause a flow or make a key: each change is"
    f" listed here with who, when and why. {_ELSEWHERE}"
)


@audit.page("/audit")
async def list_changes(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    actor: Filter = None,
    operation: Filter = None,
    target: Filter = None,
    since: Moment = None,
    until: Moment = None,
    oldest_first: OldestFirst = False,
) -> Response:
    """List what was changed, newest or oldest first, before the instant `until`."""
    wanted = AuditFilter(
        tenant=tenant,
        actor=actor,
        operation=operation,
        target=target,
        since=in_zone(since, view.clock.zone),
        until=in_zone(until, view.clock.zone),
    )
    rows = await list_audit(
        call.connection,
        wanted,
        page.rows_max,
        tenants=call.tenants,
        after=page.place(AuditPlace, datetime, int),
        oldest_first=oldest_first,
    )
    query = view.request.query_params
    return view.page(
        "list.html",
        title="Audit",
        parent=None,
        filters={
            "tenant": ("Tenant", tenant, None),
            "actor": ("Who", actor, None),
            "operation": ("What", operation, None),
            "target": ("Target", target, None),
            "since": ("From", minutes(query.get("since", "")), "datetime-local"),
            "until": ("Before", minutes(query.get("until", "")), "datetime-local"),
            "oldest_first": ("Oldest first", oldest_first, ()),
        },
        names=await suggest_names(call),
        is_filtered=any((tenant, actor, operation, target, since, until, oldest_first)),
        changed=("audit", "Changes were recorded"),
        listing=Listing(
            caption="Changes",
            order="oldest first" if oldest_first else "newest first",
            turns=("at", "oldest_first", oldest_first),
            columns=_columns(view),
            rows=[_shown(row) for row in rows[: page.limit]],
            empty=_NOTHING_YET,
            filters=_FILTERS,
            unmatched=f"No change matches the filter. {_ELSEWHERE}",
            next_cursor=page.cursor_of(rows, "at", "audit_no"),
        ),
    )


def _shown(row: Mapping[str, Any]) -> Row:
    return {
        **row,
        "tenants": None if row["tenants"] is None else ", ".join(row["tenants"]),
        **{name: words_of(row[name]) for name in ("before", "after", "detail")},
    }


def _columns(view: View) -> Sequence[Column]:
    def only(name: str) -> Column:
        def address(row: Row) -> str:
            return view.here(cursor=None, **{name: row[name]})

        return Column(name, _LABELS[name], "prose" if name == "target" else "text", address)

    return (
        Column("at", "When", "time"),
        only("actor"),
        Column("role", "Role"),
        only("operation"),
        only("target"),
        Column("before", "Before", "prose"),
        Column("after", "After", "prose"),
        Column("detail", "Detail", "prose"),
        Column("reason", "Why", "prose"),
        Column("tenants", "Tenants"),
        Column("login", "Login"),
        Column("request_id", "Request", "prose"),
    )


_LABELS: Final = {"actor": "Who", "operation": "What", "target": "Target"}
