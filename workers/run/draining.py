"""The drain of a worker: waits for running items, then releases those that are not finished."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.workers.verdict_outcomes import released

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.handler_pool import HandlerPool

CHECK_SECONDS: Final = 0.25
STOP_SECONDS: Final = 5.0  # cancelled handlers must end within this time
DRAINED: Final = released("the worker drained")


async def wait_for_items(
    runs: Mapping[int, OpenRun], call_ended: asyncio.Event, seconds: float
) -> None:
    """Wait until every item of the runs has ended, or for `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while any(run.open_count for run in runs.values()):
                call_ended.clear()
                await wait_for_event(call_ended, CHECK_SECONDS)


async def release_unfinished(
    runs: Mapping[int, OpenRun],
    pool_of: Callable[[OpenRun], HandlerPool],
    on_items_ended: Callable[[OpenRun], None],
) -> None:
    """Cancel handlers that outlast the drain and release their items; no attempt is counted."""
    for run in runs.values():
        run.cancel_handlers()
    tasks = [task for run in runs.values() for task in run.tasks]
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_SECONDS)
    for run in list(runs.values()):
        if run.tasks or not pool_of(run).handler.is_async:
            run.release_unbegun()  # a thread may still work on the others: the lease decides
        else:
            run.end_many((index, DRAINED) for index, _ in run.items_to_run())
        on_items_ended(run)
