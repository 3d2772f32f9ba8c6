"""Definitions, their versions, and how far each is materialised."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.store.connection import Connection
from ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class Defined:
    """The answer to a definition: `changed` is False where the same document was there."""

    definition_no: int
    version: int
    changed: bool


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """One version of a definition; `document` is its normalised form."""

    definition_no: int
    tenant: str
    name: str
    version: int
    kind: str
    event_type: str | None
    document: dict[str, Any]
    effective_from: datetime
    superseded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Materialisable:
    """A scheduled definition behind the horizon: expand [materialised_until, until)."""

    definition_no: int
    tenant: str
    name: str
    version: int
    kind: str
    document: dict[str, Any]
    materialised_until: datetime
    now: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """How a kind's work is handed out; None keeps what is set, or the default."""

    tenant: str
    kind: str
    topic: str | None = None
    queue_seconds: int | None = None
    lease_seconds: int | None = None
    attempt_max: int | None = None
    start_max: int | None = None
    backoff_base_seconds: float | None = None
    backoff_cap_seconds: float | None = None
    grace_seconds: int | None = None
    no_replay: bool | None = None


async def define(
    connection: Connection,
    document: dict[str, Any],
    *,
    tenant: str,
    name: str,
    kind: str,
    event_type: str | None,
    effective_from: datetime | None,
    actor_no: int,
) -> Defined:
    """Create a definition or its next version; the same document again changes nothing.

    `effective_from` None means now. A schedule is materialised from then on.
    """
    async with connection.transaction():
        await connection.fetch(statement("lock_definition"), tenant, name)
        rows = await connection.fetch(
            statement("define"), tenant, name, kind, event_type, document, effective_from, actor_no
        )
    return Defined(**rows[0])


async def read_rules_edition(connection: Connection) -> tuple[int, int | None]:
    """Return what differs whenever another set of event rules is in force; cheap to ask."""
    (row,) = await connection.fetch(statement("read_rules_edition"))
    return row["in_force"], row["newest"]


async def list_event_rules(connection: Connection) -> list[DefinitionRow]:
    """List the event rules in force now, oldest first."""
    rows = await connection.fetch(statement("list_event_rules"))
    return [DefinitionRow(**row) for row in rows]


async def take_materialisable(
    connection: Connection,
    horizon_seconds: float,
    limit: int,
    *,
    stride_seconds: float = 0.0,
    retry_seconds: float = 0.0,
) -> list[Materialisable]:
    """Take definitions behind the horizon and hold them until the transaction ends.

    `until` lies `stride_seconds` beyond the horizon, so that each definition is touched once a
    stride and not on every pass. One that failed is left alone for `retry_seconds`.
    """
    rows = await connection.fetch(
        statement("take_materialisable"), horizon_seconds, stride_seconds, retry_seconds, limit
    )
    return [Materialisable(**row) for row in rows]


async def advance_materialised(
    connection: Connection, definition_nos: Sequence[int], untils: Sequence[datetime]
) -> int:
    """Move watermarks forward, never back; return how many moved."""
    return len(await connection.fetch(statement("advance_materialised"), definition_nos, untils))


async def mark_definition_failed(connection: Connection, definition_no: int, failure: str) -> None:
    """Record why a definition could not be materialised; its watermark stays."""
    await connection.execute(statement("mark_definition_failed"), definition_no, failure)


async def put_kind_policy(connection: Connection, policy: KindPolicy) -> int:
    """Set how a kind's work is handed out; return the kind's number."""
    return await connection.fetchval(
        statement("put_kind_policy"),
        policy.tenant,
        policy.kind,
        policy.topic,
        policy.queue_seconds,
        policy.lease_seconds,
        policy.attempt_max,
        policy.start_max,
        policy.backoff_base_seconds,
        policy.backoff_cap_seconds,
        policy.grace_seconds,
        policy.no_replay,
    )
