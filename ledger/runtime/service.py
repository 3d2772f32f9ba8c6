"""The service loop of a process, its stop with a drain, test signals and crash points.

A tick is one bounded, idempotent pass that returns counts. Tests and ``--once`` call it directly;
production calls it in `run_service`, which survives every error.
"""

import asyncio
import os
import random
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from traceback import walk_tb
from typing import Final, TypeVar

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.metrics import METRICS, Metric, Sample
from dueledger.ledger.runtime.log import LogEvent, get_logger

BACKOFF_CAP_SECONDS: Final = 5.0
BACKOFF_BASE_SECONDS: Final = 0.1
BACKOFF_DOUBLINGS_MAX: Final = 20
AWAITED_CAP_SECONDS: Final = 1.0
"""Most seconds between two attempts to reach a server that refuses: nothing is done without it."""
AWAITED_LOG_SECONDS: Final = 60.0

DRAIN_SECONDS: Final = 10.0
"""Drain time of a process that has no drain setting."""
CLOSE_SECONDS: Final = 5.0
"""Time after a drain to write the last results and to close connections."""
CANCEL_SECONDS: Final = 1.0
CANCELS_MAX: Final = 5

_PACKAGE: Final = f"{__name__.partition('.')[0]}."

_T = TypeVar("_T")

Counts = Mapping[str, int]
Tick = Callable[[], Awaitable[Counts]]


class Stop:
    """A request to drain and end. A signal or the owner of the process sets it, once."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._started = asyncio.Event()
        self._calls: list[Callable[[], None]] = []

    def mark_started(self) -> None:
        """Record that the process has started work: from now on a stop drains it."""
        self._started.set()

    @property
    def has_started(self) -> bool:
        """Return whether the process has started work."""
        return self._started.is_set()

    async def wait_started(self) -> None:
        """Wait until the process has started work."""
        await self._started.wait()

    def request(self) -> None:
        """Request a stop. Repeating it changes nothing."""
        self._requested.set()
        while self._calls:
            self._calls.pop()()

    def on_request(self, call: Callable[[], None]) -> None:
        """Set what is called when a stop is requested."""
        self._calls.append(call)

    @property
    def is_requested(self) -> bool:
        """Return whether a stop was requested."""
        return self._requested.is_set()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for a stop, at most `timeout_seconds`; return whether it was requested."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._requested.wait(), timeout_seconds)
        return self.is_requested

    def on_signals(self) -> None:
        """Request the stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request)


async def until_available(
    connect: Callable[[], Awaitable[_T]], *, is_connected: Callable[[], bool] = lambda: False
) -> _T:
    """Call `connect` until it does not raise Unavailable; log that it waits, once a minute.

    If it goes on after it has connected, `is_connected` returns whether it has.
    """
    failures = 0
    log_at = float("-inf")
    errors: dict[str, Exception] = {}

    def samples() -> list[Sample]:
        return [] if is_connected() else _unreachable("connect", errors)

    with METRICS.source(samples):
        while True:
            try:
                return await connect()
            except Unavailable as error:
                errors["connect"] = error
                if monotonic() >= log_at:
                    log_at = monotonic() + AWAITED_LOG_SECONDS
                    get_logger("process").warning(
                        LogEvent.SERVICE_AWAITED, message=error.message, failures=failures + 1
                    )
                failures += 1
                await asyncio.sleep(_backoff_seconds(failures, AWAITED_CAP_SECONDS))


def _backoff_seconds(failures: int, cap_seconds: float) -> float:
    pause = min(cap_seconds, BACKOFF_BASE_SECONDS * 2 ** min(failures, BACKOFF_DOUBLINGS_MAX))
    return pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret


