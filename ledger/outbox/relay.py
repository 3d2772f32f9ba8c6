"""The relay: reads an outbox, emits, and deletes what the ledger has.

There is no cursor. A row is carried once it is committed, whichever number it has, and deleted
after the ledger's commit. What is carried twice, after a crash or by two relays, is one item: its
business key decides. A relay carries rows in the order written, so of several with one key the
ledger keeps the first.
"""

from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, final

from dueledger.ledger.errors import InvalidItem, Unavailable
from dueledger.ledger.outbox.listener import OutboxListener
from dueledger.ledger.presence import Presence
from dueledger.ledger.runtime.service import Stop, crash_point
from dueledger.ledger.runtime.waiting import run_unless_stopped, wait_for_event
from dueledger.ledger.sleep import Sleep
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.outbox import (
    OutboxItem,
    count_outbox_items,
    emit_as_service,
    end_outbox_items,
    list_outbox_items,
)
from dueledger.ledger.store.processes import OUTBOX_COUNTED_MAX

REASON_CHARS_MAX: Final = 1_000
POLL_SECONDS: Final = 0.002
"""About how long a poll without rows takes."""
COUNT_SECONDS: Final = 5.0
"""As often as its row in the ledger is renewed."""


class Carried(NamedTuple):
    """The results of a batch: whether each item is new, and the reasons of those refused."""

    created: dict[int, bool]
    refusals: dict[int, str]


@final
class Relay:
    """One relay between an outbox and a ledger. Any number may run."""

    def __init__(
        self,
        outbox: Pool,
        ledger: Pool,
        listener: OutboxListener,
        *,
        batch_items_max: int,
        idle_seconds: float,
        stop: Stop,
        presence: Presence | None = None,
    ) -> None:
        self._outbox = outbox
        self._ledger = ledger
        self._listener = listener
        self._sleep = Sleep(listener, None)
        self._batch_items_max = batch_items_max
        self._idle_seconds = idle_seconds
        self._stop = stop
        self._presence = presence
        self._waiting_items = 0
        self._count_at = float("-inf")

    async def tick(self) -> dict[str, int]:
        """Carry one batch; return how many items are new, known already, and refused."""
        began_at = monotonic()
        try:
            return await self._carry()
        finally:
            if self._presence is not None:
                self._presence.report_tick(began_at, outbox_items=self._waiting_items)

    async def _carry(self) -> dict[str, int]:
        async with self._outbox.acquire() as outbox:
            items = await list_outbox_items(outbox, self._batch_items_max)
            await self._count(outbox, has_items=bool(items))
        if not items:
            return {}
        carried = Carried({}, {})
        async with self._ledger.acquire() as ledger:
            await _emit(ledger, items, carried)
        crash_point("relay.emitted")
        async with self._outbox.acquire() as outbox:
            await end_outbox_items(outbox, list(carried.created), carried.refusals)
        emitted = sum(carried.created.values())
        return {
            "emitted": emitted,
            "known": len(carried.created) - emitted,
            "refused": len(carried.refusals),
        }

    async def _count(self, outbox: Connection, *, has_items: bool) -> None:
        """Count the rows that wait, at most each `COUNT_SECONDS`."""
        if not has_items:
            self._waiting_items = 0
        elif monotonic() >= self._count_at:
            self._waiting_items = await count_outbox_items(outbox, OUTBOX_COUNTED_MAX)
            self._count_at = monotonic() + COUNT_SECONDS

    async def wait_for_rows(self) -> float:
        """Wait after a pass without rows, until one is written or for `idle_seconds`; return 0."""
        if self._listener.woken.is_set():
            self._sleep.woken()
        else:
            await self._sleep.end_if_busy(poll_seconds=POLL_SECONDS)
            with suppress(Unavailable):  # then it polls, and its pass says why
                await self._listener.open()
            seconds = await self._sleep.pause_seconds(self._idle_seconds, poll_seconds=POLL_SECONDS)
            await run_unless_stopped(wait_for_event(self._listener.woken, seconds), self._stop)
        self._listener.woken.clear()
        return 0.0


async def _emit(ledger: Connection, items: list[OutboxItem], carried: Carried) -> None:
    """Emit items in their order. Those with one that is refused are halved until it is alone."""
    try:
        created = await emit_as_service(ledger, items)
    except InvalidItem as error:
        if len(items) > 1:
            middle = len(items) // 2
            await _emit(ledger, items[:middle], carried)
            await _emit(ledger, items[middle:], carried)
        else:
            carried.refusals[items[0].outbox_no] = error.message[:REASON_CHARS_MAX]
    else:
        carried.created.update(zip((item.outbox_no for item in items), created, strict=True))
