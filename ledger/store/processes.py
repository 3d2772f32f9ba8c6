"""Processes: the row and the lock of each, and which of them live."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

KindTenants = Mapping[str, Sequence[str]]
"""By kind, the tenants whose items alone are taken."""


class ProcessRole(StrEnum):
    """What a process does."""

    ALLOCATOR = "allocator"
    WORKER = "worker"
    DIRECT_WORKER = "direct_worker"
    OUTCOME_INTAKE = "outcome_intake"
    INTAKE = "intake"
    MATERIALISER = "materialiser"
    RECONCILER = "reconciler"
    RELAY = "relay"
    SERVICE = "service"
    ALERTER = "alerter"

    @property
    def label(self) -> str:
        """Return the role in words."""
        return self.value.replace("_", " ")


class ProcessStatus(StrEnum):
    """Whether a process lives; the view `process_status` has the rules."""

    LIVE = "live"
    SILENT = "silent"
    GONE = "gone"


class DrainResult(StrEnum):
    """The result of a request to drain. ASKED: somebody asked before; GONE and ENDED are refusals.

    UNABLE: it takes no such request.
    """

    DONE = "done"
    ASKED = "asked"
    ENDED = "ended"
    GONE = "gone"
    UNABLE = "unable"
    UNKNOWN = "unknown"


OUTBOX_COUNTED_MAX: Final = 10_000
"""Rows of an outbox that a relay counts."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process that did not stop in order, as the ledger knows it.

    `failure`: why it cannot take work, since `failing_since`, if it cannot. A service may have a
    certificate, which expires at `certificate_expires_at`. One that `drains` takes a request to.
    The last pass of its loop ended at `ticked_at` and took `tick_seconds`.
    """

    process_no: int
    name: str
    role: ProcessRole
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    status: ProcessStatus
    failing_since: datetime | None
    failure: str | None
    certificate_expires_at: datetime | None
    drains: bool
    drain_asked_at: datetime | None
    drain_asked_by: str | None
    drain_reason: str | None
    draining_since: datetime | None
    ticked_at: datetime | None
    tick_seconds: float | None
    outbox_items: int | None

    @property
    def outbox_capped(self) -> bool:
        """Return whether its outbox may have more rows than were counted."""
        return (self.outbox_items or 0) >= OUTBOX_COUNTED_MAX


class ProcessTick(NamedTuple):
    """The last pass of a process's loop: how long ago it ended, and how long it took.

    `outbox_items` are the rows that a relay has counted, at most `OUTBOX_COUNTED_MAX`.
    """

    ended_before: float | None = None
    seconds: float | None = None
    outbox_items: int | None = None


class Beat(NamedTuple):
    """What a process reads when it renews its row: the business clock, and whether to drain."""

    now: datetime
    is_drain_asked: bool


class WokenFlow(NamedTuple):
    """A flow with a new item that is due, and was not available before `since`."""

    flow_no: int
    since: datetime


class ProcessLock(NamedTuple):
    """Whether a connection leads to the server itself, and whether it has its process's lock.

    One through a pooler has none: the pooler keeps its sessions when its clients end. `has_lapsed`:
    the lock was missing for so long that the process's leases may have been ended.
    """

    is_direct: bool
    is_locked: bool
    has_lapsed: bool


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    """Why a process cannot take work: no text if its last attempt succeeded.

    `service` is the server that does not respond, if one does not. `unavailable_topics` have the
    reason why nothing can be published to them.
    """

    text: str | None = None
    service: str | None = None
    unavailable_topics: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """How many processes of a role live, are silent, and are gone since an hour.

    The last one to be seen may have stopped in order. `failing` of the live ones cannot take work,
    `upkeep` of them do upkeep; `failure` is of the one that has failed longest. `kinds` are those
    of the live ones; where each of these takes a kind's items of some tenants alone, `kind_tenants`
    has them. `unavailable_topics` are so to each allocator that lives.
    """

    live: int = 0
    silent: int = 0
    gone: int = 0
    failing: int = 0
    upkeep: int = 0
    last_name: str | None = None
    last_host: str | None = None
    seen_at: datetime | None = None
    silent_name: str | None = None
    silent_host: str | None = None
    silent_since: datetime | None = None
    failing_name: str | None = None
    failing_since: datetime | None = None
    failure: str | None = None
    failed_service: str | None = None
    kinds: Sequence[str] = ()
    kind_tenants: KindTenants = field(default_factory=dict[str, Sequence[str]])
    unavailable_topics: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def fails(self) -> bool:
        """Return whether no live process can take work, though some live."""
        return 0 < self.live == self.failing

    def takes(self, tenant: str, kind: str) -> bool:
        """Return whether a live process takes a tenant's items of a kind."""
        return kind in self.kinds and tenant in self.kind_tenants.get(kind, (tenant,))


