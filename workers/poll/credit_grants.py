"""Credit grants: how many items of each topic this worker wants to have waiting.

The allocator claims no more than live workers grant, less those that wait already. So items
that a worker cannot start soon stay in Postgres, and a dead worker is given none.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store.credits import grant_credits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dueledger.ledger.store import Pool
    from dueledger.workers.run.handler_pools import HandlerPools

CHECK_SECONDS: Final = 0.1
IDLE_CHECK_SECONDS: Final = 1.0  # while no items end
GRANT_SECONDS: Final = 5.0  # after this time a killed worker has no credit
RENEW_SECONDS: Final = GRANT_SECONDS / 3
WITHDRAW_SECONDS: Final = 2.0


@final
class DrainRate:
    """How many items of a topic end in a window of time: the larger of the last two windows.

    Ended items count, not started ones: a pool that fills up starts many items and ends none.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now = 0
        self._before = 0

    def add(self, items: int) -> None:
        """Count ended items."""
        self._now += items

    def next_window(self, windows: int) -> None:
        """Start a new window after `windows` windows are over."""
        self._before = self._now if windows == 1 else 0
        self._now = 0

    @property
    def items(self) -> int:
        """The items that end in a window."""
        return max(self._now, self._before)


@final
class CreditGrants:
    """Grants the items that end in a window, at least a floor a topic, and `items_max` in all.

    A worker that could do more than its credit uses it up several times in a window, so its grant
    grows by that factor: from a floor of 64 to 20,000 within half a second. A worker that slows
    down grants less after two windows. The floor is what a pool without measurements is certain to
    start soon.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        worker_no: int,
        window_seconds: float,
        items_max: int,
        floors: Callable[[], Mapping[str, int]],
        backlogs: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`backlogs` are, by topic, the items unread in Kafka or queued by this worker."""
        self._pool = pool
        self._worker_no = worker_no
        self._window_seconds = window_seconds
        self._items_max = items_max
        self._floors = floors
        self._backlogs = backlogs
        self._drains: dict[str, DrainRate] = {}
        self._granted: dict[str, int] = {}
        self._window_ends = monotonic() + window_seconds
        self._renew_at = float("-inf")
        self._wake = asyncio.Event()
        self._is_closed = False
        self._withdrawn = asyncio.Event()

    def add_ended(self, topic: str, items: int) -> None:
        """Count items of a topic that ended, whatever their outcome."""
        drain = self._drains.get(topic)
        if drain is None:
            drain = self._drains[topic] = DrainRate()
        if items and not drain.items:
            self._wake.set()
        drain.add(items)

    def wake(self) -> None:
        """Run the next tick at once: topics were assigned or revoked."""
        self._wake.set()

    async def withdraw(self) -> None:
        """Withdraw all credit. Returns when it is recorded, or after WITHDRAW_SECONDS."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake.set()
        await wait_for_event(self._withdrawn, WITHDRAW_SECONDS)

    async def tick(self) -> dict[str, int]:
        """Wait briefly; grant if demand changed enough, or a third of the grant's life is over."""
        is_idle = not any(drain.items for drain in self._drains.values())
        await wait_for_event(self._wake, IDLE_CHECK_SECONDS if is_idle else CHECK_SECONDS)
        self._wake.clear()
        now = monotonic()
        self._advance_windows(now)
        wanted = {} if self._is_closed else self._wanted()
        if self._withdrawn.is_set() or (now < self._renew_at and not self._differs(wanted)):
            return {}
        async with self._pool.acquire() as connection:
            await grant_credits(
                connection, self._worker_no, list(wanted), list(wanted.values()), GRANT_SECONDS
            )
        self._granted = wanted
        self._renew_at = now + RENEW_SECONDS
        if self._is_closed:
            self._withdrawn.set()
        return {}

    def _advance_windows(self, now: float) -> None:
        if now < self._window_ends:
            return
        windows = 1 + int((now - self._window_ends) / self._window_seconds)
        self._window_ends += windows * self._window_seconds
        for drain in self._drains.values():
            drain.next_window(windows)

    def _wanted(self) -> dict[str, int]:
        floors = self._floors()
        for topic in self._drains.keys() - floors.keys():
            del self._drains[topic]
        wanted = {
            topic: max(floor, drain.items if (drain := self._drains.get(topic)) else 0)
            for topic, floor in floors.items()
        }
        total = sum(wanted.values())
        if total > self._items_max:
            share = self._items_max / total
            wanted = {topic: -int(-items * share // 1) for topic, items in wanted.items()}
        return self._less_excess(wanted)

    def _less_excess(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Subtract the part of each backlog that exceeds what is wanted.

        Allocators subtract items of open claims themselves. A backlog beyond that has records of
        closed claims, or items of other workers' credit; either way enough lies there.
        """
        backlogs = self._backlogs()
        return {
            topic: max(0, items - max(0, backlogs.get(topic, 0) - items))
            for topic, items in wanted.items()
        }

    def _differs(self, wanted: Mapping[str, int]) -> bool:
        """Return whether topics changed, or one wants more than a quarter more, or less than half.

        An increase is granted at once, so that large flows do not wait. A decrease is granted only
        if it is a half, so that noise does not cost a statement each time.
        """
        return (
            self._is_closed
            or wanted.keys() != self._granted.keys()
            or any(
                items > 1.25 * granted or 2 * items < granted
                for items, granted in _pairs(wanted, self._granted)
            )
        )


def _pairs(one: Mapping[str, int], other: Mapping[str, int]) -> Iterable[tuple[int, int]]:
    return ((items, other[topic]) for topic, items in one.items())


def initial_credits(topics: Iterable[str], handler_pools: HandlerPools) -> dict[str, int]:
    """Return the credit of each topic before the speed of its kinds is measured."""
    by_topic = {
        handler_pool.handler.topic
        or work_topic(handler_pool.handler.kind): handler_pool.initial_credit_items
        for handler_pool in handler_pools
    }
    # A topic of another name may have items of any of its kinds.
    others = min(by_topic.values(), default=handler_pools.unknown_kind.initial_credit_items)
    return {topic: by_topic.get(topic, others) for topic in topics}
