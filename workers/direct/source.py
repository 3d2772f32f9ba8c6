"""The source of direct mode: claims due items as the handler pools have capacity; upkeep."""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar, final

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.flows.flood_pacer import FloodPacer
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ShareResult
from dueledger.ledger.gauges import READ_SECONDS, LedgerGauges
from dueledger.ledger.item_check import ItemCheck
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.sleep import PollDuration, Sleep
from dueledger.ledger.store.claims import list_due_flows, release_claims
from dueledger.ledger.upkeep import Upkeep
from dueledger.workers.direct.claims import DirectClaims
from dueledger.workers.direct.pool_shares import PoolCapacity, next_pool_shares
from dueledger.workers.lost_runs import LostRuns
from dueledger.workers.work_source import Service, WorkSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from dueledger.ledger.metrics import Sample
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.ledger.store.processes import WokenFlow
    from dueledger.workers.direct.claimed_runs import ClaimedRun, ClaimResult, SuspectClaim
    from dueledger.workers.direct.flow_selection import FlowSelection
    from dueledger.workers.direct.settings import DirectSettings
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.handler_pools import PoolKey
    from dueledger.workers.run.listener import RunPool
    from dueledger.workers.worker import Worker

FLOWS_LISTED_MAX: Final = 20_000
FULL_SECONDS: Final = 0.25
LIST_SECONDS: Final = 0.05
LIST_SHARE: Final = 20  # a list of 10,000 flows takes 40–50 ms: a twentieth of the time
HORIZON_SECONDS: Final = 1.0
HORIZON_POLLS: Final = 3  # a row is in this many lists before it is due
IDLE_LISTS: Final = 3  # the first of them may list rows that were claimed then
IDLE_DOUBLINGS_MAX: Final = 12
QUIET_DOUBLINGS_MAX: Final = 2
EARLY_SECONDS: Final = 0.0005  # a poll this much too early would find nothing
NOTHING_FOUND: Final = ShareResult(0)
REFUSED: Final = ShareResult(0, next_seconds=0.1)
ONLY_SUSPECTS: Final = REFUSED  # its first rows; others follow when their pool has taken these

_T = TypeVar("_T")

log = get_logger("worker")


