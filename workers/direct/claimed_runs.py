"""The runs and suspect claims that one direct claim returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dueledger.workers.claim_slices import ClaimSlice
from dueledger.workers.open_run import OpenRun

if TYPE_CHECKING:
    from dueledger.ledger.claim_id import ClaimId
    from dueledger.ledger.flows.shares import ShareResult
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.ledger.store.runs import StartResult
    from dueledger.workers.direct.direct_item import DirectItem
    from dueledger.workers.run.handler_pools import PoolKey


class ClaimedRun(NamedTuple):
    """A run that the ledger has started for this worker, and its items in order."""

    pool_key: PoolKey
    claim_id: ClaimId
    start: StartResult
    items: list[DirectItem]
    suspects_max: int | None = None  # set for suspects: how many of them may run together
    flow_no: int | None = None  # set if all items are of one flow that is limited or serial

    def open(self, asked_at: float) -> OpenRun:
        """Return the run; its lease counts from `asked_at`."""
        start, kind = self.start, self.pool_key.kind
        claim_slice = ClaimSlice(
            self.claim_id, kind, start.from_position, 0, [*self.items], self.suspects_max
        )
        lease_until = asked_at + (start.lease_seconds or 0.0)
        return OpenRun(start, claim_slice, lease_until=lease_until, topic=self.pool_key.topic or "")


class SuspectClaim(NamedTuple):
    """A claim of suspects that was recorded and not started: the pool for suspects is full."""

    flow: DueFlow
    claim_id: ClaimId
    items: list[DirectItem]
    suspects_max: int | None = None


@dataclass(slots=True)
class ClaimResult:
    """The runs to work now, the suspect claims to start later, and the result of each share.

    `suspect_flow_nos` are the flows that have waiting suspects.
    """

    runs: list[ClaimedRun] = field(default_factory=list[ClaimedRun])
    suspect_claims: list[SuspectClaim] = field(default_factory=list[SuspectClaim])
    results: dict[int, ShareResult] = field(default_factory=dict[int, "ShareResult"])
    suspect_flow_nos: set[int] = field(default_factory=set[int])
