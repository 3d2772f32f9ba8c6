"""Admission: cuts the shares of limited flows to what their limits allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dueledger.ledger.flow_shares import FlowShare
from dueledger.ledger.store import Connection
from dueledger.ledger.store.flow_limits import lock_limited_flows, measure_allowances, spend_tokens


@dataclass(frozen=True, slots=True)
class Admission:
    """The shares that may be claimed, cut to the allowances.

    `allowances` has the limited flows that were locked; `contended` has those that were not.
    """

    shares: Sequence[FlowShare]
    allowances: Mapping[int, int] = field(default_factory=dict[int, int])
    contended: frozenset[int] = frozenset()

    def exhausted_flows(self, taken: Mapping[int, int]) -> list[int]:
        """Return the flows that may have no items now, or no more after those taken."""
        return [
            *self.contended,
            *(
                flow_no
                for flow_no, most in self.allowances.items()
                if taken.get(flow_no, 0) >= most
            ),
        ]


async def admit_shares(
    connection: Connection, shares: Sequence[FlowShare], topic_window_items: int
) -> Admission:
    """Lock the limited flows of a claim and cut their shares to their allowances.

    Call it before the claim, in the same transaction: then two allocators never spend the same
    allowance. A flow that another allocator has locked is left out.
    """
    limited = [share.flow.flow_no for share in shares if share.flow.is_limited]
    if not limited:
        return Admission(shares)
    locked = await lock_limited_flows(connection, limited)
    allowances = await measure_allowances(connection, list(locked), topic_window_items)
    admitted = [
        _reduce(share, allowances.get(share.flow.flow_no, 0), locked)
        if share.flow.is_limited
        else share
        for share in shares
    ]
    return Admission(
        [share for share in admitted if share.quota > 0],
        allowances,
        frozenset(limited) - allowances.keys(),
    )


def _reduce(share: FlowShare, allowance: int, locked: Mapping[int, bool]) -> FlowShare:
    """Return the share cut to the allowance, with `is_counted` as it was read under the lock."""
    flow = share.flow
    counted = locked.get(flow.flow_no, flow.is_counted)
    if counted != flow.is_counted:
        flow = replace(flow, is_counted=counted)
    return share._replace(flow=flow, quota=min(share.quota, allowance))


async def spend_allowances(
    connection: Connection, admission: Admission, taken: Mapping[int, int]
) -> None:
    """Take the claimed items out of the token buckets, in the same transaction."""
    flow_nos = [flow_no for flow_no in admission.allowances if taken.get(flow_no)]
    if flow_nos:
        await spend_tokens(connection, flow_nos, [taken[flow_no] for flow_no in flow_nos])
