"""Progress of the assigned partitions: how much lies unread in each, and which are stalled.

A partition whose items wait for handlers makes progress if the first of them changes. Another one
does if its fetch position moves, or if a response of the broker says that nothing is left to read;
both come with the responses to fetches, and no request is made for them. One that makes none for
longer than the queue deadline is stalled. If it is not read, the consumer leaves the group after
twice that and joins it anew, provided the broker answers other connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.metrics.readings import greatest
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store.topic_partitions import (
    StalledPartition,
    list_queue_deadlines,
    record_stalled_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dueledger.ledger.kafka.fetch_position import FetchPosition
    from dueledger.ledger.store import Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.poll.work_consumer import WorkConsumer
    from dueledger.workers.start.partition_queue import PartitionQueue, TopicPartitionKey

CHECK_SECONDS: Final = 0.5
ELAPSED_SECONDS_MAX: Final = 2 * CHECK_SECONDS
"""Of a longer pause between two checks the process was stopped, and could not read."""
DEADLINES_SECONDS: Final = 60.0
REJOIN_CHECKS: Final = 2
"""The first may have been answered the moment the broker came back, before this consumer's."""

log = get_logger("worker")


@dataclass(slots=True)
class _ReadProgress:
    """The last progress of one partition, and how long ago it was."""

    at: FetchPosition
    waiting_from: int | None = None  # offset of the first item that waits for a handler
    idle_seconds: float = 0.0
    checks: int = 0  # so many queue deadlines passed since; not 0: it is stalled
    answered_checks: int = 0  # of these, the broker said on another connection what is unread

    def reset(self) -> None:
        """Count the time without progress from now on."""
        self.idle_seconds, self.checks, self.answered_checks = 0.0, 0, 0

    @property
    def next_offset(self) -> int | None:
        """Offset of what is handed to a handler next, or read next; None if it is not known yet."""
        return self.at.position if self.waiting_from is None else self.waiting_from

    @property
    def waits_for(self) -> str:
        """What a stalled partition waits for."""
        return "records" if self.waiting_from is None else "handlers"

    def move(self, now: FetchPosition, waiting_from: int | None, elapsed_seconds: float) -> None:
        """Compare with the check before."""
        read_up = now.is_read_up and now.answered_at != self.at.answered_at
        is_read = waiting_from is None and (now.position != self.at.position or read_up)
        if is_read or waiting_from != self.waiting_from:
            self.reset()
        else:
            self.idle_seconds += elapsed_seconds
        self.at, self.waiting_from = now, waiting_from


