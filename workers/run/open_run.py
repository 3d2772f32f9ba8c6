"""An open run: the stretch of a claim this worker holds a lease on, and how its items end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from dueledger.workers.claim_slices import Unreadable
from dueledger.workers.verdict_outcomes import Ending, SnoozedUntil, parked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from dueledger.ledger.store.runs import Start
    from dueledger.workers.claim_slices import Stretch
    from dueledger.workers.item import DueItem

MARGIN: Final = 1 / 6  # of what is left of a lease: in it handlers are stopped


@final
class OpenRun:
    """Its items by index from 0. Each ends once here, is then sent, and once answered settled.

    `held_until` is monotonic and errs to the early side: it counts from before the lease was
    asked for. At `stop_at`, a little earlier, its handlers must stop. Once `is_stopped` nothing
    ends any more; what had ended before is still sent, because whether the lease was really lost
    only the ledger knows. `is_cancelled` tells that this worker cancelled the handlers: any other
    cancellation is a handler's own. Until `waited_until`, monotonic, what must not run beside it
    waits. `topic` is where it came from, empty where there is none.
    """

    __slots__ = (
        "_ended",
        "_fresh",
        "_low",
        "_settled",
        "_told",
        "fence",
        "first_offset",
        "fresh_count",
        "from_position",
        "has_until",
        "held_until",
        "is_alone",
        "is_cancelled",
        "is_stopped",
        "items",
        "kind",
        "open_count",
        "run_no",
        "stop_at",
        "tasks",
        "topic",
        "unsettled_count",
        "waited_until",
    )

    def __init__(self, start: Start, part: Stretch, *, held_until: float, topic: str = "") -> None:
        if start.run_no is None:
            raise ValueError("a refused start opens no run")
        size = len(part.items)
        self.run_no = start.run_no
        self.kind = part.kind
        self.topic = topic
        self.fence = part.fence
        self.from_position = part.from_position
        self.first_offset = part.first_offset
        self.items = part.items
        self.held_until = held_until
        self.stop_at = held_until - (start.held_seconds or 0.0) * MARGIN
        self.is_alone = part.is_alone
        self.is_cancelled = False
        self.is_stopped = False
        self.waited_until = 0.0
        self.has_until = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.open_count = size
        self.unsettled_count = size
        self.fresh_count = 0
        self._low = 0
        self._told = 0
        self._ended = bytearray(size)
        self._settled = bytearray(size)
        self._fresh: list[Ending | None] = [None] * size
        for position in start.withdrawn:
            self.end_in_ledger(position - self.from_position)

    def hold(self, asked_at: float, seconds: float) -> None:
        """Note that its lease runs for so long from when that was asked."""
        self.held_until = asked_at + seconds
        self.stop_at = self.held_until - seconds * MARGIN

    @property
    def is_settled(self) -> bool:
        """Whether the ledger has every outcome, or the run is no longer this worker's."""
        return self.unsettled_count == 0

    @property
    def low_offset(self) -> int:
        """The offset of the first item that is not settled."""
        return self.first_offset + self._low

    def park_unreadable(self) -> None:
        """End what no handler can be shown."""
        for index, item in enumerate(self.items):
            if isinstance(item, Unreadable):
                self.end(index, parked(item.reason))

    def workable(self) -> list[tuple[int, DueItem]]:
        """Return index and item of all that a handler is to see."""
        return [
            (index, item)
            for index, item in enumerate(self.items)
            if not isinstance(item, Unreadable) and not self._ended[index]
        ]

    def end(self, index: int, ending: Ending) -> None:
        """Note how an item ended, unless it has ended or the run was stopped."""
        if self.is_stopped or self._ended[index]:
            return
        self._ended[index] = 1
        self._fresh[index] = ending
        self.fresh_count += 1
        self.open_count -= 1
        if isinstance(ending, SnoozedUntil):
            self.has_until = True

    def end_many(self, endings: Iterable[tuple[int, Ending]]) -> None:
        """Note how several items ended."""
        for index, ending in endings:
            self.end(index, ending)

    def end_in_ledger(self, index: int) -> None:
        """Note an item whose end is in the ledger already: withdrawn, or settled on its own."""
        if not self._ended[index]:
            self._ended[index] = 1
            self.open_count -= 1
        if not self._settled[index]:
            self._settled[index] = 1
            self.unsettled_count -= 1
            self._advance()

    def take_ended(self) -> int:
        """Count what ended since the last call."""
        ended = len(self._ended) - self.open_count
        count, self._told = ended - self._told, ended
        return count

    def take_fresh(self) -> list[Ending | None]:
        """Return what ended since the last call, a slot an item; it must then be sent."""
        fresh = self._fresh
        self._fresh = [None] * len(fresh)
        self.fresh_count = 0
        return fresh

    def mark_settled(self, sent: Sequence[object]) -> None:
        """Note that the ledger has the outcomes that were sent."""
        if self.unsettled_count == len(sent) and None not in sent:
            self.unsettled_count = 0
            self._low = len(sent)
            return
        for index, ending in enumerate(sent):
            if ending is not None and not self._settled[index]:
                self._settled[index] = 1
                self.unsettled_count -= 1
        self._advance()

    def cancel_handlers(self) -> None:
        """Cancel what runs."""
        self.is_cancelled = True
        for task in self.tasks:
            task.cancel()

    def stop_handlers(self) -> None:
        """Cancel what runs; what has not ended by now never will, here."""
        self.is_stopped = True
        self.cancel_handlers()

    def forget(self) -> None:
        """Stop the handlers and let the offsets go on: the run is no longer this worker's."""
        self.stop_handlers()
        self.unsettled_count = 0

    def _advance(self) -> None:
        size = len(self._settled)
        while self._low < size and self._settled[self._low]:
            self._low += 1
