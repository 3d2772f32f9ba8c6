"""Repairs as records: one each time a finding opens, executed once, and reconciled after."""

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never
from uuid import UUID

import orjson

from dueledger.ledger.finding_types import RepairAction, RepairStatus
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool, items, prior_work, reviews
from dueledger.ledger.store.claims import reap_claims, reap_runs
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.held_keys import free_ended_keys_of
from dueledger.ledger.store.repairs import (
    count_executed_repairs,
    finish_repairs,
    hold_repairs,
    hold_superseded_repairs,
    record_repairs,
    take_repairs,
)
from dueledger.reconciler.expect.item_terms import draft_of_terms
from dueledger.reconciler.repair.command_publisher import RepairCommand, RepairPublisher
from dueledger.reconciler.repair.planned_repairs import FORBIDDEN, PlannedRepair
from dueledger.reconciler.repair.replay_guard import (
    RUNS,
    Judgement,
    Permission,
    ReplayGuard,
    judged,
    read_orphans,
)

REPAIRS_A_TRANSACTION: Final = 500
REAPED_MAX: Final = 100_000
"""Claims and runs that are locked to find those that are meant."""
RATE_MAX: Final = 1_000_000
_NOT_NOW: Final = "it could not be executed now: a later pass tries again"
_SUPERSEDED: Final = "its finding would be repaired otherwise now: another proposal says how"

