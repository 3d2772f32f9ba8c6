"""Definitions, their versions, and their materialised watermarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.lock_wait import conflict_on_lock_timeout
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class DefineResult:
    """The result of a definition. `changed` is False if the newest version is the same."""

    definition_no: int
    version: int
    changed: bool


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """One version of a definition. `document` is its normalised form."""

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
    """A schedule behind the horizon, to expand in [materialised_until, until).

    At `ends_at` a newer version comes into force. Before `contested_until`, older versions may
    have expanded occurrences already. `tzdata` expanded it last.
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
    tzdata: str | None = None


class VersionState(StrEnum):
    """The state of a version. REJECTED: in force or pending, but it cannot be expanded.

    ENDED: in force, and it says that nothing is owed.
    """

    PENDING = "pending"
    IN_FORCE = "in force"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """One version: its time in force, and how far it is expanded at `now`.

    A version that was superseded before its own time was never in force.
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
        """Derive the state at `now`."""
        end = self.superseded_at
        if end is not None and end <= max(self.effective_from, self.now):
            return VersionState.SUPERSEDED
        if self.failure is not None:
            return VersionState.REJECTED
        if self.effective_from > self.now:
            return VersionState.PENDING
        return VersionState.ENDED if self.document.get("ended") else VersionState.IN_FORCE


class VersionPlace(NamedTuple):
    """The place of a version in a list."""

    tenant: str
    name: str
    version: int


_NOWHERE: Final = (None, None, None)


@dataclass(frozen=True, slots=True)
class Successor:
    """A version that superseded `definition_no`, in force in [effective_from, until_at)."""

    definition_no: int
    document: dict[str, Any]
    effective_from: datetime
    until_at: datetime


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
    """Create a definition or its next version. The same document again changes nothing.

    `effective_from` None means now. A schedule is materialised from then on, and older versions
    only until then: the call waits for a process that expands one of them. The same document does
    create a version if it is to come into force before the newest one, which is still pending.
    Raises InvalidItem for a document that Postgres cannot store, Conflict if a lock wait exceeds
    the limit of `limit_lock_wait`.
    """
    locked = f"the definition {tenant}/{name}"
    with conflict_on_lock_timeout(locked):
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
    """Lock a definition's name until the transaction ends: one at a time changes its items."""
    await connection.fetch(statement("lock_definition"), tenant, name)


async def lock_versions(connection: Connection, tenant: str, name: str) -> None:
    """Lock the watermarks of a definition's versions until the transaction ends."""
    await connection.fetch(statement("lock_versions"), tenant, name)


async def read_rules_version(connection: Connection) -> tuple[int, int | None, int]:
    """Return a value that changes whenever event rules or calendars change. Cheap to read."""
    (row,) = await connection.fetch(statement("read_rules_version"))
    return row["in_force"], row["newest"], row["calendars"]


async def list_event_rules(connection: Connection) -> list[DefinitionRow]:
    """List the event rules in force now, oldest first."""
    rows = await connection.fetch(statement("list_event_rules"))
    return [DefinitionRow(**row) for row in rows]


async def find_definition(connection: Connection, tenant: str, name: str) -> DefinitionRow | None:
    """Find the version of a definition that is in force now."""
    row = await connection.fetchrow(statement("find_definition"), tenant, name)
    return DefinitionRow(**row) if row else None


async def find_triggered(connection: Connection, tenant: str, name: str, cycle: str) -> UUID | None:
    """Find the item of an occurrence that a person triggered; None if nobody did."""
    return await connection.fetchval(statement("find_triggered"), tenant, name, cycle)


async def record_triggered(
    connection: Connection, tenant: str, name: str, cycle: str, item: UUID
) -> None:
    """Record the item of a triggered occurrence. The caller has locked the definition."""
    await connection.execute(statement("record_triggered"), tenant, name, cycle, item)


async def take_materialisable(
    connection: Connection,
    horizon_seconds: float,
    limit: int,
    *,
    stride_seconds: float = 0.0,
    retry_seconds: float = 0.0,
) -> list[DefinitionToMaterialise]:
    """Select definitions behind the horizon and lock them until the transaction ends.

    `until` is `stride_seconds` beyond the horizon, so each definition is expanded once a stride and
    not in every pass. A definition that failed is skipped for `retry_seconds`.
    """
    rows = await connection.fetch(
        statement("take_materialisable"), horizon_seconds, stride_seconds, retry_seconds, limit
    )
    return [DefinitionToMaterialise(**row) for row in rows]