async def register_process(
    connection: Connection,
    process_no: int,
    role: ProcessRole,
    *,
    host: str,
    version: str,
    yields: bool,
    kinds: Sequence[str] | None,
    kind_tenants: KindTenants | None = None,
    does_upkeep: bool | None = None,
    drains: bool = False,
) -> ProcessLock:
    """Insert or renew the row of a process, and take its lock on this connection if it is free.

    `kinds` are those that a worker has handlers for; of others, None. Of those in `kind_tenants` it
    takes the items of these tenants alone. Without `does_upkeep`, its role says whether it does.

    With `yields`, its runs may be released once the lock has been missing for four seconds. One
    that `drains` may be asked to, by `request_drain`.
    """
    pid = connection.get_server_pid()
    values = process_no, role, host, version, yields, pid, kinds, does_upkeep, kind_tenants or None
    (row,) = await connection.fetch(statement("register_process"), *values, drains)
    return ProcessLock(**row)


async def renew_process(connection: Connection, process_no: int, tick: ProcessTick) -> Beat:
    """Record that a process lives, and its last pass, unless it was in the last five seconds."""
    (row,) = await connection.fetch(statement("renew_process"), process_no, *tick)
    return Beat(**row)


async def request_drain(
    connection: Connection, name: str, *, reason: str, actor_no: int
) -> DrainResult:
    """Ask the process of a name to drain and stop. It reads that within a second."""
    found = await connection.fetchval(statement("request_drain"), name, reason, actor_no)
    return DrainResult.UNKNOWN if found is None else DrainResult(found)


async def record_drain(connection: Connection, process_no: int) -> None:
    """Record that a process drains."""
    await connection.execute(statement("record_drain"), process_no)


async def record_process_failure(
    connection: Connection, process_no: int, failure: ProcessFailure
) -> None:
    """Record why a process cannot take work, since when its first failure in a row was recorded."""
    await connection.execute(
        statement("record_process_failure"),
        process_no,
        failure.text,
        failure.service,
        failure.unavailable_topics or None,
    )


async def record_process_kinds(
    connection: Connection,
    process_no: int,
    kinds: Sequence[str] | None,
    kind_tenants: KindTenants | None = None,
) -> None:
    """Record for which kinds, and for which tenants of them, a process has workers."""
    values = process_no, kinds, kind_tenants or None
    await connection.execute(statement("record_process_kinds"), *values)


async def end_process(connection: Connection, process_no: int) -> None:
    """Record that a process stopped in order."""
    await connection.execute(statement("end_process"), process_no)


async def register_sleep(
    connection: Connection, process_no: int, seconds: float, kinds: Sequence[str] | None
) -> int | None:
    """Record that a process sleeps; return the number of the transaction that did.

    It is notified if an item of its kinds (of an allocator, None) may be claimed within `seconds`.
    None if it has no lock, so that it cannot be notified.
    """
    return await connection.fetchval(statement("register_sleep"), process_no, seconds, kinds)


