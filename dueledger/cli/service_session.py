"""A process started by a command: its event loop, and the signals that stop it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from dueledger.dev.supervisor import SUPERVISED
from dueledger.ledger.runtime.log import LogEvent, configure, get_logger
from dueledger.ledger.runtime.memory import tune_memory
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.tracing import configure_tracing

if TYPE_CHECKING:
    from dueledger.ledger.runtime.settings import Settings

_T = TypeVar("_T")


def run_process(work: Coroutine[object, object, _T]) -> _T:
    """Run the work of a process, on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


@asynccontextmanager
async def process_stop(settings: "Settings | None" = None) -> AsyncGenerator[Stop]:
    """Return the stop of a process: SIGTERM, Ctrl-C, or the end of its supervisor.

    For the block it serves the metrics of the process, if its settings name a port.
    """
    configure(json=not sys.stderr.isatty() and SUPERVISED not in os.environ)
    tune_memory()
    configure_tracing("dueledger")
    stop = Stop()
    stop.on_signals()
    orphaned = asyncio.create_task(_stop_when_orphaned(stop)) if SUPERVISED in os.environ else None
    try:
        with _metrics(settings):
            yield stop
    finally:
        if orphaned is not None:
            orphaned.cancel()
            with suppress(asyncio.CancelledError):
                await orphaned


@contextmanager
def _metrics(settings: "Settings | None") -> Generator[None]:
    if settings is None or settings.metrics_port is None:
        yield
        return
    from dueledger.ledger.metrics.exposition import served_metrics

    with served_metrics(settings.metrics_host, settings.metrics_port) as url:
        get_logger("process").info(LogEvent.METRICS_SERVED, url=url)
        yield


async def _stop_when_orphaned(stop: Stop) -> None:
    """Request a stop when the supervisor closes standard input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while await reader.read(1024):
            pass
        stop.request()
    finally:
        transport.close()
