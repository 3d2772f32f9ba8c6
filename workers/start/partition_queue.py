"""The queue of one partition: its queued, starting and running slices, and its offsets."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dueledger.ledger.claim_id import ClaimId
    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.open_run import OpenRun


class TopicPartitionKey(NamedTuple):
    """A topic's partition; equal to Kafka's own pair."""

    topic: str
    partition: int


class DroppedItems(NamedTuple):
    """Items of closed claims: `skipped` were started before, `stale` were not."""

    skipped: int
    stale: int


@final
class PartitionQueue:
    """The slices of one partition: queued in offset order, being started, or running.

    Suspects wait in a queue of their own, with a capacity of its own: nothing else waits until
    their pool has capacity.

    A queue exists from assignment to revocation. Its runs may live longer: the fence decides about
    them. A partition that is assigned again gets a new queue; the ledger refuses to start the
    positions that were started before.
    """

    def __init__(self) -> None:
        self.queued: deque[ClaimSlice] = deque()
        self.suspects: deque[ClaimSlice] = deque()
        self.committed_offset = -1
        self.is_behind = False  # its first records may be of closed claims
        self._starting: list[ClaimSlice] = []
        self._running: list[OpenRun] = []
        self._end_offset = -1
        self._bytes = self._suspect_bytes = 0.0

    def add(self, slices: Iterable[ClaimSlice], end_offset: int, size_bytes: int) -> None:
        """Queue polled slices, up to `end_offset`; they use `size_bytes` of memory."""
        slices = list(slices)
        suspects = _count(each for each in slices if each.suspects_max is not None)
        suspect_bytes = size_bytes * suspects / max(1, _count(slices))
        self._bytes = size_bytes - suspect_bytes + (self._bytes if self.queued else 0.0)
        self._suspect_bytes = suspect_bytes + (self._suspect_bytes if self.suspects else 0.0)
        for claim_slice in slices:
            self._queue_of(claim_slice).append(claim_slice)
        self._end_offset = end_offset

    @property
    def has_queued(self) -> bool:
        """Whether slices wait to be started."""
        return bool(self.queued or self.suspects)

    def queued_slices(self) -> Iterable[ClaimSlice]:
        """Return the slices that wait to be started, suspects last."""
        return chain(self.queued, self.suspects)

    def buffered(self) -> int:
        """Return the number of items that wait to be started, without suspects."""
        return _count(self.queued)

    def is_full(self, items_max: int, bytes_max: int) -> bool:
        """Return whether it has `items_max` items or `bytes_max` bytes, or as much of suspects."""
        waiting = ((self.queued, self._bytes), (self.suspects, self._suspect_bytes))
        return any(
            _count(queued) >= items_max or (len(queued) > 0 and size_bytes >= bytes_max)
            for queued, size_bytes in waiting
        )

    def start_next(self, count: int, *, suspects: bool = False) -> ClaimSlice:
        """Move up to `count` items of the first queued slice to those being started."""
        queued = self.suspects if suspects else self.queued
        first = queued[0]
        claim_slice = first.split(count) if count < len(first.items) else queued.popleft()
        self._starting.append(claim_slice)
        return claim_slice

    def requeue(self, claim_slice: ClaimSlice) -> None:
        """Put a slice back at the front. Of several slices, requeue the last one first."""
        self._starting.remove(claim_slice)
        self._queue_of(claim_slice).appendleft(claim_slice)

    def drop(self, claim_slice: ClaimSlice) -> None:
        """Remove a slice that this worker does not run; its offsets may be committed."""
        self._starting.remove(claim_slice)

    def drop_closed(self, closed: Mapping[ClaimId, int]) -> DroppedItems:
        """Remove the queued slices of closed claims; the numbers say how far each was started.

        An empty queue stays behind: the records that are polled next may be of closed claims, too.
        """
        skipped = stale = 0
        slices = list(self.queued_slices())
        self.queued.clear()
        self.suspects.clear()
        for claim_slice in slices:
            started_to = closed.get(claim_slice.claim_id)
            if started_to is None:
                self._queue_of(claim_slice).append(claim_slice)
                continue
            size = len(claim_slice.items)
            started = min(size, max(0, started_to - claim_slice.from_position + 1))
            skipped += started
            stale += size - started
        self.is_behind = not self.has_queued
        return DroppedItems(skipped, stale)

    def replace_with_runs(self, claim_slice: ClaimSlice, runs: Iterable[OpenRun]) -> None:
        """Replace a slice by its runs; its offsets are committed when the runs are settled."""
        self._starting.remove(claim_slice)
        self._running.extend(runs)

    def committable_offset(self) -> int:
        """Return the offset to commit: the lowest that is not settled, or -1."""
        self._running = [run for run in self._running if not run.is_settled]
        lowest = [run.low_offset for run in self._running]
        lowest += [claim_slice.first_offset for claim_slice in self._starting]
        if self.has_queued:
            lowest.append(self.first_queued_offset())
        return min(lowest, default=self._end_offset)

    def waiting_from(self) -> int | None:
        """Return the offset of the first item that waits for a handler, without suspects."""
        return self.queued[0].first_offset if self.queued else None

    def first_queued_offset(self) -> int:
        """Return the offset of the first item that waits to be started."""
        return min(queued[0].first_offset for queued in (self.queued, self.suspects) if queued)

    def _queue_of(self, claim_slice: ClaimSlice) -> deque[ClaimSlice]:
        return self.queued if claim_slice.suspects_max is None else self.suspects


def _count(slices: Iterable[ClaimSlice]) -> int:
    return sum(len(claim_slice.items) for claim_slice in slices)
