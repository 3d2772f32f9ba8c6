"""Choose the shares of a claim: flows of several topics, within the capacity of each. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from dueledger.allocator.admission_group import AdmissionGroup
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.queued_flow import LIGHT_ITEMS_MAX
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, split_by_demand

COUNTED_FLOWS_MAX: Final = 32
"""Most counted flows of one claim: each needs its own claims, and Kafka takes one a partition."""

MOST_ITEMS: Final = 64
"""A small share of a heavy flow may grow to this: a flow visited seldom costs few index scans."""


def with_spare(shares: Sequence[FlowShare]) -> list[FlowShare]:
    """Let small shares of heavy flows grow, all by one factor, while the claim is not full.

    A limited flow has no more than its quota. Shares of several topics do not grow: the flows of
    one could have what is the capacity of another.
    """
    quotas = sum(share.quota for share in shares)
    most = MOST_ITEMS * len(shares)
    if quotas >= most or not _have_one_capacity(shares):
        return [*shares]
    return [
        share
        if share.flow.is_limited
        else share._replace(spare=share.quota * most // quotas - share.quota)
        for share in shares
    ]


def _have_one_capacity(shares: Sequence[FlowShare]) -> bool:
    """Return whether all shares are of one topic, whose capacity is counted, and of plain rows."""
    return len({share.flow.topic for share in shares}) == 1 and not any(
        share.flow.settled_by_topic or share.flow.has_serial for share in shares
    )


def next_topic_shares(
    flow_queue: FlowQueue[AdmissionGroup],
    load: FlowLoad,
    items: int,
    flows_max: int,
    capacity: Callable[[AdmissionGroup], int],
) -> list[FlowShare]:
    """Take the next flows of this load out of the queue, with their quotas.

    The quotas of a group sum up to its capacity at most.
    """
    capacities: dict[tuple[str, bool], int] = {}
    pools: dict[tuple[str, bool], list[int]] = {}
    counted = chosen = 0

    def admits(group: AdmissionGroup, share: FlowShare) -> bool:
        nonlocal counted, chosen
        del share
        pool = pools.setdefault(group.pool, [])
        if group.pool not in capacities:
            capacities[group.pool] = capacity(group)
        if len(pool) >= capacities[group.pool] or counted + group.counted > COUNTED_FLOWS_MAX:
            return False
        pool.append(chosen)
        counted, chosen = counted + group.counted, chosen + 1
        return True

    shares = flow_queue.next_shares([load], admits, flows_max=min(items, flows_max))
    quota_max = LIGHT_ITEMS_MAX if load is FlowLoad.LIGHT else items
    weights = [share.flow.weight for share in shares]
    quotas = split_by_demand(items, weights, [quota_max] * len(shares))
    for pool, indices in pools.items():
        parts = split_by_demand(
            capacities[pool],
            [weights[index] for index in indices],
            [quotas[index] for index in indices],
        )
        for index, quota in zip(indices, parts, strict=True):
            quotas[index] = quota
    return [share._replace(quota=quota) for share, quota in zip(shares, quotas, strict=True)]
