"""Crews that can work no more: every place is held by a call that is past its time.

A thread cannot be stopped, nor can a coroutine that swallows its cancelling. Each keeps its place,
or calls would pile up without end. Once they hold all places the kind is dead here, and its
partitions are dead with it, so that the process must make room for another.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, final

from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.runtime.log import LogEvent, get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dueledger.ledger.runtime.service import Stop
    from dueledger.workers.run.handler_pool import HandlerPool

log = get_logger("worker")


class WorkerStuck(DueledgerError):
    """A worker ended because a handler's calls never end. Another should be started."""

    code = "WORKER_STUCK"


@final
class StuckPoolCheck:
    """Logs a crew that was lost, and asks to stop once one was for `stuck_seconds`; 0 is never."""

    def __init__(
        self, handler_pools: Iterable[HandlerPool], stop: Stop, *, stuck_seconds: float
    ) -> None:
        self._pools = tuple(handler_pools)
        self._stop = stop
        self._stuck_seconds = stuck_seconds
        self._logged: set[HandlerPool] = set()
        self._stuck: HandlerPool | None = None

    async def tick(self) -> dict[str, int]:
        """Look at each crew."""
        for handler_pool in self._pools:
            handler = handler_pool.handler
            if handler_pool.stuck_since is None:
                self._logged.discard(handler_pool)
                continue
            if handler_pool not in self._logged:
                self._logged.add(handler_pool)
                log.warning(
                    LogEvent.HANDLER_POOL_STUCK,
                    kind=handler.kind,
                    handler=handler.name,
                    calls=handler.options.concurrency,
                    ends_after_seconds=self._stuck_seconds or None,
                )
            if 0 < self._stuck_seconds <= monotonic() - handler_pool.stuck_since:
                self._stuck = handler_pool
                self._stop.request()
        return {}

    def raise_if_stuck(self) -> None:
        """Raise WorkerStuck where that is why the worker ended."""
        if self._stuck is None:
            return
        handler = self._stuck.handler
        raise WorkerStuck(
            f"Every call of {handler.name} for {handler.kind} is past its time of "
            f"{handler.options.timeout_seconds:g} s and none ends. Give what it waits for a time "
            "limit of its own; another worker must be started.",
            kind=handler.kind,
            handler=handler.name,
        )
