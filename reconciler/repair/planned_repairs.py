"""The repairs of open findings, each with what it would do, and the cap of one pass."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never
from uuid import UUID

import orjson

from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.finding_types import (
    EXPECTATION_TYPES,
    FINDING_RULES,
    WHOLE_LEDGER,
    FindingType,
    RepairAction,
    RepairStatus,
)
from dueledger.ledger.kafka.envelope import REPAIR_TOPIC
from dueledger.ledger.states import State
from dueledger.ledger.store.repairs import RepairRecord
from dueledger.reconciler.find.findings import repair_id
from dueledger.reconciler.finding_row import FindingRow
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment

POLICY_ASKS: Final = "the policy of its kind: a person approves it"
_NO_PAYLOAD: Final = "its source does not say its payload: a person approves that it has none"
FORBIDDEN: Final = "the policy of its kind forbids it"
_FREED: Final = frozenset({"ended", "no_item"})
"""Faults of held keys that `free_ended_keys` mends."""
ENDED: Final = frozenset({"cancelled", "skipped", "superseded", "written_off", "none"})
"""States of an item with an effect outside that only a person can reconcile with it."""

RepairChoice = Mapping[FindingType, RepairAction | None]
"""The repair of a type of finding, where it is not the default."""


class BlastRadiusExceeded(DueledgerError):
    """The plan has more repairs of one action than one pass may execute."""

    code = "BLAST_RADIUS_EXCEEDED"

    def __init__(self, action: RepairAction, count: int, cap: int) -> None:
        super().__init__(
            f"{action} would be applied to {count:,} findings and one pass may apply {cap:,}: "
            "check the dry run, then raise the cap if all of them are intended",
            action=action,
            count=count,
            cap=cap,
        )


@dataclass(frozen=True, slots=True)
class PlannedRepair:
    """A repair of one open finding. `would` is a sentence for people: what it does.

    `before` and `after` are what it changes. `asks` is why a person approves it whatever is known
    of it, `held_because` why it is not executed now, for any actor. One that `is_forbidden` was
    proposed by somebody who does not know the policy; it is refused. `status` is as it is recorded;
    None in a dry run. `unjudged` is the repair as it was before anybody was asked.
    """

    id: UUID
    finding_id: UUID
    finding_type: FindingType
    tenant: str
    kind: str
    subject: str
    action: RepairAction
    opened_count: int
    would: str
    command: dict[str, Any] = field(repr=False)
    before: str = ""
    after: str = ""
    asks: tuple[str, ...] = ()
    held_because: str | None = None
    is_forbidden: bool = False
    status: RepairStatus | None = None
    unjudged: "PlannedRepair | None" = field(default=None, repr=False, compare=False)

    def record(self) -> RepairRecord:
        """Return what is recorded of it: the command, with what the dry run says of it."""
        said = {"would": self.would, "before": self.before, "after": self.after}
        command = orjson.dumps({**self.command, **said}).decode()
        return RepairRecord(self.id, self.finding_id, self.action, self.opened_count, command)


@dataclass(frozen=True, slots=True)
class RepairSelection:
    """Which of the planned repairs are meant: None is any; at most `limit` of them."""

    type: FindingType | None = None
    tenant: str | None = None
    kind: str | None = None
    limit: int | None = None

    def has(self, type_: FindingType, tenant: str, kind: str) -> bool:
        """Return whether repairs of findings of this type and kind are meant."""
        meant = ((self.type, type_), (self.tenant, tenant), (self.kind, kind))
        return all(wanted in {None, each} for wanted, each in meant)

    def of(self, planned: Sequence[PlannedRepair]) -> list[PlannedRepair]:
        """Return the planned repairs that are meant, in their order."""
        meant = [each for each in planned if self.has(each.finding_type, each.tenant, each.kind)]
        return meant[: self.limit]


def plan_repairs(
    rows: Sequence[FindingRow],
    choice: RepairChoice | None = None,
    policies: RepairPolicies | None = None,
) -> list[PlannedRepair]:
    """Return the repairs of open findings (rows of `list_findings`). Pure.

    A finding whose repair cannot be applied has none, such as redriving an item that is not parked.
    Where a kind has the finding that what it rests on was changed, nothing of the kind is repaired;
    where its tenant or the whole ledger has it, nothing of these. Of a kind that a source names
    which could not be read, nothing that rests on what is expected.
    """
    planned: list[PlannedRepair] = []
    grounds = [row for row in rows if is_ground(row)]
    tampered = {
        (row["tenant"], row["kind"]) for row in grounds if row["type"] == FindingType.TAMPERED
    }
    unread = [
        row["expected"].get("kinds") for row in grounds if row["type"] == FindingType.SOURCE_FAILED
    ]
    for row in rows:
        if row["type"] in EXPECTATION_TYPES and any(
            kinds is None or f"{row['tenant']} {row['kind']}" in kinds.split("\n")
            for kinds in unread
        ):
            continue  # what the source says now is not known
        tenant, kind = row["tenant"], row["kind"]
        grounds_of = {(tenant, kind), (tenant, WHOLE_LEDGER), (WHOLE_LEDGER, WHOLE_LEDGER)}
        if not tampered.isdisjoint(grounds_of):
            continue
        type_ = FindingType(row["type"])
        default = FINDING_RULES[type_].default_repair
        action = choice.get(type_, default) if choice else default
        treatment = policies.treatment(row["tenant"], row["kind"], type_) if policies else None
        if treatment is Treatment.NEVER:
            continue
        if treatment is Treatment.ESCALATE:
            action = RepairAction.ESCALATE if row["item_id"] and row["due_at"] else None
        if action is None or row["closed_at"] is not None:
            continue
        found = _command(action, row)
        if found is None:
            continue
        would, command = found
        before, after = _change(action, row)
        asks = [POLICY_ASKS] if treatment is Treatment.PROPOSE else []
        terms = command if action is RepairAction.MATERIALISE else None
        if terms is not None and not terms.get("says_payload", True):
            asks.append(_NO_PAYLOAD)
        planned.append(
            PlannedRepair(
                id=repair_id(row["id"], action, row["opened_count"], terms),
                finding_id=row["id"],
                finding_type=type_,
                tenant=row["tenant"],
                kind=row["kind"],
                subject=row["subject"],
                action=action,
                opened_count=row["opened_count"],
                would=would,
                command=command,
                before=before,
                after=after,
                asks=tuple(asks),
            )
        )
    return planned


def may_repair(
    finding: FindingRow,
    choice: RepairChoice | None,
    policies: RepairPolicies,
    selection: RepairSelection | None,
) -> bool:
    """Return whether an open finding has a repair by its type, and is one of those meant."""
    type_, tenant, kind = FindingType(finding["type"]), finding["tenant"], finding["kind"]
    default = FINDING_RULES[type_].default_repair
    return (selection is None or selection.has(type_, tenant, kind)) and (
        (choice.get(type_, default) if choice else default) is not None
        or policies.treatment(tenant, kind, type_) is Treatment.ESCALATE
    )


def is_ground(finding: FindingRow) -> bool:
    """Return whether an open finding may forbid repairs of others."""
    if finding["closed_at"] is not None:
        return False
    return finding["type"] == FindingType.SOURCE_FAILED or (
        finding["type"] == FindingType.TAMPERED and finding["item_id"] is None
    )


def forbidden_repairs(rows: Sequence[FindingRow], policies: RepairPolicies) -> list[PlannedRepair]:
    """Return the repairs that could be proposed and that the policy of their kind forbids. Pure."""

    def is_forbidden(row: FindingRow) -> bool:
        treatment = policies.treatment(row["tenant"], row["kind"], FindingType(row["type"]))
        return treatment in {Treatment.NEVER, Treatment.ESCALATE}

    forbidden = {row["id"] for row in rows if is_forbidden(row)}
    if not forbidden:
        return []
    return [
        replace(repair, is_forbidden=True)
        for repair in plan_repairs(
            [row for row in rows if row["id"] in forbidden or is_ground(row)]
        )
        if repair.finding_id in forbidden and repair.action is not RepairAction.ESCALATE
    ]


def _command(action: RepairAction, row: FindingRow) -> tuple[str, dict[str, Any]] | None:
    """Return the sentence and the command of one repair, or None where it cannot apply."""
    what = f"{row['kind']} of {row['business_key']}, effective {row['effective_date']}"
    item = {"item": str(row["item_id"]), "reason": f"finding {row['id']}"}
    command: tuple[str, dict[str, Any]] | None = None
    match action:
        case RepairAction.MATERIALISE:
            if row["terms"] is not None:
                command = _emission(what, row), row["terms"]
        case RepairAction.REDRIVE:
            if row["actual"].get("state") == State.MANUAL_REVIEW.label:
                command = f"Send {what} back to pending; its attempts are counted from zero.", item
        case RepairAction.CANCEL:
            command = f"Cancel {what}.", item
        case RepairAction.RELEASE:
            command = _release(row)
        case RepairAction.ESCALATE:
            command = f"Ask the domain to repeat the effect of {what}.", _escalation(row)
        case RepairAction.COMPLETE:
            if row["item_id"] is not None and row["actual"].get("state") not in ENDED:
                command = (
                    f"Record {what} as completed, with its evidence: it is not run again.",
                    item,
                )
    return command


def _release(row: FindingRow) -> tuple[str, dict[str, Any]] | None:
    """Return the release of a claim, a run, or the key of an item that ended or is missing."""
    actual = row["actual"]
    match actual:
        case {"fault": fault, "item_no": number}:
            if fault not in _FREED:
                return None
            what = f"Free the ordering key that is held for item {row['item_id'] or number}."
            return what, {"key": number}
        case {"run": number}:
            return (
                f"Close run {number}: its items that have not ended are retried, or parked at "
                "their cap."
            ), {"run": number}
        case {"fence": number}:
            return (
                f"Close claim {number}: its items that were not started are claimed again, or "
                "parked where their kind says so."
            ), {"claim": number}
        case _:
            return None


def _change(action: RepairAction, row: FindingRow) -> tuple[str, str]:
    """Return what a repair changes: the state before and after it."""
    actual = row["actual"]
    state = str(actual.get("state") or "its state")
    match action:
        case RepairAction.MATERIALISE:
            skipped = row["terms"].get("skip_reason")
            return "no item", State.SKIPPED.label if skipped else State.SCHEDULED.label
        case RepairAction.REDRIVE:
            attempt = actual.get("attempt")
            return f"{state}, attempt {attempt}", f"{State.SCHEDULED.label}, attempt 0"
        case RepairAction.CANCEL:
            return state, State.CANCELLED.label
        case RepairAction.RELEASE:
            return _release_change(actual)
        case RepairAction.ESCALATE:
            return "no command", f"a command on {REPAIR_TOPIC}"
        case RepairAction.COMPLETE:
            return state, State.COMPLETED.label
        case _:
            assert_never(action)


def _release_change(actual: Mapping[str, Any]) -> tuple[str, str]:
    if "fault" in actual:
        return "key held", "key free"
    before = State.RUNNING if "run" in actual else State.CLAIMED
    after = State.RETRYABLE_FAILURE if "run" in actual else State.SCHEDULED
    return (
        f"{actual['open_items']:,} items {before.label}",
        f"{after.label} or {State.MANUAL_REVIEW.label}",
    )


def _emission(what: str, row: FindingRow) -> str:
    due = f"due {row['due_at']:%Y-%m-%d %H:%M} UTC"
    if reason := row["terms"].get("skip_reason"):
        return f"Record {what}, {due}, as skipped: {reason}."
    return f"Emit {what}, {due}."


def _escalation(row: FindingRow) -> dict[str, Any]:
    return {
        "finding": str(row["id"]),
        "type": row["type"],
        "tenant": row["tenant"],
        "kind": row["kind"],
        "item": str(row["item_id"]),
        "business_key": row["business_key"],
        "cycle": row["expected"].get("cycle"),
        "effective_date": row["effective_date"].isoformat(),
        "due_at": row["due_at"].isoformat(),
        "evidence": row["expected"].get("evidence"),
        "sentence": row["sentence"],
    }


def check_blast_radius(planned: Sequence[PlannedRepair], cap: int) -> None:
    """Raise BlastRadiusExceeded where any one action is planned more often than `cap`."""
    counts: defaultdict[RepairAction, int] = defaultdict(int)
    for repair in planned:
        counts[repair.action] += 1
    for action, count in counts.items():
        if count > cap:
            raise BlastRadiusExceeded(action, count, cap)
