"""Items that a person put off: no finding for that, overdue as others, and none without a trace."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.flows import expedite_items, snooze_items
from dueledger.ledger.store.items import RequestResult, emit_items
from dueledger.ledger.store.reviews import park_items, redrive_items
from dueledger.reconciler import Reconciler

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
TAMPERED: Final = FindingType.TAMPERED
WRONG_DATE, CONFLICT = FindingType.WRONG_DATE, FindingType.OUTCOME_CONFLICT
OF_JOURNAL: Final = "update ledger.transition set {} where item_no = 1"
OF_PENDING: Final = "update ledger.pending set {} where item_no = 1"


@pytest.fixture
async def person_no(frozen: Connection) -> int:
    return await register_actor(frozen, "person:clerk", ActorKind.PERSON)


async def put_off(
    frozen: Connection, drafts: list[ItemDraft], actor_no: int, person_no: int
) -> None:
    """Emit items and snooze them for two days."""
    await emit_items(frozen, drafts, actor_no=actor_no)
    ids = [draft.id for draft in drafts]
    until = NOON + 48 * HOUR
    answers = await snooze_items(frozen, ids, reason="INC-7", actor_no=person_no, until=until)
    assert {answer.result for answer in answers} == {RequestResult.DONE}


async def test_g11_a_snooze_is_no_finding_and_the_item_is_overdue_as_any_other(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int, person_no: int
) -> None:
    await put_off(frozen, make_drafts(2, due_at=NOON + HOUR), actor_no, person_no)
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {}
    late = make_drafts(3, due_at=NOON - HOUR, prefix="late")
    await put_off(frozen, late, actor_no, person_no)
    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}
    first = [draft.id for draft in make_drafts(1, due_at=NOON + HOUR)]
    await expedite_items(frozen, first, reason="now", actor_no=person_no)
    assert (await reconciler.run_pass()).found == {FindingType.OVERDUE: 3}


@pytest.mark.damages
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("delete from ledger.transition where item_no = 1", WRONG_DATE),
        (OF_PENDING.format("available_at = available_at + interval '1 hour'"), WRONG_DATE),
        (OF_PENDING.format("snoozed_until = null"), WRONG_DATE),
        (OF_PENDING.format("snoozed_until = snoozed_until + interval '1 hour'"), WRONG_DATE),
        (OF_JOURNAL.format("detail = detail || jsonb_build_object('until', at)"), WRONG_DATE),
        (OF_JOURNAL.format("detail = detail - 'until'"), CONFLICT),
        (OF_JOURNAL.format("actor_no = (select min(actor_no) from ledger.actor)"), CONFLICT),
        (OF_JOURNAL.format("at = at - interval '1 day'"), CONFLICT),
        (OF_JOURNAL.format("attempt = 3"), CONFLICT),
    ],
)
async def test_g11_an_item_that_is_put_off_as_nobody_put_it_off_is_found(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    actor_no: int,
    person_no: int,
    damage: str,
    found: FindingType,
) -> None:
    await put_off(frozen, make_drafts(2, due_at=NOON + HOUR), actor_no, person_no)
    await frozen.execute(damage)
    assert found in (await make_reconciler().run_pass()).found


@pytest.mark.parametrize("overlap", [*Overlap])
async def test_g11_a_retry_that_is_snoozed_or_was_redriven_waits_for_its_key_without_a_finding(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Callable[..., Awaitable[None]],
    actor_no: int,
    person_no: int,
    overlap: Overlap,
) -> None:
    drafts = [
        replace(draft, overlap=overlap, overlap_key=draft.business_key)
        for draft in make_drafts(3, due_at=NOON)
    ]
    retried, redriven, other = [draft.id for draft in drafts]
    await emit_items(frozen, drafts[:2], actor_no=actor_no)
    await complete_all(TransitionEvent.FAILED)
    await emit_items(frozen, drafts[2:], actor_no=actor_no)
    terms: dict[str, Any] = {"reason": "INC-7", "actor_no": person_no}
    until = NOON + 48 * HOUR
    answers = [
        *await snooze_items(frozen, [retried, other], **terms, until=until),
        *await park_items(frozen, [redriven], **terms),
        *await redrive_items(frozen, [redriven], **terms),
    ]
    assert {answer.result for answer in answers} == {RequestResult.DONE}
    waits = (
        "select i.id from ledger.pending p join ledger.due_item i using (effective_date, item_no)"
    )
    rows = await frozen.fetch(f"{waits} where p.overlap = 1")
    assert {retried, redriven} <= {row["id"] for row in rows}
    reconciler = make_reconciler()
    assert TAMPERED not in (await reconciler.run_pass()).found
    # The rule of one that nobody redrove, and that was no retry, is its item's.
    changed = "update ledger.pending p set overlap = $2 from ledger.due_item i"
    changed += " where i.item_no = p.item_no and i.id = $1"
    await frozen.execute(changed, other, 1 if overlap > 1 else 2)
    assert (await reconciler.run_pass()).found[TAMPERED] == 1
