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

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from itertools import count
from math import inf
from typing import Final, Generic, final

from dueledger.ledger.flows.known_lag_targets import KnownLagTargets
from dueledger.ledger.flows.queued_flow import (
    LIGHT_ITEMS_MAX,
    LIMIT_RETRY_SECONDS_MAX,
    WANTED_FIRST,
    FlowHeap,
    GroupT,
    HeapEntry,
    QueuedFlow,
    QueueState,
    fills,
)
from dueledger.ledger.flows.shares import (
    FlowLoad,
    FlowShare,
    NextDueQuery,
    ScannedFlows,
    ShareResult,
)
from dueledger.ledger.rules.flood_pace import LagTargets
from dueledger.ledger.store.claims import OVERLAP_SECONDS, DueFlow, NextDue
from dueledger.ledger.store.flow_limits import FlowAllowance

FLOOR_RAISE_ITEMS: Final = 1000
"""After this many items are taken from a flow, its floor is read again."""
NOTHING_SCANNED: Final = ScannedFlows()
KNOWN_SECONDS: Final = 1.0
"""So long after it was listed a flow without rows is kept: its next item needs no new list."""


@final
class FlowQueue(Generic[GroupT]):
    """Queues the flows that have due rows now or soon, and serves them in order.

    A light flow becomes heavy when it fills a light share, or two small ones in a row, or fills one
    in a claim of which such shares are a light share together. A heavy flow becomes light when it
    uses less than half of a share. Light and heavy flows queue apart, so that
    light flows never wait for a flow with a million rows. A flow without due rows waits until its
    next row is due.
    """

    def __init__(
        self, group_of: Callable[[DueFlow], GroupT], *, serial_apart: bool = False
    ) -> None:
        """Queue flows by `group_of`; with `serial_apart`, serial and plain rows of a flow apart."""
        self._group_of = group_of
        self._serial_apart = serial_apart
        self._flows: dict[int, QueuedFlow[GroupT]] = {}  # by FlowShare.key
        self._queues: dict[FlowLoad, dict[GroupT, FlowHeap[GroupT]]] = {
            load: {} for load in FlowLoad
        }
        self._timed = FlowHeap[GroupT]()
        self._limited = FlowHeap[GroupT]()
        self._virtual_times: dict[GroupT, float] = {}
        self._lag_targets = KnownLagTargets()
        self._tickets = count()

    def __len__(self) -> int:
        return len(self._flows)

    def has_active(self, load: FlowLoad) -> bool:
        """Return whether there are flows of this load that may be served, now or soon."""
        return any(
            entry.load is load
            and entry.state is not QueueState.LIMITED
            and entry.state is not QueueState.IDLE
            for entry in self._flows.values()
        )

    def queued(self, load: FlowLoad) -> int:
        """Return about how many flows of this load are queued."""
        return sum(map(len, self._queues[load].values()))

    def lag_targets(self, now: float) -> LagTargets | None:
        """Return the lag targets of flows that had items a moment ago and are no floods."""
        return self._lag_targets.of_light_flows(now, self._is_heavy)

    def waiting_groups(self, loads: Iterable[FlowLoad] = FlowLoad) -> set[GroupT]:
        """Return the groups that have queued flows of these loads."""
        return {
            group
            for load in loads
            for group, queue in self._queues[load].items()
            if queue.first() is not None
        }

    def next_due_at(self) -> float:
        """Return when the first waiting flow is due; infinity without one."""
        return self._timed.first_at()

    def next_limit_check_at(self) -> float:
        """Return when the limits of the first limited flow are checked; infinity without one."""
        return self._limited.first_at()

    def move_due(self, now: float) -> None:
        """Queue the flows whose next row is due by now; they gain nothing by their absence."""
        for entry in self._timed.pop_due(now):
            self._return(entry)

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Apply one page of the due flows, which were listed at `asked_at`.

        A flow that was served since then keeps its state.
        """
        for flow in flows:
            if flow.has_plain or not self._serial_apart:
                self._update_flow(flow, asked_at, serial=False)
            if flow.has_serial and self._serial_apart:
                self._update_flow(flow, asked_at, serial=True)

    def known_ready(self, flows_min: int, *, asked_at: float) -> list[int]:
        """Return the flows that are queued, and so have due rows: a list may leave them out.

        None if they are fewer than `flows_min`. They count as listed at `asked_at`. Their terms
        stay as they were, and rows that committed late stay below their floors: call it for some
        lists only.
        """
        known = [
            entry
            for entry in self._flows.values()
            if entry.state is QueueState.QUEUED
            and not entry.empty_claims
            and not entry.flow.has_serial
            and entry.flow.lag_target_seconds is None
        ]
        if len(known) < flows_min:
            return []
        for entry in known:
            entry.listed_at = asked_at
        return [entry.flow.flow_no for entry in known]

    def remove_unlisted(self, *, asked_at: float) -> None:
        """Remove the flows that the list of `asked_at` did not contain.

        Those listed a moment before it stay for `wake`, without rows.
        """
        unlisted = [
            key
            for key, entry in self._flows.items()
            if entry.listed_at < asked_at
            and entry.touched_at < asked_at
            and entry.state is not QueueState.SERVED
        ]
        for key in unlisted:
            entry = self._flows[key]
            entry.unlist()
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
            case QueueState.SERVED | QueueState.QUERIED:
                return False  # its claim, or the query, may not see the item
            case QueueState.IDLE | QueueState.SCHEDULED:
                self._return(entry)
            case QueueState.QUEUED | QueueState.LIMITED:
                pass
        if not entry.flow.has_plain:
            entry.flow = entry.flow._replace(has_plain=True)
        entry.floor, entry.touched_at = entry.floor.lowered(since), now
        return True

    def _update_flow(self, flow: DueFlow, asked_at: float, *, serial: bool) -> None:
        group, key = self._group_of(flow), ~flow.flow_no if serial else flow.flow_no
        entry = self._flows.get(key)
        if entry is None:
            entry = self._flows[key] = QueuedFlow(flow, group, serial, flow.floor)
        before, group_before = entry.flow, entry.group
        entry.flow, entry.group, entry.listed_at = flow, group, asked_at
        self._lag_targets.update(flow, asked_at)
        entry.is_serial = flow.has_serial
        if entry.touched_at >= asked_at or entry.state is QueueState.SERVED:
            return
        entry.floor, entry.taken = flow.floor, 0
        limits_changed = (
            flow.is_limited != before.is_limited or flow.rate_per_second != before.rate_per_second
        )
        match entry.state:
            case QueueState.QUEUED:
                is_free = group != group_before
            case QueueState.LIMITED:
                is_free = limits_changed or not flow.is_limited
            case QueueState.SCHEDULED if entry.empty_claims and flow.due_seconds <= 0:
                is_free = limits_changed
            case _:
                if entry.state is QueueState.IDLE:
                    entry.start_at(self._virtual_times.get(group, 0.0))
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
        heads: list[tuple[HeapEntry[GroupT], GroupT, FlowHeap[GroupT]]] = []
        for queues in map(self._queues.__getitem__, loads):
            for group, queue in list(queues.items()):
                if (first := queue.first()) is not None:
                    heads.append((first, group, queue))
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
            queue.pop()
            self._virtual_times[group] = max(virtual_time, self._virtual_times.get(group, 0.0))
            entry.state = QueueState.SERVED
            entry.ticket, entry.queue_ticket = share.ticket, queue_ticket
            shares.append(share)
            if (first := queue.first()) is not None:
                heapreplace(heads, (first, group, queue))
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
            entry.want_more(result.taken)
            entry.floor = result.floor or entry.floor
            self._enqueue(entry)
            return
        entry.want_few(result.taken)
        if result.next_seconds is not None:
            self._schedule(entry, QueueState.SCHEDULED, asked_at + result.next_seconds)
        elif share.needs_own_claim:
            # Its limits allow none, or its keys are held: until when is unknown.
            self._schedule(entry, QueueState.SCHEDULED, asked_at + entry.own_claim_pause())
        else:
            entry.state, entry.wanted = QueueState.IDLE, WANTED_FIRST

    def requeue_at_end(
        self,
        shares: Iterable[FlowShare],
        taken: Mapping[int, int],
        *,
        now: float,
        scanned: ScannedFlows = NOTHING_SCANNED,
    ) -> list[NextDueQuery]:
        """Put flows that have more rows at the end of the queue; return queries for the others.

        A flow is not queried if the claim says when its next plain row is due. Serial flows always
        are: rows behind a held key are due, but were not taken. So is a flow of which nothing was
        taken: others may have its rows.
        """
        queries: list[NextDueQuery] = []
        counted = [(share, taken.get(share.flow.flow_no, 0)) for share in shares]
        filled = sum(items for share, items in counted if fills(items, share.quota))
        for share, items in counted:
            known_due_at = scanned.due_ats.get(share.flow.flow_no) if items else None
            is_emptied = known_due_at is not None and share.spare > 0
            entry = self._end_share(
                share._replace(quota=share.most) if is_emptied else share,
                items,
                now,
                of_flood=filled >= LIGHT_ITEMS_MAX,
            )
            if entry is None:
                continue
            # Few retries leave a part of the share unused, though other rows are due.
            has_more = 2 * items >= share.quota and not entry.flow.has_serial and not is_emptied
            if has_more and items >= share.quota:
                entry.raise_floor(scanned.last_rows.get(entry.flow.flow_no))
            raises_floor = entry.taken >= FLOOR_RAISE_ITEMS
            due_at = None if raises_floor else known_due_at
            if has_more:
                self._enqueue(entry)
            elif due_at is None or entry.flow.has_serial:
                entry.state = QueueState.QUERIED
            elif due_at == inf:
                entry.state = QueueState.IDLE
            else:
                self._schedule(entry, QueueState.SCHEDULED, due_at)
            if entry.state is QueueState.QUERIED or raises_floor:
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
                entry.flow = entry.flow._replace(has_plain=result.plain, has_serial=result.serial)
            if entry.state is not QueueState.QUERIED or result.due_seconds is None:
                continue
            without_rows.discard(result.flow_no)
            self._schedule_next(entry, result.due_seconds, asked_at)
        for flow_no in without_rows:
            entry = self._flows.get(flow_no)
            if entry is not None and entry.state is QueueState.QUERIED:
                entry.state, entry.empty_claims = QueueState.IDLE, 0

    def check_soon(self, flow_no: int, *, now: float) -> None:
        """Queue a flow that found nothing: some of its items have ended since."""
        for entry in (self._flows.get(flow_no), self._flows.get(~flow_no)):
            if entry and entry.state is QueueState.SCHEDULED and entry.empty_claims:
                entry.empty_claims = 0
                self._schedule(entry, QueueState.SCHEDULED, now)

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
        due = list(self._limited.pop_due(now, limit))
        for entry in due:
            self._schedule(entry, QueueState.LIMITED, now + LIMIT_RETRY_SECONDS_MAX)
        return [entry.flow.flow_no for entry in due]

    def apply_allowances(
        self, flow_nos: Sequence[int], allowances: Mapping[int, FlowAllowance], *, now: float
    ) -> None:
        """Queue the flows whose limits allow items, and defer the others."""
        for flow_no in flow_nos:
            entry = self._flows.get(flow_no)
            if entry is None or entry.state is not QueueState.LIMITED:
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

    def _served_entry(self, share: FlowShare) -> QueuedFlow[GroupT] | None:
        """Return the flow's entry if this share is its current one; None if it is deferred."""
        entry = self._flows.get(share.key)
        return entry if entry is not None and entry.is_served(share) else None

    def _end_share(
        self, share: FlowShare, taken: int, now: float, *, of_flood: bool = False
    ) -> QueuedFlow[GroupT] | None:
        entry = self._served_entry(share)
        if entry is not None:
            entry.count_taken(taken, share.quota, now, of_flood=of_flood)
        return entry

    def _schedule_next(
        self, entry: QueuedFlow[GroupT], due_seconds: float, asked_at: float
    ) -> None:
        if due_seconds > 0:
            entry.empty_claims = 0  # no row is locked; a poll that finds one due schedules it anew
            self._schedule(entry, QueueState.SCHEDULED, asked_at + due_seconds)
        elif entry.empty_claims:
            # Another claimer has its rows locked, or had when this one looked for them.
            self._schedule(entry, QueueState.SCHEDULED, asked_at + entry.locked_pause())
        else:
            self._enqueue(entry)

    def _limit(self, entry: QueuedFlow[GroupT], retry_seconds: float | None, now: float) -> None:
        entry.empty_claims += 1
        self._schedule(entry, QueueState.LIMITED, now + entry.limits_pause(retry_seconds))

    def _return(self, entry: QueuedFlow[GroupT]) -> None:
        entry.start_at(self._virtual_times.get(entry.group, 0.0))
        self._enqueue(entry)

    def _enqueue(self, entry: QueuedFlow[GroupT], ticket: int | None = None) -> None:
        entry.state = QueueState.QUEUED
        entry.ticket = next(self._tickets) if ticket is None else ticket
        queues = self._queues[entry.load]
        if (queue := queues.get(entry.group)) is None:
            queue = queues[entry.group] = FlowHeap()
        queue.push(entry.virtual_time, entry)

    def _schedule(self, entry: QueuedFlow[GroupT], state: QueueState, at: float) -> None:
        entry.state, entry.ticket = state, next(self._tickets)
        timed = self._limited if state is QueueState.LIMITED else self._timed
        timed.push(at, entry)
