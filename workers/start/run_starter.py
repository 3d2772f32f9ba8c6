"""Starting: what the crews have room for now, asked of the ledger in one statement."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store.runs import StartResult, start_runs
from dueledger.workers.run.open_run import OpenRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dueledger.ledger.store import Pool
    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.poll.partition_queue import PartitionQueue, TopicPartitionKey
    from dueledger.workers.run.handler_pool import HandlerPool

IDLE_SECONDS: Final = 0.25
STRETCHES_MAX: Final = 500  # of one statement

log = get_logger("worker")


class RunListener(Protocol):
    """Who takes over a run that was started."""

    def on_run_opened(self, run: OpenRun, crew: HandlerPool) -> None:
        """Keep its lease and work it; room is reserved for all its items."""
        ...

    def pool_for(self, kind: str, topic: str) -> HandlerPool:
        """Return who works a kind out of a topic."""
        ...


class _SliceToStart(NamedTuple):
    topic: str
    feed: PartitionQueue
    part: ClaimSlice
    crew: HandlerPool


@final
class RunStarter:
    """Starts stretches in the order of their offsets, one of a claim at a time."""

    def __init__(
        self,
        pool: Pool,
        feeds: Mapping[TopicPartitionKey, PartitionQueue],
        runs: Mapping[int, OpenRun],
        counts: WorkerCounts,
        *,
        opened: RunListener,
        worker_no: int,
        lease_seconds: float,
        batch_wait_seconds: float,
    ) -> None:
        self._pool = pool
        self._feeds = feeds
        self._runs = runs
        self._counts = counts
        self._listener = opened
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds
        self._batch_wait_seconds = batch_wait_seconds
        self._wake = asyncio.Event()
        self._turn = 0
        self._has_queued = False
        self._is_closed = False

    def wake(self) -> None:
        """Look again: something was queued, or a crew has room."""
        self._wake.set()

    def stop_starting(self) -> None:
        """Start nothing more: the worker drains."""
        self._is_closed = True

    async def tick(self) -> dict[str, int]:
        """Start what the crews have room for; wait a moment where there is nothing."""
        if not self._wake.is_set():
            await wait_for_event(self._wake, IDLE_SECONDS)
        if self._batch_wait_seconds and self._has_queued:
            # A crew that is full ends one call after the other: let some end together.
            await asyncio.sleep(self._batch_wait_seconds)
        self._wake.clear()
        chosen = self._choose()
        self._has_queued = any(feed.queued for feed in self._feeds.values())
        if not chosen:
            return {"started": 0}
        self._wake.set()
        asked_at = monotonic()
        by_fence = sorted(chosen, key=lambda one: one.part.fence)
        try:
            async with self._pool.acquire() as connection:
                answers = await start_runs(
                    connection,
                    [one.part.fence for one in by_fence],
                    [one.part.from_position for one in by_fence],
                    [one.part.to_position for one in by_fence],
                    worker_no=self._worker_no,
                    lease_seconds=self._lease_seconds,
                    run_items_max=[one.crew.run_items_max for one in by_fence],
                )
        except BaseException:
            # If it was committed nevertheless, asking again says so, and the lease brings it back.
            for one in reversed(chosen):
                one.crew.release(len(one.part.items))
                one.feed.requeue(one.part)
            raise
        crash_point("worker.started")
        by_number: dict[int, list[StartResult]] = {}
        for answer in answers:
            by_number.setdefault(answer.fence, []).append(answer)
        self._apply_results([(one, by_number[one.part.fence]) for one in chosen], asked_at)
        return {"started": len(chosen)}

    def _choose(self) -> list[_SliceToStart]:
        """Take turns between partitions, and from each what its crews have room for."""
        if self._is_closed or self._must_wait_for_alone():
            return []
        feeds = list(self._feeds.items())
        self._turn += 1
        chosen: list[_SliceToStart] = []
        fences: set[int] = set()
        for number in range(len(feeds)):
            partition, feed = feeds[(self._turn + number) % len(feeds)]
            while feed.queued and len(chosen) < STRETCHES_MAX:
                first = feed.queued[0]
                crew = self._listener.pool_for(first.kind, partition.topic)
                if crew.free_items == 0 or first.fence in fences:
                    break
                if first.is_alone and chosen:
                    break
                part = feed.start_next(1 if first.is_alone else crew.free_items)
                crew.reserve(len(part.items))
                fences.add(part.fence)
                chosen.append(_SliceToStart(partition.topic, feed, part, crew))
                if first.is_alone:
                    return chosen
        return chosen

    def _must_wait_for_alone(self) -> bool:
        """Tell whether what runs must stay alone, or must end before one that must runs.

        An item whose worker died is either what killed it or was beside it. Alone, it shows. What
        outlasts its handler's time is not waited for: one item must not stall all others.
        """
        now = monotonic()
        waited = [run for run in self._runs.values() if now < run.handler_deadline]
        if any(run.is_alone for run in waited):
            return True
        return bool(waited) and any(
            feed.queued and feed.queued[0].is_alone for feed in self._feeds.values()
        )

    def _apply_results(
        self, answered: Sequence[tuple[_SliceToStart, Sequence[StartResult]]], asked_at: float
    ) -> None:
        for one, answers in answered:
            if answers[0].run_no is None:
                one.crew.release(len(one.part.items))
                continue
            withdrawn = sum(len(answer.withdrawn) for answer in answers)
            self._counts.started += len(one.part.items) - withdrawn
            self._counts.withdrawn += withdrawn
            runs = _runs(answers, one, asked_at)
            for run in runs:
                run.handler_deadline = monotonic() + one.crew.handler.options.timeout_seconds
            one.feed.replace_with_runs(one.part, runs)
            for run in runs:
                self._listener.on_run_opened(run, one.crew)
        for one, answers in reversed(answered):
            if answers[0].run_no is None:
                self._drop_or_requeue(one.feed, one.part, answers[0])

    def _drop_or_requeue(self, feed: PartitionQueue, part: ClaimSlice, answer: StartResult) -> None:
        """Go on from where the claim was started, or let go of what cannot be started."""
        ahead = answer.started_to - part.from_position + 1
        size = len(part.items)
        if ahead >= size:
            self._counts.skipped += size
            feed.drop(part)
        elif answer.closed:
            self._counts.stale += size
            feed.drop(part)
            log.info(LogEvent.START_REFUSED, fence=part.fence, items=size)
        elif ahead > 0:
            self._counts.skipped += ahead
            part.split(ahead)
            feed.requeue(part)
        elif ahead == 0:
            feed.requeue(part)  # another start of this claim was under way: ask again
        else:
            # A hole: what lies before was never started. The claim's deadline brings both back.
            self._counts.after_gap += size
            feed.drop(part)
            log.warning(
                LogEvent.CLAIM_GAP_FOUND,
                fence=part.fence,
                started_to=answer.started_to,
                from_position=part.from_position,
                items=size,
            )


def _runs(answers: Sequence[StartResult], one: _SliceToStart, asked_at: float) -> list[OpenRun]:
    """Return the runs that a stretch was started as; its part keeps the last one's items."""
    runs: list[OpenRun] = []
    for answer in answers:
        size = answer.to_position - answer.from_position + 1
        piece = one.part.split(size) if size < len(one.part.items) else one.part
        held_until = asked_at + (answer.lease_seconds or 0.0)
        runs.append(OpenRun(answer, piece, held_until=held_until, topic=one.topic))
    return runs
