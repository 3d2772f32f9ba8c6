"""Each type of finding: made by a real defect, found, and closed once it is mended."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date, datetime, timedelta

import asyncpg
import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType, RepairAction, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, clock, findings, passes, reconciled_rows
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.runs import start_runs
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.report.model import StatementVerdict
from tests.claim_ids import claim_ids

from .conftest import NOON, mend, resolutions

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Settle = Callable[..., Awaitable[None]]
Land = Callable[..., Awaitable[None]]

EVENT_RULE = """
definition: renewal
tenant: acme
kind: {kind}
event: PolicyActivated
business_key: data.policy
cycle: data.term
effective_date: data.expires_on
when: {{relative: P0D, to: effective_date, at: "09:00", timezone: UTC}}
cancel_on: [{{event: PolicyCancelled, business_key: data.policy}}]
supersede_on: [{{event: PolicyAmended, business_key: data.policy}}]
"""

SCHEDULE = """
definition: statements
tenant: acme
kind: {kind}
business_key: statements
when: {{cron: "0 * * * *", timezone: UTC}}
"""


COPY_CLAIM = """
insert into ledger.claim (fence, claimed_at, allocator_no, topic, partition, size, item_no,
  effective_date, attempt, starts, started, deadline, token)
select fence + n, claimed_at, allocator_no, topic, partition, size, item_no,
  effective_date, attempt, starts, size, deadline, token
from ledger.claim cross join generate_series(1, $1::integer) n
"""


async def accept(connection: Connection, text: str, actor_no: int, at: datetime) -> int:
    """Put a definition in force; return its number."""
    (definition,) = load_definitions(text, source="test")
    row = await define(
        connection,
        dict(definition.normalised()),
        tenant=definition.tenant,
        name=definition.definition,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=at,
        actor_no=actor_no,
    )
    return row.definition_no


async def test_g11_a_healthy_ledger_has_no_findings(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(200, due_at=NOON - timedelta(minutes=5))
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    await emit_items(
        frozen, make_drafts(5, due_at=NOON + timedelta(hours=1), kind="Later"), actor_no=actor_no
    )

    result = await make_reconciler(ReconcilerSources((policies,))).run_pass()

    assert result.found == {}
    assert await findings.list_findings(frozen, open_only=False) == []
    assert [mark.complete_before for mark in result.watermarks] == [NOON, NOON]


async def test_g11_what_a_population_owes_without_an_item_is_missing_until_materialised(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    drafts = make_drafts(50, due_at=NOON)
    await owe(drafts)
    await emit_items(frozen, drafts[:47], actor_no=actor_no)
    reconciler = make_reconciler(ReconcilerSources((policies,)))

    result = await reconciler.run_pass()
    assert result.found == {FindingType.MISSING: 3}
    rows = await findings.list_findings(frozen)
    assert {row["item_id"] for row in rows} == {draft.id for draft in drafts[47:]}

    assert await mend(reconciler) == 3
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.REPAIRED] * 3
    payloads = await frozen.fetch("select payload from ledger.due_item")
    assert [row["payload"] for row in payloads] == [{"premium": "123.45"}] * 50


async def test_g11_an_item_in_no_source_is_unexpected_until_cancelled(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    drafts = make_drafts(10, due_at=NOON)
    await owe(drafts[1:])
    await clock.set_clock(frozen, NOON - timedelta(minutes=1), 0)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await clock.set_clock(frozen, NOON, 0)
    reconciler = make_reconciler(ReconcilerSources((policies,)))

    assert (await reconciler.run_pass()).found == {FindingType.UNEXPECTED: 1}
    assert await reconciler.plan() == []

    assert await mend(reconciler, UNEXPECTED=RepairAction.CANCEL) == 1
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.UNEXPECTED) == [Resolution.REPAIRED]


async def test_g11_two_cycles_of_one_occurrence_are_a_duplicate_of_the_unnamed_one(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    (draft,) = make_drafts(1, due_at=NOON)
    again = replace(draft, cycle="2026/27")
    await owe([draft])
    await emit_items(frozen, [again, draft], actor_no=actor_no)
    reconciler = make_reconciler(ReconcilerSources((policies,)))

    assert (await reconciler.run_pass()).found == {FindingType.DUPLICATE: 1}
    (row,) = await findings.list_findings(frozen)
    assert row["item_id"] == again.id
    assert row["expected"]["item"] == str(draft.id)

    assert await mend(reconciler, DUPLICATE=RepairAction.CANCEL) == 1
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.DUPLICATE) == [Resolution.REPAIRED]


async def test_g11_a_parked_item_past_its_grace_is_overdue_until_redriven_and_done(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    actor_no: int,
) -> None:
    """The domain's own table says that nothing was booked, so nothing is done twice."""
    drafts = make_drafts(3, due_at=NOON - timedelta(hours=1))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all(TransitionEvent.PARKED)
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)))

    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}
    (row, *_) = await findings.list_findings(frozen)
    assert row["actual"]["state"] == "ManualReview"
    assert await mend(reconciler) == 3
    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}
    assert await mend(reconciler) == 0
    await complete_all()
    await domain.execute("insert into booking select id, '', '', 'B' from ledger.due_item")

    result = await reconciler.run_pass()
    assert result.found == {FindingType.LATE: 3}
    assert result.open_found == 0
    assert await resolutions(frozen, FindingType.OVERDUE) == [Resolution.REPAIRED] * 3
    assert await resolutions(frozen, FindingType.LATE) == [Resolution.EXPLAINED] * 3


