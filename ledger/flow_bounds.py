"""Bounds of a flow's limits: no value within them can make a statement fail for other flows.

The CHECKs of ``sql/schema/tables/flow.sql`` have the same bounds; a test compares them.
"""

from typing import Final, NamedTuple

_WEEK_SECONDS: Final = 604_800


class LimitBounds(NamedTuple):
    """The least and the greatest value of a limit, and both as text for people."""

    low: float
    high: float
    text: str

    def contains(self, number: float) -> bool:
        """Return whether a number is within the bounds; NaN is not."""
        return self.low <= number <= self.high


LANE_CHARS_MAX: Final = 100
WHOLE_LIMITS: Final = frozenset({"weight", "concurrency_max", "window_items", "circuit_calls_min"})
CLEARABLE_LIMITS: Final = frozenset(
    {
        "rate_per_second",
        "concurrency_max",
        "window_items",
        "circuit_failure_ratio",
        "lag_target_seconds",
    }
)

_ITEMS: Final = LimitBounds(1, 1_000_000_000, "a whole number from 1 to 1,000,000,000")
_MILLION: Final = LimitBounds(1, 1_000_000, "a whole number from 1 to 1,000,000")
_SECONDS: Final = LimitBounds(0.001, _WEEK_SECONDS, "from 0.001 seconds to 604,800, a week")

FLOW_BOUNDS: Final[dict[str, LimitBounds]] = {
    "weight": _MILLION,
    "rate_per_second": LimitBounds(
        3e-8, 1_000_000_000, "at least an item a year (0.00000003) and at most 1,000,000,000"
    ),
    "concurrency_max": _ITEMS,
    "window_items": _ITEMS,
    "retry_share": LimitBounds(0, 1, "a share from 0 to 1"),
    "circuit_failure_ratio": LimitBounds(0.000_001, 1, "a share from 0.000001 to 1"),
    "circuit_calls_min": _MILLION,
    "circuit_window_seconds": _SECONDS,
    "circuit_rest_seconds": _SECONDS,
    "lag_target_seconds": _SECONDS,
}
"""By the column of `ledger.flow`."""
