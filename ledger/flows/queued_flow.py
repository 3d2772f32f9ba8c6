"""A flow of the queue: its state, its load, how long it waits, and the heaps it waits in. Pure."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from heapq import heappop, heappush
from math import inf
from typing import Final, Generic, TypeVar, final

from dueledger.ledger.flows.shares import FlowLoad, FlowShare
from dueledger.ledger.store.claims import DueFlow, PendingFloor

LIGHT_ITEMS_MAX: Final = 200
"""A flow that fills a share of this size is heavy, and so are flows that together fill so much."""
FULL_SHARES_MAX: Final = 2
"""A flow that fills this many shares in a row is heavy, even if the shares were small."""
WANTED_FIRST: Final = 64
WANTED_MIN: Final = 16
WANTED_MAX: Final = 1_000_000
WANTED_GROWTH: Final = 4
SERIAL_ITEMS_MAX: Final = 500
"""Each serial row whose key is held is updated, to put it behind its key."""
EMPTY_RETRY_SECONDS: Final = 0.005
EMPTY_RETRY_SECONDS_MAX: Final = 0.25
LIMIT_RETRY_SECONDS: Final = 0.01
LIMIT_RETRY_SECONDS_MAX: Final = 1.0
OWN_CLAIM_RETRY_SECONDS_MAX: Final = 1.28
BUCKET_SECONDS_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 10

GroupT = TypeVar("GroupT", bound=Hashable)


class QueueState(Enum):
    """What a flow of the queue waits for."""

    QUEUED = auto()
    SERVED = auto()  # a claim is being made
    QUERIED = auto()  # find_next_due was asked for its next row
    SCHEDULED = auto()  # waits until its next row is due
    LIMITED = auto()  # waits until its limits are checked again
    IDLE = auto()  # has no pending row within the horizon


@final
@dataclass(slots=True, eq=False)
class QueuedFlow(Generic[GroupT]):
    """One flow in the queue; its serial rows alone, if it is `serial`. Times are monotonic."""

    flow: DueFlow
    group: GroupT
    serial: bool
    floor: PendingFloor
    virtual_time: float = 0.0
    load: FlowLoad = FlowLoad.LIGHT
    state: QueueState = QueueState.IDLE
    ticket: int = -1  # of its latest entry in a heap; older entries are void
    queue_ticket: int = -1  # that it was served from
    touched_at: float = -inf
    listed_at: float = -inf
    wanted: int = WANTED_FIRST  # how many items it seems to have
    empty_claims: int = 0  # claims in a row that found nothing
    full_shares: int = 0  # claims in a row that filled its share
    taken: int = 0  # items since the floor was read
    is_serial: bool = False  # had serial rows when it was listed

    def is_served(self, share: FlowShare) -> bool:
        """Return whether this share is its current one: it was not deferred since."""
        return self.state is QueueState.SERVED and self.ticket == share.ticket

    def count_taken(self, taken: int, quota: int, now: float, *, of_flood: bool) -> None:
        """Count the items of a share, and decide whether the flow is light or heavy.

        With `of_flood`, the flows that filled their shares of the claim are a flood together.
        """
        self.touched_at = now
        self.taken += taken
        self.empty_claims = 0 if taken else self.empty_claims + 1
        self.full_shares = self.full_shares + 1 if taken >= quota else 0
        is_full = self.full_shares >= FULL_SHARES_MAX or (of_flood and fills(taken, quota))
        if taken >= LIGHT_ITEMS_MAX or is_full:
            self.load = FlowLoad.HEAVY
        elif 2 * taken < quota:
            self.load = FlowLoad.LIGHT

    def raise_floor(self, last_row: tuple[datetime, int] | None) -> None:
        """Start the next scan at the last row taken, if the claim says which that was.

        Only rows that commit late are below it; the next list of due flows finds them.
        """
        if last_row is not None:
            at, block = last_row
            self.floor, self.taken = self.floor._replace(at=at, block=block), 0

    def want_more(self, taken: int) -> None:
        """Want more items than were taken: there may be more."""
        most = SERIAL_ITEMS_MAX if self.serial else WANTED_MAX
        self.wanted = min(max(self.wanted, WANTED_GROWTH * taken), most)

    def want_few(self, taken: int) -> None:
        """Want twice the items that were taken: there were no more."""
        self.wanted = max(WANTED_MIN, 2 * taken)

    def unlist(self) -> None:
        """Note that it has no rows. Its entries in heaps are void."""
        self.state, self.ticket, self.empty_claims = QueueState.IDLE, -1, 0

    def start_at(self, reached: float) -> None:
        """Start at the virtual time of the others, at least: it gains nothing by its absence."""
        self.virtual_time = max(self.virtual_time, reached)

    def locked_pause(self) -> float:
        """Return the seconds until rows that another claimer has locked are looked for again."""
        return _backoff(EMPTY_RETRY_SECONDS, EMPTY_RETRY_SECONDS_MAX, self.empty_claims)

    def own_claim_pause(self) -> float:
        """Return the seconds until it is claimed from again, if its limits or keys allowed none."""
        return _backoff(LIMIT_RETRY_SECONDS, OWN_CLAIM_RETRY_SECONDS_MAX, self.empty_claims)

    def limits_pause(self, retry_seconds: float | None) -> float:
        """Return the seconds until its limits are checked: until its bucket has tokens again.

        If that is unknown, they grow with each check.
        """
        if retry_seconds is None:
            return _backoff(LIMIT_RETRY_SECONDS, LIMIT_RETRY_SECONDS_MAX, self.empty_claims)
        return min(BUCKET_SECONDS_MAX, max(LIMIT_RETRY_SECONDS, retry_seconds))


HeapEntry = tuple[float, int, QueuedFlow[GroupT]]
"""A flow by virtual time or by time, then by ticket."""


@final
class FlowHeap(Generic[GroupT]):
    """A heap of flows. An entry is void as soon as its flow has another ticket."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[HeapEntry[GroupT]] = []

    def __len__(self) -> int:
        """Return the number of entries, void ones included."""
        return len(self._entries)

    def push(self, at: float, entry: QueuedFlow[GroupT]) -> None:
        """Add a flow under its current ticket."""
        heappush(self._entries, (at, entry.ticket, entry))

    def first(self) -> HeapEntry[GroupT] | None:
        """Return the first valid entry, which stays."""
        entries = self._entries
        while entries and entries[0][1] != entries[0][2].ticket:
            heappop(entries)
        return entries[0] if entries else None

    def first_at(self) -> float:
        """Return the time of the first valid entry; infinity without one."""
        first = self.first()
        return inf if first is None else first[0]

    def pop(self) -> None:
        """Remove the entry that `first` returned."""
        heappop(self._entries)

    def pop_due(self, now: float, limit: float = inf) -> Iterator[QueuedFlow[GroupT]]:
        """Take the valid entries whose time is now or before, `limit` at most."""
        while limit > 0 and self.first_at() <= now:
            limit -= 1
            yield heappop(self._entries)[2]


def fills(taken: int, quota: int) -> bool:
    """Return whether a flow filled a share of several items: it probably has more."""
    return taken >= quota > 1


def _backoff(seconds: float, seconds_max: float, empty_claims: int) -> float:
    return min(seconds_max, seconds * 2 ** min(empty_claims, _DOUBLINGS_MAX))
