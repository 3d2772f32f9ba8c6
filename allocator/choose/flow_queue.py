"""Whose turn it is: a weighted round robin over the flows that have due rows, on two tracks. Pure.

Times are monotonic seconds, given by the caller.
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
"""A flow that has more than this at once is served among the heavy ones."""
FLOOR_RAISE_ITEMS: Final = 1000
"""So many taken since its floor was seen, a flow's floor is worth a look."""
EMPTY_RETRY_SECONDS: Final = 0.005
EMPTY_RETRY_SECONDS_MAX: Final = 0.25
LIMIT_RETRY_SECONDS: Final = 0.01
FULL_CLAIMS_MAX: Final = 2
"""A flow that fills so many shares in a row is heavy, however small they were."""
LIMIT_RETRY_SECONDS_MAX: Final = 1.0
BUCKET_SECONDS_MAX: Final = 60.0


class _QueueState(Enum):
    QUEUED = auto()
    SERVED = auto()  # a claim is being made
    QUERIED = auto()  # whether it has more is being found out
    SCHEDULED = auto()  # until it is due
    LIMITED = auto()  # by its limits, until they are looked at again
    IDLE = auto()  # nothing waits within the horizon


_AT_REST: Final = frozenset({_QueueState.LIMITED, _QueueState.IDLE})


@dataclass(slots=True, eq=False)
class _QueuedFlow:
    flow: DueFlow
    load: FlowLoad = FlowLoad.LIGHT
    standing: _QueueState = _QueueState.IDLE
    ticket: int = -1  # of its latest entry in a queue or the agenda; others are void
    touched_at: float = float("-inf")
    listed_at: float = float("-inf")
    empty_claims: int = 0  # turns in a row that brought nothing
    full_claims: int = 0  # and that it used to the full
    floor: PendingFloor = FLOOR_MIN
    taken: int = 0  # since the floor was seen
    queue: AdmissionGroup = field(init=False)

    def __post_init__(self) -> None:
        self.set_flow(self.flow)

    def set_flow(self, flow: DueFlow) -> None:
        self.flow = flow
        self.queue = admission_group_of(flow)


