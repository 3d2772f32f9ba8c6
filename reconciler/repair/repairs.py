"""Repairs as records: one each time a finding opens, executed once, and reconciled after."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson

from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.finding_types import (
    FINDING_RULES,
    FindingType,
    RepairAction,
    RepairStatus,
)
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, Pool, Record, findings, items, reviews
from dueledger.ledger.store.claims import reap_claims, reap_runs
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.held_keys import free_ended_keys
from dueledger.reconciler.expect.item_terms import draft_of_terms
from dueledger.reconciler.find.findings import WHOLE_LEDGER, repair_id
from dueledger.reconciler.pass_result import EXPECTATION_TYPES
from dueledger.reconciler.repair.command_publisher import RepairCommand, RepairPublisher

REPAIRS_A_TRANSACTION: Final = 500
REAPED_MAX: Final = 1_000

RepairChoice = Mapping[FindingType, RepairAction | None]
"""The repair of a type of finding, where it is not the default."""

RepairOutcome = tuple[RepairStatus, dict[str, Any]]


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
    """A repair of one open finding. `would` is a sentence for people: what it does."""

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


def plan_repairs(rows: Sequence[Record], choice: RepairChoice | None = None) -> list[PlannedRepair]:
    """Return the repairs of open findings (rows of `list_findings`). Pure.

    A finding whose repair cannot be applied has none, such as redriving an item that is not parked.
    Where a kind has the finding that what it rests on was changed, nothing of the kind is repaired;
    where the whole ledger has it, nothing at all. Of a kind that a source names which could not be
    read, nothing that rests on what is expected.
    """
    planned: list[PlannedRepair] = []
    tampered = {
        (row["tenant"], row["kind"])
        for row in rows
        if row["type"] == FindingType.TAMPERED
        and row["item_id"] is None
        and row["closed_at"] is None
    }
    unread = [
        row["expected"].get("kinds")
        for row in rows
        if row["type"] == FindingType.SOURCE_FAILED and row["closed_at"] is None
    ]
    for row in rows:
        if row["type"] in EXPECTATION_TYPES and any(
            kinds is None or f"{row['tenant']} {row['kind']}" in kinds.split("\n")
            for kinds in unread
        ):
            continue  # what the source says now is not known
        if not tampered.isdisjoint({(row["tenant"], row["kind"]), (WHOLE_LEDGER, WHOLE_LEDGER)}):
            continue
        type_ = FindingType(row["type"])
        default = FINDING_RULES[type_].default_repair
        action = choice.get(type_, default) if choice else default
        if action is None or row["closed_at"] is not None:
            continue
        found = _command(action, row)
        if found is None:
            continue
        would, command = found
        planned.append(
            PlannedRepair(
                id=repair_id(row["id"], action, row["opened_count"]),
                finding_id=row["id"],
                finding_type=type_,
                tenant=row["tenant"],
                kind=row["kind"],
                subject=row["subject"],
                action=action,
                opened_count=row["opened_count"],
                would=would,
                command=command,
            )
        )
    return planned


def _command(action: RepairAction, row: Record) -> tuple[str, dict[str, Any]] | None:
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
            holder = row["subject"]
            command = (
                f"Release what {holder} still has, although its time is over.",
                {"holder": holder},
            )
        case RepairAction.ESCALATE:
            command = f"Ask the domain to repeat the effect of {what}.", _escalation(row)
        case RepairAction.COMPLETE:
            pass
    return command


def _emission(what: str, row: Record) -> str:
    due = f"due {row['due_at']:%Y-%m-%d %H:%M} UTC"
    if reason := row["terms"].get("skip_reason"):
        return f"Record {what}, {due}, as skipped: {reason}."
    return f"Emit {what}, {due}."


def _escalation(row: Record) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class RepairExecutor:
    """Records repairs and executes those that were not executed yet.

    Without a publisher, escalations stay proposed.
    """

    pool: Pool
    actor_no: int
    publisher: RepairPublisher | None = None

    async def execute(self, planned: Sequence[PlannedRepair]) -> int:
        """Record and execute; return how many were executed now. Repeating it is harmless.

        A repair and the record of its execution commit together. A command to the domain may be
        published twice under one id, where the COMMIT after it is lost.
        """
        executed = 0
        for begin in range(0, len(planned), REPAIRS_A_TRANSACTION):
            chunk = planned[begin : begin + REPAIRS_A_TRANSACTION]
            async with self.pool.acquire() as connection:
                await findings.record_repairs(
                    connection,
                    [
                        findings.RepairRecord(
                            repair.id,
                            repair.finding_id,
                            repair.action,
                            repair.opened_count,
                            orjson.dumps({**repair.command, "would": repair.would}).decode(),
                        )
                        for repair in chunk
                    ],
                    actor_no=self.actor_no,
                )
                async with connection.transaction():
                    executed += await self._execute_chunk(connection, chunk)
            crash_point("reconcile.repaired")
        return executed

    async def _execute_chunk(self, connection: Connection, chunk: Sequence[PlannedRepair]) -> int:
        open_ = {
            row["id"]
            for row in await findings.take_repairs(connection, [repair.id for repair in chunk])
        }
        by_action: defaultdict[RepairAction, list[PlannedRepair]] = defaultdict(list)
        for repair in chunk:
            if repair.id in open_:
                by_action[repair.action].append(repair)
        ended: dict[UUID, RepairOutcome] = {}
        for action, repairs in by_action.items():
            ended |= await self._apply(connection, action, repairs)
        await findings.finish_repairs(
            connection,
            list(ended),
            [status for status, _ in ended.values()],
            [orjson.dumps(outcome).decode() for _, outcome in ended.values()],
            actor_no=self.actor_no,
        )
        return sum(status is RepairStatus.EXECUTED for status, _ in ended.values())

    async def _apply(
        self, connection: Connection, action: RepairAction, repairs: Sequence[PlannedRepair]
    ) -> dict[UUID, RepairOutcome]:
        match action:
            case RepairAction.MATERIALISE:
                return await self._materialise(connection, repairs)
            case RepairAction.REDRIVE | RepairAction.CANCEL:
                return await self._move(connection, action, repairs)
            case RepairAction.RELEASE:
                return await self._release(connection, repairs)
            case RepairAction.ESCALATE:
                return await self._escalate(connection, repairs)
            case RepairAction.COMPLETE:
                return {}

    async def _materialise(
        self, connection: Connection, repairs: Sequence[PlannedRepair]
    ) -> dict[UUID, RepairOutcome]:
        by_tzdata: defaultdict[str | None, list[PlannedRepair]] = defaultdict(list)
        for repair in repairs:
            by_tzdata[repair.command["tzdata"]].append(repair)
        ended: dict[UUID, RepairOutcome] = {}
        for alike in by_tzdata.values():
            emitted = await items.emit_items(
                connection,
                [draft_of_terms(repair.command) for repair in alike],
                actor_no=self.actor_no,
                definition_nos=[repair.command["definition_no"] for repair in alike],
                event_nos=[repair.command["event_no"] for repair in alike],
                skip_reasons=[repair.command.get("skip_reason") for repair in alike],
            )
            for repair, result in zip(alike, emitted, strict=True):
                ended[repair.id] = (
                    RepairStatus.EXECUTED,
                    {"item": str(result.id), "created": result.created},
                )
        return ended

    async def _move(
        self, connection: Connection, action: RepairAction, repairs: Sequence[PlannedRepair]
    ) -> dict[UUID, RepairOutcome]:
        ids = [UUID(repair.command["item"]) for repair in repairs]
        if action is RepairAction.REDRIVE:
            results = await reviews.redrive_items(
                connection, ids, reason="repair", actor_no=self.actor_no
            )
        else:
            results = await items.withdraw_items(
                connection,
                ids,
                event=TransitionEvent.CANCELLED,
                reason="repair",
                actor_no=self.actor_no,
            )
        accepted = {items.RequestResult.DONE, items.RequestResult.REQUESTED}
        return {
            repair.id: (
                RepairStatus.EXECUTED if result.result in accepted else RepairStatus.REFUSED,
                {"result": result.result.value},
            )
            for repair, result in zip(repairs, results, strict=True)
        }

    async def _release(
        self, connection: Connection, repairs: Sequence[PlannedRepair]
    ) -> dict[UUID, RepairOutcome]:
        claims = await reap_claims(connection, REAPED_MAX, self.actor_no)
        runs = await reap_runs(connection, REAPED_MAX, self.actor_no)
        keys, _ = await free_ended_keys(connection, None, REAPED_MAX)
        counts = {
            "keys_freed": keys,
            "claims_released": claims.released,
            "runs_released": runs.released,
            "retried": runs.retried,
            "parked": runs.parked,
        }
        return {repair.id: (RepairStatus.EXECUTED, counts) for repair in repairs}

    async def _escalate(
        self, connection: Connection, repairs: Sequence[PlannedRepair]
    ) -> dict[UUID, RepairOutcome]:
        if self.publisher is None:
            return {}
        at = await read_now(connection)
        await self.publisher.publish(
            [
                RepairCommand(
                    id=str(repair.id),
                    tenant=repair.tenant,
                    business_key=repair.command["business_key"],
                    at=at,
                    body=orjson.dumps({"repair": str(repair.id), **repair.command}),
                    item=repair.command["item"],
                    cycle=repair.command["cycle"],
                    effective_date=repair.command["effective_date"],
                )
                for repair in repairs
            ]
        )
        return {repair.id: (RepairStatus.EXECUTED, {"published": True}) for repair in repairs}
