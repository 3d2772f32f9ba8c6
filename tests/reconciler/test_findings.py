"""Each type of finding: made by a real defect, found, and closed once it is mended."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType, RepairAction, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.repair.command_publisher import RepairCommand
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import StatementVerdict

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
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


class Inbox:
    """A publisher that records its messages: the domain's side of `due-repairs`."""

    def __init__(self) -> None:
        self.commands: list[RepairCommand] = []

    async def publish(self, commands: Sequence[RepairCommand]) -> None:
        self.commands += commands


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


async def resolutions(connection: Connection, type_: FindingType) -> list[str]:
    """Return the states of the findings of a type."""
    rows = await findings.list_findings(connection, open_only=False, type_=type_)
    return [row["resolution"] for row in rows]


async def mend(reconciler: Reconciler, **choice: RepairAction) -> int:
    """Plan and execute."""
    reconciler.choice = {FindingType[name]: action for name, action in choice.items()}
    return await reconciler.repair(await reconciler.plan())


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
    actor_no: int,
) -> None:
    drafts = make_drafts(3, due_at=NOON - timedelta(hours=1))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all(TransitionEvent.PARKED)
    reconciler = make_reconciler()

    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}
    (row, *_) = await findings.list_findings(frozen)
    assert row["actual"]["state"] == "ManualReview"
    assert await mend(reconciler) == 3
    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}
    assert await mend(reconciler) == 0
    await complete_all()

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
    assert await frozen.fetchval("select count(*) from ledger.pending") == 7


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


async def test_g11_late_items_beyond_what_a_pass_lists_leave_it_complete(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(5, due_at=NOON - timedelta(hours=2))
    promised = [replace(draft, complete_by=NOON - timedelta(hours=1)) for draft in drafts]
    await emit_items(frozen, promised, actor_no=actor_no)
    await complete_all()

    reconciler = make_reconciler(limits=PassLimits(stuck_seconds=0, findings_max=2))
    result = await reconciler.run_pass()
    report = await reconciler.report()

    assert result.found == {FindingType.LATE: 5}
    assert result.omitted.total() == 3
    assert [mark.complete_before for mark in result.watermarks] == [NOON]
    assert report.statement.verdict is StatementVerdict.COMPLETE_WITH_EXPLAINED
    assert report.findings_omitted == 3


async def test_g11_a_kind_that_no_source_names_is_said_to_be_unchecked(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int
) -> None:
    await emit_items(frozen, make_drafts(2, due_at=NOON + timedelta(hours=1)), actor_no=actor_no)
    reconciler = make_reconciler()
    await reconciler.run_pass()

    report = await reconciler.report()

    (row,) = report.accounting
    assert not any(row.checks.model_dump().values())
    assert report.statement.sentence.endswith("; of 1 kind no source says what is owed.")
    page = render_page(report)
    assert page.count("✓ checked") == 0
    assert "0 ✓" not in page.partition("<h2>Accounting</h2>")[2].partition("</section>")[0]


async def test_g11_what_was_looked_up_outside_is_counted_apart_from_what_was_completed(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(3, due_at=NOON), actor_no=actor_no)
    await emit_items(frozen, make_drafts(2, due_at=NOON, kind="Unwatched"), actor_no=actor_no)
    await complete_all()
    await domain.execute("insert into booking select id, '', '', 'B' from ledger.due_item")
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)))
    await reconciler.run_pass()

    report = await reconciler.report()

    assert (report.totals.completed, report.completed_evidenced) == (5, 3)
    assert "3 looked up in evidence outside" in render_page(report)


async def test_g11_a_completed_item_without_evidence_is_escalated_and_closes_when_booked(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(20, due_at=NOON)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    await domain.executemany(
        "insert into booking (item_id, reference) values ($1, $2)",
        [(draft.id, f"B-{n}" if n != 1 else None) for n, draft in enumerate(drafts[:18])],
    )
    inbox = Inbox()
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)), publisher=inbox)

    assert (await reconciler.run_pass()).found == {FindingType.EFFECT_MISSING: 3}
    lacking = {drafts[1].id, drafts[18].id, drafts[19].id}
    assert await mend(reconciler) == 3
    assert {UUID(command.item or "") for command in inbox.commands} == lacking

    assert (await reconciler.run_pass()).found == {FindingType.EFFECT_MISSING: 3}
    assert await mend(reconciler) == 0
    assert len(inbox.commands) == 3

    await domain.executemany(
        "insert into booking (item_id, reference) values ($1, 'made up for')",
        [(item,) for item in lacking],
    )
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.EFFECT_MISSING) == [Resolution.REPAIRED] * 3


async def test_g11_evidence_may_be_keyed_by_business_key_and_cycle(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(4, due_at=NOON)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    await domain.executemany(
        "insert into booking values (null, $1, $2, 'B')",
        [(drafts[0].business_key, "2027"), (drafts[1].business_key, "2026")],
    )
    by_key = replace(bookings, query="select business_key, cycle, reference from booking;")

    assert (await make_reconciler(ReconcilerSources((), (by_key,))).run_pass()).found == {
        FindingType.EFFECT_MISSING: 3
    }


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
    assert row["actual"]["difference"] == 1

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


async def test_g11_a_source_that_cannot_be_read_is_itself_the_finding_and_never_means_gone(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(10, due_at=NOON)
    await owe(drafts)
    await emit_items(frozen, drafts[1:], actor_no=actor_no)
    await complete_all()
    reconciler = make_reconciler(ReconcilerSources((policies,), (bookings,)))
    before = (await reconciler.run_pass()).found
    assert before == {FindingType.MISSING: 1, FindingType.EFFECT_MISSING: 9}

    await domain.execute("drop table policy_due; drop table booking")
    result = await reconciler.run_pass()

    assert result.found == {FindingType.SOURCE_FAILED: 2}
    assert result.closed.total() == 0
    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.OPEN]
    assert await resolutions(frozen, FindingType.EFFECT_MISSING) == [Resolution.OPEN] * 9
    assert [mark.complete_before for mark in result.watermarks] == [None]


@pytest.mark.parametrize("address", ["postgresql://u:hunter2@127.0.0.1:1/nowhere", "hunter2"])
async def test_a_source_that_cannot_be_reached_does_not_show_its_address(
    frozen: Connection, make_reconciler: Make, address: str
) -> None:
    away = SqlPopulation(address, "select 1", "policies")
    reconciler = make_reconciler(ReconcilerSources((away,)))

    assert (await reconciler.run_pass()).found == {FindingType.SOURCE_FAILED: 1}

    shown = repr(away) + (await reconciler.report()).as_json().decode()
    rows: list[Any] = await findings.list_findings(frozen)
    assert "hunter2" not in shown + str([dict(row) for row in rows])


@pytest.mark.usefixtures("frozen")
async def test_g11_rows_that_cannot_be_read_are_skipped_with_their_reason(
    make_reconciler: Make, domain: asyncpg.Connection, policies: SqlPopulation
) -> None:
    await domain.execute(
        "insert into policy_due values"
        " ('acme', 'K', null, '1', '2027-03-01', now(), '{}'),"
        " ('acme', 'K', 'P-' || chr(31), '1', '2027-03-01', now(), '{}')"
    )
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    result = await reconciler.run_pass()
    report = await reconciler.report()

    assert result.found == {}
    (source,) = [source for source in report.sources if source.name == "policies"]
    assert sum(skipped.count for skipped in source.skipped) == 2
    assert "business_key is null" in {skipped.reason for skipped in source.skipped}


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
    assert (await findings.list_watermarks(frozen))[0]["complete_before"] == due


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
