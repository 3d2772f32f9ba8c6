"""The flow queue of direct mode: flows by weight, within the capacity of their handler pool. Pure.

Stride scheduling (Waldspurger and Weihl, 1995): a flow's virtual time grows by the items it was
given divided by its weight, and the flow with the lowest virtual time is next. So weights hold over
time, even if a pool has capacity for one item at a time. A flow that returns starts at the virtual
time of the others: it gains nothing by its absence. One claim is split by weight, too, but a flow
gets no more than it seems to want: light flows get all they need, and heavy flows get the rest.

Times are monotonic seconds, passed in by the caller.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from dueledger.ledger.store.claims import DueFlow, PendingFloor

WANTED_FIRST: Final = 64
WANTED_MIN: Final = 16
WANTED_MAX: Final = 1_000_000
GROWTH: Final = 4
LIGHT_ITEMS_MAX: Final = 200
"""A flow that wants more than this is heavy."""
FLOOD_SHARE: Final = 4
"""While light flows wait, heavy claims have a quarter of the items, so that these wait less."""
SERIAL_ITEMS_MAX: Final = 500
"""Each serial row whose key is held is updated, to put it behind its key."""
EMPTY_RETRY_SECONDS: Final = 0.01
EMPTY_RETRY_DOUBLINGS_MAX: Final = 7


class FlowPart(NamedTuple):
    """The plain rows of a flow, or its serial rows, which need their keys."""

    flow_no: int
    serial: bool


class Share(NamedTuple):
    """How many items may be claimed now, and the floor at which the scan of plain rows starts."""

    key: FlowPart
    flow: DueFlow
    quota: int
    floor: PendingFloor

    @property
    def needs_own_claim(self) -> bool:
        """Whether its items need a claim of their own."""
        return self.key.serial or self.flow.is_limited


class ShareResult(NamedTuple):
    """The result of a share. `has_more`: the full quota was found, and there may be more rows.

    Otherwise `next_seconds` is the time from the query until more is due, or None if unknown.
    """

    taken: int
    has_more: bool = False
    next_seconds: float | None = None
    floor: PendingFloor | None = None


class PoolCapacity(NamedTuple):
    """The capacity of a handler pool: how many more calls, and how many items a call takes."""

    calls: int
    batch_max: int


NOT_QUEUED: Final = -1


@dataclass(slots=True, eq=False)
class _QueuedPart:
    key: FlowPart
    flow: DueFlow
    due_at: float
    virtual_time: float  # its pass
    floor: PendingFloor
    wanted: int = WANTED_FIRST
    empty_claims: int = 0  # turns in a row that brought nothing
    ticket: int = NOT_QUEUED  # the latest of its entries in a heap; others are void

    @property
    def needs_own_claim(self) -> bool:
        return self.key.serial or self.flow.is_limited

    @property
    def is_light(self) -> bool:
        return self.wanted <= LIGHT_ITEMS_MAX


@dataclass(slots=True)
class _FlowGroup:
    """The flows of a pool: due ones by virtual time, the others by due time."""

    due: list[tuple[float, int, _QueuedPart]] = field(
        default_factory=list[tuple[float, int, _QueuedPart]]
    )
    later: list[tuple[float, int, _QueuedPart]] = field(
        default_factory=list[tuple[float, int, _QueuedPart]]
    )
    virtual_time_reached: float = 0.0
    entries: int = 0

    def enter(self, part: _QueuedPart, now: float) -> None:
        """Queue a place among those that are due, or for its time."""
        self.entries += 1
        part.ticket = self.entries
        if part.due_at <= now:
            heapq.heappush(self.due, (part.virtual_time, part.ticket, part))
        else:
            heapq.heappush(self.later, (part.due_at, part.ticket, part))

    def advance(self, now: float) -> None:
        """Move the entries that are due by now."""
        while self.later and self.later[0][0] <= now:
            _, entry, part = heapq.heappop(self.later)
            if part.ticket == entry:
                self.enter(part, now)

    def next(self) -> _QueuedPart | None:
        """Return the due place with the lowest pass, without taking it."""
        _drop_void(self.due)
        return self.due[0][2] if self.due else None

    def pop(self) -> _QueuedPart:
        """Take that place; its pass is where newcomers begin."""
        self.virtual_time_reached, _, part = heapq.heappop(self.due)
        part.ticket = NOT_QUEUED
        return part


def _drop_void(heap: list[tuple[float, int, _QueuedPart]]) -> None:
    while heap and heap[0][1] != heap[0][2].ticket:
        heapq.heappop(heap)


@final
class Turns:
    """Queues the flows that have due rows now or soon, and serves them by weight."""

    def __init__(self, group_of: Callable[[DueFlow], Hashable]) -> None:
        """Line flows up by what `line_of` says of them: whose room they share."""
        self._group_of = group_of
        self._groups: dict[Hashable, _FlowGroup] = {}
        self._parts: dict[FlowPart, _QueuedPart] = {}
        self._light = 0

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Apply a list of all flows that are due now or soon; drop the flows that it lacks."""
        before, self._parts = self._parts, {}
        groups, self._groups = self._groups, {}
        for flow in flows:
            group_key = self._group_of(flow)
            group = self._groups.get(group_key)
            if group is None:
                group = self._groups[group_key] = _FlowGroup()
                group.virtual_time_reached = (
                    groups[group_key].virtual_time_reached if group_key in groups else 0.0
                )
            for key in flow.has_plain * (
                FlowPart(flow.flow_no, serial=False),
            ) + flow.has_serial * (FlowPart(flow.flow_no, serial=True),):
                part = _queued_part(
                    key, flow, before.get(key), group.virtual_time_reached, asked_at
                )
                self._parts[key] = part
                group.enter(part, asked_at)
        self._light = sum(part.is_light for part in self._parts.values())

    def has_ready(self, group_keys: Iterable[Hashable], *, now: float) -> bool:
        """Return whether one of these groups has a due flow."""
        groups = [self._groups[group_key] for group_key in group_keys if group_key in self._groups]
        for group in groups:
            group.advance(now)
        return any(group.next() is not None for group in groups)

    def next_due_at(self) -> float:
        """Return when the next flow is due; infinity if none is."""
        for group in self._groups.values():
            _drop_void(group.later)
        return min(
            (group.later[0][0] for group in self._groups.values() if group.later), default=inf
        )

    def next_shares(
        self, group_key: Hashable, capacity: PoolCapacity, *, items_max: int, flows_max: int
    ) -> list[Share]:
        """Take the next out of a line, with their quotas: `items_max` in all, or one a claim.

        Those that need claims of their own need calls of their own; the others share. Each that
        is returned must be given to `served`.
        """
        group = self._groups.get(group_key)
        if group is None or capacity.calls < 1:
            return []
        claims = _next_claims(group, min(capacity.calls, items_max), flows_max)
        if self._light and any(not part.is_light for claim in claims for part in claim):
            items_max = max(1, items_max // FLOOD_SHARE)
        calls = split_by_demand(
            capacity.calls,
            [sum(part.flow.weight for part in claim) for claim in claims],
            [-(-sum(part.wanted for part in claim) // capacity.batch_max) for claim in claims],
        )
        shares_of_items = split_by_demand(
            max(items_max, len(claims)),
            calls,
            [claim_calls * capacity.batch_max for claim_calls in calls],
        )
        shares: list[Share] = []
        for claim, items in zip(claims, shares_of_items, strict=True):
            for part in claim[items:]:
                group.enter(part, part.due_at)
            fitting = claim[:items]
            quotas = split_by_demand(
                items,
                [part.flow.weight for part in fitting],
                [part.wanted for part in fitting],
            )
            shares += [
                Share(part.key, part.flow, quota, part.floor)
                for part, quota in zip(fitting, quotas, strict=True)
            ]
        return shares

    def requeue(self, share: Share, result: ShareResult, *, asked_at: float) -> None:
        """Queue a flow again: at once if it has more rows, otherwise for when it will."""
        part = self._parts.get(share.key)
        if part is None or part.ticket != NOT_QUEUED:
            return
        was_light = part.is_light
        part.virtual_time += result.taken / share.flow.weight
        part.empty_claims = 0 if result.taken else part.empty_claims + 1
        if result.has_more:
            part.wanted = min(max(part.wanted, GROWTH * result.taken), _wanted_max(share.key))
            part.floor = result.floor or part.floor
            part.due_at = asked_at
        else:
            part.wanted = max(WANTED_MIN, 2 * result.taken)
            if result.next_seconds is not None:
                part.due_at = asked_at + result.next_seconds
            elif share.needs_own_claim:
                # Its limits allow none, or its keys are held: until when is unknown.
                pause = EMPTY_RETRY_SECONDS * 2 ** min(part.empty_claims, EMPTY_RETRY_DOUBLINGS_MAX)
                part.due_at = asked_at + pause
            else:
                del self._parts[share.key]
                self._light -= was_light
                return
        self._light += part.is_light - was_light
        self._groups[self._group_of(share.flow)].enter(part, asked_at)

    def check_soon(self, flow_no: int, *, now: float) -> None:
        """Query a flow again soon, because some of its items have ended."""
        for serial in (False, True):
            part = self._parts.get(FlowPart(flow_no, serial))
            if part is not None and part.empty_claims and part.due_at > now:
                part.due_at, part.empty_claims = now, 0
                if part.ticket != NOT_QUEUED:
                    self._groups[self._group_of(part.flow)].enter(part, now)


def split_by_demand(count: int, weights: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Split `count` by weight; each gets at least 1, and no more than it wants while others do.

    There are at most `count` of them.
    """
    shares_of_items = [0] * len(weights)
    count_left, weight_left = count, sum(weights)
    order = sorted(range(len(weights)), key=lambda index: wanted[index] / weights[index])
    for done, index in enumerate(order, 1):
        fair = count_left * weights[index] // weight_left
        most = count_left - (len(order) - done)
        shares_of_items[index] = max(1, min(wanted[index], fair, most))
        count_left -= shares_of_items[index]
        weight_left -= weights[index]
    return shares_of_items


def _wanted_max(key: FlowPart) -> int:
    return SERIAL_ITEMS_MAX if key.serial else WANTED_MAX


def _queued_part(
    key: FlowPart,
    flow: DueFlow,
    before: _QueuedPart | None,
    virtual_time_reached: float,
    asked_at: float,
) -> _QueuedPart:
    due_at = asked_at + max(0.0, flow.due_seconds)
    part = _QueuedPart(key, flow, due_at, virtual_time_reached, flow.floor)
    if before is not None:
        part.virtual_time, part.wanted, part.empty_claims = (
            before.virtual_time,
            before.wanted,
            before.empty_claims,
        )
        same = (before.flow.is_limited, before.flow.rate_per_second) == (
            flow.is_limited,
            flow.rate_per_second,
        )
        if before.empty_claims and same and flow.due_seconds <= 0:
            part.due_at = max(due_at, before.due_at)
    return part


def _next_claims(group: _FlowGroup, claims_max: int, flows_max: int) -> list[list[_QueuedPart]]:
    """Take what is next: those that share a claim are one unit, the others one each."""
    claims: list[list[_QueuedPart]] = []
    shared_claim: list[_QueuedPart] | None = None
    for _ in range(flows_max):
        part = group.next()
        if part is None:
            break
        if shared_claim is not None and not part.needs_own_claim:
            shared_claim.append(group.pop())
        elif len(claims) < claims_max:
            claims.append([group.pop()])
            if not part.needs_own_claim:
                shared_claim = claims[-1]
        else:
            break
    return claims
