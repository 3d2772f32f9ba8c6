"""Shares: how many items a flow may have in one claim, and what came of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple

from dueledger.ledger.store.claims import DueFlow, PendingFloor
from dueledger.ledger.store.direct_claims import FlowScan

FLOOD_ITEMS: Final = 1000
"""A flow with so many due items is claimed from where the claim before ended."""


class FlowLoad(IntEnum):  # its hash is fast
    """Whether a flow has few available items or many."""

    LIGHT = 0
    HEAVY = 1


class FlowShare(NamedTuple):
    """How many items a flow may have in one claim, and the floor at which the scan starts.

    With `serial` it is for the flow's serial rows alone. `ticket` distinguishes it from other
    shares of the same flow. `spare` items it may have beyond the quota, of those after it.
    """

    flow: DueFlow
    quota: int
    floor: PendingFloor
    ticket: int = -1
    serial: bool = False
    load: FlowLoad = FlowLoad.LIGHT
    spare: int = 0

    @property
    def most(self) -> int:
        """The most items that it may have while the claim is not full."""
        return self.quota + self.spare

    @property
    def key(self) -> int:
        """Number of the flow; its complement if the share is for the serial rows alone."""
        return ~self.flow.flow_no if self.serial else self.flow.flow_no

    @property
    def needs_own_claim(self) -> bool:
        """Whether its items need a claim of their own."""
        return self.serial or self.flow.is_limited


class ShareResult(NamedTuple):
    """The result of a share. `has_more`: the full quota was found, and there may be more rows.

    Otherwise `next_seconds` is the time from the query until more is due, or None if unknown.
    """

    taken: int
    has_more: bool = False
    next_seconds: float | None = None
    floor: PendingFloor | None = None


@dataclass(frozen=True, slots=True)
class ScannedFlows:
    """What a claim says of its flows beside the items, by flow, where it says it.

    `due_ats`: when the next plain row is due, in monotonic seconds; infinity without one.
    `last_rows`: when the last plain first attempt that it took was available, and its block.
    """

    due_ats: dict[int, float] = field(default_factory=dict[int, float])
    last_rows: dict[int, tuple[datetime, int]] = field(
        default_factory=dict[int, tuple[datetime, int]]
    )


def reached_shares(shares: Sequence[FlowShare], taken: Mapping[int, int]) -> list[FlowShare]:
    """Return the shares that a claim came to before it was full.

    If some had spare items, those after the last one with items may not be reached; that one may
    have more.
    """
    with_items = [index for index, share in enumerate(shares) if taken.get(share.flow.flow_no)]
    if not with_items or not any(share.spare for share in shares):
        return list(shares)
    last = shares[with_items[-1]]
    quota = min(last.quota, taken[last.flow.flow_no])
    return [*shares[: with_items[-1]], last._replace(quota=quota, spare=0)]


def served_share(share: FlowShare, scan: FlowScan, taken: int) -> ShareResult:
    """Return the result of a share from which a direct claim took items."""
    has_more = scan.seen >= share.quota
    # Only rows that commit late can be below the new floor; the next list of due flows finds them.
    # A light flow is scanned from the floor of its last list.
    new_floor = share.floor._replace(at=scan.floor.at, block=scan.floor.block)
    floor = new_floor if has_more and scan.seen >= FLOOD_ITEMS else None
    return ShareResult(taken, has_more, scan.due_seconds, floor)


class NextDueQuery(NamedTuple):
    """The arguments of find_next_due for one flow."""

    flow_no: int
    floor: PendingFloor
    overlap_seconds: float


def split_by_demand(total: int, weights: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Split `total` by weight; each gets at least 1, and no more than it wants while others do.

    The sum is `total` at most, unless there are more weights than that.
    """
    if sum(wanted) <= total:
        return list(wanted)
    parts = [0] * len(weights)
    left, weight_left = total, sum(weights)
    demands = [want / weight for want, weight in zip(wanted, weights, strict=True)]
    downwards = range(len(weights) - 1, -1, -1)
    for others, index in zip(downwards, sorted(downwards, key=demands.__getitem__), strict=True):
        fair = left * weights[index] // weight_left
        parts[index] = max(1, min(wanted[index], fair, left - others))
        left -= parts[index]
        weight_left -= weights[index]
    return parts
