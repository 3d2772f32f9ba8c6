"""How long late items have been due, as a histogram."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

LATENESS_READ: Final = 200
"""Late items that a histogram is of, at most: those that have been due longest."""
WORST: Final = 20
_BOUNDS: Final = (
    timedelta(minutes=5),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=3),
)
_WORDS: Final = ("under 5 min", "5–60 min", "1–6 h", "6–24 h", "1–3 d", "over 3 d")


class LatenessBar(NamedTuple):
    """How many items have been due so long, and their percentage of the longest bar.

    `below_seconds` is None for the longest time.
    """

    words: str
    from_seconds: int
    below_seconds: int | None
    items: int
    share: int


def lateness_bars(items: Sequence[Mapping[str, Any]], now: datetime) -> list[LatenessBar]:
    """Return the bars of items by the time since each was due, the shortest time first."""
    counts = Counter(bisect_right(_BOUNDS, now - item["due_at"]) for item in items)
    most = max(counts.values(), default=1)
    seconds = [round(bound.total_seconds()) for bound in _BOUNDS]
    spans = zip(_WORDS, [0, *seconds], [*seconds, None], strict=True)
    return [
        LatenessBar(words, least, below, counts[place], round(100 * counts[place] / most))
        for place, (words, least, below) in enumerate(spans)
    ]
