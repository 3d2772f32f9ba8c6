"""One finding and one repair, as the report has them."""

from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from dueledger.ledger.finding_types import FINDING_RULES, FindingType, RepairStatus
from dueledger.ledger.rules.redaction import redact_row
from dueledger.ledger.states import State
from dueledger.ledger.store import Record
from dueledger.ledger.store.items import RequestResult
from dueledger.reconciler.finding_row import FindingRow
from dueledger.reconciler.repair.planned_repairs import PlannedRepair
from dueledger.reconciler.report import model


def finding_detail(row: FindingRow, redacted_fields: Sequence[str]) -> model.FindingDetail:
    """Return a finding as the report has it, without the fields that its kind redacts."""
    sides = {name: row[name] for name in ("expected", "actual")}
    shown = redact_row({**sides, "redacted_fields": redacted_fields})
    rule = FINDING_RULES[FindingType(row["type"])]
    return model.FindingDetail(
        id=row["id"],
        type=row["type"],
        severity=row["severity"],
        owner=rule.owner,
        tenant=row["tenant"],
        kind=row["kind"],
        subject=row["subject"],
        item_id=row["item_id"],
        business_key=row["business_key"],
        effective_date=row["effective_date"],
        due_at=row["due_at"],
        sentence=row["sentence"],
        expected=_facts(shown["expected"]),
        actual=_facts(shown["actual"]),
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        closed_at=row["closed_at"],
        opened_count=row["opened_count"],
        resolution=row["resolution"],
        reason=row["reason"],
    )


def repair_detail(row: Record) -> model.RepairDetail:
    """Return a repair as the report has it."""
    command = row["command"]
    outcome = _facts(row["outcome"]) if row["outcome"] else None
    before = command.get("before", "")
    return model.RepairDetail(
        id=row["id"],
        finding_id=row["finding_id"],
        type=row["type"],
        tenant=row["tenant"],
        kind=row["kind"],
        subject=row["subject"],
        action=row["action"],
        would=command.get("would", ""),
        before=before,
        after=_after(row, before, command.get("after", ""), outcome or {}),
        status=row["status"],
        waits=row["waits"],
        proposed_by=row["proposed_by"],
        held_because=row["held_because"],
        approved_by=row["approved_by"],
        executed_at=row["executed_at"],
        executed_by=row["executed_by"],
        outcome=outcome,
    )


def planned_detail(repair: PlannedRepair) -> model.RepairDetail:
    """Return a repair of a dry run, which is not recorded."""
    return model.RepairDetail(
        id=repair.id,
        finding_id=repair.finding_id,
        type=repair.finding_type,
        tenant=repair.tenant,
        kind=repair.kind,
        subject=repair.subject,
        action=repair.action,
        would=repair.would,
        before=repair.before,
        after=repair.after,
        status=None,
        waits=False,
        proposed_by=None,
        held_because=repair.held_because,
        approved_by=None,
        executed_at=None,
        executed_by=None,
        outcome=None,
    )


def _after(row: Record, before: str, after: str, outcome: Mapping[str, model.Fact]) -> str:
    """Return what a repair made of `before`, or is to make of it while it waits."""
    is_executed = row["status"] == RepairStatus.EXECUTED and outcome.get("created") is not False
    if not (is_executed or row["waits"]):
        return before
    if outcome.get("completed"):
        return State.COMPLETED.label
    if outcome.get("result") == RequestResult.REQUESTED:
        return f"{before}, {after} requested"
    return after


def _facts(value: object) -> dict[str, model.Fact]:
    """Return one side of a finding's evidence. Rows that no pass wrote may have any JSON."""
    named = cast("dict[str, object]", value) if isinstance(value, dict) else {"value": value}
    return {
        name: each
        if isinstance(each, str | int | float | bool | None)
        else orjson.dumps(each).decode()
        for name, each in sorted(named.items())
    }
