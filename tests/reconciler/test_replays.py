"""No repair has work done twice: what was handed out, or has an effect, is asked for first."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType, RepairAction, RepairStatus, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.repairs import approve_repairs, list_repairs
from dueledger.reconciler import Reconciler, ReconcilerSources, SqlEvidence, SqlPopulation
from dueledger.reconciler.record_index import ALWAYS, RecordPlace, Sighting, SightingState
from dueledger.reconciler.repair.planned_repairs import POLICY_ASKS, PlannedRepair
from dueledger.reconciler.repair.replay_guard import (
    Effect,
    Judgement,
    Permission,
    PriorWork,
    judge_item,
    judged,
)
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment

from .conftest import NOON, resolutions

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Work = Callable[..., Awaitable[int]]

MISSING: Final = FindingType.MISSING
COMPLETED: Final = TransitionEvent.COMPLETED
FORGET_CLAIMS: Final = "delete from ledger.run; delete from ledger.claim"


NO_REPAIR_OF_IT: Final = (
    "update ledger.transition set actor_no = (select max(actor_no) from ledger.actor)",
    (
        "update ledger.repair set executed_by = (select max(actor_no) from ledger.actor),"
        " status = 'refused'"
    ),
    (
        "update ledger.repair set status = 'executed',"
        ' outcome = outcome || \'{"completed": "another"}\''
    ),
)
"""By one other than the repair's, of one that was refused, and of one of another item."""


class ReadRecords:
    """What was read of Kafka, as an index of records answers."""

    def __init__(
        self, seen: Sequence[bytes] = (), *, since: datetime | None = ALWAYS, failed: bool = False
    ) -> None:
        self._seen = frozenset(seen)
        self._failed = failed
        self.covers_since = since
        self.covers_until = NOON

    def about(self, identity: bytes) -> "ReadRecords":
        """Return the same with a record of this item instead of any."""
        seen = [identity] if self._seen else []
        return ReadRecords(seen, since=self.covers_since, failed=self._failed)

    def find(self, ids: Sequence[bytes]) -> dict[bytes, Sighting]:
        absent = SightingState.UNKNOWN if self._failed else SightingState.NOT_SEEN
        place = RecordPlace("due.test", 0, 7)
        return {
            each: Sighting(SightingState.SEEN, place) if each in self._seen else Sighting(absent)
            for each in ids
        }


@pytest.fixture
async def work(
    frozen: Connection,
    domain: asyncpg.Connection,
    complete_all: Callable[..., Awaitable[None]],
) -> Work:
    """Work everything due as a domain does whose table of effects refuses nothing."""

    async def worked(event: TransitionEvent = COMPLETED) -> int:
        last = await frozen.fetchval("select coalesce(max(fence), 0) from ledger.claim")
        await complete_all(event)
        done = await domain.fetch(
            "insert into booking select i.id, i.business_key, i.cycle, 'B' from ledger.claim c"
            " cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)"
            " join ledger.due_item i on i.item_no = u.item_no"
            " and i.effective_date = u.effective_date where c.fence > $1"
            " returning item_id",
            last,
        )
        return len(done)

    return worked


async def remove(connection: Connection, *, forget_claims: bool = False) -> UUID:
    """Remove an item with its ending, and on request what it was handed out by; return its id."""
    (row,) = await connection.fetch(
        "select item_no, id from ledger.due_item order by item_no limit 1"
    )
    await connection.execute("set session_replication_role = replica")
    for table in ("transition", "pending", "review", "due_item"):
        await connection.execute(
            f"delete from ledger.{table} where item_no = $1",  # noqa: S608 - of a constant
            row["item_no"],
        )
    if forget_claims:
        await connection.execute(FORGET_CLAIMS)
    await connection.execute("set session_replication_role = origin")
    return row["id"]


async def emit(connection: Connection, drafts: list[ItemDraft], actor_no: int) -> None:
    """Emit a minute ago."""
    await clock.set_clock(connection, NOON - timedelta(minutes=1), 0, database=True)
    await emit_items(connection, drafts, actor_no=actor_no)
    await clock.set_clock(connection, NOON, 0, database=True)


