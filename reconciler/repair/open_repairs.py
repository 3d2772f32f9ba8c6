"""The repairs of findings that are open after a pass, by what is known of their items."""

from collections.abc import Sequence
from dataclasses import replace

from dueledger.ledger.finding_types import RepairStatus
from dueledger.ledger.store import Connection, Record
from dueledger.ledger.store.findings import find_repairs
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.repair.planned_repairs import (
    PlannedRepair,
    RepairChoice,
    RepairSelection,
    plan_repairs,
)
from dueledger.reconciler.repair.replay_guard import RUNS, ReplayGuard, judged
from dueledger.reconciler.repair_policy import RepairPolicies


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

    One that was executed or refused is not repeated.
    """
    rows = [row async for page in record.list_open(connection) for row in page]
    planned = plan_repairs(rows, choice, policies)
    recorded = await find_repairs(connection, [each.id for each in planned])
    ended = {each for each, row in recorded.items() if row["status"] != RepairStatus.PROPOSED}
    approved = {each for each, row in recorded.items() if row["approved"]}
    planned = [each for each in planned if each.id not in ended]
    planned = selection.of(planned) if selection else planned
    judgements = await guard.judge(connection, planned)
    return [
        judged(each, judgements.get(each.id, RUNS), is_approved=each.id in approved)
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
