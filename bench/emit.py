"""Emission, deduplicated and journalled: from connections, by each door, and by a relay."""

import asyncio
import gc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, final

from bench.draining import PREFIX, WARM_UP_PREFIX
from bench.emission_doors import measure_doors
from bench.ledgers import MeasurementFailed
from bench.relay import measure_relay
from bench.report import Goal, Measured, usage_fields
from bench.rig import APPLICATION, Rig
from bench.usage import Usage, bound_by
from bench.workload import BATCH, make_batches
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.items import emit_items

EMIT_GOAL: Final = 100_000


@final
@dataclass(frozen=True, slots=True)
class EmitOptions:
    """The number of items, and the numbers of connections, one measurement each."""

    items: int = 200_000
    connections: tuple[int, ...] = (1, 2)


@final
@dataclass(frozen=True, slots=True)
class _Emission:
    """The rates of emitting the same items twice: the second time no item is new."""

    items: int
    seconds: float
    repeat_seconds: float
    usage: Usage

    @property
    def items_per_second(self) -> int:
        return round(self.items / self.seconds)


async def bench_emit(rig: Rig, options: EmitOptions) -> Measured:
    """Emit from each number of connections into a ledger of its own, by each door and a relay."""
    emissions = {count: await _emission(rig, options, count) for count in options.connections}
    goals = [
        Goal(
            f"{EMIT_GOAL:,} items/s from {count} connection{'s' if count > 1 else ''}",
            one.items_per_second,
            EMIT_GOAL,
            "items/s",
        )
        for count, one in emissions.items()
    ]
    last = emissions[options.connections[-1]]
    door_goals, doors = await measure_doors(rig, options.items // 4)
    figures = {
        "connections": {str(count): _fields(one) for count, one in emissions.items()},
        "backend_microseconds_an_item": doors,
        "relay_items_per_second": await measure_relay(rig, options.items // 4),
    }
    return Measured([*goals, *door_goals], figures, last.usage, last.items)


async def _emission(rig: Rig, options: EmitOptions, count: int) -> _Emission:
    async with rig.ledger() as ledger, AsyncExitStack() as exits:
        connections: list[Connection] = []
        for _ in range(count):
            connection = await connect(ledger.dsn, application_name=APPLICATION)
            exits.push_async_callback(connection.close)
            connections.append(connection)
        for warm_up in make_batches(ledger.kind, BATCH * count, prefix=WARM_UP_PREFIX):
            for connection in connections:
                await emit_items(connection, warm_up, actor_no=ledger.actor_no)
        await ledger.rest()
        batches = list(make_batches(ledger.kind, options.items, prefix=PREFIX))
        gc.freeze()  # a service has one batch at a time: less for its collector
        try:
            rig.say(f"emitting {options.items:,} items from {count}")
            meter = rig.meter()
            seconds = await _emit_all(connections, batches, ledger.actor_no, created=True)
            usage = meter.read()
            repeat_seconds = await _emit_all(connections, batches, ledger.actor_no, created=False)
        finally:
            gc.unfreeze()
    return _Emission(options.items, seconds, repeat_seconds, usage)


async def _emit_all(
    connections: Sequence[Connection],
    batches: Sequence[list[ItemDraft]],
    actor_no: int,
    *,
    created: bool,
) -> float:
    """Share the batches out; return the seconds until the last one is durable."""
    waiting = iter(batches)

    async def emit(connection: Connection) -> None:
        for batch in waiting:
            results = await emit_items(connection, batch, actor_no=actor_no)
            if any(result.created is not created for result in results):
                raise MeasurementFailed("an item was new that should not be, or the reverse")

    began = perf_counter()
    await asyncio.gather(*(emit(connection) for connection in connections))
    return perf_counter() - began


def _fields(one: _Emission) -> dict[str, Any]:
    return {
        "items_per_second": one.items_per_second,
        "repeat_per_second": round(one.items / one.repeat_seconds),
        **usage_fields(one.usage, one.items),
        "bound_by": bound_by(one.usage),
    }