@final
class PartitionProgress:
    """Watches the partitions of one consumer. Stalls are logged, and recorded in the ledger."""

    def __init__(
        self,
        pool: Pool,
        consumer: WorkConsumer,
        queues: Mapping[TopicPartitionKey, PartitionQueue],
        counts: WorkerCounts,
        *,
        worker_no: int,
        full: Callable[[], Collection[TopicPartitionKey]],
    ) -> None:
        """`full` are the partitions that are not polled: their queues wait for the handlers."""
        self._pool = pool
        self._consumer = consumer
        self._queues = queues
        self._counts = counts
        self._worker_no = worker_no
        self._full = full
        self._progress: dict[TopicPartitionKey, _ReadProgress] = {}
        self._deadlines: dict[str, float] = {}
        self._deadlines_at = float("-inf")
        self._checked_at = monotonic()
        self._recorded: set[TopicPartitionKey] = set()
        self._is_closed = False
        self.backlogs: dict[str, int] = {}
        """By topic, the items that are in front of this worker: unread in Kafka, or queued."""

    def samples(self) -> list[Sample]:
        """Return how many partitions are assigned and stalled, and the longest stalls."""
        progress = self._progress.copy()
        stalled = [
            Sample(
                Metric.PARTITION_STALLED_SECONDS,
                each.idle_seconds,
                (key.topic, str(key.partition), each.waits_for),
            )
            for key, each in progress.items()
            if each.checks
        ]
        return [
            Sample(Metric.PARTITIONS_ASSIGNED, len(progress)),
            Sample(Metric.PARTITIONS_STALLED, len(stalled)),
            *greatest(stalled),
        ]

    def stop_checking(self) -> None:
        """Report no more stalls: the worker drains, and begins nothing."""
        self._is_closed = True

    async def tick(self) -> dict[str, int]:
        """Check the partitions; record the stalled ones if there are others than before."""
        if self._is_closed:
            return {}
        positions = self._consumer.positions()
        self.backlogs = self._backlogs(positions)
        now = monotonic()
        elapsed_seconds = min(now - self._checked_at, ELAPSED_SECONDS_MAX)
        self._checked_at = now
        self._move(positions, elapsed_seconds)
        await self._check_idle()  # by the deadlines known: Postgres may be away as well
        await self._read_deadlines({key.topic for key in positions})
        await self._record()
        return {}

    def _backlogs(self, positions: Mapping[TopicPartitionKey, FetchPosition]) -> dict[str, int]:
        backlogs: dict[str, int] = {}
        for key, position in positions.items():
            queue = self._queues.get(key)
            items = position.unread + (queue.buffered() if queue is not None else 0)
            backlogs[key.topic] = backlogs.get(key.topic, 0) + items
        return backlogs

    def _move(
        self, positions: Mapping[TopicPartitionKey, FetchPosition], elapsed_seconds: float
    ) -> None:
        for key in self._progress.keys() - positions.keys():
            del self._progress[key]
        for key, position in positions.items():
            progress = self._progress.get(key)
            queue = self._queues.get(key)
            waiting_from = queue.waiting_from() if queue is not None else None
            if progress is None:
                self._progress[key] = _ReadProgress(position, waiting_from)
            else:
                progress.move(position, waiting_from, elapsed_seconds)

    async def _read_deadlines(self, topics: set[str]) -> None:
        now = monotonic()
        if not topics or (now < self._deadlines_at and topics <= self._deadlines.keys()):
            return
        async with self._pool.acquire() as connection:
            found = await list_queue_deadlines(connection, sorted(topics))
        self._deadlines = {topic: found.get(topic, float("inf")) for topic in topics}
        self._deadlines_at = now + DEADLINES_SECONDS

    async def _check_idle(self) -> None:
        """Ask the broker what lies unread in partitions whose deadline passed once more."""
        overdue = {
            key: progress
            for key, progress in self._progress.items()
            if progress.idle_seconds
            > (progress.checks + 1) * self._deadlines.get(key.topic, float("inf"))
        }
        if not overdue:
            return
        ends = await self._consumer.read_ends(overdue)
        full = self._full()
        for key, progress in overdue.items():
            progress.checks += 1
            end = ends.get(key)
            is_waiting = progress.waiting_from is not None
            if not is_waiting and end is not None and end <= (progress.at.position or 0):
                progress.reset()  # nothing is there to read
                continue
            progress.answered_checks += end is not None and not is_waiting and key not in full
            if progress.checks == 1:
                self._counts.stalls += 1
                log.warning(LogEvent.PARTITION_STALLED, **_fields(key, progress), end=end)
            elif progress.answered_checks == REJOIN_CHECKS:
                # The broker answers others, so the fault is this consumer's.
                log.warning(LogEvent.CONSUMER_REJOINED, **_fields(key, progress), end=end)
                self._consumer.rejoin()
                progress.answered_checks = 0

    async def _record(self) -> None:
        stalled = {key: each for key, each in self._progress.items() if each.checks}
        if stalled.keys() == self._recorded:
            return
        async with self._pool.acquire() as connection:
            await record_stalled_partitions(
                connection,
                self._worker_no,
                [
                    StalledPartition(
                        *key, each.next_offset, each.waiting_from is not None, each.idle_seconds
                    )
                    for key, each in stalled.items()
                ],
            )
        for key in (self._recorded - stalled.keys()) & self._progress.keys():
            log.info(LogEvent.PARTITION_RESUMED, **_fields(key, self._progress[key]))
        self._recorded = set(stalled)


def _fields(key: TopicPartitionKey, progress: _ReadProgress) -> dict[str, object]:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "offset": progress.next_offset,
        "waits_for_handlers": progress.waiting_from is not None,
        "idle_seconds": round(progress.idle_seconds, 1),
    }
