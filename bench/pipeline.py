"""Claim → publish → start → complete, every item with its evidence: through Kafka, and direct.

The servers are durable (fsync on, acks from all). The rate is measured on the database's clock,
from the first claim to the last completion.
"""

from dataclasses import dataclass
from typing import Any, Final, final

from bench.draining import Drained, ProcessSet, drain
from bench.report import Goal, Measured, at_most
from bench.rig import Rig
from bench.workload import WARM_ITEMS

PIPELINE_GOAL: Final = 85_000
PIPELINE_MICROSECONDS: Final = 22.0
DIRECT_GOAL: Final = 140_000
DIRECT_MICROSECONDS: Final = 13.5
BUSY_GOAL: Final = 0.93


@final
@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The number of items, of processes, and of items before the measurement.

    A broker that has just started compiles its code for that long: after 100,000 items it takes two
    to three microseconds more an item of the next 300,000.
    """

    items: int = 600_000
    allocators: int = 1
    workers: int = 1
    warm_items: int = WARM_ITEMS


@final
@dataclass(frozen=True, slots=True)
class DirectOptions:
    """The number of items, and of processes."""

    items: int = 500_000
    workers: int = 2


async def bench_pipeline(rig: Rig, options: PipelineOptions) -> Measured:
    """Measure the pipeline through Kafka."""
    processes = ProcessSet(workers=options.workers, allocators=options.allocators)
    async with rig.ledger() as ledger:
        drained = await drain(rig, ledger, options.items, processes, warm_items=options.warm_items)
    says = f"{PIPELINE_GOAL:,} items/s through Kafka"
    return Measured(
        [
            Goal(says, drained.items_per_second, PIPELINE_GOAL, "items/s"),
            *_cpu_goals(drained, PIPELINE_MICROSECONDS),
        ],
        drained_fields(drained),
        drained.usage,
        drained.items,
    )


async def bench_direct(rig: Rig, options: DirectOptions) -> Measured:
    """Measure workers in direct mode."""
    processes = ProcessSet(workers=options.workers, direct=True)
    async with rig.ledger() as ledger:
        drained = await drain(rig, ledger, options.items, processes)
    says = f"{DIRECT_GOAL:,} items/s without Kafka"
    return Measured(
        [
            Goal(says, drained.items_per_second, DIRECT_GOAL, "items/s"),
            *_cpu_goals(drained, DIRECT_MICROSECONDS),
        ],
        drained_fields(drained),
        drained.usage,
        drained.items,
    )


def _cpu_goals(drained: Drained, microseconds: float) -> list[Goal]:
    """Return how much CPU an item took, in all processes, and how busy the cores were meanwhile.

    Busy with any program and the kernel, from before the first claim until after the last item.
    """
    usage = drained.usage
    used = sum(usage.cpu_seconds.values()) / drained.items * 1e6
    return [
        at_most(f"at most {microseconds:g} us of CPU an item", round(used, 1), microseconds, "us"),
        Goal(
            f"the cores {BUSY_GOAL:.0%} busy",
            round(usage.cores_busy / usage.cores, 3),
            BUSY_GOAL,
            "of all cores",
        ),
    ]


def drained_fields(drained: Drained) -> dict[str, Any]:
    """Return the figures of a drain."""
    emitted = drained.emit_seconds
    return {
        "items_per_second": drained.items_per_second,
        "seconds": round(drained.steps.seconds, 3),
        **({"emit_per_second": round(drained.items / emitted)} if emitted else {}),
        "steps_milliseconds": drained.steps.milliseconds,
        "claims": drained.steps.claims,
        "runs": drained.steps.runs,
        "balanced": True,
    }
