"""The shares of direct mode: flows of one handler pool, within its capacity. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dueledger.ledger.flows.shares import FlowLoad, FlowShare, split_by_demand

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from dueledger.ledger.flows.queue import FlowQueue

HEAVY_CLAIM_DIVISOR: Final = 4
"""While light flows wait, heavy claims have a quarter of the items: light flows wait less."""

_GroupT = TypeVar("_GroupT", bound="Hashable")


class PoolCapacity(NamedTuple):
    """The capacity of a handler pool: how many more calls, and how many items a call takes."""

    calls: int
    batch_max: int


def next_pool_shares(
    flow_queue: FlowQueue[_GroupT],
    pool: _GroupT,
    capacity: PoolCapacity,
    *,
    items_max: int,
    flows_max: int,
    loads: Iterable[FlowLoad] = FlowLoad,
    flood_items: Callable[[int], int] = int,
) -> list[FlowShare]:
    """Take the next flows of a pool, with their quotas: `items_max` in all, or one a claim.

    Flows that need claims of their own need calls of their own; the others share a claim, which is
    split by weight. A flow gets no more than it wants: light flows get all they need, and heavy
    flows get the rest, of `flood_items` of a claim's items.
    """
    claims: dict[int | None, list[FlowShare]] = {}  # the shared claim under None

    def admits(group: _GroupT, share: FlowShare) -> bool:
        claim = share.ticket if share.needs_own_claim else None
        if group != pool or (claim not in claims and len(claims) >= min(capacity.calls, items_max)):
            return False
        claims.setdefault(claim, []).append(share)
        return True

    shares = flow_queue.next_shares(loads, admits, flows_max=flows_max)
    if any(share.load is FlowLoad.HEAVY for share in shares):
        if flow_queue.has_active(FlowLoad.LIGHT):
            items_max = max(1, items_max // HEAVY_CLAIM_DIVISOR)
        items_max = flood_items(items_max)
    calls = split_by_demand(
        capacity.calls,
        [sum(share.flow.weight for share in claim) for claim in claims.values()],
        [
            -(-sum(share.quota for share in claim) // capacity.batch_max)
            for claim in claims.values()
        ],
    )
    items_of_claims = split_by_demand(
        max(items_max, len(claims)),
        calls,
        [claim_calls * capacity.batch_max for claim_calls in calls],
    )
    chosen: list[FlowShare] = []
    for claim, items in zip(claims.values(), items_of_claims, strict=True):
        flow_queue.return_unserved(claim[items:])
        fitting = claim[:items]
        quotas = split_by_demand(
            items, [share.flow.weight for share in fitting], [share.quota for share in fitting]
        )
        chosen += [
            share._replace(quota=quota) for share, quota in zip(fitting, quotas, strict=True)
        ]
    return chosen
