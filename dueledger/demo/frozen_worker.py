"""A worker that is frozen with items in hand, and goes on when they were taken back."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from dueledger.demo.environment import DemoEnvironment
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.direct_claims import list_open_runs
from dueledger.ledger.store.processes import list_processes
from dueledger.ledger.store.reconciled_rows import count_rejected_writes

_TRIES: Final = 100
_TRY_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 0.25  # what the worker sent before it was frozen is recorded by then
_LEASE_SECONDS_MAX: Final = 20.0
_REFUSED_SECONDS_MAX: Final = 5.0
_POLL_SECONDS: Final = 0.5
_PROCESSES_MAX: Final = 1_000


async def freeze_worker(stage: DemoEnvironment, name: str) -> bool:
    """Freeze a worker until a run of its own is taken back; return whether a write is refused then.

    A worker that has no run now, or sent all outcomes before it was frozen, goes on at once.
    """
    refused_before = await _count_refused(stage)
    if not await _freeze_until_lapsed(stage, name):
        return False

    async def is_refused() -> bool:
        return await _count_refused(stage) > refused_before

    await _wait(stage, is_refused, _REFUSED_SECONDS_MAX)
    refused = await _count_refused(stage) - refused_before
    stage.view.say(
        f"{await read_now(stage.connection):%H:%M} UTC: {name} goes on, too late: {refused} of its "
        "writes were refused as stale"
    )
    return refused > 0


async def _freeze_until_lapsed(stage: DemoEnvironment, name: str) -> bool:
    """Freeze a worker in a run and thaw it when upkeep closed one; return whether it did."""
    pid = stage.supervisor.pid(name)
    worker_no = await _find_process(stage, pid)
    if worker_no is None:
        return False
    try:
        runs = await _freeze_in_runs(stage, name, worker_no)
        if not runs:
            return False
        stage.view.say(
            f"{await read_now(stage.connection):%H:%M} UTC: {name} (process {pid}) was frozen with "
            f"SIGSTOP in the middle of {len(runs)} runs, for longer than their leases last"
        )

        async def is_lapsed() -> bool:
            return not runs <= await _find_runs(stage, worker_no)

        return await _wait(stage, is_lapsed, _LEASE_SECONDS_MAX)
    finally:
        stage.supervisor.thaw(name)


async def _freeze_in_runs(stage: DemoEnvironment, name: str, worker_no: int) -> set[int]:
    """Freeze a worker at a time when it has open runs; return them. Empty after some tries."""
    for _ in range(_TRIES):
        stage.supervisor.freeze(name)
        if await _find_runs(stage, worker_no):
            await asyncio.sleep(_ANSWER_SECONDS)
            if runs := await _find_runs(stage, worker_no):
                return runs
        stage.supervisor.thaw(name)
        await asyncio.sleep(_TRY_SECONDS)
    return set()


async def _find_runs(stage: DemoEnvironment, worker_no: int) -> set[int]:
    runs = await list_open_runs(stage.connection, worker_no)
    return {run.id.run_no for run in runs if run.open_indexes}


async def _find_process(stage: DemoEnvironment, pid: int | None) -> int | None:
    """Return the actor number of a process of this machine; its name has its pid."""
    for process in await list_processes(stage.connection, _PROCESSES_MAX):
        if process.name.split(":")[-2] == str(pid):
            return process.process_no
    return None


async def _count_refused(stage: DemoEnvironment) -> int:
    counts = await count_rejected_writes(stage.connection)
    return sum(count for (_, reason), count in counts.items() if reason == "stale")


async def _wait(
    stage: DemoEnvironment, is_over: Callable[[], Awaitable[bool]], seconds_max: float
) -> bool:
    """Show progress until a condition holds; return False if the time is over before."""
    deadline = monotonic() + seconds_max
    while not await is_over():
        if monotonic() > deadline:
            return False
        await stage.show_progress()
        await asyncio.sleep(_POLL_SECONDS)
    return True