@final
class DirectSource(WorkSource):
    """Claims from due flows by weight, and their suspects for pools of their own.

    A suspect killed its worker, or ran beside the item that did. Claims of suspects and other
    claims alternate.
    """

    def __init__(
        self,
        settings: DirectSettings,
        worker: Worker,
        *,
        selection: FlowSelection | None = None,
    ) -> None:
        """Serve the flows of the pools' kinds, those of the selection alone."""
        self._settings = settings
        self._worker = worker
        self._selection = selection
        self._pool, self._worker_no = worker.connections.pool, worker.connections.worker_no
        self._handler_pools = worker.handler_pools
        self._claimer = DirectClaims(
            self._pool,
            self._handler_pools,
            worker_no=self._worker_no,
            lease_seconds=settings.worker_lease_seconds,
        )
        self._item_check = ItemCheck(self._pool, actor_no=self._worker_no, role="worker")
        self.upkeep = Upkeep(
            self._pool,
            actor_no=self._worker_no,
            seconds=settings.direct_upkeep_seconds,
            role="worker",
            retention=settings.retention,
            quiet_doublings_max=QUIET_DOUBLINGS_MAX,
        )
        self._gauges = LedgerGauges(self._pool, holder=f"process:{self._worker_no}")
        self._kinds = list({pool_key.kind for pool_key in self._handler_pools.pool_keys()})
        self._flows = FlowQueue(self._handler_pools.key_of, serial_apart=True)
        self._pacer = FloodPacer()
        self._flood_pools: set[PoolKey] = set()  # those of a claim of floods that goes on
        self._suspects: dict[int, DueFlow] = {}
        self._suspect_claims: deque[SuspectClaim] = deque()
        self._wake = asyncio.Event()
        self._sleep = Sleep(worker.connections.presence, self._kinds)
        self._has_news = False
        worker.connections.presence.on_woken(self._on_woken)
        self._flow_of_run: dict[int, int] = {}
        self._polled_at = float("-inf")
        self._poll_at = self._list_at = float("-inf")
        self._list_duration = PollDuration()
        self._idle_lists = 0
        self._lost_runs = LostRuns(self._pool, self._worker_no)
        self._is_closed = False

    def input_services(self) -> list[Service]:
        """Claim."""
        claim = self._worker.connections.presence.reporting(self.claim)
        return [Service("worker.claim", self._worker.when_confirmed(claim))]

    def background_services(self) -> list[Service]:
        """Run the upkeep, and check the items: there may be no allocator that does."""
        services = [
            Service("worker.upkeep", self.upkeep.tick, self.upkeep.pause_seconds),
            Service("worker.check_items", self._item_check.tick, self._item_check.pause_seconds),
        ]
        if self._settings.metrics_port is not None:
            services.append(Service("worker.measure", self._gauges.tick, READ_SECONDS))
        return services

    def samples(self) -> Sequence[Sample]:
        """Return the metrics of the ledger, if this process reads them."""
        return self._gauges.samples()

    async def is_idle(self) -> bool:
        """Return whether IDLE_LISTS lists in a row led to no claim, and no suspects wait."""
        waiting = self._suspects or self._suspect_claims
        return not waiting and self._idle_lists >= IDLE_LISTS

    def on_call_ended(self) -> None:
        """Claim at once: a handler pool has capacity."""
        self._wake.set()

    def on_run_finished(self, run: OpenRun) -> None:
        """Query the run's flow again soon if it is limited or its items held keys."""
        flow_no = self._flow_of_run.pop(run.run_no, None)
        if flow_no is not None:
            self._flows.check_soon(flow_no, now=monotonic())
        self._wake.set()

    async def stop_taking(self) -> None:
        """Claim no more items."""
        self._is_closed = True
        self._wake.set()

    async def release_unstarted(self) -> None:
        """Release the claims that were not started; the process may end after this."""
        await self._lost_runs.release()
        if self._suspect_claims:
            claim_ids = [suspect_claim.claim_id for suspect_claim in self._suspect_claims]
            async with self._pool.acquire() as connection:
                await release_claims(connection, claim_ids, self._worker_no)
            self._suspect_claims.clear()

    async def claim(self) -> dict[str, int]:
        """Wait for the next poll, claim up to the pools' capacity, and return the counts."""
        await self._wait_for_next_poll()
        if self._is_closed:
            return {}
        await self._lost_runs.release()
        suspects = await self._take_suspects()
        taken = await self._take()
        if self._can_take_suspects():
            self._poll_at = monotonic()
        return {"taken": suspects + taken.get("taken", 0)}

    async def _wait_for_next_poll(self) -> None:
        await self._sleep.end_if_busy(poll_seconds=self._list_duration.seconds)
        if not self._wake.is_set():
            await self._pause(max(0.0, self._poll_at - monotonic()))
        # Items that end now and items that are due in a moment are served together.
        early = self._polled_at + self._settings.direct_batch_wait_seconds - monotonic()
        if early > 0 and not self._is_closed:
            await asyncio.sleep(early)
        self._wake.clear()
        self._polled_at = monotonic()

    async def _pause(self, wanted: float) -> None:
        seconds = await self._sleep.pause_seconds(wanted, poll_seconds=self._list_duration.seconds)
        self._has_news |= seconds < wanted
        await wait_for_event(self._wake, seconds)

    def _on_woken(self, _: WokenFlow | None) -> None:
        """List at once: an item was emitted, or failed, and may be claimed soon."""
        self._sleep.woken()
        self._has_news = True
        self._wake.set()

    async def _take(self) -> dict[str, int]:
        capacities = self._capacities()
        unsettled = sum(run.unsent_count for run in self._worker.runs.values())
        if not capacities or unsettled >= self._settings.worker_settle_items_max:
            return self._wait_for_calls()
        if self._has_news or self._polled_at >= self._list_at:
            await self._poll_due_flows()
        await self._refresh_pace()
        shares = self._choose(capacities)
        try:
            taken = await self._claim_shares(
                self._claimer.claim_shared, [share for share in shares if not share.needs_own_claim]
            )
            taken += await self._claim_shares(
                self._claimer.claim_apart, [share for share in shares if share.needs_own_claim]
            )
        finally:
            self._flows.return_unserved(shares)
        if taken and self._idle_lists:
            self._idle_lists = 0
            self._list_at = min(self._list_at, monotonic() + self._list_pause())
        self._poll_at = self._next_poll_at()
        return {"taken": taken}

    def _capacities(self) -> dict[PoolKey, PoolCapacity]:
        capacities: dict[PoolKey, PoolCapacity] = {}
        for pool_key in self._handler_pools.pool_keys():
            handler_pool = self._handler_pools[pool_key]
            if calls := handler_pool.free_calls:
                capacities[pool_key] = PoolCapacity(calls, handler_pool.handler.options.batch_max)
        return capacities

    def _choose(self, capacities: Mapping[PoolKey, PoolCapacity]) -> list[FlowShare]:
        now = monotonic()
        self._flows.move_due(now)
        self._end_flood_claim(capacities.keys(), now)
        waiting = self._flows.waiting_groups()
        pool_keys = [pool_key for pool_key in capacities if pool_key in waiting]
        if not pool_keys:
            return []
        has_flood = bool(self._flows.waiting_groups([FlowLoad.HEAVY]) & capacities.keys())
        may_claim_flood = has_flood and self._pacer.next_claim_at(now) <= now
        loads = FlowLoad if may_claim_flood else (FlowLoad.LIGHT,)
        items_max = max(1, self._settings.direct_claim_items_max // len(pool_keys))
        flows_max = max(1, self._settings.direct_flows_max // len(pool_keys))
        shares = [
            share
            for pool_key in pool_keys
            for share in next_pool_shares(
                self._flows,
                pool_key,
                capacities[pool_key],
                items_max=items_max,
                flows_max=flows_max,
                loads=loads,
                flood_items=self._pacer.items_of,
            )
        ]
        floods = [share.flow for share in shares if share.load is FlowLoad.HEAVY]
        if floods:
            self._flood_pools = {self._handler_pools.key_of(flow) for flow in floods}
            self._pacer.began(now)
        return shares

    def _end_flood_claim(self, free: Collection[PoolKey], now: float) -> None:
        """Let floods rest, if one of their pools is free: until then the last claim goes on."""
        if not self._flood_pools:
            return
        waiting = self._flows.waiting_groups([FlowLoad.HEAVY])
        if not (self._flood_pools | waiting).isdisjoint(free):
            self._pacer.ended(now)
            self._flood_pools = set()

    async def _refresh_pace(self) -> None:
        """Read and step the pace of floods, if there are floods and lag targets."""
        targets = None
        if self._flows.has_active(FlowLoad.HEAVY):
            targets = self._flows.lag_targets(monotonic())
        if targets is None:
            self._pacer.end()
        elif self._pacer.needs_refresh:
            async with self._pool.acquire() as connection:
                await self._pacer.refresh(connection, targets)

    def _next_poll_at(self) -> float:
        now = monotonic()
        self._flows.move_due(now)
        capacities = self._capacities().keys()
        self._end_flood_claim(capacities, now)
        if self._can_take_suspects() or self._flows.waiting_groups([FlowLoad.LIGHT]) & capacities:
            return now
        if self._flows.waiting_groups([FlowLoad.HEAVY]) & capacities:
            next_at = self._pacer.next_claim_at(now)
        else:
            next_at = inf
        return min(next_at, self._list_at, self._flows.next_due_at() + EARLY_SECONDS)

    async def _poll_due_flows(self) -> None:
        """List the flows that are due now or soon, and set the time of the next list.

        Listed flows need no list to be claimed from again. The lists find other flows: soon after a
        claim, and at growing intervals while nothing is claimed.
        """
        began = monotonic()
        self._has_news = False
        async with self._pool.acquire() as connection:
            flows = await list_due_flows(
                connection,
                FLOWS_LISTED_MAX,
                self._kinds,
                horizon_seconds=max(HORIZON_SECONDS, HORIZON_POLLS * self._list_pause()),
            )
        if (selection := self._selection) is not None:
            flows = list(filter(selection.admits, flows))
            presence = self._worker.connections.presence
            presence.serve_kinds(self._kinds, selection.kind_tenants)
        self._flows.update(flows, asked_at=began)
        self._flows.remove_unlisted(asked_at=began)
        self._list_duration.add(monotonic() - began)
        self._list_at = monotonic() + self._list_pause()
        self._idle_lists = min(self._idle_lists + 1, IDLE_DOUBLINGS_MAX)

    def _list_pause(self) -> float:
        growing = LIST_SECONDS * 2**self._idle_lists
        pause = self._settings.direct_idle_seconds
        if not self._sleep.is_asleep:
            pause = min(pause, growing)
        return max(pause, LIST_SHARE * self._list_duration.seconds)

    # Suspects.

    async def _take_suspects(self) -> int:
        """Start waiting claims of suspects, or claim some of one flow; return how many items.

        Both only as far as their pools have capacity.
        """
        asked_at = monotonic()
        if fitting := self._fitting_claims():  # first, because they have deadlines
            claimed_runs = await self._guard_claim(self._claimer.start_suspects(fitting))
            for each in fitting:
                self._suspect_claims.remove(each)
            return self._open(claimed_runs, asked_at)
        flow = next(filter(self._free_for_suspects, self._suspects.values()), None)
        if flow is None:
            return 0
        quota = self._free_for_suspects(flow)
        del self._suspects[flow.flow_no]
        try:
            result = await self._guard_claim(self._claimer.claim_suspects(flow, quota))
        except UnseenPartition as error:
            log.warning(LogEvent.CLAIM_REFUSED, flow_no=flow.flow_no, message=error.message)
            return 0
        if result.runs:
            self._suspects[flow.flow_no] = flow  # the last one of those that wait
        return self._open(result.runs, asked_at)

    def _fitting_claims(self) -> list[SuspectClaim]:
        """Return the first waiting claims that the pools have capacity for, all at once."""
        fitting: list[tuple[SuspectClaim, RunPool]] = []
        for each in self._suspect_claims:
            pool = self._pool_for_suspects(each.flow)
            if pool.free_items >= len(each.items):
                pool.reserve(len(each.items))
                fitting.append((each, pool))
        for each, pool in fitting:
            pool.release(len(each.items))  # its run reserves it, if it is started
        return [each for each, _ in fitting]

    def _pool_for_suspects(self, flow: DueFlow) -> RunPool:
        return self._handler_pools.for_suspects(self._handler_pools.pool_of(flow))

    def _free_for_suspects(self, flow: DueFlow) -> int:
        return self._pool_for_suspects(flow).free_items

    def _can_take_suspects(self) -> bool:
        return bool(self._fitting_claims()) or any(
            map(self._free_for_suspects, self._suspects.values())
        )

    def _wait_for_calls(self) -> dict[str, int]:
        """Wait for calls to end; a handler past its timeout keeps its call slot."""
        self._poll_at = monotonic() + FULL_SECONDS
        return {}

    # Claims.

    async def _claim_shares(
        self,
        take: Callable[[Sequence[FlowShare]], Awaitable[ClaimResult]],
        shares: Sequence[FlowShare],
    ) -> int:
        """Claim shares; after UnseenPartition, claim each share once more by itself.

        A share that is refused again is deferred, so that it does not block the others. A pending
        row without an item causes that; only a manual change in the database leaves one.
        """
        if not shares:
            return 0
        try:
            return await self._claim_once(take, shares)
        except UnseenPartition:
            return sum([await self._claim_one_share(take, share) for share in shares])

    async def _claim_one_share(
        self, take: Callable[[Sequence[FlowShare]], Awaitable[ClaimResult]], share: FlowShare
    ) -> int:
        asked_at = monotonic()
        try:
            return await self._claim_once(take, [share])
        except UnseenPartition as error:
            log.warning(LogEvent.CLAIM_REFUSED, flow_no=share.flow.flow_no, message=error.message)
            self._flows.requeue_by_weight(share, REFUSED, asked_at=asked_at)
            return 0

    async def _claim_once(
        self,
        take: Callable[[Sequence[FlowShare]], Awaitable[ClaimResult]],
        shares: Sequence[FlowShare],
    ) -> int:
        asked_at = monotonic()
        result = await self._guard_claim(take(shares))
        for share in shares:
            found = result.results.get(share.key, NOTHING_FOUND)
            if share.flow.flow_no in result.suspect_flow_nos:
                self._suspects[share.flow.flow_no] = share.flow
                if not found.taken:
                    found = ONLY_SUSPECTS
            self._flows.requeue_by_weight(share, found, asked_at=asked_at)
        self._suspect_claims.extend(result.suspect_claims)
        return self._open(result.runs, asked_at) + sum(
            len(each.items) for each in result.suspect_claims
        )

    async def _guard_claim(self, asking: Awaitable[_T]) -> _T:
        try:
            return await asking
        except UnseenPartition:
            raise  # the caller claims these shares once more
        except BaseException as error:
            self._list_at = float("-inf")  # list the claimed flows again
            self._lost_runs.start_failed(error)
            raise

    def _open(self, claimed_runs: Sequence[ClaimedRun], asked_at: float) -> int:
        """Start the runs in their pools; return the number of their items."""
        if claimed_runs:
            crash_point("direct.claimed")
        for claimed_run in claimed_runs:
            pool: RunPool = self._handler_pools[claimed_run.pool_key]
            if claimed_run.suspects_max is not None:
                pool = self._handler_pools.for_suspects(self._handler_pools[claimed_run.pool_key])
            run = claimed_run.open(asked_at)
            if claimed_run.flow_no is not None:
                self._flow_of_run[run.run_no] = claimed_run.flow_no
            self._lost_runs.received(run.run_no)
            pool.reserve(len(claimed_run.items))
            withdrawn = len(claimed_run.start.withdrawn)
            self._worker.counts.started += len(claimed_run.items) - withdrawn
            self._worker.counts.withdrawn += withdrawn
            self._worker.on_run_opened(run, pool)
        return sum(len(claimed_run.items) for claimed_run in claimed_runs)
