"""Windows of effective dates, small enough to hold both sides in memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

WINDOW_ROWS_MAX: Final = 200_000
"""A window closes at the day that reaches this many rows; a single fuller day stands alone."""


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open range of effective dates, as proleptic ordinals."""

    from_day: int
    to_day: int

    @property
    def from_date(self) -> date:
        """Return the first date inside."""
        return date.fromordinal(self.from_day)

    @property
    def to_date(self) -> date:
        """Return the first date behind."""
        return date.fromordinal(self.to_day)


def plan_windows(counts: Mapping[int, int], rows_max: int = WINDOW_ROWS_MAX) -> Iterator[Window]:
    """Yield ascending windows that hold every counted day, none of two windows.

    Days without rows between two windows belong to none: nothing is expected and nothing stands.
    """
    from_day = last_day = 0
    held = 0
    for day in sorted(counts):
        if held and held + counts[day] > rows_max:
            yield Window(from_day, last_day + 1)
            held = 0
        if not held:
            from_day = day
        held += max(1, counts[day])
        last_day = day
    if held:
        yield Window(from_day, last_day + 1)
