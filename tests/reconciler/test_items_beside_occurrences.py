"""Items of a schedule beside its occurrences: of a fixed delay, or triggered by a person."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.definitions import define
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


async def test_what_follows_an_item_that_ended_is_not_unexpected(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
    actor_no: int,
) -> None:
    chain = await _accept(frozen, kind, "{after_completion: PT10M}", actor_no)
    drafts = make_drafts(3, due_at=NOON - timedelta(minutes=5))
    await set_clock(frozen, NOON - timedelta(minutes=1), 0)
    await emit_items(frozen, drafts, actor_no=actor_no, definition_no=chain)
    await set_clock(frozen, NOON, 0)
    assert (await make_reconciler().run_pass()).found == {}


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
