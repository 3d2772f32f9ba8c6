"""Effects outside the ledger, read whole: of items that are not completed, of none, or twice."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType, RepairAction, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items, read_accounting, withdraw_items
from dueledger.reconciler import PassScope, Reconciler, ReconcilerSources, SqlEvidence
from dueledger.reconciler.sources import PopulationBounds, SourceTotals
from tests.reconciler.conftest import mend, resolutions

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
UNRECORDED, REPEATED = FindingType.EFFECT_UNRECORDED, FindingType.EFFECT_REPEATED

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Settle = Callable[..., Awaitable[None]]


@pytest.fixture
def effects(bookings: SqlEvidence) -> SqlEvidence:
    """The domain's bookings, all of which are effects of items of the kind."""
    return replace(bookings, complete=True)


@pytest.fixture
async def completed(
    frozen: Connection,
    domain: asyncpg.Connection,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> list[ItemDraft]:
    """Three items that are completed and booked."""
    drafts = make_drafts(3, prefix="done", due_at=NOON - timedelta(minutes=5))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("update ledger.due_item set emitted_at = due_at - interval '1 hour'")
    await complete_all(TransitionEvent.COMPLETED)
    await book(domain, *drafts)
    return drafts


async def book(domain: asyncpg.Connection, *drafts: ItemDraft) -> None:
    """Let the domain have the effect of these items."""
    await domain.executemany(
        "insert into booking (item_id, business_key, cycle, reference) values ($1, $2, $3, $4)",
        [(draft.id, draft.business_key, draft.cycle, f"B-{draft.id}") for draft in drafts],
    )


async def open_findings(connection: Connection) -> set[tuple[str, str, str | None]]:
    rows = await findings.list_findings(connection)
    return {(row["type"], row["subject"], row["actual"].get("state")) for row in rows}


async def test_g11_each_effect_is_of_an_item_that_is_completed_and_of_one_only(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    completed: list[ItemDraft],
    effects: SqlEvidence,
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
) -> None:
    reconciler = make_reconciler(ReconcilerSources((), (effects,)))
    # Of an item of a month that was dropped.
    (retired,) = make_drafts(1, prefix="old", due_at=NOON, effective_date=date(2019, 4, 1))
    await book(domain, retired)
    await frozen.execute("insert into ledger.retired_key values ($1, ledger.now())", retired.id)
    assert (await reconciler.run_pass()).found == {}

    running = make_drafts(1, prefix="running", due_at=NOON)
    await emit_items(frozen, running, actor_no=actor_no)
    await claim_all()
    waiting = make_drafts(1, prefix="waiting", due_at=NOON - MINUTE)
    cancelled = make_drafts(1, prefix="cancelled", due_at=NOON + HOUR)
    await emit_items(frozen, [*waiting, *cancelled], actor_no=actor_no)
    await withdraw_items(
        frozen,
        [draft.id for draft in cancelled],
        event=TransitionEvent.CANCELLED,
        reason="sold",
        actor_no=await register_actor(frozen, "person:ann", ActorKind.PERSON),
    )
    stranger = uuid4()
    await book(domain, *running, *waiting, *cancelled, completed[0])
    await domain.execute("insert into booking (item_id, reference) values ($1, 'B-0')", stranger)

    read = (await reconciler.run_pass()).sources[-1]

    assert await open_findings(frozen) == {
        (UNRECORDED, str(waiting[0].id), "waiting"),
        (UNRECORDED, str(cancelled[0].id), "cancelled"),
        (UNRECORDED, f"bookings: {stranger}", None),
        (REPEATED, f"bookings: {completed[0].id}", None),
    }
    assert (read.failure, read.extract.row_count) == (None, 8)

    await domain.execute(
        "delete from booking where reference = 'B-0' or item_id = $1", cancelled[0].id
    )
    await domain.execute(
        "delete from booking where ctid in (select max(ctid) from booking where item_id = $1)",
        completed[0].id,
    )
    await reconciler.run_pass()
    assert {type_ for type_, _, _ in await open_findings(frozen)} == {UNRECORDED}

    # The one that waits is completed with its evidence, and not worked.
    assert await mend(reconciler, EFFECT_UNRECORDED=RepairAction.COMPLETE) == 1
    assert (await reconciler.run_pass()).found == {}
    (account,) = await read_accounting(frozen)
    assert (account.completed, account.pending, account.difference) == (4, 0, 0)
    assert set(await resolutions(frozen, UNRECORDED)) <= {
        Resolution.REPAIRED,
        Resolution.EXPLAINED,
    }


@pytest.mark.usefixtures("completed")
async def test_g11_an_effect_may_name_its_item_by_business_key_and_cycle(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    effects: SqlEvidence,
    actor_no: int,
) -> None:
    by_key = replace(effects, query="select business_key, cycle, reference from booking")
    reconciler = make_reconciler(ReconcilerSources((), (by_key,)))
    assert (await reconciler.run_pass()).found == {}
    waiting = make_drafts(1, prefix="waiting", due_at=NOON + HOUR)
    await emit_items(frozen, waiting, actor_no=actor_no)
    await book(domain, *waiting)
    await domain.execute("insert into booking values (null, 'nobody', '2027', 'B-0')")

    await reconciler.run_pass()

    assert await open_findings(frozen) == {
        (UNRECORDED, str(waiting[0].id), "waiting"),
        (UNRECORDED, "bookings: nobody 2027", None),
    }


@pytest.mark.usefixtures("completed")
@pytest.mark.parametrize(
    ("change", "bounds", "says"),
    [
        ("insert into booking (reference) values ('B-0')", (0, None, 0), "is null"),
        ("delete from booking", (1, None, 0), "rows_min"),
        ("insert into booking select gen_random_uuid(), 'k', 'c', 'B-0'", (0, 0.1, 0), "a change"),
    ],
)
async def test_g11_nothing_is_concluded_from_effects_that_break_what_their_source_declares(
    frozen: Connection,
    make_reconciler: Make,
    domain: asyncpg.Connection,
    effects: SqlEvidence,
    change: str,
    bounds: tuple[int, float | None, int],
    says: str,
) -> None:
    judged = replace(effects, bounds=PopulationBounds(*bounds))
    reconciler = make_reconciler(ReconcilerSources((), (judged,)))
    assert (await reconciler.run_pass()).found == {}
    await domain.execute(change)

    seen = await reconciler.run_pass()

    assert seen.found == {FindingType.SOURCE_FAILED: 1}
    (failed,) = [
        row for row in await findings.list_findings(frozen) if row["type"] == "SOURCE_FAILED"
    ]
    assert says in failed["sentence"]
    assert seen.evidenced == set()
    assert {mark.complete_before for mark in seen.watermarks} == {None}


BY_DATE = """
select business_key, effective_date, transaction_timestamp()::text as reference
from (values ('P-1', date '2027-03-01'), ('P-2', '2027-03-31'), ('P-3', '2027-04-01'),
  ('P-4', null), ('P-5', '1960-01-01')) v (business_key, effective_date)
"""


async def test_g11_effects_with_effective_dates_are_read_by_month_and_by_the_scope_of_the_pass(
    frozen: Connection, make_reconciler: Make, effects: SqlEvidence
) -> None:
    by_date = replace(effects, query=BY_DATE)
    totals = SourceTotals()
    listed = {
        each.business_key: each.reference
        async for found in by_date.list_effects(totals, date(1970, 1, 1), date(2200, 1, 1))
        for each in found
    }
    # One transaction a month; what has no date is not left out in silence.
    assert listed.keys() == {"P-1", "P-2", "P-3"}
    assert listed["P-1"] == listed["P-2"] != listed["P-3"]
    assert dict(totals.skipped) == {"effective_date is null or outside 1970 to 2199": 2}

    dated = replace(by_date, query=f"{BY_DATE} where effective_date > '2000-01-01'")
    bounds = PopulationBounds(rows_min=3, change_max=0, skipped_max=0)
    reconciler = make_reconciler(ReconcilerSources((), (replace(dated, bounds=bounds),)))
    assert (await reconciler.run_pass()).found == {UNRECORDED: 3}
    april = PassScope(date(2027, 4, 1), date(2027, 5, 1))
    scoped = await reconciler.run_pass(april)
    assert (scoped.found, scoped.sources[-1].extract.row_count) == ({UNRECORDED: 1}, 1)
    # The next whole pass is held against the whole one, not against the month.
    assert (await reconciler.run_pass()).found == {UNRECORDED: 3}
    assert {row["type"] for row in await findings.list_findings(frozen)} == {UNRECORDED}
