"""The run starter: starts as many items as the handler pools have capacity for."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store import ReconnectingConnection
from dueledger.ledger.store.runs import StartRefusal, StartResult, start_runs
from dueledger.workers.lost_runs import LostRuns
from dueledger.workers.open_run import OpenRun
from dueledger.workers.start.closed_claims import drop_closed_claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dueledger.ledger.store import Pool
    from dueledger.workers.claim_slices import ClaimSlice
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.run.handler_pools import HandlerPools
    from dueledger.workers.run.listener import RunListener, RunPool
    from dueledger.workers.start.partition_queue import PartitionQueue, TopicPartitionKey

IDLE_SECONDS: Final = 0.25
SLICES_MAX: Final = 500  # of one statement

log = get_logger("worker")


class _SliceToStart(NamedTuple):
    topic: str
    queue: PartitionQueue
    claim_slice: ClaimSlice
    handler_pool: RunPool


@final
class RunStarter:
    """Starts slices in the order of their offsets, one slice of a claim at a time."""

    def __init__(
        self,
        pool: Pool,
        queues: Mapping[TopicPartitionKey, PartitionQueue],
        counts: WorkerCounts,
        *,
        listener: RunListener,
        pools: HandlerPools,
        worker_no: int,
        lease_seconds: float,
        batch_wait_seconds: float,
    ) -> None:
        self._pool = pool
        self._connection = ReconnectingConnection(pool)
        self._queues = queues
        self._counts = counts
        self._listener = listener
        self._pools = pools
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds
        self._batch_wait_seconds = batch_wait_seconds
        self._wake = asyncio.Event()
        self._next_partition = 0
        self._has_queued = False
        self._is_closed = False
        self._lost_runs = LostRuns(pool, worker_no)

    def wake(self) -> None:
        """Run the next tick at once: slices were queued."""
        self._wake.set()

    def wake_if_queued(self) -> None:
        """Run the next tick at once if slices wait: a pool has capacity."""
        if self._has_queued:
            self._wake.set()

    def stop_starting(self) -> None:
        """Start no more slices: the worker drains."""
        self._is_closed = True

    async def release_lost(self) -> None:
        """Release what was started in a lost response; the process may end after this."""
        await self._lost_runs.release()

    async def tick(self) -> dict[str, int]:
        """Start slices in one statement; wait briefly if there is nothing to start."""
        if not self._wake.is_set():
            await wait_for_event(self._wake, IDLE_SECONDS)
        if self._batch_wait_seconds and self._has_queued:
            # The calls of a full pool end one by one: wait until several have ended.
            await asyncio.sleep(self._batch_wait_seconds)
        self._wake.clear()
        await self._lost_runs.release()
        await drop_closed_claims(self._pool, self._queues, self._counts)
        chosen_slices = self._choose()
        self._has_queued = self._find_queued()
        if not chosen_slices:
            return {"started": 0}
        asked_at = monotonic()
        by_fence = sorted(chosen_slices, key=lambda chosen: chosen.claim_slice.fence)
        try:
            async with self._connection.acquire() as connection:
                start_results = await start_runs(
                    connection,
                    [chosen.claim_slice.claim_id for chosen in by_fence],
                    [chosen.claim_slice.from_position for chosen in by_fence],
                    [chosen.claim_slice.to_position for chosen in by_fence],
                    worker_no=self._worker_no,
                    lease_seconds=self._lease_seconds,
                    run_items_max=[chosen.handler_pool.run_items_max for chosen in by_fence],
                    isolations=[chosen.handler_pool.isolation for chosen in by_fence],
                )
        except BaseException as error:
            # If it was committed all the same, the next start is refused.
            self._lost_runs.start_failed(error)
            for chosen in reversed(chosen_slices):
                chosen.handler_pool.release(len(chosen.claim_slice.items))
                chosen.queue.requeue(chosen.claim_slice)
            self._has_queued = True
            self._wake.set()
            raise
        crash_point("worker.started")
        by_fence_no: dict[int, list[StartResult]] = {}
        for start_result in start_results:
            by_fence_no.setdefault(start_result.fence, []).append(start_result)
        self._apply_results(
            [(chosen, by_fence_no[chosen.claim_slice.fence]) for chosen in chosen_slices], asked_at
        )
        self._has_queued = self._find_queued()
        self.wake_if_queued()
        return {"started": len(chosen_slices)}

    def _find_queued(self) -> bool:
        return any(queue.has_queued for queue in self._queues.values())

    def _choose(self) -> list[_SliceToStart]:
        """Choose slices, up to the pools' capacity, beginning with another partition each time."""
        if self._is_closed:
            return []
        queues = list(self._queues.items())
        self._next_partition += 1
        chosen_slices: list[_SliceToStart] = []
        fences: set[int] = set()
        for number in range(len(queues)):
            partition, queue = queues[(self._next_partition + number) % len(queues)]
            for suspects in (False, True):
                queued = queue.suspects if suspects else queue.queued
                while queued and len(chosen_slices) < SLICES_MAX:
                    first = queued[0]
                    handler_pool = self._pool_for(first, partition.topic)
                    if handler_pool.free_items == 0 or first.fence in fences:
                        break
                    claim_slice = queue.start_next(handler_pool.free_items, suspects=suspects)
                    handler_pool.reserve(len(claim_slice.items))
                    fences.add(claim_slice.fence)
                    chosen_slices.append(
                        _SliceToStart(partition.topic, queue, claim_slice, handler_pool)
                    )
        return chosen_slices

    def _pool_for(self, claim_slice: ClaimSlice, topic: str) -> RunPool:
        handler_pool = self._pools.find(claim_slice.kind, topic)
        if claim_slice.suspects_max is None:
            return handler_pool
        return self._pools.for_suspects(handler_pool)

    def _apply_results(
        self, results: Sequence[tuple[_SliceToStart, Sequence[StartResult]]], asked_at: float
    ) -> None:
        for chosen, start_results in results:
            if start_results[0].run_no is None:
                chosen.handler_pool.release(len(chosen.claim_slice.items))
                continue
            withdrawn = sum(len(start_result.withdrawn) for start_result in start_results)
            self._counts.started += len(chosen.claim_slice.items) - withdrawn
            self._counts.withdrawn += withdrawn
            runs = _runs(start_results, chosen, asked_at)
            chosen.queue.replace_with_runs(chosen.claim_slice, runs)
            for run in runs:
                self._lost_runs.received(run.run_no)
                run.park_unreadable()
                self._listener.on_run_opened(run, chosen.handler_pool)
        for chosen, start_results in reversed(results):
            if start_results[0].run_no is None:
                self._drop_or_requeue(chosen.queue, chosen.claim_slice, start_results[0])

    def _drop_or_requeue(
        self, queue: PartitionQueue, claim_slice: ClaimSlice, start_result: StartResult
    ) -> None:
        """Requeue a refused slice from the next position not started, or drop it."""
        ahead = start_result.started_to - claim_slice.from_position + 1
        size = len(claim_slice.items)
        if start_result.closed:
            queue.requeue(claim_slice)
            dropped = queue.drop_closed({claim_slice.claim_id: start_result.started_to})
            queue.is_behind = True
            self._counts.skipped += dropped.skipped
            self._counts.stale += dropped.stale
            if not dropped.stale:
                return
            # Records of another history of the ledger, or forged: somebody must look where from.
            report = log.warning if start_result.refusal is StartRefusal.MISMATCH else log.info
            report(
                LogEvent.START_REFUSED,
                fence=claim_slice.fence,
                items=dropped.stale,
                reason=start_result.refusal or StartRefusal.STALE,
            )
        elif ahead >= size:
            self._counts.skipped += size
            queue.drop(claim_slice)
        elif ahead > 0:
            self._counts.skipped += ahead
            claim_slice.split(ahead)
            queue.requeue(claim_slice)
        elif ahead == 0:
            queue.requeue(claim_slice)  # another start of this claim was running: try again
        else:
            # A gap: earlier positions were never started. The claim's deadline releases all.
            self._counts.after_gap += size
            queue.drop(claim_slice)
            log.warning(
                LogEvent.CLAIM_GAP_FOUND,
                fence=claim_slice.fence,
                started_to=start_result.started_to,
                from_position=claim_slice.from_position,
                items=size,
            )


def _runs(
    start_results: Sequence[StartResult], chosen: _SliceToStart, asked_at: float
) -> list[OpenRun]:
    """Return the runs of a started slice; the slice keeps the items of the last run."""
    runs: list[OpenRun] = []
    for start_result in start_results:
        size = start_result.to_position - start_result.from_position + 1
        run_slice = (
            chosen.claim_slice.split(size)
            if size < len(chosen.claim_slice.items)
            else chosen.claim_slice
        )
        lease_until = asked_at + (start_result.lease_seconds or 0.0)
        runs.append(OpenRun(start_result, run_slice, lease_until=lease_until, topic=chosen.topic))
    return runs
