"""Drains a number of pending items with a set of processes, and measures the rate."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, final

from bench.ledgers import Ledger
from bench.measurements import StepTimes
from bench.processes import Process, suspended
from bench.rig import Rig
from bench.usage import Usage

HANDLERS: Final = "bench.handlers:handlers"
WARM_UP_ITEMS: Final = 2000
WARM_UP_PREFIX: Final = "WARM-"
PREFIX: Final = "POL-"

Fill = Callable[[], Awaitable[None]]


@final
@dataclass(frozen=True, slots=True)
class ProcessSet:
    """The processes that work; with `direct`, workers that claim rows themselves, without Kafka."""

    workers: int = 1
    allocators: int = 1
    direct: bool = False
    handlers: str = HANDLERS

    @property
    def work(self) -> tuple[str, ...]:
        """The command line of a worker."""
        return ("work", "--direct", self.handlers) if self.direct else ("work", self.handlers)


@dataclass(frozen=True, slots=True)
class Drained:
    """The measurements of one drain."""

    items: int
    emit_seconds: float | None
    steps: StepTimes
    usage: Usage

    @property
    def items_per_second(self) -> int:
        """The rate from the first claim to the last completion, on the database's clock."""
        return round(self.items / self.steps.seconds)


@asynccontextmanager
async def working(rig: Rig, ledger: Ledger, processes: ProcessSet) -> AsyncGenerator[None]:
    """Run all processes for the length of the block, warmed up."""
    async with _workers(rig, ledger, processes), _allocators(rig, ledger, processes):
        await _warm_up(rig, ledger)
        yield


async def drain(
    rig: Rig,
    ledger: Ledger,
    items: int,
    processes: ProcessSet,
    *,
    fill: Fill | None = None,
    beside: AbstractAsyncContextManager[object] | None = None,
    warm_items: int = WARM_UP_ITEMS,
) -> Drained:
    """Emit items while nothing claims, then let the processes complete them, warm as they are.

    `fill` emits them in another way, under the same prefix, and other pending items. `beside` is
    entered for as long as the processes complete them. They complete `warm_items` others before.
    Raises Unbalanced if an item is missing at the end, ProcessDied if a process ends.
    """
    async with _workers(rig, ledger, processes) as workers:
        async with (
            _allocators(rig, ledger, processes) as allocators,
            AsyncExitStack() as exits,
        ):
            await _warm_up(rig, ledger, warm_items)
            with suspended(workers if processes.direct else allocators):
                if fill is None:
                    emit_seconds = await ledger.emit(items, prefix=PREFIX)
                else:
                    emit_seconds = None
                    await fill()
                await ledger.rest()
                rig.say("measuring")
                if beside is not None:
                    await exits.enter_async_context(beside)
                meter = rig.meter()
            await ledger.until_ended(warm_items + items, watch=rig.require_alive)
            usage = meter.read()
        # The allocators write the marks of their last claims before they end.
        steps = await ledger.steps(items, prefix=PREFIX, watch=rig.require_alive)
    await ledger.require_balance(all_completed=fill is None)
    return Drained(items, emit_seconds, steps, usage)


@asynccontextmanager
async def _workers(
    rig: Rig, ledger: Ledger, processes: ProcessSet
) -> AsyncGenerator[list[Process]]:
    async with rig.several("worker", processes.workers, ledger, *processes.work) as workers:
        yield workers


@asynccontextmanager
async def _allocators(
    rig: Rig, ledger: Ledger, processes: ProcessSet
) -> AsyncGenerator[list[Process]]:
    count = 0 if processes.direct else processes.allocators
    async with rig.several("allocator", count, ledger, "allocate") as allocators:
        yield allocators


async def _warm_up(rig: Rig, ledger: Ledger, items: int = WARM_UP_ITEMS) -> None:
    await ledger.emit(items, prefix=WARM_UP_PREFIX)
    await ledger.until_ended(watch=rig.require_alive)
