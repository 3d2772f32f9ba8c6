"""Items brought into each state by the statements that production runs."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

import pytest

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    DueFlow,
    claim_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.clock import set_clock, set_machine_clock
from dueledger.ledger.store.flow_limits import lock_limited_flows, measure_allowances
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.store.items import (
    RequestResult,
    emit_items,
    read_accounting,
    show_item,
    skip_items,
    withdraw_items,
)
from dueledger.ledger.store.partitions import make_partitions
from dueledger.ledger.store.reviews import write_off_items
from dueledger.ledger.store.runs import (
    Outcome,
    RefusedSettlement,
    RunIsolation,
    Settlement,
    StartResult,
    settle_runs,
    start_runs,
)
from tests.claim_ids import claim_ids, run_ids
from tests.databases import DatabasePool


@dataclass(frozen=True, slots=True)
class Placed:
    """An item and the fence and run it was last handed out under, 0 where it never was."""

    id: UUID
    fence: int = 0
    run_no: int = 0


@dataclass
class Ledger:
    """One connection that is used as allocator, worker and operator."""

    connection: Connection
    worker_no: int
    other_worker_no: int
    make_drafts: Callable[..., list[ItemDraft]]
    kind: str
    made: int = 0

    async def emit(self, count: int = 1, **terms: object) -> list[UUID]:
        """Emit items of the test's own kind under keys no other batch has."""
        self.made += 1
        drafts = self.make_drafts(count, **{"prefix": f"batch-{self.made}", **terms})
        emitted = await emit_items(self.connection, drafts, actor_no=self.worker_no)
        return [answer.id for answer in emitted]

    async def due_flows(self) -> list[DueFlow]:
        due = await list_due_flows(self.connection, 1000)
        return [flow for flow in due if flow.kind == self.kind]

    async def claim(
        self,
        *,
        limit: int = 10_000,
        queue_seconds: float = 60,
        limited: bool = False,
        by_topic: bool = False,
    ) -> Claim:
        """Claim due items of the test's kind and its one flow, up to `limit`, as one claim.

        `by_topic`: it is settled by topic, by this worker.
        """
        flows = await self.due_flows()
        async with self.connection.transaction():
            claimed = await claim_items(
                self.connection,
                [flow.flow_no for flow in flows],
                [limit] * len(flows),
                measured=[limited] * len(flows),
            )
            rows = claimed.items()
            rows.sort(key=lambda row: row.batch_max or limit)  # the smallest batches first
            fence = (await next_fences(self.connection, 1))[0] if rows else 0
            claim = Claim(
                new_claim_id(fence, claimed.claimed_at),
                self.worker_no,
                "due.Test",
                0,
                [row.item_no for row in rows],
                [row.effective_date for row in rows],
                [row.attempt + 1 for row in rows],
                [row.starts + 1 for row in rows],
                queue_seconds,
                30,
                rows[0].batch_max if rows else None,
                flow_no=flows[0].flow_no if limited else None,
                topic_actor_no=self.worker_no if by_topic else None,
                lease_seconds=60 if by_topic else None,
                flow_nos=[flow.flow_no for flow in flows],
            )
            await record_claims(self.connection, [claim] if rows else [])
        return claim

    async def start(
        self,
        fence: int,
        from_position: int = 1,
        to_position: int = 1,
        *,
        lease_seconds: float = 60,
        isolation: RunIsolation | None = None,
    ) -> StartResult:
        (start,) = await start_runs(
            self.connection,
            await claim_ids(self.connection, [fence]),
            [from_position],
            [to_position],
            worker_no=self.worker_no,
            lease_seconds=lease_seconds,
            isolations=[isolation],
        )
        return start

    async def settle(
        self,
        run_no: int | None,
        *events: TransitionEvent | None,
        worker_no: int | None = None,
        after_seconds: float | None = None,
    ) -> list[RefusedSettlement]:
        assert run_no is not None
        outcomes = [
            None if event is None else Outcome(event, '{"reason":"test"}', after_seconds)
            for event in events
        ]
        (run,) = await run_ids(self.connection, [run_no])
        return await settle_runs(
            self.connection, [Settlement(run, outcomes)], worker_no or self.worker_no
        )

    async def place(self, state: State, **terms: Any) -> Placed:  # noqa: ANN401 - as make_drafts takes them
        """Bring a new item into `state`."""
        if state is State.SKIPPED:
            self.made += 1
            drafts = self.make_drafts(**{"prefix": f"batch-{self.made}", **terms})
            (skipped,) = await skip_items(
                self.connection, drafts, ["overlap"], actor_no=self.worker_no
            )
            return Placed(skipped.id)
        (item,) = await self.emit(**terms)
        if state is State.SCHEDULED:
            return Placed(item)
        if state in (State.CANCELLED, State.SUPERSEDED):
            await withdraw_items(
                self.connection,
                [item],
                event=TransitionEvent[state.name],
                reason="test",
                actor_no=self.worker_no,
            )
            return Placed(item)
        return await self._work(item, state)

    async def _work(self, item: UUID, state: State) -> Placed:
        claim = await self.claim()
        if state is State.CLAIMED:
            return Placed(item, claim.fence)
        run_no = (await self.start(claim.fence)).run_no
        assert run_no is not None
        placed = Placed(item, claim.fence, run_no)
        match state:
            case State.RUNNING:
                pass
            case State.RETRYABLE_FAILURE:
                await self.settle(run_no, TransitionEvent.FAILED, after_seconds=0)
            case State.COMPLETED:
                await self.settle(run_no, TransitionEvent.COMPLETED)
            case State.MANUAL_REVIEW:
                await self.settle(run_no, TransitionEvent.PARKED)
            case State.WRITTEN_OFF:
                await self.settle(run_no, TransitionEvent.PARKED)
                await write_off_items(
                    self.connection, [item], reason="test", actor_no=self.worker_no
                )
            case (
                State.SCHEDULED | State.CLAIMED | State.SKIPPED | State.CANCELLED | State.SUPERSEDED
            ):
                pytest.fail(f"{state.label} is placed without work")
            case _:
                assert_never(state)
        return placed

    async def cancel(self, item: UUID) -> RequestResult:
        (answered,) = await withdraw_items(
            self.connection,
            [item],
            event=TransitionEvent.CANCELLED,
            reason="policy ended",
            actor_no=self.worker_no,
        )
        return answered.result

    async def state_of(self, item: UUID) -> State:
        shown = await show_item(self.connection, item)
        assert shown is not None
        return next(state for state in State if state.label == shown["state"])

    async def journal(self) -> list[tuple[int, int]]:
        """Every transition of the test's kind, as item number and event."""
        rows = await self.connection.fetch(
            "select t.item_no, t.event from ledger.transition t"
            " join ledger.due_item i using (effective_date, item_no)"
            " join ledger.flow f using (flow_no) join ledger.kind k using (kind_no)"
            " where k.name = $1 order by t.item_no, t.at, t.event",
            self.kind,
        )
        return [(row["item_no"], row["event"]) for row in rows]

    async def rejected(self) -> list[tuple[str, str]]:
        """Every rejected write, as verb and reason."""
        rows = await self.connection.fetch(
            "select verb, reason from ledger.rejected_write order by rejected_no"
        )
        return [(row["verb"], row["reason"]) for row in rows]

    async def check_balance(self) -> None:
        for account in await read_accounting(self.connection):
            assert account.difference == 0, account

    async def end_leases(self) -> None:
        """Move the clock of leases and deadlines an hour on, for this session."""
        await self.pass_machine_seconds(3_600)

    async def pass_machine_seconds(self, seconds: float) -> None:
        """Move the clock of leases and deadlines on, for this session; it flows from there."""
        now = await self.connection.fetchval("select ledger.machine_now()")
        await set_machine_clock(self.connection, now + timedelta(seconds=seconds), 1)

    async def stand_at(self, instant: datetime) -> None:
        """Fix business time at `instant`, for this session."""
        await set_clock(self.connection, instant, 0)
        await make_partitions(self.connection, ahead=timedelta(0))


