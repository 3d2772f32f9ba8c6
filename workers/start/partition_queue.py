"""The queue of one partition: its queued, starting and running slices, and its offsets."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.open_run import OpenRun


class TopicPartitionKey(NamedTuple):
    """A topic's partition; equal to Kafka's own pair."""

    topic: str
    partition: int


@final
class PartitionQueue:
    """The slices of one partition: queued in offset order, being started, or running.

    A queue exists from assignment to revocation. Its runs may live longer: the fence decides about
    them. A partition that is assigned again gets a new queue; the ledger refuses to start the
    positions that were started before.
    """

    def __init__(self) -> None:
        self.queued: deque[ClaimSlice] = deque()
        self.committed_offset = -1
        self._starting: list[ClaimSlice] = []
        self._running: list[OpenRun] = []
        self._end_offset = -1
        self._bytes = 0

    def add(self, slices: Iterable[ClaimSlice], end_offset: int, size_bytes: int) -> None:
        """Queue polled slices, up to `end_offset`; they use `size_bytes` of memory."""
        self._bytes = size_bytes + (self._bytes if self.queued else 0)
        self.queued.extend(slices)
        self._end_offset = end_offset

    def buffered(self) -> int:
        """Return the number of items that wait to be started."""
        return sum(len(claim_slice.items) for claim_slice in self.queued)

    def is_full(self, items_max: int, bytes_max: int) -> bool:
        """Return whether the queue has `items_max` items or `bytes_max` bytes."""
        return self.buffered() >= items_max or (bool(self.queued) and self._bytes >= bytes_max)

    def start_next(self, count: int) -> ClaimSlice:
        """Move up to `count` items of the first queued slice to those being started."""
        first = self.queued[0]
        claim_slice = first.split(count) if count < len(first.items) else self.queued.popleft()
        self._starting.append(claim_slice)
        return claim_slice

    def requeue(self, claim_slice: ClaimSlice) -> None:
        """Put a slice back at the front. Of several slices, requeue the last one first."""
        self._starting.remove(claim_slice)
        self.queued.appendleft(claim_slice)

    def drop(self, claim_slice: ClaimSlice) -> None:
        """Remove a slice that this worker does not run; its offsets may be committed."""
        self._starting.remove(claim_slice)

    def replace_with_runs(self, claim_slice: ClaimSlice, runs: Iterable[OpenRun]) -> None:
        """Replace a slice by its runs; its offsets are committed when the runs are settled."""
        self._starting.remove(claim_slice)
        self._running.extend(runs)

    def committable_offset(self) -> int:
        """Return the offset to commit: the lowest that is not settled, or -1."""
        self._running = [run for run in self._running if not run.is_settled]
        lowest = [run.low_offset for run in self._running]
        lowest += [claim_slice.first_offset for claim_slice in self._starting]
        if self.queued:
            lowest.append(self.queued[0].first_offset)
        return min(lowest, default=self._end_offset)
