"""Processes: the row and the lock of each, and which of them live."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class ProcessRole(StrEnum):
    """What a process does."""

    ALLOCATOR = "allocator"
    WORKER = "worker"
    DIRECT_WORKER = "direct_worker"
    OUTCOME_INTAKE = "outcome_intake"
    INTAKE = "intake"
    MATERIALISER = "materialiser"
    RECONCILER = "reconciler"

    @property
    def label(self) -> str:
        """Return the role in words."""
        return self.value.replace("_", " ")


class ProcessStatus(StrEnum):
    """Whether a process lives; the view `process_status` has the rules."""

    LIVE = "live"
    SILENT = "silent"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process that did not stop in order, as the ledger knows it."""

    process_no: int
    name: str
    role: ProcessRole
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    status: ProcessStatus


class ProcessLock(NamedTuple):
    """Whether a connection leads to the server itself, and whether it has its process's lock.

    One through a pooler has none: the pooler keeps its sessions when its clients end. `has_lapsed`:
    the lock was missing for so long that the process's leases may have been ended.
    """

    is_direct: bool
    is_locked: bool
    has_lapsed: bool


async def register_process(
    connection: Connection,
    process_no: int,
    role: ProcessRole,
    *,
    host: str,
    version: str,
    yields: bool,
) -> ProcessLock:
    """Insert or renew the row of a process, and take its lock on this connection if it is free.

    With `yields`, its runs may be released once the lock has been missing for four seconds.
    """
    pid = connection.get_server_pid()
    (row,) = await connection.fetch(
        statement("register_process"), process_no, role, host, version, yields, pid
    )
    return ProcessLock(**row)


async def renew_process(connection: Connection, process_no: int) -> None:
    """Record that a process lives, unless that was recorded in the last five seconds."""
    await connection.execute(statement("renew_process"), process_no)


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


async def end_leases(connection: Connection, process_nos: Sequence[int], limit: int) -> int:
    """End the leases of such processes, if they still are; return of how many runs."""
    return len(await connection.fetch(statement("end_leases"), process_nos, limit))


async def end_deadlines(connection: Connection, process_nos: Sequence[int], limit: int) -> int:
    """End the deadlines of unpublished claims of such processes; return of how many."""
    return len(await connection.fetch(statement("end_deadlines"), process_nos, limit))


async def prune_processes(connection: Connection, limit: int) -> int:
    """Delete rows of processes that ended or were not seen for long; return how many."""
    return len(await connection.fetch(statement("prune_processes"), limit))


async def list_processes(connection: Connection, limit: int) -> Sequence[ProcessRow]:
    """List processes that live, are silent, or are gone since an hour, the latest first by role."""
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