async def held(connection: Connection) -> list[str | None]:
    """Return why repairs wait."""
    return [
        row["held_because"]
        for row in await list_repairs(connection)
        if row["status"] == RepairStatus.PROPOSED
    ]


async def bookings_twice(domain: asyncpg.Connection) -> int:
    """Count the items that have two effects."""
    return await domain.fetchval(
        "select count(*) from (select from booking group by item_id having count(*) > 1) twice"
    )


@pytest.mark.damages
@pytest.mark.parametrize("forget_claims", [False, True])
async def test_g11_a_removed_item_whose_effect_exists_is_completed_with_it_and_not_worked_again(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    owe: Owe,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    work: Work,
    actor_no: int,
    *,
    forget_claims: bool,
) -> None:
    drafts = make_drafts(1, due_at=NOON)
    await owe(drafts)
    await emit(frozen, drafts, actor_no)
    assert await work() == 1
    await remove(frozen, forget_claims=forget_claims)
    reconciler = make_reconciler(ReconcilerSources((policies,), (bookings,)))
    assert (await reconciler.run_pass()).found == {MISSING: 1}

    (planned,) = await reconciler.plan()
    assert "recorded as completed and not worked: its effect is in bookings" in planned.would
    assert await reconciler.repair([planned]) == 1

    assert await work() == 0
    assert await bookings_twice(domain) == 0
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, MISSING) == [Resolution.REPAIRED]
    (ending,) = await frozen.fetch("select event, detail from ledger.transition")
    assert ending["event"] == COMPLETED
    assert ending["detail"]["evidence"] == {"source": "bookings"}
    assert await reconciler.repair(await reconciler.plan()) == 0

    await register_actor(frozen, "reconciler:other", ActorKind.RECONCILER)
    for edit in NO_REPAIR_OF_IT:
        await frozen.execute(edit)
        found = (await reconciler.run_pass()).found
        assert found == {FindingType.OUTCOME_CONFLICT: 1}, edit


@pytest.mark.damages
async def test_g11_evidence_that_may_be_of_another_item_decides_nothing(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    owe: Owe,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    actor_no: int,
) -> None:
    """A booking of the business key proves nothing of this cycle: a person decides."""
    drafts = make_drafts(2, due_at=NOON)
    await owe(drafts)
    await emit(frozen, drafts[1:], actor_no)
    await domain.execute("insert into booking select null, business_key, 'old' from policy_due")
    await domain.execute("update booking set reference = 'B'")
    by_key = replace(bookings, query="select business_key, reference from booking")
    reconciler = make_reconciler(ReconcilerSources((policies,), (by_key,)))
    await reconciler.run_pass()

    assert await reconciler.repair(await reconciler.plan()) == 0

    (reason,) = await held(frozen)
    assert "does not say of which item" in (reason or "")
    assert await frozen.fetchval("select count(*) from ledger.due_item") == 1


@pytest.mark.damages
async def test_g11_a_parked_item_whose_effect_exists_is_completed_and_not_redriven(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    work: Work,
    actor_no: int,
) -> None:
    """It failed after its effect: without the effect it is redriven."""
    await emit(frozen, make_drafts(2, due_at=NOON), actor_no)
    assert await work(TransitionEvent.PARKED) == 2
    await domain.execute(
        "delete from booking where business_key = (select max(business_key) from booking)"
    )
    await clock.set_clock(frozen, NOON + timedelta(hours=1), 0, database=True)
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)))
    await reconciler.pool.connections.expire_connections()
    assert (await reconciler.run_pass()).found[FindingType.OVERDUE] == 2

    assert await reconciler.repair(await reconciler.plan()) == 2

    assert await work() == 1
    assert await bookings_twice(domain) == 0
    assert (
        await frozen.fetchval("select count(*) from ledger.transition where event = $1", COMPLETED)
        == 2
    )
    result = await reconciler.run_pass()
    assert FindingType.OVERDUE not in result.found
    assert FindingType.OUTCOME_CONFLICT not in result.found


