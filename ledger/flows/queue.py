"""The fair queue of flows with due rows: which flow is served next, and when. Pure.

Flows that share capacity form a group. The flow with the lowest virtual time is next, and of those
the one that was queued first. A served flow is put back in one of two ways:

- `requeue_by_weight` is stride scheduling (Waldspurger and Weihl, 1995): the virtual time grows by
  the items that the flow was given divided by its weight. So weights hold over time, even if there
  is capacity for one item at a time. A flow that returns starts at the virtual time of the others:
  it gains nothing by its absence.
- `requeue_at_end` leaves virtual times equal: the flow that waited longest is next. Weights hold
  because each claim is split by weight.

Times are monotonic seconds, passed in by the caller.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from math import inf
from types import MappingProxyType
from typing import Final, Generic, TypeVar, final

from dueledger.ledger.flows.shares import FlowLoad, FlowShare, NextDueQuery, ShareResult
from dueledger.ledger.rules.flood_pace import LagTargets
from dueledger.ledger.store.claims import OVERLAP_SECONDS, DueFlow, NextDue, PendingFloor
from dueledger.ledger.store.flow_limits import FlowAllowance

LIGHT_ITEMS_MAX: Final = 200
"""A flow that fills a share of this size is heavy."""
FULL_SHARES_MAX: Final = 2
"""A flow that fills this many shares in a row is heavy, even if the shares were small."""
WANTED_FIRST: Final = 64
WANTED_MIN: Final = 16
WANTED_MAX: Final = 1_000_000
WANTED_GROWTH: Final = 4
SERIAL_ITEMS_MAX: Final = 500
"""Each serial row whose key is held is updated, to put it behind its key."""
FLOOR_RAISE_ITEMS: Final = 1000
"""After this many items are taken from a flow, its floor is read again."""
KNOWN_SECONDS: Final = 1.0
"""So long after it was listed a flow without rows is kept: its next item needs no new list."""
LAG_TARGET_KNOWN_SECONDS: Final = 10.0
"""So long after a flow was listed floods are slowed for its next item."""
EMPTY_RETRY_SECONDS: Final = 0.005
EMPTY_RETRY_SECONDS_MAX: Final = 0.25
LIMIT_RETRY_SECONDS: Final = 0.01
LIMIT_RETRY_SECONDS_MAX: Final = 1.0
OWN_CLAIM_RETRY_SECONDS_MAX: Final = 1.28
BUCKET_SECONDS_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 10

GroupT = TypeVar("GroupT", bound=Hashable)


class _QueueState(Enum):
    QUEUED = auto()
    SERVED = auto()  # a claim is being made
    QUERIED = auto()  # find_next_due was asked for its next row
    SCHEDULED = auto()  # waits until its next row is due
    LIMITED = auto()  # waits until its limits are checked again
    IDLE = auto()  # has no pending row within the horizon


@dataclass(slots=True, eq=False)
class _QueuedFlow(Generic[GroupT]):
    flow: DueFlow
    group: GroupT
    serial: bool
    floor: PendingFloor
    virtual_time: float = 0.0
    load: FlowLoad = FlowLoad.LIGHT
    state: _QueueState = _QueueState.IDLE
    ticket: int = -1  # of its latest entry in a heap; older entries are void
    queue_ticket: int = -1  # that it was served from
    touched_at: float = -inf
    listed_at: float = -inf
    wanted: int = WANTED_FIRST  # how many items it seems to have
    empty_claims: int = 0  # claims in a row that found nothing
    full_shares: int = 0  # claims in a row that filled its share
    taken: int = 0  # items since the floor was read
    is_serial: bool = False  # had serial rows when it was listed


_Heap = list[tuple[float, int, _QueuedFlow[GroupT]]]
"""Entries by virtual time or by time, then by ticket."""


@final
class FlowQueue(Generic[GroupT]):
    """Queues the flows that have due rows now or soon, and serves them in order.

    A light flow becomes heavy when it fills a light share, or two small ones in a row. A heavy flow
    becomes light when it uses less than half of a share. Light and heavy flows queue apart, so that
    light flows never wait for a flow with a million rows. A flow without due rows waits until its
    next row is due.
    """

    def __init__(
        self, group_of: Callable[[DueFlow], GroupT], *, serial_apart: bool = False
    ) -> None:
        """Queue flows by `group_of`; with `serial_apart`, serial and plain rows of a flow apart."""
        self._group_of = group_of
        self._serial_apart = serial_apart
        self._flows: dict[int, _QueuedFlow[GroupT]] = {}  # by FlowShare.key
        self._queues: dict[FlowLoad, dict[GroupT, _Heap[GroupT]]] = {load: {} for load in FlowLoad}
        self._timed: _Heap[GroupT] = []
        self._limited: _Heap[GroupT] = []
        self._virtual_times: dict[GroupT, float] = {}
        self._lag_targets: dict[int, tuple[float, float]] = {}  # by flow, and when it was listed
        self._tickets = count()

    def __len__(self) -> int:
        return len(self._flows)

    def has_active(self, load: FlowLoad) -> bool:
        """Return whether there are flows of this load that may be served, now or soon."""
        return any(
            entry.load is load
            and entry.state is not _QueueState.LIMITED
            and entry.state is not _QueueState.IDLE
            for entry in self._flows.values()
        )

    def lag_targets(self, now: float) -> LagTargets | None:
        """Return the lag targets of flows that had items a moment ago and are no floods."""
        targets = [
            seconds
            for flow_no, (seconds, listed_at) in self._lag_targets.items()
            if listed_at > now - LAG_TARGET_KNOWN_SECONDS and not self._is_heavy(flow_no)
        ]
        return LagTargets(min(targets), max(targets)) if targets else None

    def waiting_groups(self, loads: Iterable[FlowLoad] = FlowLoad) -> set[GroupT]:
        """Return the groups that have queued flows of these loads."""
        return {
            group
            for load in loads
            for group, queue in self._queues[load].items()
            if _drop_void(queue)
        }

    def next_due_at(self) -> float:
        """Return when the first waiting flow is due; infinity without one."""
        return self._timed[0][0] if _drop_void(self._timed) else inf

    def next_limit_check_at(self) -> float:
        """Return when the limits of the first limited flow are checked; infinity without one."""
        return self._limited[0][0] if _drop_void(self._limited) else inf

    def move_due(self, now: float) -> None:
        """Queue the flows whose next row is due by now; they gain nothing by their absence."""
        for entry in _pop_due(self._timed, now):
            reached = self._virtual_times.get(entry.group, 0.0)
            entry.virtual_time = max(entry.virtual_time, reached)
            self._enqueue(entry)

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Apply one page of the due flows, which were listed at `asked_at`.

        A flow that was served since then keeps its state.
        """
        for flow in flows:
            if flow.has_plain or not self._serial_apart:
                self._update_flow(flow, asked_at, serial=False)
            if flow.has_serial and self._serial_apart:
                self._update_flow(flow, asked_at, serial=True)

    def remove_unlisted(self, *, asked_at: float) -> None:
        """Remove the flows that the list of `asked_at` did not contain.

        Those listed a moment before it stay for `wake`, without rows.
        """
        unlisted = [
            key
            for key, entry in self._flows.items()
            if entry.listed_at < asked_at
            and entry.touched_at < asked_at
            and entry.state is not _QueueState.SERVED
        ]
        for key in unlisted:
            entry = self._flows[key]
            entry.state, entry.ticket, entry.empty_claims = _QueueState.IDLE, -1, 0
            if entry.listed_at <= asked_at - KNOWN_SECONDS:
                del self._flows[key]

    def wake(self, flow_no: int, since: datetime, *, now: float) -> bool:
        """Queue a flow with a new item, due since then. False if flows must be listed to claim it.

        A flow is queued without a list if it was listed a moment ago and had no serial rows. The
        item may be below its floor, if the transaction that wrote it began long ago.
        """
        entry = self._flows.get(flow_no)
        if entry is None or entry.is_serial or entry.listed_at < now - KNOWN_SECONDS:
            return False
        match entry.state:
            case _QueueState.SERVED | _QueueState.QUERIED:
                return False  # its claim, or the query, may not see the item
            case _QueueState.IDLE | _QueueState.SCHEDULED:
                reached = self._virtual_times.get(entry.group, 0.0)
                entry.virtual_time = max(entry.virtual_time, reached)
                self._enqueue(entry)
            case _QueueState.QUEUED | _QueueState.LIMITED:
                pass
        entry.flow = replace(entry.flow, has_plain=True)
        entry.floor, entry.touched_at = entry.floor.lowered(since), now
        return True

    def _update_flow(self, flow: DueFlow, asked_at: float, *, serial: bool) -> None:
        group, key = self._group_of(flow), ~flow.flow_no if serial else flow.flow_no
        entry = self._flows.get(key)
        if entry is None:
            entry = self._flows[key] = _QueuedFlow(flow, group, serial, flow.floor)
        before, group_before = entry.flow, entry.group
        entry.flow, entry.group, entry.listed_at = flow, group, asked_at
        if flow.lag_target_seconds is not None:
            self._lag_targets[flow.flow_no] = flow.lag_target_seconds, asked_at
        elif self._lag_targets:
            self._lag_targets.pop(flow.flow_no, None)
        entry.is_serial = flow.has_serial
        if entry.touched_at >= asked_at or entry.state is _QueueState.SERVED:
            return
        entry.floor, entry.taken = flow.floor, 0
        limits_changed = (
            flow.is_limited != before.is_limited or flow.rate_per_second != before.rate_per_second
        )
        match entry.state:
            case _QueueState.QUEUED:
                is_free = group != group_before
            case _QueueState.LIMITED:
                is_free = limits_changed or not flow.is_limited
            case _QueueState.SCHEDULED if entry.empty_claims and flow.due_seconds <= 0:
                is_free = limits_changed
            case _:
                if entry.state is _QueueState.IDLE:
                    reached = self._virtual_times.get(group, 0.0)
                    entry.virtual_time = max(entry.virtual_time, reached)
                self._schedule_next(entry, flow.due_seconds, asked_at)
                return
        if is_free:
            self._enqueue(entry)

    def next_shares(
        self,
        loads: Iterable[FlowLoad],
        admits: Callable[[GroupT, FlowShare], bool],
        *,
        flows_max: int,
    ) -> list[FlowShare]:
        """Take the next flows of these loads out of the queue; each quota is what a flow wants.

        `admits` is called for the next flow of a group; if it returns False, the flow and those
        behind it stay queued. The caller must requeue each share, or return it unserved.
        """
        heads: list[tuple[tuple[float, int, _QueuedFlow[GroupT]], GroupT, _Heap[GroupT]]] = []
        for queues in map(self._queues.__getitem__, loads):
            for group, queue in list(queues.items()):
                if _drop_void(queue):
                    heads.append((queue[0], group, queue))
                else:
                    del queues[group]
        heapify(heads)
        shares: list[FlowShare] = []
        while heads and len(shares) < flows_max:
            (virtual_time, queue_ticket, entry), group, queue = heads[0]
            share = FlowShare(
                entry.flow, entry.wanted, entry.floor, next(self._tickets), entry.serial, entry.load
            )
            if not admits(group, share):
                heappop(heads)
                continue
            heappop(queue)
            self._virtual_times[group] = max(virtual_time, self._virtual_times.get(group, 0.0))
            entry.state = _QueueState.SERVED
            entry.ticket, entry.queue_ticket = share.ticket, queue_ticket
            shares.append(share)
            if _drop_void(queue):
                heapreplace(heads, (queue[0], group, queue))
            else:
                heappop(heads)
        return shares

    def requeue_by_weight(self, share: FlowShare, result: ShareResult, *, asked_at: float) -> None:
        """Queue a flow by weight: at once if it has more rows, otherwise for when it will."""
        entry = self._end_share(share, result.taken, asked_at)
        if entry is None:
            return
        entry.virtual_time += result.taken / share.flow.weight
        if result.has_more:
            wanted_max = SERIAL_ITEMS_MAX if share.serial else WANTED_MAX
            entry.wanted = min(max(entry.wanted, WANTED_GROWTH * result.taken), wanted_max)
            entry.floor = result.floor or entry.floor
            self._enqueue(entry)
            return
        entry.wanted = max(WANTED_MIN, 2 * result.taken)
        if result.next_seconds is not None:
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + result.next_seconds)
        elif share.needs_own_claim:
            # Its limits allow none, or its keys are held: until when is unknown.
            pause = _backoff(LIMIT_RETRY_SECONDS, OWN_CLAIM_RETRY_SECONDS_MAX, entry.empty_claims)
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + pause)
        else:
            entry.state, entry.wanted = _QueueState.IDLE, WANTED_FIRST

    def requeue_at_end(
        self,
        shares: Iterable[FlowShare],
        taken: Mapping[int, int],
        *,
        now: float,
        due_ats: Mapping[int, float] = MappingProxyType({}),
    ) -> list[NextDueQuery]:
        """Put flows that have more rows at the end of the queue; return queries for the others.

        `due_ats` say when the next plain row of a flow is due, infinity without one: such a flow is
        not queried. Serial flows always are: rows behind a held key are due, but were not taken.
        So is a flow of which nothing was taken: others may have its rows.
        """
        queries: list[NextDueQuery] = []
        for share in shares:
            items = taken.get(share.flow.flow_no, 0)
            entry = self._end_share(share, items, now)
            if entry is None:
                continue
            # Few retries leave a part of the share unused, though other rows are due.
            has_more = 2 * items >= share.quota and not entry.flow.has_serial
            raises_floor = entry.taken >= FLOOR_RAISE_ITEMS
            due_at = due_ats.get(entry.flow.flow_no) if items and not raises_floor else None
            if has_more:
                self._enqueue(entry)
            elif due_at is None or entry.flow.has_serial:
                entry.state = _QueueState.QUERIED
            elif due_at == inf:
                entry.state = _QueueState.IDLE
            else:
                self._schedule(entry, _QueueState.SCHEDULED, due_at)
            if entry.state is _QueueState.QUERIED or raises_floor:
                overlap = 0.0 if raises_floor else OVERLAP_SECONDS
                queries.append(NextDueQuery(entry.flow.flow_no, entry.floor, overlap))
        return queries

    def return_unserved(self, shares: Iterable[FlowShare]) -> None:
        """Put flows that could not be served back to where they were in the queue."""
        for share in shares:
            entry = self._served_entry(share)
            if entry is not None:
                self._enqueue(entry, entry.queue_ticket)

    def update_next_due(
        self, queries: Iterable[NextDueQuery], results: Iterable[NextDue], *, asked_at: float
    ) -> None:
        """Apply the results of queries. A flow without a result has no rows, or is paused."""
        without_rows = {query.flow_no for query in queries}
        for result in results:
            entry = self._flows.get(result.flow_no)
            if entry is None:
                continue
            entry.floor, entry.taken = result.floor, 0
            if (result.plain, result.serial) != (entry.flow.has_plain, entry.flow.has_serial):
                entry.flow = replace(entry.flow, has_plain=result.plain, has_serial=result.serial)
            if entry.state is not _QueueState.QUERIED or result.due_seconds is None:
                continue
            without_rows.discard(result.flow_no)
            self._schedule_next(entry, result.due_seconds, asked_at)
        for flow_no in without_rows:
            entry = self._flows.get(flow_no)
            if entry is not None and entry.state is _QueueState.QUERIED:
                entry.state, entry.empty_claims = _QueueState.IDLE, 0

    def check_soon(self, flow_no: int, *, now: float) -> None:
        """Queue a flow that found nothing: some of its items have ended since."""
        for entry in (self._flows.get(flow_no), self._flows.get(~flow_no)):
            if entry and entry.state is _QueueState.SCHEDULED and entry.empty_claims:
                entry.empty_claims = 0
                self._schedule(entry, _QueueState.SCHEDULED, now)

    def defer_limited(self, flow_nos: Iterable[int], *, now: float) -> None:
        """Keep flows out of the queue while their limits allow no items."""
        for flow_no in flow_nos:
            entry = self._flows.get(flow_no)
            if entry is not None:
                self._limit(entry, None, now)

    def limit_checks_due(self, limit: int, *, now: float) -> list[int]:
        """Return limited flows to check now; the caller passes each to `apply_allowances`.

        A flow that is not passed, because the query failed, is returned again later.
        """
        due = list(_pop_due(self._limited, now, limit))
        for entry in due:
            self._schedule(entry, _QueueState.LIMITED, now + LIMIT_RETRY_SECONDS_MAX)
        return [entry.flow.flow_no for entry in due]

    def apply_allowances(
        self, flow_nos: Sequence[int], allowances: Mapping[int, FlowAllowance], *, now: float
    ) -> None:
        """Queue the flows whose limits allow items, and defer the others."""
        for flow_no in flow_nos:
            entry = self._flows.get(flow_no)
            if entry is None or entry.state is not _QueueState.LIMITED:
                continue
            allowance = allowances.get(flow_no)
            if allowance is not None and allowance.items > 0:
                entry.empty_claims = 0
                self._enqueue(entry)
            else:
                self._limit(entry, allowance and allowance.retry_seconds, now)

    def _is_heavy(self, flow_no: int) -> bool:
        entry = self._flows.get(flow_no) or self._flows.get(~flow_no)
        return entry is not None and entry.load is FlowLoad.HEAVY

    def _served_entry(self, share: FlowShare) -> _QueuedFlow[GroupT] | None:
        """Return the flow's entry if this share is its current one; None if it is deferred."""
        entry = self._flows.get(share.key)
        is_served = (
            entry is not None and entry.state is _QueueState.SERVED and entry.ticket == share.ticket
        )
        return entry if is_served else None

    def _end_share(self, share: FlowShare, taken: int, now: float) -> _QueuedFlow[GroupT] | None:
        """Count the items of a share, and decide whether its flow is light or heavy."""
        entry = self._served_entry(share)
        if entry is None:
            return None
        entry.touched_at = now
        entry.taken += taken
        entry.empty_claims = 0 if taken else entry.empty_claims + 1
        entry.full_shares = entry.full_shares + 1 if taken >= share.quota else 0
        if taken >= LIGHT_ITEMS_MAX or entry.full_shares >= FULL_SHARES_MAX:
            entry.load = FlowLoad.HEAVY
        elif 2 * taken < share.quota:
            entry.load = FlowLoad.LIGHT
        return entry

    def _schedule_next(
        self, entry: _QueuedFlow[GroupT], due_seconds: float, asked_at: float
    ) -> None:
        if due_seconds > 0:
            entry.empty_claims = 0  # no row is locked; a poll that finds one due schedules it anew
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + due_seconds)
        elif entry.empty_claims:
            # Another claimer has its rows locked, or had when this one looked for them.
            pause = _backoff(EMPTY_RETRY_SECONDS, EMPTY_RETRY_SECONDS_MAX, entry.empty_claims)
            self._schedule(entry, _QueueState.SCHEDULED, asked_at + pause)
        else:
            self._enqueue(entry)

    def _limit(self, entry: _QueuedFlow[GroupT], retry_seconds: float | None, now: float) -> None:
        """Wait until the token bucket has tokens again; if that is unknown, ever longer."""
        entry.empty_claims += 1
        if retry_seconds is None:
            pause = _backoff(LIMIT_RETRY_SECONDS, LIMIT_RETRY_SECONDS_MAX, entry.empty_claims)
        else:
            pause = min(BUCKET_SECONDS_MAX, max(LIMIT_RETRY_SECONDS, retry_seconds))
        self._schedule(entry, _QueueState.LIMITED, now + pause)

    def _enqueue(self, entry: _QueuedFlow[GroupT], ticket: int | None = None) -> None:
        entry.state = _QueueState.QUEUED
        entry.ticket = next(self._tickets) if ticket is None else ticket
        queue = self._queues[entry.load].setdefault(entry.group, [])
        heappush(queue, (entry.virtual_time, entry.ticket, entry))

    def _schedule(self, entry: _QueuedFlow[GroupT], state: _QueueState, at: float) -> None:
        entry.state, entry.ticket = state, next(self._tickets)
        timed = self._limited if state is _QueueState.LIMITED else self._timed
        heappush(timed, (at, entry.ticket, entry))


def _backoff(seconds: float, seconds_max: float, empty_claims: int) -> float:
    return min(seconds_max, seconds * 2 ** min(empty_claims, _DOUBLINGS_MAX))


def _drop_void(heap: _Heap[GroupT]) -> bool:
    """Drop void entries from the head; return whether a valid one remains."""
    while heap and heap[0][1] != heap[0][2].ticket:
        heappop(heap)
    return bool(heap)


def _pop_due(heap: _Heap[GroupT], now: float, limit: float = inf) -> Iterator[_QueuedFlow[GroupT]]:
    """Take the valid entries whose time is now or before, `limit` at most."""
    while limit > 0 and _drop_void(heap) and heap[0][0] <= now:
        limit -= 1
        yield heappop(heap)[2]
