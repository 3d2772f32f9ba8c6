"""How late items were: a histogram that can be merged and gives percentiles."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_STEPS_A_DOUBLING: Final = 16
"""Steps of 2^(1/16): a percentile read from them is at most 4.5 % off."""

_FINEST_SECONDS: Final = 0.001
BUCKETS: Final[tuple[tuple[float, str], ...]] = (
    (1, "≤ 1 s"),
    (10, "≤ 10 s"),
    (60, "≤ 1 min"),
    (600, "≤ 10 min"),
    (3_600, "≤ 1 h"),
    (21_600, "≤ 6 h"),
    (86_400, "≤ 1 d"),
    (math.inf, "> 1 d"),
)


@dataclass(slots=True)
class Lateness:
    """How long after `due_at` one kind's items were completed."""

    count: int = 0
    late_count: int = 0
    greatest_seconds: float = 0.0
    steps: Counter[int] = field(default_factory=Counter[int])

    def add(self, seconds: float) -> None:
        """Count one item that completed `seconds` after it was due."""
        self.count += 1
        self.greatest_seconds = max(self.greatest_seconds, seconds)
        finest = _FINEST_SECONDS
        step = math.ceil(math.log2(seconds / finest) * _STEPS_A_DOUBLING) if seconds > finest else 0
        self.steps[step] += 1

    def merge(self, other: "Lateness") -> None:
        """Add another histogram."""
        self.count += other.count
        self.late_count += other.late_count
        self.greatest_seconds = max(self.greatest_seconds, other.greatest_seconds)
        self.steps.update(other.steps)

    def percentile(self, share: float) -> float:
        """Return the lateness, in seconds, that `share` of the items did not exceed."""
        wanted = share * self.count
        seen = 0
        for step in sorted(self.steps):
            seen += self.steps[step]
            if seen >= wanted:
                return min(_upper(step), self.greatest_seconds)
        return 0.0

    def bars(self) -> list[tuple[str, int]]:
        """Return how many items fall into each of the fixed buckets that a report shows."""
        counts = [0] * len(BUCKETS)
        for step, count in self.steps.items():
            seconds = min(_upper(step), self.greatest_seconds)
            index = next(i for i, (limit, _) in enumerate(BUCKETS) if seconds <= limit)
            counts[index] += count
        return [(label, counts[i]) for i, (_, label) in enumerate(BUCKETS)]


def _upper(step: int) -> float:
    return _FINEST_SECONDS * 2.0 ** (step / _STEPS_A_DOUBLING) if step else 0.0
