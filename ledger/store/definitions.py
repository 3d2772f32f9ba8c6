"""Definitions, their versions, and how far each is materialised."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.lock_wait import conflict_on_lock_timeout
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class DefineResult:
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
class DefinitionToMaterialise:
    """A scheduled definition behind the horizon: expand [materialised_until, until).

    At `ends_at` a newer version takes over; what lies before `contested_until` older ones may have
    expanded already.
    """

    definition_no: int
    tenant: str
    name: str
    version: int
    kind: str
    document: dict[str, Any]
    effective_from: datetime
    materialised_until: datetime
    now: datetime
    until: datetime
    ends_at: datetime | None = None
    contested_until: datetime | None = None


class VersionState(StrEnum):
    """Where a version stands. REJECTED: it is in force or to come, and cannot be expanded."""

    PENDING = "pending"
    IN_FORCE = "in force"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """One version, from when until when it decides, and how far it is expanded at `now`.

    One whose successor's time came first was never in force.
    """

    definition_no: int
    tenant: str
    name: str
    version: int
    kind: str
    event_type: str | None
    document: dict[str, Any]
    effective_from: datetime
    superseded_at: datetime | None
    created_at: datetime
    defined_by: str
    materialised_until: datetime | None
    failure: str | None
    now: datetime

    @property
    def state(self) -> VersionState:
        """Derive where it stands."""
        end = self.superseded_at
        if end is not None and end <= max(self.effective_from, self.now):
            return VersionState.SUPERSEDED
        if self.failure is not None:
            return VersionState.REJECTED
        return VersionState.PENDING if self.effective_from > self.now else VersionState.IN_FORCE


@dataclass(frozen=True, slots=True)
class Successor:
    """A version that came into force after `definition_no`, deciding in [effective_from, until)."""

    definition_no: int
    document: dict[str, Any]
    effective_from: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """How a kind's work is handed out; None keeps what is set, or the default.

    Given with a `dispatch`, it is all that is said of the kind: `http`, `run_seconds` and
    `total_seconds` are then what they are here, None for none.
    `dispatch` is kafka, direct or http (then `http` says where); `settled_by` worker or topic;
    `queue_late` and `run_late` retry or park; `ordering` none or key. `run_seconds` is the hard
    end of a run, `total_seconds` the time from due_at on after which nothing is tried again.
    """

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
    dispatch: str | None = None
    http: dict[str, Any] | None = None
    settled_by: str | None = None
    dispatch_seconds: int | None = None
    run_seconds: float | None = None
    total_seconds: float | None = None
    queue_late: str | None = None
    run_late: str | None = None
    ordering: str | None = None
    failure_holds: bool | None = None
    streak_max: int | None = None


@dataclass(frozen=True, slots=True)
class HttpKind:
    """A kind that is sent to an endpoint; `http` is that part of its definition."""

    tenant: str
    kind: str
    topic: str
    http: dict[str, Any]
    backoff_base_seconds: float
    backoff_cap_seconds: float


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
) -> DefineResult:
    """Create a definition or its next version; the same document again changes nothing.

    `effective_from` None means now. A schedule is materialised from then on, and the versions
    before it are no further: whoever expands one of them is waited for. The same document does make
    a version where it shall hold earlier than the newest one, which is still to come. Raises
    InvalidItem for a document that Postgres cannot store, Conflict where `limit_lock_wait` was too
    short.
    """
    who = f"the definition {tenant}/{name}, or expands it"
    with conflict_on_lock_timeout(who):
        async with connection.transaction():
            await lock_definition(connection, tenant, name)
            await lock_versions(connection, tenant, name)
            with mapped_errors():
                rows = await connection.fetch(
                    statement("define"),
                    tenant,
                    name,
                    kind,
                    event_type,
                    document,
                    effective_from,
                    actor_no,
                )
    return DefineResult(**rows[0])


async def lock_definition(connection: Connection, tenant: str, name: str) -> None:
    """Hold a definition's name until the transaction ends: one at a time changes what it owes."""
    await connection.fetch(statement("lock_definition"), tenant, name)


async def lock_versions(connection: Connection, tenant: str, name: str) -> None:
    """Hold the watermarks of a definition's versions until the transaction ends."""
    await connection.fetch(statement("lock_versions"), tenant, name)


async def read_rules_edition(connection: Connection) -> tuple[int, int | None, int]:
    """Return what differs whenever event rules or calendars are others; cheap to ask."""
    (row,) = await connection.fetch(statement("read_rules_edition"))
    return row["in_force"], row["newest"], row["calendars"]


async def list_event_rules(connection: Connection) -> list[DefinitionRow]:
    """List the event rules in force now, oldest first."""
    rows = await connection.fetch(statement("list_event_rules"))
    return [DefinitionRow(**row) for row in rows]


async def find_definition(connection: Connection, tenant: str, name: str) -> DefinitionRow | None:
    """Find the version of a definition in force now: the newest whose time has come."""
    row = await connection.fetchrow(statement("find_definition"), tenant, name)
    return DefinitionRow(**row) if row else None


async def find_triggered(connection: Connection, tenant: str, name: str, cycle: str) -> UUID | None:
    """Find the item of a round that a person named, None where nobody did."""
    return await connection.fetchval(statement("find_triggered"), tenant, name, cycle)


async def record_triggered(
    connection: Connection, tenant: str, name: str, cycle: str, item: UUID
) -> None:
    """Let whoever names the round again find its item. The caller holds the definition."""
    await connection.execute(statement("record_triggered"), tenant, name, cycle, item)