@pytest.mark.damages
async def test_g11_an_item_that_was_handed_out_and_has_no_evidence_waits_for_a_person(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    work: Work,
    actor_no: int,
) -> None:
    drafts = make_drafts(2, due_at=NOON)
    await owe(drafts)
    await emit(frozen, drafts, actor_no)
    await work()
    await remove(frozen)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    assert (await reconciler.run_pass()).found == {MISSING: 1}

    assert await reconciler.repair(await reconciler.plan()) == 0
    assert await held(frozen) == [
        "unknown: items of its date were handed out and are in the ledger no more"
    ]


@pytest.mark.damages
@pytest.mark.parametrize("is_expedited", [False, True])
async def test_g11_what_a_worker_has_or_had_days_before_it_was_due_is_not_emitted_again(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    owe: Owe,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    claim_all: Callable[..., Awaitable[list[int]]],
    work: Work,
    kind: str,
    actor_no: int,
    *,
    is_expedited: bool,
) -> None:
    """The effect comes after the pass; of an expedited item no source has it."""
    due_at = NOON + timedelta(days=3 * is_expedited)
    drafts = make_drafts(1, due_at=due_at)
    await owe(drafts)
    await emit(frozen, drafts, actor_no)
    evidence: tuple[SqlEvidence, ...] = (bookings,)
    if is_expedited:
        evidence = ()
        await put_kind_policy(frozen, KindPolicy("acme", kind, dispatch="direct", no_replay=True))
        clerk = await register_actor(frozen, "person:clerk", ActorKind.PERSON)
        await expedite_items(frozen, [drafts[0].id], reason="asked for", actor_no=clerk)
        assert await work() == 1
    else:
        await claim_all()
    removed = await remove(frozen)
    reconciler = make_reconciler(ReconcilerSources((policies,), evidence))
    reconciler.record_index = ReadRecords([] if is_expedited else [removed.bytes])
    await clock.set_clock(frozen, due_at, 0, database=True)
    await reconciler.pool.connections.expire_connections()
    assert (await reconciler.run_pass()).found[MISSING] == 1
    planned = [each for each in await reconciler.plan() if each.finding_type is MISSING]

    assert await reconciler.repair(planned) == 0

    if not is_expedited:
        await domain.execute("insert into booking values ($1, 'k', '2027', 'B')", removed)
    assert await work() == 0
    assert await bookings_twice(domain) == 0
    assert await held(frozen) == [
        "no_replay: items of its date were handed out and are in the ledger no more"
        if is_expedited
        else "unknown: Kafka has a record of it (due.test/0/7); some may be running"
    ]


ITEM: Final = bytes(16)
LATER: Final = NOON + timedelta(days=1)


@pytest.mark.damages
@pytest.mark.parametrize(
    ("index", "dispatch", "reason"),
    [
        (None, "kafka", "unknown: no record in Kafka was read"),
        (ReadRecords(failed=True), "kafka", "unknown: not all records in Kafka could be read"),
        (ReadRecords(since=LATER), "kafka", "unknown: it was owed before what Kafka retains"),
        (ReadRecords(since=None), "kafka", "unknown: it was owed before what Kafka retains"),
        (ReadRecords([ITEM]), "kafka", "no_replay: Kafka has a record of it (due.test/0/7)"),
        (ReadRecords(), "kafka", None),
        (None, "direct", "unknown: nothing beside the ledger could know of its work"),
    ],
)
async def test_g11_no_replay_emits_an_item_only_where_it_was_never_handed_out(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    kind: str,
    work: Work,
    actor_no: int,
    index: ReadRecords | None,
    dispatch: str,
    reason: str | None,
) -> None:
    """The ledger has no trace of it any more: only Kafka could know."""
    drafts = make_drafts(2, due_at=NOON)
    await owe(drafts)
    await emit(frozen, drafts, actor_no)
    await put_kind_policy(frozen, KindPolicy("acme", kind, dispatch=dispatch, no_replay=True))
    await work()
    removed = await remove(frozen, forget_claims=True)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    reconciler.record_index = index and index.about(removed.bytes)
    assert (await reconciler.run_pass()).found[MISSING] == 1
    planned = [each for each in await reconciler.plan() if each.finding_type is MISSING]

    assert await reconciler.repair(planned) == (reason is None)
    assert await held(frozen) == ([reason] if reason else [])
    assert await frozen.fetchval("select count(*) from ledger.pending") == (reason is None)