@pytest.fixture
async def ledger(
    connection: Connection,
    actor_no: int,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> Ledger:
    other = await register_actor(connection, "other", ActorKind.WORKER)
    return Ledger(connection, actor_no, other, make_drafts, kind)


@pytest.fixture(scope="module")
async def kept_connection(march_database_pool: DatabasePool) -> AsyncGenerator[Connection]:
    """A session that has planned the statements which most tests of a module run."""
    async with march_database_pool.lease() as dsn:
        connection = await connect(dsn, application_name="test")
        yield connection
        await connection.close()


@pytest.fixture
async def undone_ledger(
    kept_connection: Connection, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> AsyncGenerator[Ledger]:
    """A ledger whose every change is rolled back: tens of tests cost as much as a few."""
    transaction = kept_connection.transaction()
    await transaction.start()
    actors = [
        await register_actor(kept_connection, name, ActorKind.WORKER) for name in ("test", "other")
    ]
    yield Ledger(kept_connection, actors[0], actors[1], make_drafts, kind)
    await transaction.rollback()


@pytest.fixture
def noon() -> datetime:
    """An instant that nothing else depends on."""
    return datetime(2027, 3, 1, 12, tzinfo=UTC)


async def limit(ledger: Ledger, **limits: Any) -> None:  # noqa: ANN401 - as FlowLimits takes them
    """Set limits on the ledger's kind."""
    await set_flow_limits(
        ledger.connection,
        FlowScope("acme", ledger.kind),
        FlowLimits(**limits),
        actor_no=ledger.worker_no,
    )


async def allowance(ledger: Ledger) -> int:
    """Return what the one limited flow may have now."""
    flows = [
        flow.flow_no for flow in await list_due_flows(ledger.connection, 10) if flow.is_limited
    ]
    async with ledger.connection.transaction():
        assert list(await lock_limited_flows(ledger.connection, flows)) == flows
        allowances = await measure_allowances(ledger.connection, flows, 1000)
    return allowances[flows[0]]
