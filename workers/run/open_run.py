"""An open run: the stretch of a claim this worker holds a lease on, and how its items end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from dueledger.workers.claim_slices import UnreadableItem
from dueledger.workers.verdict_outcomes import ItemOutcome, SnoozedUntil, parked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from dueledger.ledger.store.runs import StartResult
    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.item import DueItem

LEASE_MARGIN: Final = 1 / 6  # of what is left of a lease: in it handlers are stopped


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
        "_ended_reported",
        "_settled",
        "_settled_prefix",
        "_unsent",
        "fence",
        "first_offset",
        "from_position",
        "handler_deadline",
        "has_snooze_until",
        "is_alone",
        "is_cancelled",
        "is_stopped",
        "items",
        "kind",
        "lease_until",
        "open_count",
        "run_no",
        "stop_at",
        "tasks",
        "topic",
        "unsent_count",
        "unsettled_count",
    )

    def __init__(
        self, start: StartResult, claim_slice: ClaimSlice, *, lease_until: float, topic: str = ""
    ) -> None:
        if start.run_no is None:
            raise ValueError("a refused start opens no run")
        size = len(claim_slice.items)
        self.run_no = start.run_no
        self.kind = claim_slice.kind
        self.topic = topic
        self.fence = claim_slice.fence
        self.from_position = claim_slice.from_position
        self.first_offset = claim_slice.first_offset
        self.items = claim_slice.items
        self.lease_until = lease_until
        self.stop_at = lease_until - (start.lease_seconds or 0.0) * LEASE_MARGIN
        self.is_alone = claim_slice.is_alone
        self.is_cancelled = False
        self.is_stopped = False
        self.handler_deadline = 0.0
        self.has_snooze_until = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.open_count = size
        self.unsettled_count = size
        self.unsent_count = 0
        self._settled_prefix = 0
        self._ended_reported = 0
        self._ended = bytearray(size)
        self._settled = bytearray(size)
        self._unsent: list[ItemOutcome | None] = [None] * size
        for position in start.withdrawn:
            self.mark_ended_in_ledger(position - self.from_position)

    def extend_lease(self, asked_at: float, seconds: float) -> None:
        """Note that its lease runs for so long from when that was asked."""
        self.lease_until = asked_at + seconds
        self.stop_at = self.lease_until - seconds * LEASE_MARGIN

    @property
    def is_settled(self) -> bool:
        """Whether the ledger has every outcome, or the run is no longer this worker's."""
        return self.unsettled_count == 0

    @property
    def low_offset(self) -> int:
        """The offset of the first item that is not settled."""
        return self.first_offset + self._settled_prefix

    def park_unreadable(self) -> None:
        """End what no handler can be shown."""
        for index, item in enumerate(self.items):
            if isinstance(item, UnreadableItem):
                self.end(index, parked(item.reason))

    def items_to_run(self) -> list[tuple[int, DueItem]]:
        """Return index and item of all that a handler is to see."""
        return [
            (index, item)
            for index, item in enumerate(self.items)
            if not isinstance(item, UnreadableItem) and not self._ended[index]
        ]

    def end(self, index: int, outcome: ItemOutcome) -> None:
        """Note how an item ended, unless it has ended or the run was stopped."""
        if self.is_stopped or self._ended[index]:
            return
        self._ended[index] = 1
        self._unsent[index] = outcome
        self.unsent_count += 1
        self.open_count -= 1
        if isinstance(outcome, SnoozedUntil):
            self.has_snooze_until = True

    def end_many(self, outcomes: Iterable[tuple[int, ItemOutcome]]) -> None:
        """Note how several items ended."""
        for index, outcome in outcomes:
            self.end(index, outcome)

    def mark_ended_in_ledger(self, index: int) -> None:
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
        count, self._ended_reported = ended - self._ended_reported, ended
        return count

    def take_unsent(self) -> list[ItemOutcome | None]:
        """Return what ended since the last call, a slot an item; it must then be sent."""
        fresh = self._unsent
        self._unsent = [None] * len(fresh)
        self.unsent_count = 0
        return fresh

    def mark_settled(self, sent: Sequence[object]) -> None:
        """Note that the ledger has the outcomes that were sent."""
        if self.unsettled_count == len(sent) and None not in sent:
            self.unsettled_count = 0
            self._settled_prefix = len(sent)
            return
        for index, outcome in enumerate(sent):
            if outcome is not None and not self._settled[index]:
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

    def abandon(self) -> None:
        """Stop the handlers and let the offsets go on: the run is no longer this worker's."""
        self.stop_handlers()
        self.unsettled_count = 0

    def _advance(self) -> None:
        size = len(self._settled)
        while self._settled_prefix < size and self._settled[self._settled_prefix]:
            self._settled_prefix += 1