async def test_g9_a_run_past_its_lease_is_stuck_until_released(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(7, due_at=NOON), actor_no=actor_no)
    (fence,) = await claim_all()
    await frozen.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1 hour'"
    )
    reconciler = make_reconciler(limits=PassLimits(stuck_seconds=60))

    assert (await reconciler.run_pass()).found == {FindingType.STUCK: 1}
    (row,) = await findings.list_findings(frozen)
    assert row["actual"] == {"fence": fence, "topic": "due.test", "open_items": 7}

    assert await mend(reconciler) == 1
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.STUCK) == [Resolution.REPAIRED]

    await frozen.execute(COPY_CLAIM, 1_001)
    assert (await reconciler.run_pass()).found == {FindingType.STUCK: 1_001}
    assert await frozen.fetchval("select count(*) from ledger.pending") == 7


async def test_g9_what_was_published_and_nothing_answered_is_found_until_released(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
) -> None:
    """A claim that no consumer started, and a run settled by topic without any outcome."""
    for prefix in ("unread", "unanswered"):
        await emit_items(frozen, make_drafts(2, due_at=NOON, prefix=prefix), actor_no=actor_no)
        (fence,) = await claim_all()
        claimed = await claim_ids(frozen, [fence])
        if prefix == "unanswered":
            await start_runs(frozen, claimed, [1], [2], worker_no=actor_no, lease_seconds=60)
            await frozen.execute(
                "update ledger.claim set topic_actor_no = $2 where fence = $1", fence, actor_no
            )
        await mark_published(frozen, claimed, [7])
    await frozen.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1 hour'"
    )
    await frozen.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1 hour'"
    )
    reconciler = make_reconciler()

    assert (await reconciler.run_pass()).found == {FindingType.PUBLISHED_NO_OUTCOME: 2}

    assert await mend(reconciler) == 2
    assert (await reconciler.run_pass()).found == {}
    unanswered = FindingType.PUBLISHED_NO_OUTCOME
    assert await resolutions(frozen, unanswered) == [Resolution.REPAIRED] * 2


