"""The repairs of findings that are open after a pass, by what is known of their items."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from dueledger.ledger.finding_types import RepairStatus
from dueledger.ledger.store import Connection, Record
from dueledger.ledger.store.repairs import find_repairs
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.repair.planned_repairs import (
    PlannedRepair,
    RepairChoice,
    RepairSelection,
    forbidden_repairs,
    is_ground,
    may_repair,
    plan_repairs,
)
from dueledger.reconciler.repair.replay_guard import RUNS, ReplayGuard, judged, read_orphans
from dueledger.reconciler.repair_policy import RepairPolicies

if TYPE_CHECKING:
    from dueledger.reconciler.finding_row import FindingRow


PLANNED_MAX: Final = 100_000
"""Findings of which a pass plans the repairs: about 1 KB of memory each."""


async def plan_open_repairs(
    connection: Connection,
    record: PassRecord,
    guard: ReplayGuard,
    policies: RepairPolicies,
    *,
    choice: RepairChoice | None = None,
    selection: RepairSelection | None = None,
) -> list[PlannedRepair]:
    """Return the repairs of the open findings that are meant; nothing is recorded.

    Of those that the pass found; of more than `PLANNED_MAX` that may have one, the oldest. One that
    was executed or refused is not repeated. A proposal that its policy forbids is among them, to be
    refused.
    """
    rows: list[FindingRow] = []
    found = set[UUID]()
    async for page in record.list_open(connection):
        of_pass = {
            row["id"]
            for row in page
            if record.has_found(row) and may_repair(row, choice, policies, selection)
        }
        if len(found) < PLANNED_MAX:
            found |= of_pass
            rows += [row for row in page if row["id"] in of_pass or is_ground(row)]
        else:
            rows += filter(is_ground, page)
    planned = [each for each in plan_repairs(rows, choice, policies) if each.finding_id in found]
    forbidden = [each for each in forbidden_repairs(rows, policies) if each.finding_id in found]
    recorded = await find_repairs(connection, [each.id for each in (*planned, *forbidden)])
    planned += [each for each in forbidden if each.id in recorded]
    ended = {each for each, row in recorded.items() if row["status"] != RepairStatus.PROPOSED}
    planned = [each for each in planned if each.id not in ended]
    planned = selection.of(planned) if selection else planned
    judgements = await guard.judge(connection, planned, await read_orphans(connection, planned))
    return [
        judged(
            each,
            judgements.get(each.id, RUNS),
            approved_over=recorded[each.id]["approved_over"] if each.id in recorded else None,
        )
        for each in planned
    ]


async def with_status(
    connection: Connection, planned: Sequence[PlannedRepair]
) -> list[PlannedRepair]:
    """Return repairs with the status that each has now, and why it waits."""
    recorded = await find_repairs(connection, [each.id for each in planned])
    return [_recorded(each, recorded[each.id]) if each.id in recorded else each for each in planned]


def _recorded(repair: PlannedRepair, row: Record) -> PlannedRepair:
    status = RepairStatus(row["status"])
    after = repair.before if status is RepairStatus.REFUSED else repair.after
    return replace(repair, status=status, after=after, held_because=row["held_because"])
