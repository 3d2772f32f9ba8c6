"""Items say what their sources do: every field of a row is compared, and its id computed again."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources
from dueledger.reconciler.expect.events import draft_effects
from dueledger.reconciler.sources import PopulationBounds, PopulationRow, SourceTotals

from .conftest import NOON, mend, resolutions

Make = Callable[..., Reconciler]
Land = Callable[..., Awaitable[None]]

SCHEDULE: Final = """
definition: statements
tenant: acme
kind: {kind}
business_key: statements
payload: {{text: "{text}"}}
labels: {{region: "Zürich \\"N\\"", "r": "1"}}
sla: {{start_within: PT5M, complete_within: PT20M}}
when: {{cron: "*/5 * * * *", timezone: Europe/Zurich}}
"""
EVENT_RULE: Final = """
definition: renewal
tenant: acme
kind: {kind}
event: PolicyActivated
business_key: data.policy
cycle: data.term
effective_date: data.expires_on
payload: {{premium: data.premium}}
dispatch: {{kafka: {{topic: due.renewals, partition_key: data.customer}}}}
when: {{relative: P0D, to: effective_date, at: "18:00", timezone: UTC}}
cancel_on: [{{event: PolicyCancelled, business_key: data.policy}}]
"""
BODY: Final = (
    '{"policy": "P-%d", "term": "2027", "expires_on": "2027-03-01", "premium": %d,'
    ' "customer": "C-%d"}'
)
START: Final = NOON - timedelta(hours=6)

TWIN: Final = "select definition_no from ledger.definition where kind = 'Twin'"
"""A definition of the same key and times, and of another kind."""

# Each is made to another item: its place by business key and cycle.
SCHEDULED_EDITS: Final = (
    ("due_at = due_at - interval '5 days'", FindingType.WRONG_DATE),
    ("due_at = due_at + interval '1 microsecond'", FindingType.WRONG_DATE),
    ('payload = \'{"text":"other"}\'', FindingType.WRONG_TERMS),
    ('payload = \'{"text":"new"}\'', FindingType.WRONG_TERMS),
    ("start_by = null", FindingType.WRONG_TERMS),
    ("complete_by = complete_by + interval '1 hour'", FindingType.WRONG_TERMS),
    ("nominal = '2027-03-01T00:00'", FindingType.WRONG_TERMS),
    ("zone = 'UTC'", FindingType.WRONG_TERMS),
    ("decision = 'gap'", FindingType.WRONG_TERMS),
    ("smear_seconds = 3", FindingType.WRONG_TERMS),
    ("labels = null", FindingType.WRONG_TERMS),
    ('labels = \'{"r": "1"}\'', FindingType.WRONG_TERMS),
    ("partition_key = 'p'", FindingType.WRONG_TERMS),
    ("definition_no = 4711", FindingType.WRONG_TERMS),
    ("definition_no = null", FindingType.WRONG_TERMS),
    ("event_no = 1", FindingType.WRONG_TERMS),
    (f"definition_no = ({TWIN})", FindingType.WRONG_TERMS),
    ("tzdata = 'another', due_at = due_at + interval '3 days'", FindingType.WRONG_DATE),
    ("tzdata = 'another', due_at = due_at + interval '1 minute'", FindingType.WRONG_DATE),
    ("id = gen_random_uuid()", FindingType.TAMPERED),
    ("id = ledger.item_id('acme', 'K', 'k', cycle, effective_date)", FindingType.TAMPERED),
    ("business_key = 'other'", FindingType.TAMPERED),
    ("cycle = cycle || 'x'", FindingType.TAMPERED),
    ("effective_date = effective_date + 1", FindingType.TAMPERED),
    ("emitted_at = '2198-01-01'", FindingType.TAMPERED),
)
IMPLIED_EDITS: Final = (
    ("due_at = due_at + interval '1 day'", FindingType.WRONG_DATE),
    ("tzdata = 'another', due_at = due_at + interval '1 hour'", FindingType.WRONG_DATE),
    ("payload = '{\"premium\":0}'", FindingType.WRONG_TERMS),
    ("partition_key = null", FindingType.WRONG_TERMS),
    ("event_no = event_no + 1", FindingType.WRONG_TERMS),
    ("event_no = 4711", FindingType.WRONG_TERMS),
    ("event_no = null", FindingType.WRONG_TERMS),
    ("flow_no = 4711", FindingType.TAMPERED),
)


async def put_in_force(
    connection: Connection, text: str, at: datetime, actor_no: int, name: str | None = None
) -> int:
    (definition,) = load_definitions(text, source="test")
    row = await define(
        connection,
        dict(definition.normalised()),
        tenant=definition.tenant,
        name=name or definition.definition,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=at,
        actor_no=actor_no,
    )
    return row.definition_no


@pytest.fixture
async def scheduled(frozen: Connection, kind: str, actor_no: int) -> list[str]:
    """Items of a schedule: half of each of its two versions. Returns their cycles in order."""
    versions = [
        (SCHEDULE.format(kind=kind, text="old"), START, NOON - timedelta(hours=3)),
        (SCHEDULE.format(kind=kind, text="new"), NOON - timedelta(hours=3), NOON),
    ]
    cycles: list[str] = []
    for text, start, end in versions:
        number = await put_in_force(frozen, text, start, actor_no)
        (definition,) = load_definitions(text, source="test")
        drafts = draft_occurrences(definition, start, end).drafts
        await emit_items(frozen, drafts, actor_no=actor_no, definition_nos=[number] * len(drafts))
        cycles += [draft.cycle for draft in drafts]
    return cycles


@pytest.fixture
async def implied(frozen: Connection, land: Land, actor_no: int) -> list[str]:
    """Items of an event rule. Returns their business keys in order."""
    text = EVENT_RULE.format(kind="Renewal")
    number = await put_in_force(frozen, text, START, actor_no)
    (definition,) = load_definitions(text, source="test")
    await land("PolicyActivated", *(BODY % (n, n, n) for n in range(10)))
    rows = await frozen.fetch("select * from ledger.event order by event_no")
    for row in rows:
        (effect,) = draft_effects(number, definition, row, Counter())
        assert effect.draft is not None
        await emit_items(
            frozen,
            [effect.draft],
            actor_no=actor_no,
            definition_nos=[number],
            event_nos=[row["event_no"]],
        )
    return [f"P-{n}" for n in range(10)]


async def test_g11_each_field_that_a_row_has_otherwise_than_its_source_is_a_finding_of_its_item(
    frozen: Connection,
    make_reconciler: Make,
    scheduled: list[str],
    implied: list[str],
    actor_no: int,
) -> None:
    await put_in_force(frozen, SCHEDULE.format(kind="Twin", text="new"), NOON, actor_no, "twin")
    reconciler = make_reconciler()
    assert {*(await reconciler.run_pass()).found} <= {FindingType.OVERDUE}
    wrong: set[tuple[str, str, str]] = set()
    edits = [
        *(("cycle", scheduled[2 * n], *edit) for n, edit in enumerate(SCHEDULED_EDITS)),
        *(("business_key", implied[n], *edit) for n, edit in enumerate(IMPLIED_EDITS)),
    ]
    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    for column, name, assignment, type_ in edits:
        row = await frozen.fetchrow(
            f"update ledger.due_item set {assignment} where {column} = $1"  # noqa: S608 - of the test
            " returning id::text",
            name,
        )
        assert row is not None
        wrong.add((assignment, type_, row["id"]))

    await reconciler.run_pass()

    rows = await findings.list_findings(frozen)
    found = {(row["type"], str(row["item_id"])): row for row in rows}
    assert {assignment for assignment, type_, id_ in wrong if (type_, id_) not in found} == set()
    others = {
        key: row["sentence"]
        for key, row in found.items()
        if key not in {(type_, id_) for _, type_, id_ in wrong} and key[0] != FindingType.OVERDUE
    }
    # The item that has another effective date waits by a row that has the first.
    assert list(others) == [(FindingType.UNBALANCED, "None")]
    assert "is waiting, and the ledger has no such item" in others[FindingType.UNBALANCED, "None"]


async def test_g11_the_date_of_an_item_that_another_tz_database_may_have_placed_is_not_checked(
    frozen: Connection, make_reconciler: Make, scheduled: list[str], kind: str
) -> None:
    reconciler = make_reconciler()
    await reconciler.run_pass()
    report = await reconciler.report()
    assert [(row.checks.date, row.undated) for row in report.accounting] == [(True, 0)]
    await frozen.execute(
        "update ledger.due_item set tzdata = '2000a', due_at = due_at - interval '1 hour',"
        " start_by = start_by - interval '1 hour', complete_by = complete_by - interval '1 hour'"
        " where cycle = $1",
        scheduled[1],
    )

    found = (await reconciler.run_pass()).found

    assert {*found} <= {FindingType.OVERDUE}
    report = await reconciler.report()
    assert [(row.checks.date, row.undated) for row in report.accounting] == [(False, 1)]
    assert report.accounting[0].kind == kind


async def test_g11_an_item_that_an_event_ended_and_that_waits_is_withdrawn_until_it_is_cancelled(
    frozen: Connection, make_reconciler: Make, land: Land, implied: list[str]
) -> None:
    reconciler = make_reconciler()
    await land("PolicyCancelled", '{"policy": "P-3"}')  # and no intake takes note of it
    await frozen.execute(
        "insert into ledger.withdrawal"
        " select item_no, effective_date, 11 /* cancelled */, 'asked for', null, 1, ledger.now()"
        " from ledger.due_item where business_key = $1",
        implied[4],
    )
    await land("PolicyCancelled", '{"policy": "P-4"}')
    # That a row is not what was emitted concerns its item: others of the kind are repaired.
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute(
        "update ledger.due_item set id = gen_random_uuid() where business_key = $1", implied[6]
    )

    other = {FindingType.TAMPERED: 1}
    assert (await reconciler.run_pass()).found == {FindingType.WITHDRAWN: 1, **other}
    (row,) = await findings.list_findings(frozen, type_=FindingType.WITHDRAWN)
    assert row["business_key"] == implied[3]
    assert await mend(reconciler) == 1
    assert (await reconciler.run_pass()).found == other
    assert await resolutions(frozen, FindingType.WITHDRAWN) == [Resolution.REPAIRED]


class EmittingPopulation:
    """A domain that emits an item while it is asked."""

    name = "emitting"
    complete = True
    origin = "sql"
    digest = "0" * 64
    named_kinds = None
    bounds = PopulationBounds()

    def __init__(self, emit: Callable[[], Awaitable[object]]) -> None:
        self._emit = emit

    async def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        del extract
        await self._emit()
        yield []


async def test_an_item_that_is_emitted_during_a_pass_was_not_emitted_in_the_future(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
) -> None:
    await clock.set_clock(frozen, NOON, 1, database=True)  # it runs
    drafts = make_drafts(1, due_at=NOON + timedelta(hours=1))
    population = EmittingPopulation(lambda: emit_items(frozen, drafts, actor_no=actor_no))
    reconciler = make_reconciler(ReconcilerSources((population,)))
    await reconciler.pool.connections.expire_connections()

    assert (await reconciler.run_pass()).found == {}
    assert await frozen.fetchval("select emitted_at > $1 from ledger.due_item", NOON)
