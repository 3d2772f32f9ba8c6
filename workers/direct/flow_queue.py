"""Whose turn it is: flows by weight, within the room of the crew that works their kind. Pure.

Stride scheduling (Waldspurger and Weihl, 1995): a flow's pass grows by what it was given over its
weight, and who stands lowest is next. So weights hold over time even where a crew has room for
one item at a time, and a flow that comes back begins where the others are: it gains nothing by
having been away. Within one look the room is shared by weight too, but nobody is given more than
it seems to want: what little is due is taken beside a flood, and the flood gets the rest.

Times are monotonic seconds, given by the caller.
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
"""A flow that wants more than this is a flood to the others."""
FLOOD_SHARE: Final = 4
"""Beside others a flood is taken in a quarter of the items at a time: they wait that much less."""
SERIAL_ITEMS_MAX: Final = 500
"""Each serial row that cannot be had is written to, to put it behind its key."""
MISS_SECONDS: Final = 0.01
MISS_DOUBLINGS_MAX: Final = 7


class FlowPart(NamedTuple):
    """What waits of a flow: its plain rows, or its serial ones, which have keys to hold."""

    flow_no: int
    serial: bool


class Share(NamedTuple):
    """How many items may be taken now, and from where on plain rows are looked for."""

    key: FlowPart
    flow: DueFlow
    quota: int
    floor: PendingFloor

    @property
    def needs_own_claim(self) -> bool:
        """Whether its items need a claim of their own."""
        return self.key.serial or self.flow.is_limited


class ShareResult(NamedTuple):
    """What came of a share: `has_more` where its quota was found and perhaps more.

    Otherwise `next_seconds` says when more is due, counted from the question, None if unknown.
    """

    taken: int
    has_more: bool = False
    next_seconds: float | None = None
    floor: PendingFloor | None = None


class PoolCapacity(NamedTuple):
    """What a crew has room for: so many calls more, of so many items each."""

    calls: int
    batch_max: int


NOT_QUEUED: Final = -1


@dataclass(slots=True, eq=False)
class _Place:
    key: FlowPart
    flow: DueFlow
    at: float
    virtual_time: float  # its pass
    floor: PendingFloor
    wanted: int = WANTED_FIRST
    misses: int = 0  # turns in a row that brought nothing
    ticket: int = NOT_QUEUED  # the latest of its entries in a heap; others are void

    @property
    def needs_own_claim(self) -> bool:
        return self.key.serial or self.flow.is_limited

    @property
    def is_light(self) -> bool:
        return self.wanted <= LIGHT_ITEMS_MAX


@dataclass(slots=True)
class _Line:
    """A crew's flows: those that are due by their pass, the others by their time."""

    due: list[tuple[float, int, _Place]] = field(default_factory=list[tuple[float, int, _Place]])
    later: list[tuple[float, int, _Place]] = field(default_factory=list[tuple[float, int, _Place]])
    reached: float = 0.0
    entries: int = 0

    def enter(self, place: _Place, now: float) -> None:
        """Queue a place among those that are due, or for its time."""
        self.entries += 1
        place.ticket = self.entries
        if place.at <= now:
            heapq.heappush(self.due, (place.virtual_time, place.ticket, place))
        else:
            heapq.heappush(self.later, (place.at, place.ticket, place))

    def advance(self, now: float) -> None:
        """Queue those whose time has come."""
        while self.later and self.later[0][0] <= now:
            _, entry, place = heapq.heappop(self.later)
            if place.ticket == entry:
                self.enter(place, now)

    def next(self) -> _Place | None:
        """Return the due place with the lowest pass, without taking it."""
        _drop_void(self.due)
        return self.due[0][2] if self.due else None

    def pop(self) -> _Place:
        """Take that place; its pass is where newcomers begin."""
        self.reached, _, place = heapq.heappop(self.due)
        place.ticket = NOT_QUEUED
        return place


def _drop_void(heap: list[tuple[float, int, _Place]]) -> None:
    while heap and heap[0][1] != heap[0][2].ticket:
        heapq.heappop(heap)


