"""One partition as this worker sees it: what waits, what runs, and how far offsets may go."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.run.open_run import OpenRun


class TopicPartitionKey(NamedTuple):
    """A topic's partition; equal to Kafka's own pair."""

    topic: str
    partition: int


@final
class PartitionQueue:
    """Stretches of one partition: queued in offset order, being started, run.

    A feed lives from assignment to revocation. Runs outlive it: the fence decides about them,
    and a partition that comes back gets a new feed whose records start refuses as already begun.
    """

    def __init__(self) -> None:
        self.queued: deque[ClaimSlice] = deque()
        self.committed_offset = -1
        self._starting: list[ClaimSlice] = []
        self._running: list[OpenRun] = []
        self._end_offset = -1
        self._bytes = 0

    def add(self, stretches: Iterable[ClaimSlice], end_offset: int, size_bytes: int) -> None:
        """Queue what was polled, up to `end_offset`; it holds `size_bytes` of memory."""
        self._bytes = size_bytes + (self._bytes if self.queued else 0)
        self.queued.extend(stretches)
        self._end_offset = end_offset

    def buffered(self) -> int:
        """Count the items that wait to be started."""
        return sum(len(stretch.items) for stretch in self.queued)

    def is_full(self, items_max: int, bytes_max: int) -> bool:
        """Tell whether so many items wait, or what waits came with so many bytes."""
        return self.buffered() >= items_max or (bool(self.queued) and self._bytes >= bytes_max)

    def start_next(self, count: int) -> ClaimSlice:
        """Move up to `count` items of the first queued stretch to those being started."""
        first = self.queued[0]
        part = first.split(count) if count < len(first.items) else self.queued.popleft()
        self._starting.append(part)
        return part

    def requeue(self, part: ClaimSlice) -> None:
        """Queue again, in front, what was to be started. Of several parts, the last one first."""
        self._starting.remove(part)
        self.queued.appendleft(part)

    def drop(self, part: ClaimSlice) -> None:
        """Let the offsets go past a part that is not this worker's to run."""
        self._starting.remove(part)

    def replace_with_runs(self, part: ClaimSlice, runs: Iterable[OpenRun]) -> None:
        """Let the offsets wait for the runs instead of the part they were started from."""
        self._starting.remove(part)
        self._running.extend(runs)

    def committable_offset(self) -> int:
        """Return the lowest offset that is not settled: what may be committed, or -1."""
        self._running = [run for run in self._running if not run.is_settled]
        lowest = [run.low_offset for run in self._running]
        lowest += [part.first_offset for part in self._starting]
        if self.queued:
            lowest.append(self.queued[0].first_offset)
        return min(lowest, default=self._end_offset)