async def test_g11_completed_after_the_promise_is_late_and_never_open(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> None:
    (draft,) = make_drafts(1, due_at=NOON - timedelta(minutes=10))
    promised = replace(draft, complete_by=NOON - timedelta(minutes=5))
    await emit_items(frozen, [promised], actor_no=actor_no)
    await complete_all()

    result = await make_reconciler().run_pass()

    assert result.found == {FindingType.LATE: 1}
    assert await findings.list_findings(frozen, open_only=True) == []


async def test_g11_an_item_without_a_state_unbalances_the_ledger(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int
) -> None:
    await emit_items(frozen, make_drafts(5, due_at=NOON + timedelta(days=1)), actor_no=actor_no)
    lost = await frozen.fetchrow(
        "delete from ledger.pending where item_no = (select min(item_no) from ledger.pending)"
        " returning *"
    )
    assert lost is not None
    reconciler = make_reconciler()

    assert (await reconciler.run_pass()).found == {FindingType.UNBALANCED: 1}
    (row,) = await findings.list_findings(frozen)
    assert row["actual"] == {"waiting": 0, "parked": 0, "handed_out": 0, "ended": 0}

    await frozen.execute(
        "insert into ledger.pending select ($1::ledger.pending).*", tuple(lost.values())
    )
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.UNBALANCED) == [Resolution.EXPLAINED]


async def test_g1_what_the_events_owe_is_recomputed_in_the_order_of_their_own_times(
    frozen: Connection, make_reconciler: Make, kind: str, land: Land, actor_no: int
) -> None:
    await accept(frozen, EVENT_RULE.format(kind=kind), actor_no, NOON - timedelta(days=1))
    body = '{{"policy":"{}","term":"{}","expires_on":"{}"}}'
    early, late = NOON - timedelta(hours=2), NOON - timedelta(hours=1)
    await land("PolicyCancelled", body.format("P-gone", "1", "2027-06-01"), at=late)
    await land("PolicyAmended", body.format("P-moved", "1", "2027-07-01"), at=late)
    await land(
        "PolicyActivated",
        body.format("P-kept", "1", "2027-06-01"),
        body.format("P-gone", "1", "2027-06-01"),
        body.format("P-moved", "1", "2027-06-01"),
        at=early,
    )
    await land(
        "PolicyCancelled", body.format("P-kept", "1", "2027-06-01"), at=early - timedelta(hours=1)
    )
    reconciler = make_reconciler()

    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 2}
    rows = await findings.list_findings(frozen)
    assert {(row["business_key"], row["effective_date"]) for row in rows} == {
        ("P-kept", date(2027, 6, 1)),
        ("P-moved", date(2027, 7, 1)),
    }

    assert await mend(reconciler) == 2
    assert (await reconciler.run_pass()).found == {}
    events = await frozen.fetch("select event_no, definition_no from ledger.due_item")
    assert all(row["event_no"] and row["definition_no"] for row in events)


async def test_g1_what_a_schedule_owes_is_recomputed_from_the_version_in_force_then(
    frozen: Connection, make_reconciler: Make, kind: str, actor_no: int
) -> None:
    text = SCHEDULE.format(kind=kind)
    first = await accept(frozen, text, actor_no, NOON - timedelta(hours=6))
    second = await accept(
        frozen, text.replace("0 * * * *", "*/30 * * * *"), actor_no, NOON - timedelta(hours=2)
    )
    (hourly,) = load_definitions(text, source="test")
    owed = draft_occurrences(hourly, NOON - timedelta(hours=6), NOON - timedelta(hours=2)).drafts
    await emit_items(frozen, owed[:-1], actor_no=actor_no, definition_no=first)
    reconciler = make_reconciler()

    # Hourly from 06:00 until 10:00, one of them lost; each half hour from 10:00 until noon.
    result = await reconciler.run_pass()
    assert result.found[FindingType.MISSING] == 1 + 4
    rows = await findings.list_findings(frozen, type_=FindingType.MISSING)
    assert {row["terms"]["definition_no"] for row in rows} == {first, second}

    assert await mend(reconciler) == 5
    assert (await reconciler.run_pass()).found[FindingType.MISSING] == 0


async def test_the_watermark_is_at_what_is_due_and_still_within_its_grace(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, kind: str, actor_no: int
) -> None:
    await put_kind_policy(frozen, KindPolicy("acme", kind, grace_seconds=3_600))
    due = NOON - timedelta(minutes=20)
    await emit_items(frozen, make_drafts(2, due_at=due), actor_no=actor_no)

    result = await make_reconciler().run_pass()

    (mark,) = result.watermarks
    assert mark.complete_before == due
    assert mark.blocked_by is not None
    assert (await passes.list_watermarks(frozen))[0]["complete_before"] == due