async def run_to_stop(
    start: Callable[[], Coroutine[object, object, _T]],
    stop: Stop,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    waits: bool = True,
) -> _T | None:
    """Run a process's work to its end, or for a bounded time after a stop was requested.

    While it cannot connect, because Postgres or Kafka is away, `start` is called again; unless
    `waits`, it raises Unavailable.

    After `drain_seconds` and `CLOSE_SECONDS` the work is cancelled, even if it waits for a server
    that does not answer. Deadlines and leases then release its items. Before `stop.mark_started()`
    the work only connects; a stop cancels it at once. Returns None if the work was cancelled.
    """
    task = asyncio.create_task(
        until_available(start, is_connected=lambda: stop.has_started) if waits else start()
    )
    stopping = asyncio.create_task(stop.wait())
    timed_out = False
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.has_started:
            await asyncio.wait({task}, timeout=drain_seconds + CLOSE_SECONDS)
        timed_out = not task.done()
    finally:
        stopping.cancel()
        # Each cancel ends one wait only: closing connections waits for servers again.
        for _ in range(CANCELS_MAX):
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if not timed_out:
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
    last_errors: dict[str, Exception] | None = None,
) -> None:
    """Call `tick` until a stop is requested.

    After a tick with counts the next one follows at once; after a tick without, a pause of
    `idle_seconds`. A tick that fails is logged and repeated after a growing pause, so `tick` must
    be safe to repeat. This is one of the two places that catch any exception. `last_errors` has the
    error under `name` while the last tick is one that failed.
    """
    log = get_logger(name)
    failures = 0
    errors = {} if last_errors is None else last_errors
    with METRICS.source(partial(_unreachable, name, errors)):
        while not stop.is_requested:
            began = monotonic()
            try:
                counts = await tick()
                errors.pop(name, None)
                _count_pass(name, counts, monotonic() - began)
                busy = any(counts.values())
                pause = 0.0 if busy else await _idle(idle_seconds)
                failures = 0
            except Exception as error:  # noqa: BLE001 - the service loop survives every error of a tick
                failures += 1
                errors[name] = error
                METRICS.add(Metric.PASS_FAILURES, 1, name, type(error).__name__)
                is_awaited = isinstance(error, Unavailable)
                pause = _backoff_seconds(
                    failures, AWAITED_CAP_SECONDS if is_awaited else BACKOFF_CAP_SECONDS
                )
                log.warning(
                    LogEvent.TICK_FAILED,
                    error=type(error).__name__,
                    message=str(error),
                    raised_in=_function_of(error),
                    failures=failures,
                    retry_seconds=round(pause, 3),
                    seconds=round(monotonic() - began, 3),
                )
            if pause > 0:
                await stop.wait(pause)
            else:
                await asyncio.sleep(0)


def _count_pass(name: str, counts: Counts, seconds: float) -> None:
    METRICS.add(Metric.PASSES, 1, name)
    METRICS.add(Metric.PASS_SECONDS, seconds, name)
    for count, number in counts.items():
        if number:
            METRICS.add(Metric.PASS_COUNTS, number, name, count)


def _unreachable(name: str, errors: Mapping[str, Exception]) -> list[Sample]:
    error = errors.get(name)
    if not isinstance(error, Unavailable):
        return []
    return [Sample(Metric.SERVER_UNREACHABLE, 1, (str(error.fields.get("service", "")), name))]


def _function_of(error: Exception) -> str:
    """Return the innermost function of the product that an error, or its cause, passed through."""
    cause = error.__cause__ or error
    frames = [frame for each in (error, cause) for frame, _ in walk_tb(each.__traceback__)]
    names = [(frame.f_globals.get("__name__", ""), frame.f_code.co_qualname) for frame in frames]
    ours = [f"{module}.{function}" for module, function in names if module.startswith(_PACKAGE)]
    return ours[-1]


async def _idle(idle_seconds: float | Callable[[], Awaitable[float]]) -> float:
    return await idle_seconds() if callable(idle_seconds) else idle_seconds


class Signals:
    """Named signals that production objects emit. They do nothing unless a test armed them."""

    def __init__(self) -> None:
        self._armed: dict[str, deque[asyncio.Future[object]]] = {}

    def emit(self, name: str, detail: object = None) -> None:
        """Wake the tests that wait for `name`; in production there are none."""
        if not self._armed:
            return
        waiting = self._armed.get(name)
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(detail)

    def expect(self, name: str) -> asyncio.Future[object]:
        """Arm `name`; return a future whose result is the detail of its next emission."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._armed.setdefault(name, deque()).append(future)
        return future


CRASH_VARIABLE: Final = "DUELEDGER_CRASH_AT"
_crash_name, _, _crash_count = os.environ.get(CRASH_VARIABLE, "").partition(":")
_crashes_left = int(_crash_count or 1)


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL if DUELEDGER_CRASH_AT names this point, at its n-th call.

    The value is `<name>` or `<name>:<n>`. Without it nothing happens. The crash tests stop a
    process at each step of an item's life this way.
    """
    global _crashes_left  # noqa: PLW0603 - a process dies once
    if name != _crash_name:
        return
    _crashes_left -= 1
    if _crashes_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