async def take_ended_versions(
    connection: Connection,
    tzdata: str,
    ended_seconds: float,
    limit: int,
    *,
    retry_seconds: float = 0.0,
) -> list[DefinitionToMaterialise]:
    """Select versions that an older tz database expanded up to their end; lock them as above.

    Those that ended more than `ended_seconds` ago are left out. Their windows are empty.
    """
    values = tzdata, ended_seconds, retry_seconds, limit
    rows = await connection.fetch(statement("take_ended_versions"), *values)
    return [DefinitionToMaterialise(**row) for row in rows]


async def advance_materialised(
    connection: Connection,
    definition_nos: Sequence[int],
    untils: Sequence[datetime],
    *,
    tzdata: str,
) -> int:
    """Move watermarks forward, never back, as expanded by `tzdata`; return how many moved."""
    values = definition_nos, untils, tzdata
    return len(await connection.fetch(statement("advance_materialised"), *values))


async def list_versions(
    connection: Connection,
    tenant: str | None,
    name: str | None,
    *,
    newest_only: bool,
    limit: int,
    tenants: Sequence[str] | None = None,
    kind: str | None = None,
    after: VersionPlace | None = None,
) -> list[DefinitionVersion]:
    """List versions by definition, the newest first. `newest_only` omits superseded ones.

    `tenants` limits who asks. They are of a name, or of a kind, or of neither.
    """
    last = newest_only, *(after or _NOWHERE), limit
    if kind is None:
        rows = await connection.fetch(statement("list_versions"), tenants, tenant, name, *last)
    else:
        rows = await connection.fetch(statement("list_kind_versions"), tenants, tenant, kind, *last)
    return [DefinitionVersion(**row) for row in rows]


class ExecutionVersions(NamedTuple):
    """The numbers of a definition's newest versions that owe items; the items' key and kind.

    The key or the kind is None where items have several.
    """

    definition_nos: list[int]
    business_key: str | None
    kind: str | None


async def read_execution_versions(
    connection: Connection, tenant: str, name: str, *, limit: int, version: int | None = None
) -> ExecutionVersions:
    """Read which versions of a definition have executions; with `version`, whether that one has."""
    values = tenant, name, limit, version
    row = await connection.fetchrow(statement("read_execution_versions"), *values)
    return ExecutionVersions(row["definition_nos"], row["business_key"], row["kind"])


async def list_source_definitions(
    connection: Connection,
    tenants: Sequence[str],
    source: str,
    *,
    after: tuple[str, str],
    limit: int,
) -> list[dict[str, Any]]:
    """List a page of the newest documents of the definitions of a source that have not ended.

    They are in order of tenant and name, each greater than `after`.
    """
    values = tenants, source, *after, limit
    rows = await connection.fetch(statement("list_source_definitions"), *values)
    return [row["document"] for row in rows]


async def read_versions(
    connection: Connection, definition_nos: Sequence[int]
) -> list[DefinitionVersion]:
    """Read versions by number, in that order; unknown numbers are left out."""
    rows = await connection.fetch(statement("read_versions"), definition_nos)
    return [DefinitionVersion(**row) for row in rows]


async def list_materialised_ahead(connection: Connection, after: int, *, limit: int) -> list[int]:
    """List a page of versions materialised beyond now, by number, greater than `after`."""
    rows = await connection.fetch(statement("list_materialised_ahead"), after, limit)
    return [row["definition_no"] for row in rows]


async def list_successors(connection: Connection, definition_nos: Sequence[int]) -> list[Successor]:
    """List the schedules that have superseded these versions by now, in time order."""
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
    """Supersede pending items of older versions due in [from_at, until_at); return how many.

    Scheduled to Superseded, for items that were never handed out. At most `limit` in one call, so
    more may be left. The caller has locked the version's watermark.
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
    """Record missed ranges with their numbers of occurrences.

    A range that begins at the end of the definition's last range extends it. The caller has locked
    the definitions' watermarks.
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
    """List fixed-delay definitions without an item that leads to the next one."""
    rows = await connection.fetch(statement("list_broken_chains"), definition_nos)
    return [row["definition_no"] for row in rows]


async def begin_chains(
    connection: Connection,
    ids: Sequence[UUID],
    definition_nos: Sequence[int],
    delay_seconds: Sequence[float],
) -> None:
    """Start the chains of fixed-delay definitions: the end of an item emits the next one.

    Both happen in one transaction. An item that an older version made does not lead a chain of the
    newer version.
    """
    await connection.execute(statement("begin_chains"), ids, definition_nos, delay_seconds)


async def mark_definition_failed(connection: Connection, definition_no: int, failure: str) -> None:
    """Record why a definition cannot be materialised. Its watermark does not change."""
    await connection.execute(statement("mark_definition_failed"), definition_no, failure)
