"""The cost of an installation while nothing is due and a million items are pending.

The reconciler's first pass, which reads everything, is over before the measurement starts. The
hourly full pass is not measured.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, final

from bench.draining import HANDLERS, PREFIX
from bench.ledgers import after
from bench.report import Goal, Measured
from bench.rig import BENCH, Rig
from bench.workload import tenant_flows

IDLE_GOAL: Final = 0.01
LATER_SECONDS: Final = 30 * 86_400.0
SPREAD_SECONDS: Final = 86_400.0
SETTLE_SECONDS: Final = 30.0
NOT_JUDGED: Final = {BENCH, "kafka"}  # a JVM is never idle
SETTINGS: Final = {"DUELEDGER_HTTP_ALLOWED_ORIGINS": "*"}
ROLES: Final = {
    "allocator": ("allocate",),
    "worker": ("work", HANDLERS),
    "direct-worker": ("work", "--direct", HANDLERS),
    "http-worker": ("work", "--http"),
    "outcome-intake": ("work", "--outcomes"),
    "materialiser": ("materialise",),
    "intake": ("intake",),
    "reconciler": ("reconcile",),
}


@final
@dataclass(frozen=True, slots=True)
class IdleOptions:
    """How many items wait, and for how long the processes are watched."""

    items: int = 1_000_000
    seconds: float = 60.0


async def bench_idle(rig: Rig, options: IdleOptions) -> Measured:
    """Watch one idle process of each type."""
    async with rig.ledger(settings=SETTINGS) as ledger, AsyncExitStack() as exits:
        await ledger.load(
            options.items,
            flows=tenant_flows(ledger.kind),
            prefix=PREFIX,
            due_at=after(await ledger.now(), LATER_SECONDS),
            spacing_seconds=SPREAD_SECONDS / options.items,
        )
        await ledger.rest()
        for role, arguments in ROLES.items():
            await exits.enter_async_context(rig.several(role, 1, ledger, *arguments))
        await asyncio.sleep(min(SETTLE_SECONDS, options.seconds))
        rig.require_alive()
        rig.say("watching idle processes")
        meter = rig.meter()
        await asyncio.sleep(options.seconds)
        usage = meter.read()
        rig.require_alive()
        memory = rig.memory_bytes()
    goals = [
        Goal(f"{name} under 1 % of a core", round(share, 4), IDLE_GOAL, "cores", ceiling=True)
        for name, share in usage.share_of_core().items()
        if name not in NOT_JUDGED
    ]
    return Measured(goals, {"memory_bytes": memory}, usage)