async def test_a_finding_that_holds_again_is_the_same_finding_reopened(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(1, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    await domain.execute(
        "alter table policy_due rename to away; create table policy_due (like away)"
    )
    await reconciler.run_pass()
    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.EXPLAINED]

    await domain.execute("drop table policy_due; alter table away rename to policy_due")
    await reconciler.run_pass()

    (row,) = await findings.list_findings(frozen)
    assert (row["resolution"], row["opened_count"]) == (Resolution.OPEN, 2)


async def test_a_person_s_judgement_outlives_later_passes(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(1, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    (row,) = await findings.list_findings(frozen)
    actor_no = await register_actor(frozen, "person:auditor", ActorKind.PERSON)
    await findings.resolve_findings(
        frozen,
        [row["id"]],
        resolution=Resolution.FALSE_POSITIVE,
        reason="a test policy",
        actor_no=actor_no,
    )

    await reconciler.run_pass()

    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.FALSE_POSITIVE]
    assert await reconciler.plan() == []


@pytest.mark.damages
async def test_g11_an_accepted_difference_is_always_listed_and_another_of_its_item_opens(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(2, due_at=NOON)
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    cfo = await register_actor(frozen, "person:cfo", ActorKind.PERSON)
    edit = "update ledger.due_item set due_at = due_at - $2::interval where id = $1"
    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    await frozen.execute(edit, drafts[0].id, timedelta(seconds=1))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    (found,) = await findings.list_findings(frozen)
    await findings.resolve_findings(
        frozen, [found["id"]], resolution=Resolution.ACCEPTED, reason="a second", actor_no=cfo
    )

    await clock.set_clock(frozen, NOON + timedelta(days=60), 0, database=True)
    await reconciler.pool.connections.expire_connections()
    await reconciler.run_pass()
    report = await reconciler.report()
    assert report.statement.verdict is StatementVerdict.COMPLETE_WITH_EXPLAINED
    assert [(row.id, row.resolution) for row in report.findings] == [
        (found["id"], Resolution.ACCEPTED)
    ]

    await frozen.execute(edit, drafts[0].id, timedelta(days=25))
    await reconciler.run_pass()
    (opened,) = await findings.list_findings(frozen)
    assert (opened["id"], opened["opened_count"], opened["resolution"]) == (found["id"], 2, "open")


async def test_g11_what_goes_on_with_time_is_the_same_difference(frozen: Connection) -> None:
    same = "select ledger.is_same_difference($1, '{}', $2::text::jsonb, '{}', $3::text::jsonb)"
    for type_, before, now, is_same in (
        (FindingType.EVENT_UNMATCHED, '{"count": 1}', '{"count": 2}', True),
        (FindingType.UNBALANCED, '{"difference": 1, "items": 5}', '{"difference": 1}', True),
        (FindingType.UNBALANCED, '{"difference": 1}', '{"difference": 2}', False),
        (FindingType.EFFECT_REPEATED, '{"effects": 2}', '{"effects": 3}', False),
    ):
        assert await frozen.fetchval(same, type_, before, now) is is_same, (type_, before, now)


async def test_g11_refused_writes_are_counted_as_information_and_never_open(
    frozen: Connection, make_reconciler: Make, actor_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciled_rows, "REJECTED_WRITES_PAGE", 1)
    reconciler = make_reconciler()
    refuse = (
        "insert into ledger.rejected_write (rejected_at, actor_no, verb, reason)"
        " select ledger.now(), $1, 'settle', 'stale' from generate_series(1, $2)"
    )
    for refused, counted in ((2, 2), (3, 5)):
        await frozen.execute(refuse, actor_no, refused)

        result = await reconciler.run_pass()

        assert (result.found, result.open_found) == ({FindingType.OUTCOME_REJECTED: 1}, 0)
        [finding] = await findings.list_findings(frozen, open_only=False)
        assert finding["resolution"] == Resolution.EXPLAINED
        assert finding["actual"] == {"verb": "settle", "reason": "stale", "count": counted}
    assert (await reconciler.report()).findings_open == 0