@final
class FlowQueue:
    """Remembers the flows that have rows, or soon will, and serves them in turn.

    A flow is light until it fills a light share, and heavy until it leaves most of a share unused:
    so one with a million rows is never asked among those that have a few, and these never wait for
    it. A flow whose rows are used up rests until the next one is due.
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
        self, load: FlowLoad, room: Callable[[AdmissionGroup], int], *, now: float
    ) -> bool:
        """Tell whether flows of this load are in the queue, at a gate with room."""
        self.move_due(now)
        queues = self._queues[load]
        return any(queue and room(gate) > 0 for gate, queue in queues.items())

    def has_active(self, load: FlowLoad) -> bool:
        """Tell whether there are flows of this load that may be served, now or soon."""
        return any(
            place.load is load and place.standing not in _AT_REST for place in self._flows.values()
        )

    def waiting_groups(self) -> set[AdmissionGroup]:
        """Return the gates that flows wait at."""
        return {gate for queues in self._queues.values() for gate, queue in queues.items() if queue}

    def next_due_at(self) -> float | None:
        """Return when the first flow that rests is due or is to be looked at, None if none is."""
        if self._limit_checks:
            return float("-inf")
        agenda = self._timed
        while agenda and agenda[0][1] != agenda[0][2].ticket:
            heappop(agenda)
        return agenda[0][0] if agenda else None

    def update(self, flows: Iterable[DueFlow], *, asked_at: float) -> None:
        """Take a part of a list of all that is due and soon will be, asked for at an instant.

        It says nothing of flows that were served since.
        """
        for flow in flows:
            self._update_flow(flow, asked_at)

    def remove_unlisted(self, *, asked_at: float) -> None:
        """Forget the flows that a list asked for at an instant did not name."""
        gone = [
            flow_no
            for flow_no, place in self._flows.items()
            if place.listed_at < asked_at
            and place.touched_at < asked_at
            and place.standing is not _QueueState.SERVED
        ]
        for flow_no in gone:
            place = self._flows.pop(flow_no)
            place.standing, place.ticket = _QueueState.IDLE, -1

    def _update_flow(self, flow: DueFlow, asked_at: float) -> None:
        place = self._flows.get(flow.flow_no)
        if place is None:
            place = self._flows[flow.flow_no] = _QueuedFlow(flow)
        before = place.flow
        place.set_flow(flow)
        place.listed_at = asked_at
        if place.touched_at >= asked_at or place.standing is _QueueState.SERVED:
            return
        place.floor = flow.floor
        place.taken = 0
        match place.standing:
            case _QueueState.QUEUED if place.queue != admission_group_of(before):
                self._enqueue(place)
            case _QueueState.QUEUED:
                pass
            case _QueueState.LIMITED:
                if not flow.is_limited or flow.rate_per_second != before.rate_per_second:
                    self._enqueue(place)
            case _QueueState.SCHEDULED if place.empty_claims and flow.due_seconds <= 0:
                pass
            case _QueueState.SCHEDULED | _QueueState.QUERIED | _QueueState.IDLE:
                self._schedule_next(place, flow.due_seconds, asked_at)

    def next_shares(
        self,
        load: FlowLoad,
        items: int,
        flows_max: int,
        room: Callable[[AdmissionGroup], int],
        *,
        now: float,
    ) -> list[FlowShare]:
        """Take the next flows of this load out of the queue, with their quotas.

        The flows of a gate have no more than its room together. Each that is returned must be
        given to `served` or `give_back`.
        """
        self.move_due(now)
        turn = self._next_places(load, min(items, flows_max), room)
        if not turn:
            return []
        quotas = split_by_weight(items, [place.flow.weight for place, _ in turn])
        if load is FlowLoad.LIGHT:
            quotas = [min(quota, LIGHT_ITEMS_MAX) for quota in quotas]
        by_pool: dict[tuple[str, bool], list[int]] = {}
        for index, (place, _) in enumerate(turn):
            by_pool.setdefault(place.queue.pool, []).append(index)
        for indices in by_pool.values():
            pool_room = turn[indices[0]][1]
            if sum(quotas[index] for index in indices) > pool_room:
                cut = split_by_weight(pool_room, [turn[index][0].flow.weight for index in indices])
                for index, quota in zip(indices, cut, strict=True):
                    quotas[index] = min(quotas[index], quota)
        return [
            FlowShare(place.flow, quota, place.floor, place.ticket)
            for (place, _), quota in zip(turn, quotas, strict=True)
        ]

    def _next_places(
        self, load: FlowLoad, places_max: int, room: Callable[[AdmissionGroup], int]
    ) -> list[tuple[_QueuedFlow, int]]:
        """Take the places that have waited longest out of the queues, with the room they share."""
        queues = self._queues[load]
        rooms: dict[tuple[str, bool], int] = {}
        heads: list[tuple[int, AdmissionGroup]] = []
        for gate, queue in list(queues.items()):
            if not _drop_outdated(queue):
                del queues[gate]
            elif (found := room(gate)) > 0:
                rooms[gate.pool] = found
                heads.append((queue[0][0], gate))
        heapify(heads)
        turn: list[tuple[_QueuedFlow, int]] = []
        left = dict(rooms)
        counted_left = COUNTED_FLOWS_MAX
        while heads and len(turn) < places_max:
            _, gate = heads[0]
            queue = queues[gate]
            if (
                not left[gate.pool]
                or (gate.counted and not counted_left)
                or not _drop_outdated(queue)
            ):
                heappop(heads)
                continue
            _, place = queue.popleft()
            place.standing, place.ticket = _QueueState.SERVED, next(self._tickets)
            turn.append((place, rooms[gate.pool]))
            left[gate.pool] -= 1
            counted_left -= gate.counted
            if queue:
                heapreplace(heads, (queue[0][0], gate))
            else:
                heappop(heads)
        return turn

    def requeue(
        self, shares: Iterable[FlowShare], taken: Mapping[int, int], *, now: float
    ) -> list[NextDueQuery]:
        """Put flows that have more at the end of the queue; say of which to ask for their next row.

        Serial flows are always asked of: what waits behind a held key was looked at, and not taken.
        """
        questions: list[NextDueQuery] = []
        for share in shares:
            place = self._flow_being_served(share)
            if place is None:
                continue
            items = taken.get(share.flow.flow_no, 0)
            place.touched_at = now
            place.taken += items
            place.empty_claims = 0 if items else place.empty_claims + 1
            place.full_claims = place.full_claims + 1 if items >= share.quota else 0
            # Retries that are fewer than their share leave a part of it unused.
            has_more = 2 * items >= share.quota and not place.flow.has_serial
            if items >= LIGHT_ITEMS_MAX or place.full_claims >= FULL_CLAIMS_MAX:
                place.load = FlowLoad.HEAVY
            elif 2 * items < share.quota:
                place.load = FlowLoad.LIGHT
            if has_more:
                self._enqueue(place)
            else:
                place.standing = _QueueState.QUERIED
            if not has_more or place.taken >= FLOOR_RAISE_ITEMS:
                overlap = 0.0 if place.taken >= FLOOR_RAISE_ITEMS else OVERLAP_SECONDS
                questions.append(NextDueQuery(place.flow.flow_no, place.floor, overlap))
        return questions

    def return_unserved(self, shares: Iterable[FlowShare]) -> None:
        """Put flows that could not be served where they were: at the head of the queue."""
        for share in reversed(list(shares)):
            place = self._flow_being_served(share)
            if place is not None:
                self._enqueue(place, first=True)

    def update_next_due(
        self, questions: Iterable[NextDueQuery], answers: Iterable[NextDue], *, asked_at: float
    ) -> None:
        """Take the answers to questions; a flow without one has nothing, or is paused."""
        asked = {question.flow_no for question in questions}
        for answer in answers:
            place = self._flows.get(answer.flow_no)
            if place is None:
                continue
            place.floor = answer.floor
            place.taken = 0
            if (answer.plain, answer.serial) != (place.flow.has_plain, place.flow.has_serial):
                place.flow = replace(place.flow, has_plain=answer.plain, has_serial=answer.serial)
            if place.standing is not _QueueState.QUERIED or answer.due_seconds is None:
                continue
            asked.discard(answer.flow_no)
            self._schedule_next(place, answer.due_seconds, asked_at)
        for flow_no in asked:
            place = self._flows.get(flow_no)
            if place is not None and place.standing is _QueueState.QUERIED:
                place.standing, place.empty_claims = _QueueState.IDLE, 0

    def defer_limited(
        self, flow_nos: Iterable[int], again_seconds: Mapping[int, float], *, now: float
    ) -> None:
        """Keep flows out of the queue, since their limits leave them nothing; look again soon.

        As soon as their buckets have something where that is known; later each time otherwise.
        """
        for flow_no in flow_nos:
            place = self._flows.get(flow_no)
            if place is None:
                continue
            place.empty_claims += 1
            pause = min(
                LIMIT_RETRY_SECONDS_MAX, LIMIT_RETRY_SECONDS * 2 ** min(place.empty_claims, 10)
            )
            if flow_no in again_seconds:
                pause = min(BUCKET_SECONDS_MAX, max(LIMIT_RETRY_SECONDS, again_seconds[flow_no]))
            self._schedule(place, _QueueState.LIMITED, now + pause)

    def limit_checks_due(self, limit: int, *, now: float) -> list[int]:
        """Return held flows whose limits are to be looked at; each must be given to `looked`."""
        self.move_due(now)
        flow_nos: list[int] = []
        while self._limit_checks and len(flow_nos) < limit:
            place = self._limit_checks.popleft()
            if place.standing is _QueueState.LIMITED:
                flow_nos.append(place.flow.flow_no)
        return flow_nos

    def apply_allowances(
        self, flow_nos: Sequence[int], allowances: Mapping[int, FlowAllowance], *, now: float
    ) -> None:
        """Queue the flows whose limits leave them something, and hold the others."""
        again: dict[int, float] = {}
        held: list[int] = []
        for flow_no in flow_nos:
            place = self._flows.get(flow_no)
            allowance = allowances.get(flow_no)
            if place is None or place.standing is not _QueueState.LIMITED:
                continue
            if allowance is not None and allowance.items > 0:
                place.empty_claims = 0
                self._enqueue(place)
                continue
            held.append(flow_no)
            if allowance is not None and allowance.retry_seconds is not None:
                again[flow_no] = allowance.retry_seconds
        self.defer_limited(held, again, now=now)

    def move_due(self, now: float) -> None:
        """Queue the flows whose time has come."""
        agenda = self._timed
        while agenda and agenda[0][0] <= now:
            _, ticket, place = heappop(agenda)
            if place.ticket != ticket:
                continue
            if place.standing is _QueueState.LIMITED:
                self._limit_checks.append(place)
            else:
                self._enqueue(place)

    def _flow_being_served(self, share: FlowShare) -> _QueuedFlow | None:
        """Return the flow's place while this is its turn; limits may hold it, or it had another."""
        place = self._flows.get(share.flow.flow_no)
        is_its_turn = (
            place is not None
            and place.standing is _QueueState.SERVED
            and place.ticket == share.ticket
        )
        return place if is_its_turn else None

    def _schedule_next(self, place: _QueuedFlow, due_seconds: float, asked_at: float) -> None:
        if due_seconds > 0:
            place.empty_claims = 0  # nothing was kept from it; a list that says otherwise wakes it
            self._schedule(place, _QueueState.SCHEDULED, asked_at + due_seconds)
        elif place.empty_claims:
            # Its rows are in another's hands, or were when it was asked for them.
            pause = min(
                EMPTY_RETRY_SECONDS_MAX, EMPTY_RETRY_SECONDS * 2 ** min(place.empty_claims, 10)
            )
            self._schedule(place, _QueueState.SCHEDULED, asked_at + pause)
        else:
            self._enqueue(place)

    def _enqueue(self, place: _QueuedFlow, *, first: bool = False) -> None:
        place.standing = _QueueState.QUEUED
        queue = self._queues[place.load].setdefault(place.queue, deque())
        if first:
            place.ticket = queue[0][0] - 1 if queue else -2
            queue.appendleft((place.ticket, place))
            return
        place.ticket = next(self._tickets)
        queue.append((place.ticket, place))

    def _schedule(self, place: _QueuedFlow, standing: _QueueState, at: float) -> None:
        place.standing = standing
        place.ticket = next(self._tickets)
        heappush(self._timed, (at, place.ticket, place))


def _drop_outdated(queue: deque[tuple[int, _QueuedFlow]]) -> bool:
    """Drop entries that no longer stand from the head; tell whether one that does remains."""
    while queue and (
        queue[0][1].ticket != queue[0][0] or queue[0][1].standing is not _QueueState.QUEUED
    ):
        queue.popleft()
    return bool(queue)
