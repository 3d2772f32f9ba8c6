"""A single pass (`--once`): the worker stops when nothing is due and nothing runs."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, final

from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import read_credits

if TYPE_CHECKING:
    from collections.abc import Collection

    from dueledger.ledger.runtime.service import Stop
    from dueledger.ledger.store import Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.settings import WorkerSettings

QUIET_SECONDS: Final = 5.0
FLOWS_MAX: Final = 20_000


class PassWorker(Protocol):
    """The worker, as its pass needs it."""

    counts: WorkerCounts

    def topics(self) -> Collection[str]:
        """Return the topics that it works."""
        ...

    def is_busy(self) -> bool:
        """Return whether it has queued or running items, or has not joined the group yet."""
        ...


@final
class SinglePass:
    """Requests a worker's stop when its pass is over.

    The pass is over when none of its topics has due rows or claimed items, and the worker has no
    queued or running items. It is also over when nothing came for `QUIET_SECONDS`, because no
    allocator runs or limits allow no items; and after `worker_once_timeout_seconds`.
    """

    def __init__(
        self,
        pool: Pool,
        worker: PassWorker,
        settings: WorkerSettings,
        stop: Stop,
    ) -> None:
        self._pool = pool
        self._worker = worker
        self._stop = stop
        self._ends_at = monotonic() + settings.worker_once_timeout_seconds
        self._changed_at = monotonic()
        self._seen: dict[str, int] = {}

    async def tick(self) -> dict[str, int]:
        """Request the stop if the pass is over."""
        now = monotonic()
        seen = self._worker.counts.snapshot()
        if self._worker.is_busy() or seen != self._seen:
            self._seen, self._changed_at = seen, now
        if (
            now >= self._ends_at
            or now - self._changed_at >= QUIET_SECONDS
            or (self._changed_at < now and not await self._has_due_work())
        ):
            self._stop.request()
        return {}

    async def _has_due_work(self) -> bool:
        topics = sorted(self._worker.topics())
        async with self._pool.acquire() as connection:
            # Due rows first: a row that is claimed in between is then counted as outstanding.
            flows = await list_due_flows(connection, FLOWS_MAX)
            if any(flow.topic in topics and not flow.settled_by_topic for flow in flows):
                return True
            credits_ = await read_credits(connection, topics)
        return any(credit.outstanding for credit in credits_) or self._worker.is_busy()
