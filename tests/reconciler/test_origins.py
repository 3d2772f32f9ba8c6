"""Which items a source claims to name all of: by what made them, not by their kind."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, SqlPopulation
from dueledger.reconciler.report.html_page import render_page

from .conftest import NOON
from .test_findings import EVENT_RULE, SCHEDULE, accept

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Land = Callable[..., Awaitable[None]]

EMITTED = 400
EMIT = """
select count(*) from generate_series(1, $2) as n,
  ledger.emit(tenant => 'acme', kind => $1, business_key => 'INV-' || n,
    effective_date => date '2027-06-01', due_at => ledger.now() + interval '1 hour',
    payload => '{"amount": "40.00"}')
"""


@pytest.fixture
async def before_noon(frozen: Connection) -> Connection:
    """The connection, on which items are emitted before the pass begins."""
    await clock.set_clock(frozen, NOON - timedelta(minutes=1), 0)
    return frozen


async def test_g11_items_that_a_service_emits_beside_a_definition_are_no_findings(
    before_noon: Connection, make_reconciler: Make, kind: str, land: Land, actor_no: int
) -> None:
    connection, rule_kind = before_noon, f"{kind}Rule"
    await accept(connection, SCHEDULE.format(kind=kind), actor_no, NOON + timedelta(hours=1))
    await accept(connection, EVENT_RULE.format(kind=rule_kind), actor_no, NOON - timedelta(days=1))
    body = '{"policy": "INV-1", "term": "1", "expires_on": "2027-06-01"}'
    await land("PolicyActivated", body, at=NOON - timedelta(hours=1))
    # An item of the rule for the key and date of an emitted one, under another cycle.
    reconciler = make_reconciler()
    await reconciler.run_pass()
    assert await reconciler.repair(await reconciler.plan()) == 1
    for each in (kind, rule_kind):
        assert await connection.fetchval(EMIT, each, EMITTED) == EMITTED

    result = await reconciler.run_pass()

    assert result.found == {}
    report = await reconciler.report()
    assert [(row.checks.existence, row.unchecked, row.difference) for row in report.accounting] == [
        (False, EMITTED, 0),
        (False, EMITTED, 0),
    ]
    assert [row.expected for row in report.accounting] == [EMITTED, EMITTED + 1]
    assert (
        f"no source says whether {2 * EMITTED} items of 2 kinds are owed"
        in report.statement.sentence
    )
    page = render_page(report)
    assert page.count(f"{EMITTED} not checked") == 2
    assert "0 ✓" not in page.partition("<h2>Accounting</h2>")[2].partition("</section>")[0]


async def test_g11_an_item_that_no_definition_of_its_kind_can_have_made_is_unexpected(
    before_noon: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    kind: str,
    land: Land,
    actor_no: int,
) -> None:
    connection, rule_kind = before_noon, f"{kind}Rule"
    later = NOON + timedelta(hours=1)
    schedule = await accept(connection, SCHEDULE.format(kind=kind), actor_no, later)
    chain = await accept(
        connection,
        SCHEDULE.format(kind="Chain")
        .replace("statements", "chain")
        .replace('{cron: "0 * * * *", timezone: UTC}', "{after_completion: PT10M}"),
        actor_no,
        later,
    )
    rule = await accept(
        connection, EVENT_RULE.format(kind=rule_kind), actor_no, NOON - timedelta(days=1)
    )
    body = '{"policy": "P-1", "term": "1", "expires_on": "2027-06-01"}'
    await land("PolicyActivated", body, at=NOON - timedelta(hours=1))
    reconciler = make_reconciler()
    await reconciler.run_pass()
    assert await reconciler.repair(await reconciler.plan()) == 1
    event_no = await connection.fetchval("select event_no from ledger.due_item")
    named = [
        (kind, rule, None, "a rule of another kind"),
        (kind, chain, None, "a fixed delay of another kind"),
        ("Lone", schedule, None, "a kind without a definition"),
        (kind, 4_711, None, "no such definition"),
        (rule_kind, rule, None, "a rule without its event"),
        (rule_kind, rule, event_no, "an event that does not imply it"),
        (kind, None, event_no, "an event, and no rule"),
        (kind, rule, event_no, "P-1"),  # the event implies it for another kind
    ]
    (draft,) = make_drafts(1, due_at=later, effective_date=date(2027, 6, 1))
    await emit_items(
        connection,
        [replace(draft, kind=kind, business_key=key, cycle="1") for kind, _, _, key in named],
        actor_no=actor_no,
        definition_nos=[number for _, number, _, _ in named],
        event_nos=[number for _, _, number, _ in named],
    )

    result = await reconciler.run_pass()

    assert result.found == {FindingType.UNEXPECTED: len(named)}
    rows = await findings.list_findings(connection, type_=FindingType.UNEXPECTED)
    assert {row["business_key"] for row in rows} == {key for *_, key in named}


@pytest.mark.parametrize("named", [0, 2])
async def test_g11_a_complete_population_without_a_row_of_a_kind_names_none_of_it(
    before_noon: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: object,
    policies: SqlPopulation,
    kind: str,
    actor_no: int,
    named: int,
) -> None:
    assert domain is not None
    others = make_drafts(named, due_at=NOON + timedelta(hours=1), kind=f"{kind}Other")
    await owe(others)
    own = make_drafts(3, due_at=NOON + timedelta(hours=1))
    await emit_items(before_noon, [*others, *own], actor_no=actor_no)
    both = replace(policies, tenant="acme", kinds=frozenset({kind, f"{kind}Other"}))

    result = await make_reconciler(ReconcilerSources((both,))).run_pass()

    assert result.found == {FindingType.UNEXPECTED: 3}


async def test_g11_a_duplicate_needs_a_source_that_names_one_item_of_the_key(
    before_noon: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    kind: str,
    land: Land,
    actor_no: int,
) -> None:
    connection, rule_kind = before_noon, f"{kind}Rule"
    rule = await accept(
        connection, EVENT_RULE.format(kind=rule_kind), actor_no, NOON - timedelta(days=1)
    )
    body = '{{"policy": "{}", "term": "1", "expires_on": "2027-06-01"}}'
    await land(
        "PolicyActivated",
        body.format("P-rule"),
        body.format("P-both"),
        at=NOON - timedelta(hours=1),
    )
    reconciler = make_reconciler(ReconcilerSources((replace(policies, complete=False),)))
    await reconciler.run_pass()
    assert await reconciler.repair(await reconciler.plan()) == 2
    items = {row["business_key"]: row for row in await connection.fetch("table ledger.due_item")}
    event_no = items["P-rule"]["event_no"]
    (draft,) = make_drafts(1, due_at=NOON + timedelta(hours=1))
    draft = replace(draft, effective_date=date(2027, 6, 1))

    def again(key: str, cycle: str, of: str = kind) -> ItemDraft:
        return replace(draft, business_key=key, cycle=cycle, kind=of)

    both = replace(again("P-both", "1", rule_kind), due_at=items["P-both"]["due_at"])
    await owe([again("P-one", "1"), again("P-two", "1"), again("P-two", "2"), both])
    emitted = [
        (again("P-one", "1"), None),
        (again("P-one", "2"), None),  # a duplicate: the population names one
        (again("P-two", "1"), None),
        (again("P-two", "2"), None),
        (again("P-none", "1"), None),
        (again("P-none", "2"), None),
        (again("P-rule", "2", rule_kind), None),
        (again("P-rule", "3", rule_kind), event_no),  # a duplicate: the rule names one
        (again("P-both", "2", rule_kind), None),  # a duplicate: the population names it too
    ]
    await emit_items(
        connection,
        [each for each, _ in emitted],
        actor_no=actor_no,
        definition_nos=[number and rule for _, number in emitted],
        event_nos=[number for _, number in emitted],
    )

    result = await reconciler.run_pass()

    assert result.found == {FindingType.DUPLICATE: 3}
    rows = await findings.list_findings(connection, type_=FindingType.DUPLICATE)
    assert {(row["business_key"], row["actual"]["cycle"]) for row in rows} == {
        ("P-one", "2"),
        ("P-rule", "3"),
        ("P-both", "2"),
    }
    report = await reconciler.report()
    unchecked = {row.kind: row.unchecked for row in report.accounting}
    assert unchecked == {kind: 2, rule_kind: 1}
    assert {row.kind: row.difference for row in report.accounting} == {kind: -1, rule_kind: -2}
