"""The one way a process runs: `loop(tick)`, a stop that drains, and points where tests look in.

A tick is one bounded, idempotent pass that returns what it did. Tests and ``--once`` call it
directly; production calls it in a loop that outlives every error.
"""

import asyncio
import os
import random
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final, TypeVar

from dueledger.ledger.runtime.log import LogEvent, get_logger

BACKOFF_CAP_SECONDS: Final = 5.0
BACKOFF_BASE_SECONDS: Final = 0.1

DRAIN_SECONDS: Final = 10.0
"""For processes that have no setting of their own."""
CLOSE_SECONDS: Final = 5.0
"""After a drain: for what it found to be written, and connections to be closed."""
CANCEL_SECONDS: Final = 1.0
CANCELS_MAX: Final = 5

_T = TypeVar("_T")

Counts = Mapping[str, int]
Tick = Callable[[], Awaitable[Counts]]


class Stop:
    """Asks a process to drain and end; set once, by a signal or by whoever owns it."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.has_started = False

    def mark_started(self) -> None:
        """Tell that from now on there is something to drain."""
        self.has_started = True

    def request(self) -> None:
        """Ask to stop; repeating it is harmless."""
        self._asked.set()

    @property
    def is_requested(self) -> bool:
        """Tell whether a stop was asked for."""
        return self._asked.is_set()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a stop is asked for, or the time is over; tell whether it was."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), timeout_seconds)
        return self.is_requested

    def on_signals(self) -> None:
        """Let SIGTERM and SIGINT ask."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request)


async def run_to_stop(
    work: Coroutine[object, object, _T], stop: Stop, *, drain_seconds: float = DRAIN_SECONDS
) -> _T | None:
    """Run a process's work to its end, and for a bounded time once a stop is asked for.

    Whatever a server that does not answer keeps it waiting for: after `drain_seconds` and
    `TAIL_SECONDS` it is cancelled, and deadlines and leases mend what it left. Before
    `stop.begin()` it only connects, and is cancelled at once. Returns None where it was.
    """
    task = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    cut_off = False
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        if stop.has_started:
            await asyncio.wait({task}, timeout=drain_seconds + CLOSE_SECONDS)
        cut_off = not task.done()
    finally:
        asked.cancel()
        # Each time it reaches one more wait: what is closed on the way out asks servers, too.
        for _ in range(CANCELS_MAX):
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if not cut_off:
        return task.result()
    ended = task.done() and not task.cancelled()
    error = task.exception() if ended else None
    log = get_logger("process")
    if stop.has_started:
        log.warning(
            LogEvent.DRAIN_TIMED_OUT,
            drain_seconds=drain_seconds,
            error=type(error).__name__ if error else None,
        )
    else:
        log.info(LogEvent.PROCESS_STOPPED)
    return None


async def run_service(
    name: str,
    tick: Tick,
    *,
    stop: Stop,
    idle_seconds: float | Callable[[], Awaitable[float]],
) -> None:
    """Call `tick` until a stop is asked for.

    A pass that did something is followed by the next at once; one that did nothing by a pause of
    `idle_seconds`. A pass that fails is logged and repeated after a growing pause, so `tick` must
    be safe to repeat. This is one of the two places where any exception is caught.
    """
    log = get_logger(name)
    failures = 0
    while not stop.is_requested:
        began = monotonic()
        try:
            counts = await tick()
            busy = any(counts.values())
            pause = 0.0 if busy else await _idle(idle_seconds)
            failures = 0
        except Exception as error:  # noqa: BLE001 - the service loop outlives what a pass meets
            failures += 1
            pause = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2**failures)
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
            log.warning(
                LogEvent.TICK_FAILED,
                error=type(error).__name__,
                message=str(error),
                failures=failures,
                retry_seconds=round(pause, 3),
                seconds=round(monotonic() - began, 3),
            )
        if pause > 0:
            await stop.wait(pause)
        else:
            await asyncio.sleep(0)


async def _idle(idle_seconds: float | Callable[[], Awaitable[float]]) -> float:
    return await idle_seconds() if callable(idle_seconds) else idle_seconds


class Signals:
    """Named signals that production objects emit and that do nothing unless a test armed them."""

    def __init__(self) -> None:
        self._armed: dict[str, deque[asyncio.Future[object]]] = {}

    def emit(self, name: str, detail: object = None) -> None:
        """Tell whoever waits for `name`; nobody usually does."""
        if not self._armed:
            return
        waiting = self._armed.get(name)
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(detail)

    def expect(self, name: str) -> asyncio.Future[object]:
        """Arm `name`; the future ends with the detail of its next emission."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._armed.setdefault(name, deque()).append(future)
        return future


CRASH_VARIABLE: Final = "DUELEDGER_CRASH_AT"
_crash_name, _, _crash_count = os.environ.get(CRASH_VARIABLE, "").partition(":")
_crashes_left = int(_crash_count or 1)


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL where DUELEDGER_CRASH_AT names this point, on its n-th pass.

    Nothing happens otherwise. This is how the crash sweep stops a process at each step of an
    item's way.
    """
    global _crashes_left  # noqa: PLW0603 - a process dies once
    if name != _crash_name:
        return
    _crashes_left -= 1
    if _crashes_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