SOURCES: Final = ("bookings",)
EMIT, REDRIVE, COMPLETE = RepairAction.MATERIALISE, RepairAction.REDRIVE, RepairAction.COMPLETE
ESCALATE: Final = RepairAction.ESCALATE
OUT: Final = PriorWork(handed_out="it was handed out before")
RUNNING: Final = PriorWork(handed_out="one was handed out", in_flight=True)
UNREAD: Final = PriorWork(unclear="no record in Kafka was read")
NEVER: Final = PriorWork()
DIRECT: Final = PriorWork(is_unwitnessed=True)
SEEN: Final = Effect(SOURCES, seen=True)
ABSENT: Final = Effect(SOURCES)
LAGGING: Final = Effect(SOURCES, shows_after=timedelta(hours=2))
FAILED: Final = Effect(SOURCES, unclear="bookings could not be read")
NO_SOURCE: Final = Effect()
RUN, RECORD, ASK, REFUSE = Permission


@pytest.mark.parametrize(
    ("action", "effect", "prior", "permissions"),
    [
        # What may be done, and what may be done of a kind with no_replay.
        (EMIT, SEEN, NEVER, (RECORD, RECORD)),
        (EMIT, SEEN, OUT, (RECORD, RECORD)),
        (EMIT, ABSENT, NEVER, (RUN, RUN)),
        (EMIT, ABSENT, UNREAD, (RUN, ASK)),
        (EMIT, LAGGING, UNREAD, (ASK, ASK)),
        (EMIT, ABSENT, OUT, (RUN, REFUSE)),
        (EMIT, ABSENT, RUNNING, (ASK, ASK)),
        (EMIT, LAGGING, OUT, (ASK, REFUSE)),
        (EMIT, FAILED, NEVER, (ASK, ASK)),
        (EMIT, NO_SOURCE, NEVER, (RUN, RUN)),
        (EMIT, NO_SOURCE, DIRECT, (RUN, ASK)),
        (EMIT, LAGGING, DIRECT, (RUN, ASK)),
        (EMIT, ABSENT, DIRECT, (RUN, RUN)),
        (EMIT, NO_SOURCE, UNREAD, (ASK, ASK)),
        (EMIT, NO_SOURCE, OUT, (ASK, REFUSE)),
        (REDRIVE, SEEN, OUT, (RECORD, RECORD)),
        (REDRIVE, ABSENT, OUT, (RUN, REFUSE)),
        (REDRIVE, LAGGING, OUT, (ASK, REFUSE)),
        (REDRIVE, FAILED, OUT, (ASK, ASK)),
        (REDRIVE, NO_SOURCE, OUT, (ASK, REFUSE)),
        (REDRIVE, NO_SOURCE, UNREAD, (ASK, ASK)),
        (COMPLETE, SEEN, OUT, (RECORD, RECORD)),
        (COMPLETE, ABSENT, OUT, (REFUSE, REFUSE)),
        (COMPLETE, NO_SOURCE, OUT, (REFUSE, REFUSE)),
        (COMPLETE, FAILED, OUT, (ASK, ASK)),
        (ESCALATE, SEEN, OUT, (REFUSE, REFUSE)),
        (ESCALATE, ABSENT, OUT, (RUN, RUN)),
        (ESCALATE, NO_SOURCE, OUT, (RUN, RUN)),
        (ESCALATE, FAILED, OUT, (ASK, ASK)),
    ],
)
def test_g11_a_repair_repeats_no_work_that_was_done_or_may_have_been(
    action: RepairAction,
    effect: Effect,
    prior: PriorWork,
    permissions: tuple[Permission, Permission],
) -> None:
    due_in = -timedelta(hours=1)
    found = tuple(
        judge_item(action, effect, prior, due_in=due_in, no_replay=no_replay).permission
        for no_replay in (False, True)
    )
    assert found == permissions


