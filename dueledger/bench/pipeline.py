"""Emit, then claim → publish → start → complete through Kafka, every item with its evidence.

The servers keep their promises (fsync on, acks from all); the rate is what the database's clock
saw, from the first claim to the last completion.
"""

import asyncio
import os
import platform
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from dueledger.bench.processes import cpu_seconds, require_alive, running
from dueledger.bench.workload import make_batches
from dueledger.dev.processes import process_environment
from dueledger.stack.embedded import EmbeddedStack, open_embedded
from ledger.errors import Unbalanced
from ledger.store import Connection, PlanProfile, connect
from ledger.store.actors import ActorKind, register_actor
from ledger.store.items import emit_items, read_accounting
from ledger.store.measurements import count_ended, measure_steps, rest_tables
from ledger.store.migrations import migrate

WARM_UP_ITEMS: Final = 2000
LOOK_SECONDS: Final = 0.1
HANDLERS: Final = "dueledger.bench.handlers:handlers"


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How much to run, and on how many processes."""

    items: int
    allocators: int = 1
    workers: int = 1


async def bench_pipeline(options: PipelineOptions, *, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure on servers of its own; return the document that `bench pipeline --json` prints.

    Raises Unbalanced where an item is missing at the end, and ProcessDied where a process ends.
    """
    with tempfile.TemporaryDirectory(prefix="dueledger-bench-") as directory:
        say("starting PostgreSQL and Kafka")
        opened = open_embedded()
        stack = await asyncio.to_thread(opened.__enter__)
        try:
            return await _Pipeline(options, stack, Path(directory), say).measure()
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)


class _Pipeline:
    def __init__(
        self,
        options: PipelineOptions,
        stack: EmbeddedStack,
        log_dir: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._stack = stack
        self._log_dir = log_dir
        self._say = say
        self._environment = process_environment(stack.endpoints)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def measure(self) -> dict[str, Any]:
        connection = await connect(self._stack.endpoints.dsn, application_name="dueledger-bench")
        watcher = await connect(
            self._stack.endpoints.dsn,
            application_name="dueledger-bench",
            profile=PlanProfile.ANALYTIC,
        )
        try:
            await migrate(connection)
            actor_no = await register_actor(connection, "service:bench", ActorKind.SERVICE)
            async with self._several("worker", self._options.workers, "work", HANDLERS):
                await self._warm_up(connection, watcher, actor_no)
                emit_seconds = await self._emit(connection, actor_no, self._options.items)
                await rest_tables(connection)
                return await self._run(watcher, emit_seconds)
        finally:
            await connection.close()
            await watcher.close()

    async def _emit(
        self, connection: Connection, actor_no: int, items: int, *, prefix: str = "POL"
    ) -> float:
        self._say(f"emitting {items:,} items")
        seconds = 0.0
        for batch in make_batches(items, prefix=prefix):
            began = perf_counter()
            await emit_items(connection, batch, actor_no=actor_no)
            seconds += perf_counter() - began
        return seconds

    async def _warm_up(self, connection: Connection, watcher: Connection, actor_no: int) -> None:
        await self._emit(connection, actor_no, WARM_UP_ITEMS, prefix="WARM")
        self._say("warming up")
        async with self._several("allocator", self._options.allocators, "allocate"):
            await self._until_ended(watcher, WARM_UP_ITEMS)

    async def _run(self, watcher: Connection, emit_seconds: float) -> dict[str, Any]:
        self._say("measuring")
        async with self._several("allocator", self._options.allocators, "allocate"):
            before = cpu_seconds(self._roots())
            await self._until_ended(watcher, WARM_UP_ITEMS + self._options.items)
            after = cpu_seconds(self._roots())
        await _require_balance(watcher)
        steps = await measure_steps(watcher, key_prefix="POL-")
        items = self._options.items
        cpu = {name: after[name] - before.get(name, 0.0) for name in after}
        return {
            "benchmark": "pipeline",
            "items": items,
            "items_per_second": round(items / steps.seconds),
            "seconds": round(steps.seconds, 3),
            "emit_per_second": round(items / emit_seconds),
            "cpu_seconds": {name: round(used, 2) for name, used in cpu.items()},
            "cpu_microseconds_an_item": {
                name: round(used / items * 1e6, 1) for name, used in cpu.items()
            },
            "steps_milliseconds": steps.milliseconds,
            "claims": steps.claims,
            "runs": steps.runs,
            "allocators": self._options.allocators,
            "workers": self._options.workers,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "postgres": await watcher.fetchval("show server_version"),
            "fsync": await watcher.fetchval("show fsync"),
            "balanced": True,
        }

    def _roots(self) -> dict[str, int]:
        pids = {"postgres": self._stack.postgres.pid, "kafka": self._stack.kafka.pid}
        return {
            **{name: pid for name, pid in pids.items() if pid is not None},
            **{name: process.pid for name, process in self._processes.items()},
        }

    async def _until_ended(self, watcher: Connection, items: int) -> None:
        while await count_ended(watcher) < items:
            require_alive(self._processes, self._log_dir)
            await asyncio.sleep(LOOK_SECONDS)

    @asynccontextmanager
    async def _several(self, role: str, count: int, *arguments: str) -> AsyncGenerator[None]:
        async with AsyncExitStack() as exits:
            for number in range(1, count + 1):
                name = f"{role}-{number}"
                self._processes[name] = await exits.enter_async_context(
                    running(name, *arguments, environment=self._environment, log_dir=self._log_dir)
                )
                exits.callback(self._processes.pop, name)
            yield


async def _require_balance(watcher: Connection) -> None:
    for account in await read_accounting(watcher):
        if account.difference or account.completed != account.items:
            raise Unbalanced(
                f"{account.items} items of {account.tenant} were emitted and "
                f"{account.completed} completed"
            )
