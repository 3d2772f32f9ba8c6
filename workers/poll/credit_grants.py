"""Credits: how many items this worker wants waiting for it, a topic at a time.

The allocator claims no more than live workers grant, less what waits already. So what a crew
cannot start soon stays in Postgres, and a worker that is gone is given nothing more.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store.flow_limits import grant_credits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dueledger.ledger.store import Pool
    from dueledger.workers.run.handler_pool import HandlerPool

CHECK_SECONDS: Final = 0.1
GRANT_SECONDS: Final = 5.0  # a worker that was killed is given nothing more after this
RENEW_SECONDS: Final = GRANT_SECONDS / 3
WITHDRAW_SECONDS: Final = 2.0


@final
class DrainRate:
    """How much of a topic ends in a window of time: in this one or in the last, if that was more.

    What ends, not what starts: a crew that fills up from empty starts much and drains nothing.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now = 0
        self._before = 0

    def add(self, items: int) -> None:
        """Count what ended."""
        self._now += items

    def next_window(self, windows: int) -> None:
        """Begin a new window after so many are over."""
        self._before = self._now if windows == 1 else 0
        self._now = 0

    @property
    def items(self) -> int:
        """What a window drains."""
        return max(self._now, self._before)


@final
class CreditGrants:
    """Grants what drains in `window_seconds`, at least a topic's floor, all below `items_max`.

    A worker that its credits hold back drains them several times in a window, so a grant grows by
    that factor: from a floor of 64 to 20,000 within half a second. One that slows down wants less
    after two windows. The floor is what a crew that has not been measured surely starts soon.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        worker_no: int,
        window_seconds: float,
        items_max: int,
        floors: Callable[[], Mapping[str, int]],
    ) -> None:
        self._pool = pool
        self._worker_no = worker_no
        self._window_seconds = window_seconds
        self._items_max = items_max
        self._floors = floors
        self._drains: dict[str, DrainRate] = {}
        self._granted: dict[str, int] = {}
        self._window_ends = monotonic() + window_seconds
        self._renew_at = float("-inf")
        self._wake = asyncio.Event()
        self._is_closed = False
        self._withdrawn = asyncio.Event()

    def ended(self, topic: str, items: int) -> None:
        """Count items of a topic that ended, however they did."""
        drain = self._drains.get(topic)
        if drain is None:
            drain = self._drains[topic] = DrainRate()
        drain.add(items)

    def wake(self) -> None:
        """Look at once: topics came or went."""
        self._wake.set()

    async def withdraw(self) -> None:
        """Want nothing more; return once that is known, or after a while without the ledger."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake.set()
        await wait_for_event(self._withdrawn, WITHDRAW_SECONDS)

    async def tick(self) -> dict[str, int]:
        """Grant anew where what is wanted changed enough, or a third of the grants' life is over.

        Waits a moment first.
        """
        await wait_for_event(self._wake, CHECK_SECONDS)
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
        if total <= self._items_max:
            return wanted
        share = self._items_max / total
        return {topic: -int(-items * share // 1) for topic, items in wanted.items()}

    def _differs(self, wanted: Mapping[str, int]) -> bool:
        """Tell whether topics came or went, or one wants more, or far less, than it was granted.

        More is asked for at once, or a flood would wait for it; less by halves, or noise would be
        a statement each time.
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


def initial_credits(
    topics: Iterable[str], crews: Iterable[HandlerPool], unknown: HandlerPool
) -> dict[str, int]:
    """Return how many items of each topic may wait before its kinds were seen at work."""
    by_topic = {
        crew.handler.topic or work_topic(crew.handler.kind): crew.initial_credit_items
        for crew in crews
    }
    # A topic of another name may carry any of its kinds.
    others = min(by_topic.values(), default=unknown.initial_credit_items)
    return {topic: by_topic.get(topic, others) for topic in topics}