def test_an_effect_before_its_item_is_due_is_a_question_and_an_item_to_come_is_none() -> None:
    later = timedelta(hours=1)
    assert judge_item(EMIT, SEEN, NEVER, due_in=later, no_replay=False).permission is ASK
    for no_replay in (False, True):
        found = judge_item(EMIT, NO_SOURCE, UNREAD, due_in=later, no_replay=no_replay)
        assert found.permission is RUN


def test_g11_an_approval_covers_no_reason_that_only_has_its_words() -> None:
    why = "unknown: its effect may still show in bookings"
    repair = PlannedRepair(
        id=UUID(int=1),
        finding_id=UUID(int=2),
        finding_type=MISSING,
        tenant="acme",
        kind="Letter",
        subject="an item",
        action=EMIT,
        opened_count=1,
        would="Emit it.",
        command={},
        asks=(POLICY_ASKS, "its source, here; and there, says nothing"),
    )
    asks = f"{why}; and {repair.asks[1]}"
    for approved_over, held_because in (
        (None, f"{why}; and {POLICY_ASKS}; and {repair.asks[1]}"),
        ([], asks),
        ([f"{asks} at all"], repair.asks[1]),
        ([f"{why}, letters"], asks),
        ([why], repair.asks[1]),
        ([f"{why}; and {POLICY_ASKS}; and {repair.asks[1]}"], None),
        ([why, repair.asks[1]], None),
    ):
        found = judged(repair, Judgement(ASK, why), approved_over=approved_over)
        assert found.held_because == held_because


async def test_g11_an_approval_covers_the_reasons_to_ask_that_it_saw(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    owe: Owe,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    kind: str,
) -> None:
    """What a proposal does is said as it was judged last, and so is why it waits."""
    (draft,) = drafts = make_drafts(1, due_at=NOON)
    await owe(drafts)
    asked = RepairPolicies({("acme", kind): {MISSING: Treatment.PROPOSE}})
    reconciler = make_reconciler(ReconcilerSources((policies,), (), asked))
    other = make_reconciler(ReconcilerSources((policies,), (bookings,), asked))
    await reconciler.run_pass()

    async def judged(by: Reconciler) -> tuple[str, str, str]:
        planned = await by.plan()
        assert await by.repair(planned) == 0
        found = await findings.show_finding(frozen, planned[0].finding_id)
        assert found
        (repair,) = found["repairs"]
        assert repair["judged_at"]
        said = tuple(repair[name] for name in ("would", "after", "held_because"))
        assert said == (planned[0].would, planned[0].after, planned[0].held_because)
        return said

    plain = await judged(reconciler)
    await domain.execute("insert into booking values ($1, 'k', '2027', 'B')", draft.id)
    would, after, because = await judged(other)
    said = "It is recorded as completed and not worked: its effect is in bookings."
    assert would == f"{plain[0]} {said}"
    assert (after, because) == ("Completed", "the policy of its kind: a person approves it")
    assert await judged(reconciler) == plain
    [proposed] = await list_repairs(frozen)
    bob = await register_actor(frozen, "person:bob", ActorKind.PERSON)

    async def approve() -> str:
        ids = [proposed["id"]]
        results = await approve_repairs(frozen, ids, reason="INC-1", actor_no=bob)
        return results[proposed["id"]]

    assert [await approve() for _ in range(2)] == ["done", "approved"]
    reconciler.record_index = ReadRecords([draft.id.bytes])
    assert (await judged(reconciler))[2] == "unknown: Kafka has a record of it (due.test/0/7)"
    assert [await approve() for _ in range(2)] == ["done", "approved"]
    assert await reconciler.repair(await reconciler.plan()) == 1
