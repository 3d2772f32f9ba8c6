"""What the audit has of a call that changes something."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import ApiCaller
from dueledger.ledger.store.audit import AuditTarget, record_audit

_VERSION_SEGMENTS = 2
"""Of a path: the empty one before its first slash, and `v1`."""


@dataclass(slots=True)
class AuditNote:
    """What a call changed. Its route writes here what its path does not say."""

    target: str | None = None
    tenants: Sequence[str] | None = None
    is_changed: bool = True
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """The request of a call: its operation, what its route changes, and what it was asked.

    `target` has the names of parameters of the path.
    """

    operation: str
    target: str
    path_params: Mapping[str, Any]
    body: object
    request_id: str


async def audit_call(
    connection: Connection, caller: ApiCaller, request: AuditedRequest, note: AuditNote
) -> None:
    """Record what a call changed, in its transaction; nothing if it changed nothing.

    Of the body the audit has the reason alone.
    """
    if not note.is_changed:
        return
    tenant = request.path_params.get("tenant")
    tenants = note.tenants or (caller.tenants if tenant is None else [tenant])
    target = note.target or request.target.format(**request.path_params)
    await record_audit(
        connection,
        caller.actor_no,
        request.operation,
        [AuditTarget(target, tenants, note.detail or None)],
        reason=_reason(request.body),
        request_id=request.request_id,
    )


def resource_of(path: str) -> str:
    """Return what a route of REST changes: `definitions/{tenant}/{name}` of its pause, too."""
    segments = path.split("/")[_VERSION_SEGMENTS:]
    return "/".join(segments if segments[-1].startswith("{") else segments[:-1])


def _reason(body: object) -> str | None:
    """Return the reason of a body that its route has read."""
    reason = cast("dict[str, object]", body).get("reason") if isinstance(body, dict) else None
    return reason if isinstance(reason, str) else None
