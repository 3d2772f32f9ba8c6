"""Items of a schedule beside its occurrences: of a fixed delay, or triggered by a person."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.definitions import begin_chains, define
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOURLY = """
definition: statements
tenant: acme
kind: {kind}
business_key: statements
when: {when}
"""


async def _accept(connection: Connection, kind: str, when: str, actor_no: int) -> int:
    (definition,) = load_definitions(HOURLY.format(kind=kind, when=when), source="test")
    row = await define(
        connection,
        definition.normalised(),
        tenant="acme",
        name="statements",
        kind=kind,
        event_type=None,
        effective_from=NOON - timedelta(hours=1),
        actor_no=actor_no,
    )
    return row.definition_no


REMOVE_OPEN: Final = """
with gone as (delete from ledger.pending where item_no = $1)
delete from ledger.due_item where item_no = $1
"""
LOSE_NEXT: Final = "delete from ledger.following where item_no = $1"
LEAD_AGAIN: Final = """
update ledger.following set item_no = d.item_no, effective_date = d.effective_date
from (
  select i.item_no, i.effective_date from ledger.due_item i
  where i.item_no not in (select f.item_no from ledger.following f) order by i.item_no limit 1
) d
where following.item_no = $1
"""
CHAIN_EDITS: Final = (
    (FindingType.UNBALANCED, "no_item", REMOVE_OPEN),
    (FindingType.UNEXPECTED, None, LOSE_NEXT),
    (
        FindingType.TAMPERED,
        "delay",
        "update ledger.following set delay_seconds = 86400 where item_no = $1",
    ),
    (
        FindingType.TAMPERED,
        "other",
        "update ledger.following set definition_no = 4711 where item_no = $1",
    ),
)


@pytest.mark.damages
async def test_g11_an_open_item_of_a_fixed_delay_leads_to_the_next_or_is_found(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    complete_all: Callable[..., Awaitable[None]],
    kind: str,
    actor_no: int,
) -> None:
    """Of those that have ended nothing says whether they were owed: the report says so."""
    chain = await _accept(frozen, kind, "{after_completion: PT10M}", actor_no)
    drafts = make_drafts(5, due_at=NOON - timedelta(minutes=5))
    await set_clock(frozen, NOON - timedelta(minutes=1), 0)
    await emit_items(frozen, drafts, actor_no=actor_no, definition_no=chain)
    await begin_chains(frozen, [draft.id for draft in drafts], [chain] * 5, [600.0] * 5)
    await set_clock(frozen, NOON, 0)
    await complete_all()
    numbers = await frozen.fetch("select item_no from ledger.following order by item_no")
    reconciler = make_reconciler()
    assert {*(await reconciler.run_pass()).found} <= {FindingType.LATE}
    (row,) = (await reconciler.report()).accounting
    assert (row.expected, row.open, row.unchecked, row.checks.existence) == (10, 5, 5, False)

    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    expected: set[tuple[str, str | None]] = set()
    for (number,), (type_, fault, edit) in zip(numbers, CHAIN_EDITS, strict=False):
        await frozen.execute(edit, number)
        expected.add((type_, fault))
    await frozen.execute(LEAD_AGAIN, numbers[4][0])
    expected |= {(FindingType.UNBALANCED, "ended"), (FindingType.UNEXPECTED, None)}
    for _ in range(2):
        await reconciler.tick()
        rows = await findings.list_findings(frozen)
        assert {(row["type"], row["actual"].get("fault")) for row in rows} == expected
    (row,) = (await reconciler.report()).accounting
    assert (row.unexpected, row.difference) == (2, -2)


async def test_a_triggered_item_is_accounted_for_and_an_unknown_one_is_not(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
    actor_no: int,
) -> None:
    schedule = await _accept(frozen, kind, '{cron: "0 0 * * *", timezone: UTC}', actor_no)
    await set_clock(frozen, NOON - timedelta(minutes=1), 0)
    person_no = await register_actor(frozen, "person:clerk", ActorKind.PERSON)
    await trigger_definition(
        frozen, "acme", "statements", cycle=None, reason="rerun", actor_no=person_no
    )
    await set_clock(frozen, NOON, 0)
    assert (await make_reconciler().run_pass()).found == {}
    await set_clock(frozen, NOON - timedelta(minutes=1), 0)
    stray = make_drafts(1, due_at=NOON - timedelta(minutes=5))
    await emit_items(frozen, stray, actor_no=actor_no, definition_no=schedule)
    await set_clock(frozen, NOON, 0)
    assert (await make_reconciler().run_pass()).found == {FindingType.UNEXPECTED: 1}
