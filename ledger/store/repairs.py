"""Repairs: what is proposed for findings, what people approve, and how each ended."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.findings import PageAfter
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """One proposed repair. `command` is JSON text."""

    id: UUID
    finding_id: UUID
    action: str
    opened_count: int
    command: str


@dataclass(frozen=True, slots=True)
class RecordedRepair:
    """The status of a proposed repair. `created` is False if it was proposed before."""

    id: UUID
    status: str
    created: bool


async def record_repairs(
    connection: Connection, repairs: Sequence[RepairRecord], *, actor_no: int
) -> list[RecordedRepair]:
    """Record repairs as proposed; known ones do not change. Returns results in input order."""
    rows = await connection.fetch(
        statement("record_repairs"),
        [repair.id for repair in repairs],
        [repair.finding_id for repair in repairs],
        [repair.action for repair in repairs],
        [repair.opened_count for repair in repairs],
        [repair.command for repair in repairs],
        actor_no,
    )
    return [RecordedRepair(**row) for row in rows]


async def list_repair_grounds(
    connection: Connection, finding: UUID, tenants: Sequence[str] | None
) -> list[Record]:
    """Read an open finding and those that may forbid its repair; none if no tenant has it open."""
    return await connection.fetch(statement("list_repair_grounds"), finding, tenants)


async def find_repairs(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Record]:
    """Find which repairs are recorded, by id, each with its status and what its approval covers."""
    rows = await connection.fetch(statement("find_repairs"), list(ids))
    return {row["id"]: row for row in rows}


async def take_repairs(connection: Connection, ids: Sequence[UUID]) -> list[Record]:
    """Lock proposed repairs until the transaction ends, and return them."""
    return await connection.fetch(statement("take_repairs"), ids)


async def hold_repairs(connection: Connection, held: Sequence[tuple[UUID, str, str, str]]) -> None:
    """Record by id why proposed repairs are not executed now, what they would do, and to what."""
    if held:
        ids, *texts = map(list, zip(*held, strict=True))
        await connection.fetch(statement("hold_repairs"), ids, *texts)


async def hold_superseded_repairs(
    connection: Connection, ids: Sequence[UUID], *, reason: str
) -> None:
    """Record why the other proposals for the findings of these are not executed."""
    await connection.fetch(statement("hold_superseded_repairs"), ids, reason)


async def approve_repairs(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    reason: str,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> dict[UUID, str]:
    """Approve proposed repairs in a person's name; return a result by id.

    `done`; `approved`: somebody approved it before; `own`: the same actor proposed it;
    `finished`: it was executed or refused; `closed`: its finding is not open; `unknown`, also if it
    is of others than `tenants`.
    """
    rows = await connection.fetch(statement("approve_repairs"), ids, reason, actor_no, tenants)
    return {row["id"]: row["result"] for row in rows}


async def list_waiting_repairs(
    connection: Connection,
    tenant: str | None,
    kind: str | None,
    row_max: int,
    *,
    tenants: Sequence[str] | None = None,
    after: PageAfter | None = None,
    taken_by: int | None = None,
    newest_first: bool = False,
) -> list[dict[str, Any]]:
    """List proposed repairs of open findings, oldest or newest first; with `tenants`, theirs alone.

    With `taken_by`, those whose finding this actor has taken, or `NOBODY`.
    """
    rows = await connection.fetch(
        statement("list_newest_repairs") if newest_first else statement("list_waiting_repairs"),
        *(tenant, kind, row_max, tenants),
        *((after.at, after.id) if after else (None, None)),
        taken_by,
    )
    return [dict(row) for row in rows]


async def count_executed_repairs(connection: Connection) -> int:
    """Count the repairs of the last minute on business time."""
    return await connection.fetchval(statement("count_executed_repairs"))


async def finish_repairs(
    connection: Connection,
    ids: Sequence[UUID],
    statuses: Sequence[str],
    outcomes: Sequence[str],
    *,
    actor_no: int,
) -> set[UUID]:
    """Record how proposed repairs ended. Repairs that ended before do not change.

    `outcomes` are JSON text. Returns the ids of the repairs that ended now.
    """
    rows = await connection.fetch(statement("finish_repairs"), ids, statuses, outcomes, actor_no)
    return {row["id"] for row in rows}


async def list_repairs(
    connection: Connection,
    *,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: PageAfter | None = None,
    page_size: int = 1_000,
) -> list[Record]:
    """List repairs with the findings they repair, oldest first, by page.

    Of a half-open period: those that wait, or were open at any time of it. One `waits` if it was
    proposed and its finding is as open as it was then.
    """
    return await connection.fetch(
        statement("list_repairs"),
        from_at,
        to_at,
        after.at if after else None,
        after.id if after else None,
        page_size,
    )