RepairOutcome = tuple[RepairStatus, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RepairExecutor:
    """Records repairs and executes those that were not executed yet.

    Without a publisher, escalations stay proposed. `rate_max` is repairs a minute, of all
    reconcilers; those beyond it stay proposed until a later pass. `proposer_no` proposes them;
    None: the actor that executes them.
    """

    pool: Pool
    actor_no: int
    publisher: RepairPublisher | None = None
    guard: ReplayGuard = field(default_factory=ReplayGuard)
    rate_max: int = RATE_MAX
    proposer_no: int | None = None

    async def execute(self, planned: Sequence[PlannedRepair]) -> int:
        """Record and execute; return how many were executed now. Repeating it is harmless.

        A repair and the record of its execution commit together. A command to the domain may be
        published twice under one id, where the COMMIT after it is lost.
        """
        executed = 0
        async with self.pool.acquire() as connection:
            orphans = await read_orphans(connection, planned)
        for begin in range(0, len(planned), REPAIRS_A_TRANSACTION):
            chunk = planned[begin : begin + REPAIRS_A_TRANSACTION]
            async with self.pool.acquire() as connection:
                await record_repairs(
                    connection,
                    [repair.record() for repair in chunk],
                    actor_no=self.proposer_no or self.actor_no,
                )
                await hold_superseded_repairs(
                    connection, [repair.id for repair in chunk], reason=_SUPERSEDED
                )
                crash_point("reconcile.proposed")
                async with connection.transaction():
                    executed += await self._execute_chunk(connection, chunk, orphans)
                    crash_point("reconcile.applied")
            crash_point("reconcile.repaired")
        return executed

    async def _execute_chunk(
        self, connection: Connection, chunk: Sequence[PlannedRepair], orphans: prior_work.Orphans
    ) -> int:
        taken = {
            row["id"]: row["approved_over"]
            for row in await take_repairs(connection, [repair.id for repair in chunk])
        }
        open_ = [repair for repair in chunk if repair.id in taken]
        ended: dict[UUID, RepairOutcome] = {
            repair.id: (RepairStatus.REFUSED, {"result": FORBIDDEN})
            for repair in open_
            if repair.is_forbidden
        }
        open_ = [repair for repair in open_ if not repair.is_forbidden]
        judgements = await self.guard.judge(connection, open_, orphans)
        open_ = [
            judged(repair, judgements.get(repair.id, RUNS), approved_over=taken[repair.id])
            for repair in open_
        ]
        held = [repair for repair in open_ if repair.held_because]
        permitted = [repair for repair in open_ if not repair.held_because]
        left = max(0, self.rate_max - await count_executed_repairs(connection))
        over_rate = f"{self.rate_max:,} repairs a minute were executed"
        held += [replace(repair, held_because=over_rate) for repair in permitted[left:]]
        by_action: defaultdict[RepairAction, list[PlannedRepair]] = defaultdict(list)
        recorded: dict[UUID, PlannedRepair] = {}
        for repair in permitted[:left]:
            if judgements.get(repair.id, RUNS).permission is Permission.RECORD:
                recorded[repair.id] = repair
            else:
                by_action[repair.action].append(repair)
        if recorded:
            ended |= await self._record(connection, list(recorded.values()), judgements)
        for action, repairs in by_action.items():
            ended |= await self._apply(connection, action, repairs)
        held += [
            replace(repair, held_because=_NOT_NOW)
            for repair in permitted[:left]
            if repair.id not in ended
        ]
        await hold_repairs(
            connection,
            [(each.id, each.held_because or "", each.would, each.after) for each in held],
        )
        await finish_repairs(
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
            case RepairAction.COMPLETE:  # the guard has not seen its item, or not its effect
                return {
                    repair.id: (RepairStatus.REFUSED, {"result": "unknown"}) for repair in repairs
                }
            case _:
                assert_never(action)

    async def _record(
        self,
        connection: Connection,
        repairs: Sequence[PlannedRepair],
        judgements: dict[UUID, Judgement],
    ) -> dict[UUID, RepairOutcome]:
        """Complete items whose effect exists; those that are missing are emitted for it."""
        missing = [each for each in repairs if each.action is RepairAction.MATERIALISE]
        emitted = await self._materialise(connection, missing)
        by_item = {
            UUID(each.subject)
            if each.action is RepairAction.MATERIALISE
            else UUID(each.command["item"]): each
            for each in repairs
            # One that somebody emitted meanwhile is not this repair's to complete.
            if each.id not in emitted or emitted[each.id][1]["created"]
        }
        details = {
            item: orjson.dumps(
                {
                    "reason": "its effect exists",
                    "evidence": {"source": judgements[each.id].evidence},
                    "repair": str(each.id),
                }
            ).decode()
            for item, each in by_item.items()
        }
        ended: dict[UUID, RepairOutcome] = dict(emitted)
        for result in await prior_work.complete_items(connection, details, actor_no=self.actor_no):
            is_done = result.result is items.RequestResult.DONE
            ended[by_item[result.id].id] = (
                RepairStatus.EXECUTED if is_done else RepairStatus.REFUSED,
                {
                    "result": result.result.value,
                    "completed": str(result.id) if is_done else None,
                },
            )
        return ended

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
        """Release the holders whose time is over; another process may release one meanwhile."""
        named: defaultdict[str, list[int]] = defaultdict(list)
        for repair in repairs:
            for holder, number in repair.command.items():
                named[holder].append(number)
        released: dict[str, AbstractSet[int]] = {}

        async def reap_fences(left: AbstractSet[int]) -> AbstractSet[int]:
            reaped = await reap_claims(connection, REAPED_MAX, self.actor_no, fences=left)
            return reaped.fences

        async def reap_run_nos(left: AbstractSet[int]) -> AbstractSet[int]:
            reaped = await reap_runs(connection, REAPED_MAX, self.actor_no, run_nos=left)
            return reaped.run_nos

        for holder, reap in (("claim", reap_fences), ("run", reap_run_nos)):
            left = set(named[holder])
            while left and (reaped := await reap(left)):
                left -= reaped
            released[holder] = set(named[holder]) - left
        if item_nos := named["key"]:
            released["key"] = await free_ended_keys_of(connection, item_nos)
        return {
            repair.id: (RepairStatus.EXECUTED, {"result": "released"})
            for repair in repairs
            for holder, number in repair.command.items()
            if number in released[holder]
        }

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
