"""Shares of a claim, and the admission groups that flows are queued in. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from dueledger.ledger.store.claims import DueFlow, PendingFloor


class FlowLoad(Enum):
    """Whether a flow has few available items or many."""

    LIGHT = auto()
    HEAVY = auto()


COUNTED_FLOWS_MAX: Final = 32
"""Most counted flows of one claim: each needs its own claims, and Kafka takes one a partition."""


class AdmissionGroup(NamedTuple):
    """Flows that share capacity: those of a topic that need credit, or those that need none.

    `counted` flows have groups of their own, because few of them are admitted at once.
    """

    topic: str
    needs_credit: bool
    counted: bool

    @property
    def pool(self) -> tuple[str, bool]:
        """The key of the capacity that groups share: topic, and whether credit is needed."""
        return self.topic, self.needs_credit


def admission_group_of(flow: DueFlow) -> AdmissionGroup:
    """Return the admission group of a flow."""
    return AdmissionGroup(flow.topic, not flow.settled_by_topic, flow.is_counted)


@dataclass(frozen=True, slots=True)
class FlowShare:
    """How many items a flow may have in one claim, and the floor at which the scan starts.

    `ticket` distinguishes it from other shares of the same flow.
    """

    flow: DueFlow
    quota: int
    floor: PendingFloor
    ticket: int


class NextDueQuery(NamedTuple):
    """The arguments of find_next_due for one flow."""

    flow_no: int
    floor: PendingFloor
    overlap_seconds: float


def split_by_weight(items: int, weights: Sequence[int]) -> list[int]:
    """Split `items` by weight, at least 1 each; the sum is `items` unless there are more weights.

    The remainder of rounding goes to the first ones.
    """
    total = sum(weights)
    quotas = [max(1, items * weight // total) for weight in weights]
    spare = items - sum(quotas)
    for index in range(max(0, min(spare, len(quotas)))):
        quotas[index] += 1
    # The largest quotas are cut to make up for those that were rounded up to 1.
    for index in sorted(range(len(quotas)), key=quotas.__getitem__, reverse=True):
        if spare >= 0:
            break
        cut = min(-spare, quotas[index] - 1)
        quotas[index] -= cut
        spare += cut
    return quotas
