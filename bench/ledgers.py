"""A ledger under measurement: emitting into it, waiting for it, and reading what it recorded."""

import asyncio
from asyncio import Semaphore, TaskGroup
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic, perf_counter
from typing import Final, final

from bench.measurements import (
    BenchLoad,
    StepTimes,
    count_ended,
    emit_now,
    flush_counters,
    load_items,
    measure_steps,
    read_balance,
    vacuum_tables,
)
from bench.workload import PAYLOAD, make_batches
from dueledger.ledger.errors import DueledgerError, Unbalanced
from dueledger.ledger.store import Connection, open_pool
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import emit_items

POLL_SECONDS: Final = 0.1
LOAD_BATCH: Final = 20_000
STUCK_SECONDS: Final = 120.0
EMITTERS: Final = 4


class MeasurementFailed(DueledgerError):
    """A measurement cannot be made, or its result is not valid."""

    code = "MEASUREMENT_FAILED"


@final
class _Progress:
    """Waits for a count, and raises when the count does not change any more."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._counted = -1
        self._moved = monotonic()

    def reached(self, counted: int) -> bool:
        if counted > self._counted:
            self._counted, self._moved = counted, monotonic()
        elif monotonic() - self._moved > STUCK_SECONDS:
            raise MeasurementFailed(
                f"{counted:,} of {self._wanted:,} items ended, and none in {STUCK_SECONDS:.0f} s"
            )
        return counted >= self._wanted


@final
class Ledger:
    """One database under measurement. Not for use from several tasks at once."""

    def __init__(
        self,
        dsn: str,
        kind: str,
        connection: Connection,
        watcher: Connection,
        *,
        actor_no: int,
        say: Callable[[str], None],
    ) -> None:
        """Take over two connections: one to write like a service, one to read."""
        self.dsn = dsn
        self.kind = kind
        self.other_kind = f"{kind}Other"
        self.connection = connection
        self.watcher = watcher
        self.actor_no = actor_no
        self.environment: dict[str, str] = {}
        self._say = say
        self._emitted = 0

    async def emit(self, items: int, *, prefix: str) -> float:
        """Emit items that are due, as a service does; return the seconds spent in emitting."""
        self._say(f"emitting {items:,} items")
        seconds = 0.0
        for batch in make_batches(self.kind, items, prefix=prefix):
            began = perf_counter()
            await emit_items(self.connection, batch, actor_no=self.actor_no)
            seconds += perf_counter() - began
        self._emitted += items
        return seconds

    async def load(
        self,
        items: int,
        *,
        flows: Sequence[tuple[str, str, str]],
        prefix: str,
        due_at: datetime,
        spacing_seconds: float = 0.0,
        quiet: bool = False,
    ) -> None:
        """Emit items that the server makes itself, by the same function: faster."""
        if not quiet:
            self._say(f"loading {items:,} items")
        load = BenchLoad(
            flows=flows,
            key_prefix=prefix,
            due_at=due_at,
            spacing_seconds=spacing_seconds,
            payload=PAYLOAD,
        )
        for first in range(0, items, LOAD_BATCH):
            await load_items(
                self.connection,
                load,
                first=first,
                count=min(LOAD_BATCH, items - first),
                actor_no=self.actor_no,
            )
        self._emitted += items

    async def emit_for_now(
        self, rate: float, seconds: float, *, flows: Sequence[tuple[str, str, str]], prefix: str
    ) -> None:
        """Emit items that are due when they are emitted, each in a transaction of its own."""
        self._say(f"emitting {rate:g} items/s for now, {seconds:g} s")
        began, items = monotonic(), round(rate * seconds)
        async with open_pool(self.dsn, application_name="service:bench", size_max=EMITTERS) as pool:
            emitting = Semaphore(EMITTERS)

            async def emit_one(number: int) -> None:
                tenant, kind, _ = flows[number % len(flows)]
                async with emitting, pool.acquire() as connection:
                    await emit_now(connection, tenant, kind, f"{prefix}{number:09}", PAYLOAD)

            async with TaskGroup() as tasks:
                for number in range(items):
                    await asyncio.sleep(max(0.0, began + number / rate - monotonic()))
                    tasks.create_task(emit_one(number))
        self._emitted += items

    async def now(self) -> datetime:
        """Return the ledger's time."""
        return await read_now(self.watcher)

    async def rest(self) -> None:
        """Vacuum after a load, and wait until PostgreSQL's counters include it."""
        await flush_counters(self.connection)
        await vacuum_tables(self.watcher)

    async def wait_until(self, instant: datetime) -> None:
        """Wait for an instant of the ledger's clock. Raises MeasurementFailed if it has passed."""
        left = (instant - await self.now()).total_seconds()
        if left < 0:
            raise MeasurementFailed(
                f"the load was ready {-left:.1f} s after its items began to be due: "
                "this machine emits too slowly for the requested rate"
            )
        await asyncio.sleep(left)

    async def until_ended(
        self,
        items: int | None = None,
        *,
        watch: Callable[[], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Wait until so many items, or all emitted, have ended; call `watch` at each poll.

        Raises MeasurementFailed if nothing ends for two minutes.
        """
        wanted = self._emitted if items is None else items
        progress = _Progress(wanted)
        while not progress.reached(await count_ended(self.watcher)):
            watch()
            await asyncio.sleep(poll_seconds)

    async def steps(self, items: int, *, prefix: str, watch: Callable[[], None]) -> StepTimes:
        """Measure items' steps once `items` of their prefix are completed."""
        progress = _Progress(items)
        while True:
            steps = await measure_steps(self.watcher, key_prefix=prefix)
            if progress.reached(steps.items if steps else 0) and steps:
                return steps
            watch()
            await asyncio.sleep(POLL_SECONDS)

    async def require_balance(self, *, all_completed: bool = True) -> None:
        """Raise Unbalanced if the identity does not hold, or an item is not completed."""
        for account in await read_balance(self.watcher):
            if account.difference or (all_completed and account.completed != account.items):
                raise Unbalanced(
                    f"{account.items} items of {account.tenant} were emitted and "
                    f"{account.completed} completed"
                )


def after(instant: datetime, seconds: float) -> datetime:
    """Return the instant so many seconds later."""
    return instant + timedelta(seconds=seconds)
