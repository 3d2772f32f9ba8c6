"""The pace of floods: which share of the time they may be claimed while a flow has a lag target.

The share falls at once by much if flows are late, and grows by little, or quickly while they are
far from their targets. The signal is how long items waited, as in CoDel (RFC 8289), and the share
is one of time, as in Kafka's request quotas. Pure.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

SHARE_MIN: Final = 1 / 8
"""Floods always have this share: they end, even if their pace does not help the late flow."""
SHARE_FIRST: Final = 1 / 4
"""A flood begins with this share: at full speed its first half second would be late for all."""
DECREASE: Final = 0.7
INCREASE: Final = 1.03
GROWTH: Final = 1.125
"""The increase while lags are below half of their targets."""
LATE_RATIO: Final = 0.1
"""More late claims than this are a reason to slow down; fewer are noise."""
STEP_SECONDS_MIN: Final = 0.1
STEP_SECONDS_MAX: Final = 5.0
STEP_TARGETS: Final = 2.0
"""A step takes at least two lag targets: before that a late item is not known as late."""
TARGET_READ_SECONDS_MAX: Final = 600.0
"""Claims are known as late for so long after they were made, and their flow's target."""
REST_SECONDS_MAX: Final = 1.0
RESTART_SECONDS: Final = 10.0
"""A pace that nobody has changed for so long belongs to an earlier flood."""
ITEMS_MIN: Final = 500
"""Smaller claims take more of all programs for each item: those of 250 half as much again."""
SPACING_TARGETS: Final = 0.25
SPACING_SECONDS_MAX: Final = 0.05


@dataclass(frozen=True, slots=True)
class LagCount:
    """Claims of flows with a lag target since the share fell, and how many were started late.

    `near` counts those whose lag was above half of their target.
    """

    claims: int
    late: int
    near: int

    @property
    def is_late(self) -> bool:
        """Return whether the lag is above the target: more than a tenth of them are late."""
        return self.late > LATE_RATIO * self.claims

    @property
    def is_early(self) -> bool:
        """Return whether the lag is known to be below half of the target, likewise."""
        return self.claims > 0 and self.near <= LATE_RATIO * self.claims


class LagTargets(NamedTuple):
    """The least and the greatest lag target of flows, in seconds."""

    least: float
    greatest: float


def next_share(share: float, count: LagCount) -> float:
    """Return the share of the next step: less if claims were late, otherwise more."""
    if count.is_late:
        return max(SHARE_MIN, share * DECREASE)
    return min(1.0, share * (GROWTH if count.is_early else INCREASE))


def step_seconds(lag_target_seconds: float) -> float:
    """Return the time between two steps, from the lowest target of the flows that have items."""
    return min(STEP_SECONDS_MAX, max(STEP_SECONDS_MIN, STEP_TARGETS * lag_target_seconds))


def rest_seconds(share: float, busy_seconds: float) -> float:
    """Return how long a flood rests after it was busy so long, to have its share of the time."""
    return 0.0 if share >= 1 else min(REST_SECONDS_MAX, busy_seconds * (1 / share - 1))


def paced_items(share: float, items: int) -> int:
    """Return how many of these items a claim of floods may have: fewer disturb others less."""
    return max(min(items, ITEMS_MIN), int(items * share))


def spacing_seconds(lag_target_seconds: float) -> float:
    """Return the mean time between claims of light flows beside floods, from the lowest target.

    Larger claims of theirs leave more of the CPU to floods, and cost the others a part of what
    their targets allow.
    """
    return min(SPACING_SECONDS_MAX, SPACING_TARGETS * lag_target_seconds)