def parse_woken_flow(payload: str) -> WokenFlow | None:
    """Return the flow that a notification names, as `ledger.wake_sleepers` writes it, if it does.

    Every login of the database can notify: any other text names none.
    """
    try:
        flow_no, second = map(int, payload.split())
        return WokenFlow(flow_no, datetime.fromtimestamp(second, UTC))
    except (ValueError, OverflowError, OSError):
        return None


async def end_sleep(connection: Connection, process_no: int) -> None:
    """Record that a process is awake."""
    await connection.execute(statement("end_sleep"), process_no)


async def is_seen_by_all(connection: Connection, transaction_no: int) -> bool:
    """Return whether each transaction that writes from now on sees what that one did.

    Transactions that were open when it ended may not; they have ended.
    """
    return await connection.fetchval(statement("is_seen_by_all"), transaction_no)


async def watch_locks(connection: Connection) -> list[int]:
    """Record which locks are missing; return the processes without theirs for four seconds."""
    return [row["process_no"] for row in await connection.fetch(statement("watch_locks"))]


async def list_gone_workers(connection: Connection, limit: int) -> list[str]:
    """Return the names of workers whose lock has been missing for two seconds, the last first."""
    return [row["name"] for row in await connection.fetch(statement("list_gone_workers"), limit)]


async def end_leases(connection: Connection, process_nos: Sequence[int], limit: int) -> int:
    """End the leases of such processes, if they still are; return of how many runs."""
    return len(await connection.fetch(statement("end_leases"), process_nos, limit))


async def end_deadlines(connection: Connection, process_nos: Sequence[int], limit: int) -> int:
    """End the deadlines of unpublished claims of such processes; return of how many."""
    return len(await connection.fetch(statement("end_deadlines"), process_nos, limit))


async def prune_processes(connection: Connection, limit: int) -> int:
    """Delete rows of processes that ended or were not seen for long; return how many."""
    return len(await connection.fetch(statement("prune_processes"), limit))


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """A process that did not stop in order, and why it cannot take work if it cannot."""

    process_no: int
    name: str
    status: ProcessStatus
    seen_at: datetime
    failing_since: datetime | None
    failure: str | None


async def read_health(
    connection: Connection, host: str, role: ProcessRole, limit: int
) -> Sequence[ProcessHealth]:
    """Read the processes of a role on a machine that did not stop, the last to start first."""
    return [
        ProcessHealth(**{**row, "status": ProcessStatus(row["status"])})
        for row in await connection.fetch(statement("read_health"), host, role, limit)
    ]


async def list_processes(connection: Connection, limit: int) -> Sequence[ProcessRow]:
    """List processes that live, are silent, or are gone since an hour.

    Those that do not live are first, by when each was last seen; the others are by role.
    """
    return [
        ProcessRow(
            **{
                **row,
                "role": ProcessRole(row["role"]),
                "status": ProcessStatus(row["status"]),
            }
        )
        for row in await connection.fetch(statement("list_processes"), limit)
    ]


async def record_certificate(connection: Connection, process_no: int, expires_at: datetime) -> None:
    """Record when the certificate of a live service expires."""
    await connection.execute(statement("record_certificate"), process_no, expires_at)


async def count_leases(connection: Connection, examined_max: int) -> dict[int, tuple[int, bool]]:
    """Count the leases that each process holds, and whether there may be more."""
    rows = await connection.fetch(statement("count_leases"), examined_max)
    return {row["process_no"]: (row["leases"], row["leases_capped"]) for row in rows}


async def read_roles(connection: Connection) -> dict[ProcessRole, RoleStatus]:
    """Read which processes live, by role; of roles without any, one of zeros."""
    found = {
        ProcessRole(row["role"]): RoleStatus(
            **{name: value for name, value in row.items() if name != "role"}
        )
        for row in await connection.fetch(statement("read_roles"))
    }
    return {role: found.get(role, RoleStatus()) for role in ProcessRole}
