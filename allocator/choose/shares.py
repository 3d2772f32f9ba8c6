"""Shares of a claim: whose, how large, and between whom they are split. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from dueledger.ledger.store.claims import DueFlow, PendingFloor


class FlowLoad(Enum):
    """How much a flow has to hand out at once."""

    LIGHT = auto()
    HEAVY = auto()


COUNTED_FLOWS_MAX: Final = 32
"""Counted flows have claims of their own, and Kafka takes one a partition at a time."""


class AdmissionGroup(NamedTuple):
    """What stands between a flow and its turn: its topic, and whether workers' credit counts.

    Flows that are `counted` queue apart, since few are let through at once.
    """

    topic: str
    needs_credit: bool
    counted: bool

    @property
    def pool(self) -> tuple[str, bool]:
        """Whose room they share."""
        return self.topic, self.needs_credit


def admission_group_of(flow: DueFlow) -> AdmissionGroup:
    """Return the gate that a flow waits at."""
    return AdmissionGroup(flow.topic, not flow.settled_by_topic, flow.is_counted)


@dataclass(frozen=True, slots=True)
class FlowShare:
    """How many items a flow may have in one claim, and from where on its rows are looked for.

    `ticket` tells its turn from others of the same flow.
    """

    flow: DueFlow
    quota: int
    floor: PendingFloor
    ticket: int


class NextDueQuery(NamedTuple):
    """Of which flow to find out when it has rows again, from where on, and how exactly."""

    flow_no: int
    floor: PendingFloor
    overlap_seconds: float


def split_by_weight(items: int, weights: Sequence[int]) -> list[int]:
    """Split `items` by weight, at least 1 each; the sum is `items` unless there are more weights.

    What rounding leaves goes to the first ones, whose turn it is.
    """
    total = sum(weights)
    quotas = [max(1, items * weight // total) for weight in weights]
    spare = items - sum(quotas)
    for index in range(max(0, min(spare, len(quotas)))):
        quotas[index] += 1
    # Ones that were rounded up to 1 are paid for by the largest.
    for index in sorted(range(len(quotas)), key=quotas.__getitem__, reverse=True):
        if spare >= 0:
            break
        cut = min(-spare, quotas[index] - 1)
        quotas[index] -= cut
        spare += cut
    return quotas
