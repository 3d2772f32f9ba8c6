"""The watchdog: a thread that detects a blocked event loop and logs the handler that blocks it.

While a handler blocks the loop, no heartbeat is sent and no timeout fires. The watchdog does not
extend leases instead of the loop: a handler that blocks for ever would keep its items for ever, and
the ledger could not tell this worker that they are no longer its own (G4, G9). The leases lapse,
and other workers get the items. A loop that resumes finds its runs lost and goes on. If it never
resumes, the process ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from time import monotonic, process_time
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.workers.run.handler_pool import find_handler_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from dueledger.workers.counts import WorkerCounts

CHECKS_PER_BLOCK: Final = 4  # checks in the time that the loop may be blocked
FRAMES_MAX: Final = 12
FAILED: Final = 1

log = get_logger("worker")


@final
class EventLoopWatchdog:
    """Watches the running loop inside `with`.

    A loop that is blocked for `block_seconds` is logged with the blocking handler and its stack;
    again whenever that time has doubled; and once when it resumes. After `stuck_seconds`, unless 0,
    `abort` is called. Time in which the whole process was stopped does not count.
    """

    def __init__(
        self,
        counts: WorkerCounts,
        *,
        block_seconds: float,
        stuck_seconds: float,
        abort: Callable[[], object] = lambda: os._exit(FAILED),  # a blocked loop handles no signal
    ) -> None:
        self._counts = counts
        self._block_seconds = block_seconds
        self._stuck_seconds = stuck_seconds
        self._abort = abort
        self._check_seconds = block_seconds / CHECKS_PER_BLOCK
        self._ticks = 0
        self._ticked_at = 0.0
        self._busy_before = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._blocking_call: dict[str, object] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._watched = 0

    def __enter__(self) -> None:
        """Watch the loop of this thread."""
        self._watched = threading.get_ident()
        self._ticked_at = monotonic()
        self._busy_before = process_time()
        self._record_tick()
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def _record_tick(self) -> None:
        """Count a tick, on the loop; log if the loop was blocked before it."""
        now, busy = monotonic(), process_time()
        blocked_seconds = now - self._ticked_at - self._check_seconds
        if blocked_seconds >= self._block_seconds:
            self._counts.loop_blocks += 1
            # Not busy: the handler waited, or the whole process was stopped.
            log.warning(
                LogEvent.EVENT_LOOP_RESUMED,
                seconds=round(blocked_seconds, 3),
                busy_seconds=round(busy - self._busy_before, 3),
                **self._blocking_call,
            )
        self._blocking_call = {}
        self._ticks += 1
        self._ticked_at, self._busy_before = now, busy
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._check_seconds, self._record_tick)

    def _watch(self) -> None:
        """Measure, on the thread, how long the loop has been blocked."""
        seen, blocked_seconds, log_at = -1, 0.0, self._block_seconds
        checked_at = monotonic()
        while not self._ended.wait(self._check_seconds):
            now = monotonic()
            passed, checked_at = now - checked_at, now
            if self._ticks != seen:
                seen, blocked_seconds, log_at = self._ticks, 0.0, self._block_seconds
                continue
            blocked_seconds += min(
                passed, 2 * self._check_seconds
            )  # more: this thread was stopped as well
            if blocked_seconds >= log_at:
                self._log_blocked(blocked_seconds)
                log_at = 2 * blocked_seconds
            if 0 < self._stuck_seconds <= blocked_seconds:
                log.error(
                    LogEvent.PROCESS_ABORTED,
                    seconds=round(blocked_seconds, 3),
                    **self._blocking_call,
                )
                self._abort()
                return

    def _log_blocked(self, blocked_seconds: float) -> None:
        stack = sys._current_frames().get(  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            self._watched
        )
        blocking_call: dict[str, object] = {"kind": None, "handler": None}
        if call := find_handler_call(stack):
            blocking_call = {
                "kind": call.handler.kind,
                "handler": call.handler.name,
                "run_no": call.run.run_no,
                "fence": call.run.fence,
                "items": len(call.work),
            }
        self._blocking_call = blocking_call
        log.warning(
            LogEvent.EVENT_LOOP_BLOCKED,
            seconds=round(blocked_seconds, 3),
            ends_after_seconds=self._stuck_seconds or None,
            stack=_stack_lines(stack),
            **blocking_call,
        )


def _stack_lines(frame: FrameType | None) -> list[str]:
    """Return the lines of a stack, innermost first, without values, which may be secret."""
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES_MAX:
        code = frame.f_code
        lines.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return lines
