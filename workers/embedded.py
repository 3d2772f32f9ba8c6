"""A worker inside another program, whose signals, logging and event loop it leaves alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.setting_problems import read_settings, require_known
from dueledger.workers.direct.settings import DirectSettings
from dueledger.workers.process import run_direct_worker, run_worker
from dueledger.workers.settings import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.handlers import Handlers


@asynccontextmanager
async def worker(
    handlers: Handlers,
    *,
    dsn: str | None = None,
    bootstrap_servers: str | None = None,
    direct: bool = False,
    **settings: object,
) -> AsyncGenerator[None]:
    """Work due items on the running event loop, from entry to the end of the block.

    Items come from Kafka; with `direct`, from the ledger itself. Other keywords are settings of
    `dueledger work`, as `worker_drain_seconds=5.0`; what is not given is read from DUELEDGER_…
    variables.

    Entry waits until Postgres is connected; Kafka is connected in the background. The end of the
    block, by whatever way, takes no more items, waits up to `worker_drain_seconds` for those that
    run, and releases the others. A cancellation during that wait ends it: leases then release them.

    Raises InvalidSetting for settings, and without handlers; NotPermitted if the login lacks a
    role. If the worker fails, the block is cancelled and the error is raised: WorkerStuck, after
    all calls of a handler were past their timeout for `worker_stuck_seconds`. It never ends the
    process: a blocked event loop is logged, and leases lapse.
    """
    stop = Stop()
    working = asyncio.create_task(
        _work(handlers, dsn, bootstrap_servers, settings, stop, direct=direct),
        name="dueledger.worker",
    )
    try:
        await _until_started(working, stop)
        async with _cancelled_with(working):
            yield
    finally:
        await _drain(working, stop)
    working.result()


def _work(
    handlers: Handlers,
    dsn: str | None,
    bootstrap_servers: str | None,
    settings: dict[str, object],
    stop: Stop,
    *,
    direct: bool,
) -> Coroutine[object, object, WorkerCounts]:
    kind = DirectSettings if direct else WorkerSettings
    require_known(settings, kind.model_fields)
    read = read_settings(kind, dsn=dsn, bootstrap_servers=bootstrap_servers, **settings)
    if isinstance(read, DirectSettings):
        return run_direct_worker(read, handlers, stop, may_exit=False)
    return run_worker(read, handlers, stop, may_exit=False)


async def _until_started(working: asyncio.Task[WorkerCounts], stop: Stop) -> None:
    """Wait until the worker is connected; raise its error if it cannot start."""
    started = asyncio.create_task(stop.wait_started())
    try:
        await asyncio.wait({working, started}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        started.cancel()
    if working.done():
        working.result()


@asynccontextmanager
async def _cancelled_with(working: asyncio.Task[WorkerCounts]) -> AsyncGenerator[None]:
    """Cancel the block when the worker ends before it, and raise the worker's error then."""
    owner = cast("asyncio.Task[object]", asyncio.current_task())
    cancels_before, has_cancelled = owner.cancelling(), False

    def cancel(ended: asyncio.Task[WorkerCounts]) -> None:
        nonlocal has_cancelled
        del ended
        has_cancelled = True
        owner.cancel()

    working.add_done_callback(cancel)
    try:
        yield
    except asyncio.CancelledError:
        if has_cancelled and owner.uncancel() <= cancels_before:
            working.result()
        raise
    finally:
        working.remove_done_callback(cancel)


async def _drain(working: asyncio.Task[WorkerCounts], stop: Stop) -> None:
    stop.request()
    try:
        await asyncio.wait({working})
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
