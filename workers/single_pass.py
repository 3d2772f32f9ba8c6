"""One pass of a worker: until nothing is due and nothing is in hand, or nothing comes."""

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
    """The worker as its pass sees it."""

    counts: WorkerCounts

    def topics(self) -> Collection[str]:
        """Return the topics it works."""
        ...

    def is_busy(self) -> bool:
        """Tell whether it has anything in hand, or is not there yet."""
        ...


@final
class SinglePass:
    """Asks a worker to stop once its pass is over.

    That is when none of its topics has due rows or items on their way, and it has nothing in hand
    itself; or when nothing came for `QUIET_SECONDS`, since no allocator runs or limits hold back
    what is due; or after `worker_once_timeout_seconds`, for where there is always more.
    """

    def __init__(
        self,
        pool: Pool,
        working: PassWorker,
        settings: WorkerSettings,
        stop: Stop,
    ) -> None:
        self._pool = pool
        self._worker = working
        self._stop = stop
        self._ends_at = monotonic() + settings.worker_once_timeout_seconds
        self._changed_at = monotonic()
        self._seen: dict[str, int] = {}

    async def tick(self) -> dict[str, int]:
        """Look whether the pass is over."""
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
            # Due rows first: what is claimed in between is then seen on its way.
            flows = await list_due_flows(connection, FLOWS_MAX)
            if any(flow.topic in topics and not flow.settled_by_topic for flow in flows):
                return True
            credits_ = await read_credits(connection, topics)
        return any(credit.outstanding for credit in credits_) or self._worker.is_busy()