@final
class Turns:
    """Remembers which flows have work, or soon will, and serves them in turn."""

    def __init__(self, line_of: Callable[[DueFlow], Hashable]) -> None:
        """Line flows up by what `line_of` says of them: whose room they share."""
        self._group_of = line_of
        self._groups: dict[Hashable, _Line] = {}
        self._places: dict[FlowPart, _Place] = {}
        self._light = 0

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Take a list of all that is due and soon will be; what is not in it is forgotten."""
        before, self._places = self._places, {}
        lines, self._groups = self._groups, {}
        for flow in flows:
            name = self._group_of(flow)
            line = self._groups.get(name)
            if line is None:
                line = self._groups[name] = _Line()
                line.reached = lines[name].reached if name in lines else 0.0
            for key in flow.has_plain * (
                FlowPart(flow.flow_no, serial=False),
            ) + flow.has_serial * (FlowPart(flow.flow_no, serial=True),):
                place = _place(key, flow, before.get(key), line.reached, asked_at)
                self._places[key] = place
                line.enter(place, asked_at)
        self._light = sum(place.is_light for place in self._places.values())

    def has_ready(self, names: Iterable[Hashable], *, now: float) -> bool:
        """Tell whether something in these lines waits for its turn."""
        lines = [self._groups[name] for name in names if name in self._groups]
        for line in lines:
            line.advance(now)
        return any(line.next() is not None for line in lines)

    def next_due_at(self) -> float:
        """Say when the next is due; infinite where none is expected."""
        for line in self._groups.values():
            _drop_void(line.later)
        return min((line.later[0][0] for line in self._groups.values() if line.later), default=inf)

    def next_shares(
        self, name: Hashable, room: PoolCapacity, *, items_max: int, flows_max: int
    ) -> list[Share]:
        """Take the next out of a line, with their quotas: `items_max` in all, or one a claim.

        Those that need claims of their own need calls of their own; the others share. Each that
        is returned must be given to `served`.
        """
        line = self._groups.get(name)
        if line is None or room.calls < 1:
            return []
        units = _next_claims(line, min(room.calls, items_max), flows_max)
        if self._light and any(not place.is_light for unit in units for place in unit):
            items_max = max(1, items_max // FLOOD_SHARE)
        calls = split_by_demand(
            room.calls,
            [sum(place.flow.weight for place in unit) for unit in units],
            [-(-sum(place.wanted for place in unit) // room.batch_max) for unit in units],
        )
        parts = split_by_demand(
            max(items_max, len(units)), calls, [unit_calls * room.batch_max for unit_calls in calls]
        )
        shares: list[Share] = []
        for unit, items in zip(units, parts, strict=True):
            for place in unit[items:]:
                line.enter(place, place.at)
            fitting = unit[:items]
            quotas = split_by_demand(
                items,
                [place.flow.weight for place in fitting],
                [place.wanted for place in fitting],
            )
            shares += [
                Share(place.key, place.flow, quota, place.floor)
                for place, quota in zip(fitting, quotas, strict=True)
            ]
        return shares

    def requeue(self, share: Share, result: ShareResult, *, asked_at: float) -> None:
        """Queue a flow again: at once where it has more, or for when it will have."""
        place = self._places.get(share.key)
        if place is None or place.ticket != NOT_QUEUED:
            return
        was_light = place.is_light
        place.virtual_time += result.taken / share.flow.weight
        place.misses = 0 if result.taken else place.misses + 1
        if result.has_more:
            place.wanted = min(max(place.wanted, GROWTH * result.taken), _wanted_max(share.key))
            place.floor = result.floor or place.floor
            place.at = asked_at
        else:
            place.wanted = max(WANTED_MIN, 2 * result.taken)
            if result.next_seconds is not None:
                place.at = asked_at + result.next_seconds
            elif share.needs_own_claim:
                # Its limits hold it, or its keys are held: nobody can say until when.
                pause = MISS_SECONDS * 2 ** min(place.misses, MISS_DOUBLINGS_MAX)
                place.at = asked_at + pause
            else:
                del self._places[share.key]
                self._light -= was_light
                return
        self._light += place.is_light - was_light
        self._groups[self._group_of(share.flow)].enter(place, asked_at)

    def check_soon(self, flow_no: int, *, now: float) -> None:
        """Ask of a flow again soon: some of its items have ended."""
        for serial in (False, True):
            place = self._places.get(FlowPart(flow_no, serial))
            if place is not None and place.misses and place.at > now:
                place.at, place.misses = now, 0
                if place.ticket != NOT_QUEUED:
                    self._groups[self._group_of(place.flow)].enter(place, now)


def split_by_demand(count: int, weights: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Share `count` by weight, to each at least 1 and no more than it wants while others want more.

    There are at most `count` of them.
    """
    parts = [0] * len(weights)
    left, weight_left = count, sum(weights)
    order = sorted(range(len(weights)), key=lambda index: wanted[index] / weights[index])
    for done, index in enumerate(order, 1):
        fair = left * weights[index] // weight_left
        most = left - (len(order) - done)
        parts[index] = max(1, min(wanted[index], fair, most))
        left -= parts[index]
        weight_left -= weights[index]
    return parts


def _wanted_max(key: FlowPart) -> int:
    return SERIAL_ITEMS_MAX if key.serial else WANTED_MAX


def _place(
    key: FlowPart, flow: DueFlow, old: _Place | None, reached: float, asked_at: float
) -> _Place:
    at = asked_at + max(0.0, flow.due_seconds)
    place = _Place(key, flow, at, reached, flow.floor)
    if old is not None:
        place.virtual_time, place.wanted, place.misses = old.virtual_time, old.wanted, old.misses
        same = (old.flow.is_limited, old.flow.rate_per_second) == (
            flow.is_limited,
            flow.rate_per_second,
        )
        if old.misses and same and flow.due_seconds <= 0:
            place.at = max(at, old.at)
    return place


def _next_claims(line: _Line, units_max: int, flows_max: int) -> list[list[_Place]]:
    """Take what is next: those that share a claim are one unit, the others one each."""
    units: list[list[_Place]] = []
    together: list[_Place] | None = None
    for _ in range(flows_max):
        place = line.next()
        if place is None:
            break
        if together is not None and not place.needs_own_claim:
            together.append(line.pop())
        elif len(units) < units_max:
            units.append([line.pop()])
            if not place.needs_own_claim:
                together = units[-1]
        else:
            break
    return units
