"""The check for stuck handler pools: every slot is taken by a call that is past its timeout.

A thread cannot be stopped, nor can a coroutine that ignores its cancellation. Each keeps its slot;
otherwise calls would pile up without end. When they have all slots, this process can no longer work
the kind and its partitions, and must end so that another takes over.
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
    """A worker ended because a handler's calls never end. Start another worker."""

    code = "WORKER_STUCK"


@final
class StuckPoolCheck:
    """Logs stuck pools; requests a stop when one is stuck for `stuck_seconds`. 0 is never."""

    def __init__(
        self, handler_pools: Iterable[HandlerPool], stop: Stop, *, stuck_seconds: float
    ) -> None:
        self._pools = tuple(handler_pools)
        self._stop = stop
        self._stuck_seconds = stuck_seconds
        self._logged: set[HandlerPool] = set()
        self._stuck: HandlerPool | None = None

    async def tick(self) -> dict[str, int]:
        """Check each pool."""
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
        """Raise WorkerStuck if a stuck pool made the worker stop."""
        if self._stuck is None:
            return
        handler = self._stuck.handler
        raise WorkerStuck(
            f"Every call of {handler.name} for {handler.kind} is past its timeout of "
            f"{handler.options.timeout_seconds:g} s, and none ends. Set a timeout for what the "
            "handler waits for, and start another worker.",
            kind=handler.kind,
            handler=handler.name,
        )
