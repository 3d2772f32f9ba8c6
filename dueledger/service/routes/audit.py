"""The route of the audit: what people, API keys and tokens changed."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, Field

from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.audit import AuditFilter, AuditPlace, list_audit
from dueledger.service.calls import CurrentCall
from dueledger.service.pages import CurrentPage, Page
from dueledger.service.routes.fields import Instant, OldestFirst, Text
from dueledger.service.scoped_routes import ScopedRoutes

audit = ScopedRoutes(Scope.AUDIT, "audit")


class AuditEntry(BaseModel):
    """Who changed what, when and why. Null `tenants`: it concerns all, or none alone."""

    at: datetime
    actor: str
    role: Annotated[
        str,
        Field(description="of Postgres, whose rights the change had: of a request, by its scope"),
    ]
    login: Annotated[str, Field(description="to Postgres")]
    operation: Annotated[str, Field(description="of this document; commands name the same")]
    target: Annotated[str, Field(description="what was changed")]
    tenants: list[str] | None
    reason: str | None
    detail: Annotated[
        dict[str, Any] | None, Field(description="what else the change says of itself")
    ]
    before: Annotated[
        dict[str, Any] | None,
        Field(description="values that it changed, as they were; null: there were none"),
    ]
    after: Annotated[dict[str, Any] | None, Field(description="these values as they are since")]
    request_id: Annotated[str | None, Field(description="null: a command")]


class AuditPage(Page[AuditEntry]):
    """A page of the audit, the newest entries first."""


@audit.add("GET", "/v1/audit", "listAudit", AuditPage)
async def list_changes(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    actor: Annotated[str | None, Text] = None,
    operation: Annotated[str | None, Text] = None,
    target: Annotated[str | None, Text] = None,
    since: Instant | None = None,
    until: Instant | None = None,
    oldest_first: OldestFirst = False,
) -> Response:
    """List what people, API keys and tokens changed, the newest first, before the instant `until`.

    Emissions, events, claims and outcomes are in the history of their items.
    """
    wanted = AuditFilter(
        tenant=tenant, actor=actor, operation=operation, target=target, since=since, until=until
    )
    rows = await list_audit(
        call.connection,
        wanted,
        page.rows_max,
        tenants=call.tenants,
        after=page.place(AuditPlace, datetime, int),
        oldest_first=oldest_first,
    )
    return page.answer_rows(AuditEntry, rows, "at", "audit_no")
