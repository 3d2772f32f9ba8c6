"""How fast parked items are redriven by a filter, and how fast while the processes are killed."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, final

from bench.draining import PREFIX
from bench.ledgers import Ledger, MeasurementFailed
from bench.report import Goal, Measured
from bench.rig import Rig
from bench.usage import Usage
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.operations import (
    ItemFilter,
    record_operation,
    show_operation,
)
from dueledger.ledger.store.reviews import park_items

PARKED_AT_ONCE: Final = 5_000
POLL_SECONDS: Final = 0.02
WAIT_SECONDS: Final = 120.0
REASON: Final = "the register was down"
_FAILED: Final = "update ledger.pending set state = 4"
_PARKED: Final = "select i.id from ledger.due_item i join ledger.pending p using (item_no)"
_REDRIVEN: Final = """
select count(*) as redriven, count(distinct item_no) as items
from ledger.transition where event = $1
"""


@final
@dataclass(frozen=True, slots=True)
class OperationOptions:
    """How many items are redriven, and how often the process that does it is killed."""

    items: int = 50_000
    kills: int = 5


async def bench_operation(rig: Rig, options: OperationOptions) -> Measured:
    """Redrive parked items by one process, and again by processes that are killed one by one.

    Rate and CPU are of the time from the first slice of a process to its end.
    """
    figures: dict[str, Any] = {}
    goals: list[Goal] = []
    for name, kills in (("alone", 0), ("killed", options.kills)):
        async with rig.ledger() as ledger:
            await _park(ledger, options.items)
            rig.say(f"redriving {options.items:,} items, {kills} kills")
            usage, moved = await _redrive(rig, ledger, options.items, kills)
            row = await ledger.watcher.fetchrow(_REDRIVEN, TransitionEvent.REDRIVEN)
        is_once = row is not None and row["redriven"] == row["items"]
        redriven = row["items"] if row is not None and is_once else None
        goals.append(Goal(f"{name}: items redriven, each once", redriven, options.items, "items"))
        figures[name] = {
            "items_per_second": round(moved / usage.seconds),
            "cpu_microseconds": usage.microseconds_an_item(moved),
        }
    return Measured(goals, figures, usage, moved)


async def _park(ledger: Ledger, items: int) -> None:
    await ledger.emit(items, prefix=PREFIX)
    await ledger.connection.execute(_FAILED)
    ids = [row["id"] for row in await ledger.connection.fetch(_PARKED)]
    for first in range(0, items, PARKED_AT_ONCE):
        batch = ids[first : first + PARKED_AT_ONCE]
        await park_items(ledger.connection, batch, reason=REASON, actor_no=ledger.actor_no)
    await ledger.rest()


async def _redrive(rig: Rig, ledger: Ledger, items: int, kills: int) -> tuple[Usage, int]:
    """Carry an operation out; return what was used while items were moved, and how many were."""
    person_no = await register_actor(ledger.connection, "person:bench", ActorKind.PERSON)
    number = await record_operation(
        ledger.connection,
        OperationVerb.REDRIVE,
        ItemFilter(kind=ledger.kind, parked_reason=REASON),
        reason="it is up",
        actor_no=person_no,
    )
    if number is None:
        raise MeasurementFailed("no item is parked")
    parts: list[Usage] = []
    moved = 0
    for turn in range(1, kills + 2):
        wanted = items * turn // (kills + 1)
        async with rig.several("allocator", 1, ledger, "allocate") as [allocator]:
            begun = await _until(ledger, number, 1 + await _until(ledger, number, 0))
            meter = rig.meter()
            moved += await _until(ledger, number, wanted) - begun
            parts.append(meter.read())
            if turn <= kills:
                allocator.kill()
                await allocator.wait()
    cpu = Counter[str]()
    for part in parts:
        cpu.update(part.cpu_seconds)
    seconds = sum(part.seconds for part in parts)
    return replace(parts[-1], seconds=seconds, cpu_seconds=dict(cpu)), moved


async def _until(ledger: Ledger, operation_no: int, wanted: int) -> int:
    """Wait until an operation has moved so many items; return how many it has."""
    ends_at = monotonic() + WAIT_SECONDS
    while monotonic() < ends_at:
        shown = await show_operation(ledger.watcher, operation_no)
        if shown is not None and shown["done"] >= wanted:
            return shown["done"]
        await asyncio.sleep(POLL_SECONDS)
    raise MeasurementFailed(f"not {wanted:,} items were moved in {WAIT_SECONDS:.0f} s")
