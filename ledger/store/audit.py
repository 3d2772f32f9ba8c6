"""The audit: what people, API keys and tokens changed, each in the transaction of its change."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """What an actor changes: a path such as `definitions/acme/statements`, and what more to know.

    `tenants` are those that it concerns, and who may see it; None: those for all tenants alone.
    """

    target: str
    tenants: Sequence[str] | None
    detail: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries of the audit are meant; None: all. `until` is the instant after them."""

    tenant: str | None = None
    actor: str | None = None
    operation: str | None = None
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class AuditPlace(NamedTuple):
    """The last entry of the page before."""

    at: datetime
    audit_no: int


async def record_audit(
    connection: Connection,
    actor_no: int,
    operation: str,
    targets: Sequence[AuditTarget],
    *,
    reason: str | None = None,
    request_id: str | None = None,
) -> None:
    """Record what an actor changes in this transaction, an entry for each target.

    `operation` is an operation of the OpenAPI document, for a command as well.
    """
    named = [asdict(each) for each in targets]
    values = actor_no, operation, named, reason, request_id
    await connection.execute(statement("record_audit"), *values)


async def list_audit(
    connection: Connection,
    wanted: AuditFilter,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    after: AuditPlace | None = None,
    oldest_first: bool = False,
) -> list[dict[str, Any]]:
    """List entries, newest or oldest first; with `tenants`, those that concern no others.

    `before` and `after` are the members of its detail that a change has, `detail` the others.
    """
    rows = await connection.fetch(
        statement("list_oldest_audit") if oldest_first else statement("list_audit"),
        *(tenants, wanted.tenant, wanted.actor, wanted.operation, wanted.target),
        *(wanted.since, wanted.until, *(after or (None, None)), limit),
    )
    return [_with_change(row) for row in rows]


def _with_change(row: Record) -> dict[str, Any]:
    detail: dict[str, Any] = dict(row["detail"] or {})
    before: dict[str, Any] | None = detail.pop("before", None)
    after = {name: detail.pop(name) for name in before if name in detail} if before else None
    return {**row, "detail": detail or None, "before": before, "after": after}


async def list_target_audit(
    connection: Connection,
    targets: Sequence[str],
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    after: AuditPlace | None = None,
) -> list[dict[str, Any]]:
    """List entries of these targets, the newest first; with `tenants`, as `list_audit`."""
    values = targets, tenants, limit, *(after or (None, None))
    rows = await connection.fetch(statement("list_target_audit"), *values)
    return [dict(row) for row in rows]


async def prune_audit(connection: Connection, keep_days: int, limit: int) -> int:
    """Delete the oldest entries that are that old; return how many."""
    return await connection.fetchval(statement("prune_audit"), keep_days, limit)


async def find_tenants_of_findings(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Find the tenants of findings and repairs; those that do not exist are absent."""
    rows = await connection.fetch(statement("find_tenants_of_findings"), ids)
    return {row["id"]: row["tenant"] for row in rows}