async def take_materialisable(
    connection: Connection,
    horizon_seconds: float,
    limit: int,
    *,
    stride_seconds: float = 0.0,
    retry_seconds: float = 0.0,
) -> list[DefinitionToMaterialise]:
    """Take definitions behind the horizon and hold them until the transaction ends.

    `until` lies `stride_seconds` beyond the horizon, so that each definition is touched once a
    stride and not on every pass. One that failed is left alone for `retry_seconds`.
    """
    rows = await connection.fetch(
        statement("take_materialisable"), horizon_seconds, stride_seconds, retry_seconds, limit
    )
    return [DefinitionToMaterialise(**row) for row in rows]


async def advance_materialised(
    connection: Connection, definition_nos: Sequence[int], untils: Sequence[datetime]
) -> int:
    """Move watermarks forward, never back; return how many moved."""
    return len(await connection.fetch(statement("advance_materialised"), definition_nos, untils))


async def list_versions(
    connection: Connection,
    tenant: str | None,
    name: str | None,
    *,
    newest_only: bool,
    limit: int,
) -> list[DefinitionVersion]:
    """List versions by definition, the newest first; `newest_only` without what is superseded."""
    rows = await connection.fetch(statement("list_versions"), tenant, name, newest_only, limit)
    return [DefinitionVersion(**row) for row in rows]


async def read_versions(
    connection: Connection, definition_nos: Sequence[int]
) -> list[DefinitionVersion]:
    """Read versions by number, in that order; what is not there is left out."""
    rows = await connection.fetch(statement("read_versions"), definition_nos)
    return [DefinitionVersion(**row) for row in rows]


async def list_materialised_ahead(connection: Connection, after: int, *, limit: int) -> list[int]:
    """List a page of the versions that are expanded beyond now, by number, after this one."""
    rows = await connection.fetch(statement("list_materialised_ahead"), after, limit)
    return [row["definition_no"] for row in rows]


async def list_successors(connection: Connection, definition_nos: Sequence[int]) -> list[Successor]:
    """List the schedules that have superseded these versions by now, in order of time."""
    rows = await connection.fetch(statement("list_successors"), definition_nos)
    return [Successor(**row) for row in rows]


async def supersede_waiting(
    connection: Connection,
    definition_no: int,
    from_at: datetime,
    until_at: datetime,
    *,
    actor_no: int,
    limit: int,
) -> int:
    """End what older versions still have waiting in [from_at, until_at); return how many ended.

    Scheduled to Superseded, of what was never handed out; as many as `limit` may be left. The
    caller holds the version's watermark.
    """
    return await connection.fetchval(
        statement("supersede_waiting"), definition_no, from_at, until_at, actor_no, limit
    )


async def record_missed_ranges(
    connection: Connection,
    definition_nos: Sequence[int],
    from_ats: Sequence[datetime],
    until_ats: Sequence[datetime],
    occurrences: Sequence[int],
    *,
    reason: str,
    actor_no: int,
) -> None:
    """Record ranges of occurrences that are owed no more, with their counts.

    One that begins where a definition's last one ends goes on with it. The caller holds the
    definitions' watermarks.
    """
    await connection.execute(
        statement("record_missed_ranges"),
        definition_nos,
        from_ats,
        until_ats,
        occurrences,
        reason,
        actor_no,
    )


async def list_broken_chains(connection: Connection, definition_nos: Sequence[int]) -> list[int]:
    """List definitions with a fixed delay that no item leads on."""
    rows = await connection.fetch(statement("list_broken_chains"), definition_nos)
    return [row["definition_no"] for row in rows]


async def begin_chains(
    connection: Connection,
    ids: Sequence[UUID],
    definition_nos: Sequence[int],
    delay_seconds: Sequence[float],
) -> None:
    """Let items lead their definitions on: whoever ends one owes the next in that transaction.

    One that an older version still owes by itself leads nothing of the newer one.
    """
    await connection.execute(statement("begin_chains"), ids, definition_nos, delay_seconds)


async def mark_definition_failed(connection: Connection, definition_no: int, failure: str) -> None:
    """Record why a definition could not be materialised; its watermark stays."""
    await connection.execute(statement("mark_definition_failed"), definition_no, failure)


async def put_kind_policy(connection: Connection, policy: KindPolicy) -> int:
    """Set how a kind's work is handed out; return the kind's number.

    A kind that is not there yet begins with the defaults of its columns. Raises Conflict where
    `limit_lock_wait` was too short.
    """
    with conflict_on_lock_timeout(f"the kind {policy.tenant}/{policy.kind}"):
        # Not one statement: its values for a new kind would repeat the defaults of the columns.
        await connection.execute(statement("add_kind"), policy.tenant, policy.kind)
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
            policy.dispatch,
            policy.http,
            policy.settled_by,
            policy.dispatch_seconds,
            policy.run_seconds,
            policy.total_seconds,
            policy.queue_late,
            policy.run_late,
            policy.ordering,
            policy.failure_holds,
            policy.streak_max,
        )


async def list_kind_policies(
    connection: Connection, tenant: str, kind: str, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """List how definitions of a kind, save these names, say that its work is handed out.

    One name for each way: its parts `dispatch`, without the partition key, `retry`, `deadlines` and
    `order`, None where its document is older than they are.
    """
    rows = await connection.fetch(statement("list_kind_policies"), tenant, kind, names)
    return {row["name"]: row["policy"] for row in rows}


async def list_http_kinds(connection: Connection, limit: int) -> list[HttpKind]:
    """List the kinds that are sent to an endpoint."""
    rows = await connection.fetch(statement("list_http_kinds"), limit)
    return [HttpKind(**row) for row in rows]
