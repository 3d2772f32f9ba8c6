"""Admission: cuts the shares of limited flows to what their limits allow."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ShareResult
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.flow_limits import (
    FlowAllowance,
    estimate_allowances,
    lock_limited_flows,
    measure_allowances,
    spend_tokens,
)

ANY_WINDOW: Final = 2**31 - 1
"""For items that go to no topic: the window of a topic does not limit them."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The shares that may be claimed, cut to the allowances; `refused` has results by share key.

    `allowances` has each limited flow: 0 if it could not be locked.
    """

    shares: Sequence[FlowShare]
    allowances: Mapping[int, int] = field(default_factory=dict[int, int])
    refused: Mapping[int, ShareResult] = field(default_factory=dict[int, ShareResult])

    def exhausted_flows(self, taken: Mapping[int, int]) -> list[int]:
        """Return the flows that may have no items now, or no more after those taken."""
        return [
            flow_no for flow_no, most in self.allowances.items() if taken.get(flow_no, 0) >= most
        ]


async def admit_shares(
    connection: Connection,
    shares: Sequence[FlowShare],
    topic_window_items: int,
    *,
    estimate_first: bool = False,
) -> Admission:
    """Lock the limited flows of a claim and cut their shares to their allowances.

    Call it before the claim, in the same transaction: then two claimers never spend the same
    allowance. A flow that another claimer has locked is left out. With `estimate_first`, a flow
    whose estimated allowance is 0 is not locked, since a lock is a write.
    """
    limited = sorted({share.flow.flow_no for share in shares if share.flow.is_limited})
    if not limited:
        return Admission(shares)
    estimates: Mapping[int, FlowAllowance] = {}
    lockable = limited
    if estimate_first:
        estimates = await estimate_allowances(connection, limited, topic_window_items)
        lockable = sorted(flow_no for flow_no, seen in estimates.items() if seen.items > 0)
    locked = await lock_limited_flows(connection, lockable) if lockable else {}
    allowances = dict.fromkeys(limited, 0)
    if locked:
        allowances |= await measure_allowances(connection, list(locked), topic_window_items)
    admitted: list[FlowShare] = []
    refused: dict[int, ShareResult] = {}
    left = dict(allowances)
    for share in shares:
        flow, flow_no = share.flow, share.flow.flow_no
        quota = min(share.quota, left[flow_no]) if flow.is_limited else share.quota
        if quota <= 0:
            seen = estimates.get(flow_no)
            refused[share.key] = ShareResult(0, next_seconds=seen and seen.retry_seconds)
            continue
        if flow.is_limited:
            left[flow_no] -= quota
            if flow.is_counted != locked[flow_no]:
                flow = flow._replace(is_counted=locked[flow_no])  # as it was read under the lock
        admitted.append(share._replace(flow=flow, quota=quota))
    return Admission(admitted, allowances, refused)


async def spend_allowances(
    connection: Connection, admission: Admission, taken: Mapping[int, int]
) -> None:
    """Take the claimed items out of the token buckets, in the same transaction."""
    flow_nos = [flow_no for flow_no in admission.allowances if taken.get(flow_no)]
    if flow_nos:
        await spend_tokens(connection, flow_nos, [taken[flow_no] for flow_no in flow_nos])


def limited_flows(
    before: AbstractSet[int], admission: Admission, taken: Mapping[int, int]
) -> frozenset[int]:
    """Return the flows of which items wait for the flow's own limits, after a claim."""
    if not admission.allowances:
        return frozenset(before)
    return frozenset((before - admission.allowances.keys()).union(admission.exhausted_flows(taken)))


def lag_flow_nos(shares: Sequence[FlowShare], limited: AbstractSet[int]) -> list[int]:
    """Return the flows of a claim whose lag counts: those with a target.

    The lag of a flood comes from its own items, and that of a limited flow from its limits.
    """
    return [
        share.flow.flow_no
        for share in shares
        if share.flow.lag_target_seconds is not None
        and share.load is FlowLoad.LIGHT
        and share.flow.flow_no not in limited
    ]
