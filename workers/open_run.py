"""An open run: a started slice of a claim, its lease, and the outcomes of its items."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, cast, final

from dueledger.workers.claim_slices import UnreadableItem
from dueledger.workers.verdict_outcomes import ItemOutcome, SnoozedUntil, parked, released

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from dueledger.ledger.store.runs import StartResult
    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.item import DueItem

LEASE_MARGIN: Final = 1 / 6  # handlers are stopped in the last sixth of a lease
NOT_BEGUN: Final = released("other items ran until its run had to end")


class RunPart(NamedTuple):
    """Some items of a run: of how many they are, and the index of each among these."""

    size: int
    indexes: Sequence[int]


class CallState(IntEnum):
    """Whether an item was given to its handler.

    WAITS: again, after a call that had to be repeated, or for the commit of its chunk.

    In the last sixth of its run, an item that is NOT_BEGUN is released, and one IN_CALL overruns.
    """

    NOT_BEGUN = 0
    IN_CALL = 1
    WAITS = 2


@final
class OpenRun:
    """The items of a run by index from 0. Each ends once, is then sent, and at last is settled.

    `lease_until` is monotonic and rather too early: it counts from before the request. Handlers
    must stop at `stop_at`, a little earlier. Once `is_stopped` no item ends any more. Outcomes from
    before are still sent, because only the ledger knows whether the lease was lost. `is_cancelled`:
    this worker cancelled the handlers; any other cancellation is a handler's own. `topic` is the
    source of the items, or empty. Of suspects at most `suspects_max` may run together. `on_call` is
    called at each change of an item's CallState. `part`: what the items are of the run, if not all.
    """

    __slots__ = (
        "_call_states",
        "_ended",
        "_ended_reported",
        "_on_call",
        "_settled",
        "_settled_prefix",
        "_unsent",
        "fence",
        "first_offset",
        "from_position",
        "has_snooze_until",
        "id",
        "is_abandoned",
        "is_cancelled",
        "is_stopped",
        "items",
        "kind",
        "lease_until",
        "open_count",
        "part",
        "run_no",
        "stop_at",
        "suspects_max",
        "tasks",
        "topic",
        "unsent_count",
        "unsettled_count",
    )

    def __init__(
        self,
        start: StartResult,
        claim_slice: ClaimSlice,
        *,
        lease_until: float,
        topic: str = "",
        on_call: Callable[[OpenRun, Sequence[int], CallState], None] | None = None,
        part: RunPart | None = None,
    ) -> None:
        if start.run is None:
            raise ValueError("a refused start opens no run")
        size = len(claim_slice.items)
        self.id = start.run
        self.run_no = start.run.run_no
        self.kind = claim_slice.kind
        self.topic = topic
        self.fence = claim_slice.fence
        self.from_position = claim_slice.from_position
        self.first_offset = claim_slice.first_offset
        self.items = claim_slice.items
        self.part = part or RunPart(size, range(size))
        self.lease_until = lease_until
        self.stop_at = lease_until - (start.lease_seconds or 0.0) * LEASE_MARGIN
        self.suspects_max = claim_slice.suspects_max
        self.is_cancelled = False
        self.is_stopped = False
        self.is_abandoned = False
        self.has_snooze_until = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.open_count = size
        self.unsettled_count = size
        self.unsent_count = 0
        self._settled_prefix = 0
        self._ended_reported = 0
        self._on_call = on_call
        self._call_states = bytearray(size)
        self._ended = bytearray(size)
        self._settled = bytearray(size)
        self._unsent: list[ItemOutcome | None] = [None] * size
        for position in start.withdrawn:
            self.mark_ended_in_ledger(position - self.from_position)

    def extend_lease(self, asked_at: float, seconds: float) -> None:
        """Record that the lease lasts for `seconds` from `asked_at`."""
        self.lease_until = asked_at + seconds
        self.stop_at = self.lease_until - seconds * LEASE_MARGIN

    @property
    def is_settled(self) -> bool:
        """Whether the ledger has every outcome, or the run was abandoned."""
        return self.is_abandoned or self.unsettled_count == 0

    @property
    def low_offset(self) -> int:
        """The offset of the first item that is not settled."""
        return self.first_offset + self._settled_prefix

    def park_unreadable(self) -> None:
        """Park the unreadable items."""
        for index, item in enumerate(self.items):
            if isinstance(item, UnreadableItem):
                self.end(index, parked(item.reason))

    def items_to_run(self) -> list[tuple[int, DueItem]]:
        """Return index and item of all items to call the handler for."""
        if self.open_count == len(self.items) and UnreadableItem not in set(map(type, self.items)):
            return list(enumerate(cast("list[DueItem]", self.items)))
        return [
            (index, item)
            for index, item in enumerate(self.items)
            if not isinstance(item, UnreadableItem) and not self._ended[index]
        ]

    def without_ended(self, work: Sequence[tuple[int, DueItem]]) -> list[tuple[int, DueItem]]:
        """Return those of these items that have not ended here or in the ledger."""
        ended = self._ended
        return [each for each in work if not ended[each[0]]]

    def mark_calls(self, indexes: Sequence[int], state: CallState) -> None:
        """Record where items are."""
        for index in indexes:
            self._call_states[index] = state
        if self._on_call is not None:
            self._on_call(self, indexes, state)

    def release_unbegun(self) -> None:
        """Release the items that no handler was given: this run must end."""
        self.end_many(
            (index, NOT_BEGUN)
            for index, _ in self.items_to_run()
            if self._call_states[index] == CallState.NOT_BEGUN
        )

    def bits_in_call(self) -> list[bool]:
        """Return for each item whether its handler works it."""
        return [
            state == CallState.IN_CALL and not ended
            for state, ended in zip(self._call_states, self._ended, strict=True)
        ]

    def end(self, index: int, outcome: ItemOutcome) -> None:
        """Record an item's outcome, unless it has ended or the run was stopped."""
        self.end_many([(index, outcome)])

    def end_many(self, outcomes: Iterable[tuple[int, ItemOutcome]]) -> None:
        """Record the outcomes of several items, as `end` does for each."""
        ended, unsent = self._ended, self._unsent
        for index, outcome in outcomes:
            if self.is_stopped or ended[index]:
                continue
            ended[index] = 1
            unsent[index] = outcome
            self.unsent_count += 1
            self.open_count -= 1
            if type(outcome) is SnoozedUntil:
                self.has_snooze_until = True

    def mark_ended_in_ledger(self, index: int) -> None:
        """Record that the ledger has an item's outcome: withdrawn, or settled on its own."""
        if not self._ended[index]:
            self._ended[index] = 1
            self.open_count -= 1
        if not self._settled[index]:
            self._settled[index] = 1
            self.unsettled_count -= 1
            self._advance()

    def take_ended(self) -> int:
        """Return the number of items that ended since the last call."""
        ended = len(self._ended) - self.open_count
        count, self._ended_reported = ended - self._ended_reported, ended
        return count

    def take_unsent(self) -> list[ItemOutcome | None]:
        """Return the outcomes since the last call, one entry an item. The caller must send them."""
        fresh = self._unsent
        self._unsent = [None] * len(fresh)
        self.unsent_count = 0
        return fresh

    def mark_settled(self, sent: Sequence[object]) -> None:
        """Record that the ledger has the outcomes that were sent."""
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
        """Cancel the running handlers."""
        self.is_cancelled = True
        for task in self.tasks:
            task.cancel()

    def stop_handlers(self) -> None:
        """Cancel the running handlers; no item ends here after this."""
        self.is_stopped = True
        self.cancel_handlers()

    def abandon(self) -> None:
        """Stop the handlers and count the run as settled: it is no longer this worker's."""
        self.stop_handlers()
        self.is_abandoned = True

    def _advance(self) -> None:
        size = len(self._settled)
        while self._settled_prefix < size and self._settled[self._settled_prefix]:
            self._settled_prefix += 1
