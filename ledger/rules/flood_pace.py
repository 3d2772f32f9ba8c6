"""The pace of floods: which share of the time they may be claimed while a flow has a lag target.

The controller is additive increase and multiplicative decrease after a slow start, as TCP has it
(Chiu and Jain, 1989; RFC 5681). The signal is how long items waited, as in CoDel (RFC 8289), and
the share is one of time, as in Kafka's request quotas. Pure.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

SHARE_MIN: Final = 1 / 8
"""Floods always have this share: they end, even if their pace does not help the late flow."""
SHARE_FIRST: Final = 1 / 4
"""A flood begins with this share: at full speed its first half second would be late for all."""
THRESHOLD_FIRST: Final = 1 / 2
DECREASE: Final = 0.7
INCREASE: Final = 1 / 64
GROWTH: Final = 2.0
"""The slow start doubles the share each step, up to the threshold."""
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


@dataclass(frozen=True, slots=True)
class FloodPace:
    """The share of the time in which floods are claimed, and up to which share it doubles."""

    share: float = 1.0
    threshold: float = 1.0


@dataclass(frozen=True, slots=True)
class LagCount:
    """Claims of flows with a lag target since the pace fell, and how many were started late."""

    claims: int
    late: int

    @property
    def is_late(self) -> bool:
        """Return whether the lag is above the target: more than a tenth of the claims are late."""
        return self.late > LATE_RATIO * self.claims


class LagTargets(NamedTuple):
    """The least and the greatest lag target of flows, in seconds."""

    least: float
    greatest: float


FIRST_PACE: Final = FloodPace(SHARE_FIRST, THRESHOLD_FIRST)


def next_pace(pace: FloodPace, count: LagCount) -> FloodPace:
    """Return the pace of the next step: slower if claims were late, otherwise a little faster."""
    if count.is_late:
        share = max(SHARE_MIN, pace.share * DECREASE)
        return FloodPace(share, share)
    if pace.share < pace.threshold:
        return FloodPace(min(pace.threshold, pace.share * GROWTH), pace.threshold)
    share = min(1.0, pace.share + INCREASE)
    return FloodPace(share, share)


def step_seconds(lag_target_seconds: float) -> float:
    """Return the time between two steps, from the lowest target of the flows that have items."""
    return min(STEP_SECONDS_MAX, max(STEP_SECONDS_MIN, STEP_TARGETS * lag_target_seconds))


def rest_seconds(share: float, busy_seconds: float) -> float:
    """Return how long a flood rests after it was busy so long, to have its share of the time."""
    return 0.0 if share >= 1 else min(REST_SECONDS_MAX, busy_seconds * (1 / share - 1))
