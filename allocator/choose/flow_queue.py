"""The queue of flows with due rows: a weighted round robin, light and heavy flows apart. Pure.

Times are monotonic seconds, passed in by the caller.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final, final

from dueledger.allocator.choose.shares import (
    COUNTED_FLOWS_MAX,
    AdmissionGroup,
    FlowLoad,
    FlowShare,
    NextDueQuery,
    admission_group_of,
    split_by_weight,
)
from dueledger.ledger.store.claims import FLOOR_MIN, OVERLAP_SECONDS, DueFlow, NextDue, PendingFloor
from dueledger.ledger.store.flow_limits import FlowAllowance

LIGHT_ITEMS_MAX: Final = 200
"""A flow that fills a share of this size is heavy."""
FLOOR_RAISE_ITEMS: Final = 1000
"""After this many items are taken from a flow, its floor is read again."""
EMPTY_RETRY_SECONDS: Final = 0.005
EMPTY_RETRY_SECONDS_MAX: Final = 0.25
LIMIT_RETRY_SECONDS: Final = 0.01
FULL_CLAIMS_MAX: Final = 2
"""A flow that fills this many shares in a row is heavy, even if the shares were small."""
LIMIT_RETRY_SECONDS_MAX: Final = 1.0
BUCKET_SECONDS_MAX: Final = 60.0


class _QueueState(Enum):
    QUEUED = auto()
    SERVED = auto()  # a claim is being made
    QUERIED = auto()  # find_next_due was asked for its next row
    SCHEDULED = auto()  # waits until its next row is due
    LIMITED = auto()  # waits until its limits are checked again
    IDLE = auto()  # has no pending row within the horizon


_RESTING: Final = frozenset({_QueueState.LIMITED, _QueueState.IDLE})


@dataclass(slots=True, eq=False)
class _QueuedFlow:
    flow: DueFlow
    load: FlowLoad = FlowLoad.LIGHT
    state: _QueueState = _QueueState.IDLE
    ticket: int = -1  # of its latest entry in a queue or in `_timed`; older entries are void
    touched_at: float = float("-inf")
    listed_at: float = float("-inf")
    empty_claims: int = 0  # claims in a row that found nothing
    full_claims: int = 0  # claims in a row that filled its share
    floor: PendingFloor = FLOOR_MIN
    taken: int = 0  # items since the floor was read
    group: AdmissionGroup = field(init=False)

    def __post_init__(self) -> None:
        self.set_flow(self.flow)

    def set_flow(self, flow: DueFlow) -> None:
        self.flow = flow
        self.group = admission_group_of(flow)


@final
class FlowQueue:
    """Queues the flows that have due rows now or soon, and serves them in order.

    A light flow becomes heavy when it fills a light share. A heavy flow becomes light when it uses
    less than half of a share. So a flow with a million rows is never claimed together with light
    flows, and these never wait for it. A flow without due rows waits until its next row is due.
    """

    def __init__(self) -> None:
        self._flows: dict[int, _QueuedFlow] = {}
        self._queues: dict[FlowLoad, dict[AdmissionGroup, deque[tuple[int, _QueuedFlow]]]] = {
            load: {} for load in FlowLoad
        }
        self._timed: list[tuple[float, int, _QueuedFlow]] = []
        self._limit_checks: deque[_QueuedFlow] = deque()
        self._tickets = count()

    def __len__(self) -> int:
        return len(self._flows)

    def has_ready(
        self, load: FlowLoad, capacity: Callable[[AdmissionGroup], int], *, now: float
    ) -> bool:
        """Return whether a flow of this load is queued in a group with capacity."""
        self.move_due(now)
        queues = self._queues[load]
        return any(queue and capacity(group) > 0 for group, queue in queues.items())

    def has_active(self, load: FlowLoad) -> bool:
        """Return whether there are flows of this load that may be served, now or soon."""
        return any(
            entry.load is load and entry.state not in _RESTING for entry in self._flows.values()
        )

    def waiting_groups(self) -> set[AdmissionGroup]:
        """Return the admission groups that have queued flows."""
        return {
            group for queues in self._queues.values() for group, queue in queues.items() if queue
        }

    def next_due_at(self) -> float | None:
        """Return when the first waiting flow is due or its limits are checked; None without one."""
        if self._limit_checks:
            return float("-inf")
        timed = self._timed
        while timed and timed[0][1] != timed[0][2].ticket:
            heappop(timed)
        return timed[0][0] if timed else None

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Apply one page of the due flows, which were listed at `asked_at`.

        A flow that was served since then keeps its state.
        """
        for flow in flows:
            self._update_flow(flow, asked_at)

    def remove_unlisted(self, *, asked_at: float) -> None:
        """Remove the flows that the list of `asked_at` did not contain."""
        unlisted = [
            flow_no
            for flow_no, entry in self._flows.items()
            if entry.listed_at < asked_at
            and entry.touched_at < asked_at
            and entry.state is not _QueueState.SERVED
        ]
        for flow_no in unlisted:
            entry = self._flows.pop(flow_no)
            entry.state, entry.ticket = _QueueState.IDLE, -1

    def _update_flow(self, flow: DueFlow, asked_at: float) -> None:
        entry = self._flows.get(flow.flow_no)
        if entry is None:
            entry = self._flows[flow.flow_no] = _QueuedFlow(flow)
        before = entry.flow
        entry.set_flow(flow)
        entry.listed_at = asked_at
        if entry.touched_at >= asked_at or entry.state is _QueueState.SERVED:
            return
        entry.floor = flow.floor
        entry.taken = 0
        match entry.state:
            case _QueueState.QUEUED if entry.group != admission_group_of(before):
                self._enqueue(entry)
            case _QueueState.QUEUED:
                pass
            case _QueueState.LIMITED:
                if not flow.is_limited or flow.rate_per_second != before.rate_per_second:
                    self._enqueue(entry)
            case _QueueState.SCHEDULED if entry.empty_claims and flow.due_seconds <= 0:
                pass
            case _QueueState.SCHEDULED | _QueueState.QUERIED | _QueueState.IDLE:
                self._schedule_next(entry, flow.due_seconds, asked_at)

    def next_shares(
        self,
        load: FlowLoad,
        items: int,
        flows_max: int,
        capacity: Callable[[AdmissionGroup], int],
        *,
        now: float,
    ) -> list[FlowShare]:
        """Take the next flows of this load out of the queue, with their quotas.

        The quotas of a group sum up to its capacity at most. The caller must pass each share to
        `requeue` or `return_unserved`.
        """
        self.move_due(now)
        chosen = self._pop_entries(load, min(items, flows_max), capacity)
        if not chosen:
            return []
        quotas = split_by_weight(items, [entry.flow.weight for entry, _ in chosen])
        if load is FlowLoad.LIGHT:
            quotas = [min(quota, LIGHT_ITEMS_MAX) for quota in quotas]
        by_pool: dict[tuple[str, bool], list[int]] = {}
        for index, (entry, _) in enumerate(chosen):
            by_pool.setdefault(entry.group.pool, []).append(index)
        for indices in by_pool.values():
            pool_capacity = chosen[indices[0]][1]
            if sum(quotas[index] for index in indices) > pool_capacity:
                cut = split_by_weight(
                    pool_capacity, [chosen[index][0].flow.weight for index in indices]
                )
                for index, quota in zip(indices, cut, strict=True):
                    quotas[index] = min(quotas[index], quota)
        return [
            FlowShare(entry.flow, quota, entry.floor, entry.ticket)
            for (entry, _), quota in zip(chosen, quotas, strict=True)
        ]

    def _pop_entries(
        self, load: FlowLoad, entries_max: int, capacity: Callable[[AdmissionGroup], int]
    ) -> list[tuple[_QueuedFlow, int]]:
        """Take the flows that have waited longest, each with the capacity of its pool."""
        queues = self._queues[load]
        capacities: dict[tuple[str, bool], int] = {}
        heads: list[tuple[int, AdmissionGroup]] = []
        for group, queue in list(queues.items()):
            if not _drop_outdated(queue):
                del queues[group]
            elif (available := capacity(group)) > 0:
                capacities[group.pool] = available
                heads.append((queue[0][0], group))
        heapify(heads)
        chosen: list[tuple[_QueuedFlow, int]] = []
        capacity_left = dict(capacities)
        counted_left = COUNTED_FLOWS_MAX
        while heads and len(chosen) < entries_max:
            _, group = heads[0]
            queue = queues[group]
            if (
                not capacity_left[group.pool]
                or (group.counted and not counted_left)
                or not _drop_outdated(queue)
            ):
                heappop(heads)
                continue
            _, entry = queue.popleft()
            entry.state, entry.ticket = _QueueState.SERVED, next(self._tickets)
            chosen.append((entry, capacities[group.pool]))
            capacity_left[group.pool] -= 1
            counted_left -= group.counted
            if queue:
                heapreplace(heads, (queue[0][0], group))
            else:
                heappop(heads)
        return chosen

    def requeue(
        self, shares: Iterable[FlowShare], taken: Mapping[int, int], *, now: float
    ) -> list[NextDueQuery]:
        """Put flows that have more rows at the end of the queue; return queries for the others.

        Serial flows are always queried: rows behind a held key are due, but were not taken.
        """
        queries: list[NextDueQuery] = []
        for share in shares:
            entry = self._served_entry(share)
            if entry is None:
                continue
            items = taken.get(share.flow.flow_no, 0)
            entry.touched_at = now
            entry.taken += items
            entry.empty_claims = 0 if items else entry.empty_claims + 1
            entry.full_claims = entry.full_claims + 1 if items >= share.quota else 0
            # Few retries leave a part of the share unused, though other rows are due.
            has_more = 2 * items >= share.quota and not entry.flow.has_serial
            if items >= LIGHT_ITEMS_MAX or entry.full_claims >= FULL_CLAIMS_MAX:
                entry.load = FlowLoad.HEAVY
            elif 2 * items < share.quota:
                entry.load = FlowLoad.LIGHT
            if has_more:
                self._enqueue(entry)
            else:
                entry.state = _QueueState.QUERIED
            if not has_more or entry.taken >= FLOOR_RAISE_ITEMS:
                overlap = 0.0 if entry.taken >= FLOOR_RAISE_ITEMS else OVERLAP_SECONDS
                queries.append(NextDueQuery(entry.flow.flow_no, entry.floor, overlap))
        return queries

    def return_unserved(self, shares: Iterable[FlowShare]) -> None:
        """Put flows that could not be served back at the head of the queue."""
        for share in reversed(list(shares)):
            entry = self._served_entry(share)
            if entry is not None:
                self._enqueue(entry, first=True)

    def update_next_due(
        self, queries: Iterable[NextDueQuery], answers: Iterable[NextDue], *, asked_at: float
    ) -> None:
        """Apply the answers to queries. A flow without an answer has no rows, or is paused."""
        unanswered = {query.flow_no for query in queries}
        for answer in answers:
            entry = self._flows.get(answer.flow_no)
            if entry is None:
                continue
            entry.floor = answer.floor
            entry.taken = 0
            if (answer.plain, answer.serial) != (entry.flow.has_plain, entry.flow.has_serial):
                entry.flow = replace(entry.flow, has_plain=answer.plain, has_serial=answer.serial)
            if entry.state is not _QueueState.QUERIED or answer.due_seconds is None:
                continue
            unanswered.discard(answer.flow_no)
            self._schedule_next(entry, answer.due_seconds, asked_at)
        for flow_no in unanswered:
            entry = self._flows.get(flow_no)
            if entry is not None and entry.state is _QueueState.QUERIED:
                entry.state, entry.empty_claims = _QueueState.IDLE, 0

    def defer_limited(
        self, flow_nos: Iterable[int], retry_seconds: Mapping[int, float], *, now: float
    ) -> None:
        """Keep flows out of the queue while their limits allow no items.

        `retry_seconds` says for a flow when its token bucket has tokens again. Without it the
        limits are checked with exponential backoff.
        """
        for flow_no in flow_nos:
            entry = self._flows.get(flow_no)
            if entry is None:
                continue
            entry.empty_claims += 1
            pause = min(
                LIMIT_RETRY_SECONDS_MAX, LIMIT_RETRY_SECONDS * 2 ** min(entry.empty_claims, 10)
            )
            if flow_no in retry_seconds:
                pause = min(BUCKET_SECONDS_MAX, max(LIMIT_RETRY_SECONDS, retry_seconds[flow_no]))
            self._schedule(entry, _QueueState.LIMITED, now + pause)

    def limit_checks_due(self, limit: int, *, now: float) -> list[int]:
        """Return limited flows to check now. The caller must pass each to `apply_allowances`."""
        self.move_due(now)
        flow_nos: list[int] = []
        while self._limit_checks and len(flow_nos) < limit:
            entry = self._limit_checks.popleft()
            if entry.state is _QueueState.LIMITED:
                flow_nos.append(entry.flow.flow_no)
        return flow_nos

    def apply_allowances(
        self, flow_nos: Sequence[int], allowances: Mapping[int, FlowAllowance], *, now: float
    ) -> None:
        """Queue the flows whose limits allow items, and defer the others."""
        retry_seconds: dict[int, float] = {}
        still_limited: list[int] = []
        for flow_no in flow_nos:
            entry = self._flows.get(flow_no)
            allowance = allowances.get(flow_no)
            if entry is None or entry.state is not _QueueState.LIMITED:
                continue
            if allowance is not None and allowance.items > 0:
                entry.empty_claims = 0
                self._enqueue(entry)
                continue
            still_limited.append(flow_no)
            if allowance is not None and allowance.retry_seconds is not None:
                retry_seconds[flow_no] = allowance.retry_seconds
        self.defer_limited(still_limited, retry_seconds, now=now)

    def move_due(self, now: float) -> None:
        """Queue the flows whose next row is due by now."""
        timed = self._timed
        while timed and timed[0][0] <= now:
            _, ticket, entry = heappop(timed)
            if entry.ticket != ticket:
                continue
            if entry.state is _QueueState.LIMITED:
                self._limit_checks.append(entry)
            else:
                self._enqueue(entry)

    def _served_entry(self, share: FlowShare) -> _QueuedFlow | None:
        """Return the flow's entry if this share is its current one; None if it is deferred."""
        entry = self._flows.get(share.flow.flow_no)
        is_served = (
            entry is not None and entry.state is _QueueState.SERVED and entry.ticket == share.ticket
        )
        return entry if is_served else None

    def _schedule_next(self, entry: _QueuedFlow, due_seconds: float, asked_at: float) -> None:
        if due_seconds > 0:
            entry.empty_claims = 0  # no row is locked; a poll that finds one due schedules it anew
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + due_seconds)
        elif entry.empty_claims:
            # Another claimer has its rows locked, or had when this one looked for them.
            pause = min(
                EMPTY_RETRY_SECONDS_MAX, EMPTY_RETRY_SECONDS * 2 ** min(entry.empty_claims, 10)
            )
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + pause)
        else:
            self._enqueue(entry)

    def _enqueue(self, entry: _QueuedFlow, *, first: bool = False) -> None:
        entry.state = _QueueState.QUEUED
        queue = self._queues[entry.load].setdefault(entry.group, deque())
        if first:
            entry.ticket = queue[0][0] - 1 if queue else -2
            queue.appendleft((entry.ticket, entry))
            return
        entry.ticket = next(self._tickets)
        queue.append((entry.ticket, entry))

    def _schedule(self, entry: _QueuedFlow, state: _QueueState, at: float) -> None:
        entry.state = state
        entry.ticket = next(self._tickets)
        heappush(self._timed, (at, entry.ticket, entry))


def _drop_outdated(queue: deque[tuple[int, _QueuedFlow]]) -> bool:
    """Drop void entries from the head; return whether a valid one remains."""
    while queue and (
        queue[0][1].ticket != queue[0][0] or queue[0][1].state is not _QueueState.QUEUED
    ):
        queue.popleft()
    return bool(queue)
