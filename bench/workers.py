"""One to eight workers whose handler takes 5 ms, and one whose handler has transactions.

The rate of the former grows with their number.
"""

from dataclasses import dataclass
from typing import Any, Final, final

from bench.draining import Drained, ProcessSet, drain
from bench.handlers import CHUNK_MAX, MAKE_EFFECTS, NAP_SECONDS, NAPS_AT_ONCE
from bench.report import Goal, Measured, usage_fields
from bench.rig import Rig
from bench.usage import BUSY, bound_by

NAPPING: Final = "bench.handlers:napping"
TRANSACTIONS: Final = {1: "bench.handlers:transactional", CHUNK_MAX: "bench.handlers:chunked"}
TRANSACTION_GOAL: Final = 2_400
LINEAR: Final = 0.9
PARTITIONS: Final = "32"
PER_SECOND: Final = NAPS_AT_ONCE / NAP_SECONDS


@final
@dataclass(frozen=True, slots=True)
class WorkersOptions:
    """How many workers, one measurement each, and for about how long; items with a transaction."""

    counts: tuple[int, ...] = (1, 2, 4, 8)
    seconds: float = 10.0
    transactional_items: int = 20_000


async def bench_workers(rig: Rig, options: WorkersOptions) -> Measured:
    """Measure each number of workers on a topic with enough partitions for all."""
    drained: dict[int, Drained] = {}
    for count in options.counts:
        rig.say(f"{count} worker{'s' if count > 1 else ''}")
        items = max(round(PER_SECOND * options.seconds * count), count)
        processes = ProcessSet(workers=count, handlers=NAPPING)
        settings = {"DUELEDGER_TOPIC_PARTITIONS": PARTITIONS}
        async with rig.ledger(settings=settings) as ledger:
            drained[count] = await drain(rig, ledger, items, processes)
    first = options.counts[0]
    each = drained[first].items_per_second / first
    efficiency = {
        count: round(one.items_per_second / (each * count), 3) for count, one in drained.items()
    }
    free = [
        efficiency[count]
        for count, one in drained.items()
        if count != first and one.usage.cores_busy < BUSY * one.usage.cores
    ]
    says = f"at least {LINEAR:.0%} of linear until the CPU is full"
    last = drained[options.counts[-1]]
    goals = [Goal(says, min(free, default=None), LINEAR, "×")]
    figures = {
        "workers": {
            str(count): {"of_linear": efficiency[count], **_fields(one)}
            for count, one in drained.items()
        }
    }
    for chunk_max, handlers in TRANSACTIONS.items():
        rig.say(f"a handler with transactions of up to {chunk_max} items")
        one = await _transactional(rig, options.transactional_items, handlers)
        says = f"{TRANSACTION_GOAL:,} items/s with transactions, chunk_max={chunk_max}"
        goals.append(Goal(says, one.items_per_second, TRANSACTION_GOAL, "items/s"))
        figures[f"transactional, chunk_max={chunk_max}"] = _fields(one)
    return Measured(goals, figures, last.usage, last.items)


async def _transactional(rig: Rig, items: int, handlers: str) -> Drained:
    """Measure one worker whose handler writes a row in the transaction of the completion."""
    async with rig.ledger() as ledger:
        await ledger.connection.execute(MAKE_EFFECTS)
        return await drain(rig, ledger, items, ProcessSet(handlers=handlers))


def _fields(one: Drained) -> dict[str, Any]:
    return {
        "items_per_second": one.items_per_second,
        "claim_to_start_milliseconds": one.steps.milliseconds["claim_to_start"],
        **usage_fields(one.usage, one.items),
        "bound_by": bound_by(one.usage),
    }
