"""Processes killed while they carry out an operation: the next one goes on where it was."""

import signal
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

import pytest

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.operations import (
    COUNTED_MAX,
    ItemFilter,
    pause_operation,
    record_operation,
    resume_operation,
    show_operation,
)
from dueledger.ledger.store.reviews import park_items

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]

pytestmark = pytest.mark.long

BATCH: Final = 5_000
REASON: Final = "the register was down"
FEW: Final = ("operation.applied:2", "operation.advanced", "operation.applied")
MANY: Final = ("operation.applied:3", "operation.advanced:2", "operation.applied:2") * 8
REVIEWS: Final = "select r::text from ledger.review r order by item_no"
REDRIVEN: Final = """
select count(*) as transitions, count(distinct t.item_no) as items,
  count(distinct t.item_no) filter (where i.id = any ($2::uuid[])) as meant,
  array_agg(distinct t.actor_no) as actors
from ledger.transition t join ledger.due_item i using (effective_date, item_no)
where t.event = $1
"""


async def park(estate: Estate, drafts: Sequence[ItemDraft], reason: str = REASON) -> list[UUID]:
    """Emit items and park them as after a failure."""
    for first in range(0, len(drafts), BATCH):
        batch = drafts[first : first + BATCH]
        await emit_items(estate.connection, batch, actor_no=estate.actor_no)
        await estate.connection.execute("update ledger.pending set state = 4")
        ids = [draft.id for draft in batch]
        await park_items(estate.connection, ids, reason=reason, actor_no=estate.actor_no)
    return [draft.id for draft in drafts]


@pytest.mark.parametrize(
    ("items", "crashes", "kills"),
    [(3_000, FEW, 1), pytest.param(50_000, MANY, 5, marks=pytest.mark.faults)],
)
async def test_g5_killed_again_and_again_an_operation_moves_each_item_once_and_no_other(
    estate: Estate, items: int, crashes: Sequence[str], kills: int, make_drafts: MakeDrafts
) -> None:
    kind = f"{estate.kind}Bulk"  # no worker has a handler of it

    def make(count: int, **terms: Any) -> list[ItemDraft]:  # noqa: ANN401 - as make_drafts takes them
        return make_drafts(count, kind=kind, **terms)

    await park(estate, make(500, prefix="before", lane="us"))
    meant = await park(estate, make(items))
    await park(estate, make(500, prefix="else"), "another reason")
    await park(estate, make(500, tenant="umbra"))
    person_no = await register_actor(estate.connection, "person:jane", ActorKind.PERSON)
    chosen = ItemFilter(tenant="acme", kind=kind, lane="", parked_reason=REASON)
    number = await record_operation(
        estate.connection, OperationVerb.REDRIVE, chosen, reason="it is up", actor_no=person_no
    )
    assert number is not None
    await park(estate, make(500, prefix="later"))
    others = [
        row["r"]
        for row in await estate.connection.fetch(
            "select r::text from ledger.review r"
            " join ledger.due_item i using (effective_date, item_no)"
            " where i.id <> all ($1::uuid[]) order by item_no",
            meant,
        )
    ]
    assert len(others) == 2_000

    async def read() -> dict[str, Any]:
        shown = await show_operation(estate.connection, number)
        assert shown is not None
        return shown

    await park(estate, make_drafts(1, kind=f"{kind}Else"))

    for point in crashes:
        victim = await estate.start_process("batch", crash_at=point)
        assert await victim.ended() == -signal.SIGKILL
        # A slice that was not committed is not counted, and its items are parked as before.
        left = await estate.count("ledger.review")
        assert left == len(others) + 1 + items - (await read())["done"]
    # Paused, it stays where it is under a process that carries out another one and is killed.
    done = (await read())["done"]
    assert await pause_operation(estate.connection, number, reason="INC-7", actor_no=person_no)
    other = await record_operation(
        estate.connection,
        OperationVerb.WRITE_OFF,
        ItemFilter(kind=f"{kind}Else"),
        reason="it is up",
        actor_no=person_no,
    )
    assert other is not None

    async def other_ended() -> bool:
        shown = await show_operation(estate.connection, other)
        return shown is not None and shown["status"] == "done"

    victim = await estate.start_process("batch")
    await estate.eventually(other_ended)
    await victim.kill()
    assert ((await read())["status"], (await read())["done"]) == ("paused", done)
    assert await resume_operation(estate.connection, number)
    for _ in range(kills):
        done = (await read())["done"]

        async def advanced(done: int = done) -> bool:
            shown = await read()
            return shown["done"] > done or shown["status"] == "done"

        victim = await estate.start_process("batch")
        await estate.eventually(advanced)
        await victim.kill()
    await estate.start_process("batch")

    async def ended() -> dict[str, Any] | None:
        shown = await read()
        return shown if shown["status"] == "done" else None

    shown = await estate.eventually(ended)
    counts = shown["matched"], shown["matched_capped"], shown["done"], shown["requested"]
    assert counts == (min(items, COUNTED_MAX), items > COUNTED_MAX, items, 0)
    row = await estate.connection.fetchrow(REDRIVEN, TransitionEvent.REDRIVEN, meant)
    assert row is not None
    assert tuple(row) == (items, items, items, [person_no])
    assert [row["r"] for row in await estate.connection.fetch(REVIEWS)] == others
    assert await estate.count("ledger.rejected_write") == 0
    assert await estate.completed() == 0  # and the accounting identity holds
