"""The repairs of findings that are open after a pass, by what is known of their items."""

from dataclasses import replace

from dueledger.ledger.store import Connection
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.repair.planned_repairs import (
    PlannedRepair,
    RepairChoice,
    RepairSelection,
    plan_repairs,
)
from dueledger.reconciler.repair.replay_guard import ReplayGuard, annotate, state_after
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
    """Return the repairs of the open findings that are meant; nothing is recorded."""
    rows = [row async for page in record.list_open(connection) for row in page]
    planned = plan_repairs(rows, choice, policies)
    planned = selection.of(planned) if selection else planned
    judgements = await guard.judge(connection, planned)
    sentences = annotate(planned, judgements)
    return [
        replace(each, would=sentences[each.id], after=state_after(each, judgements.get(each.id)))
        for each in planned
    ]
