"""`when: {every: …}`: a fixed rate, counted in elapsed time from an anchor.

No zone and no scan: occurrence n is anchor + n * period. Nothing is owed before the anchor.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ledger.schedule.expressions import Instant, Period
from ledger.schedule.local_rule import Ruling, check_bounds
from ledger.schedule.resolution import Decision, Fold, Gap, Occurrence, Window
from ledger.schedule.zones import load_zone


class Every(BaseModel):
    """An instant each `every`, from `anchor` on. Nominal times are UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Period
    anchor: Instant
    start: Instant | None = Field(default=None, description="none is owed before; else the anchor")
    end: Instant | None = Field(default=None, description="exclusive")

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        check_bounds(self.start or self.anchor, self.end)
        check_bounds(self.anchor, self.end)
        return self

    @property
    def ruling(self) -> Ruling:
        """Return how nominal times become instants: they are UTC."""
        return Ruling(load_zone("UTC"), Gap.SKIP, Fold.BOTH)

    def nominals(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """Yield the nominal times in [low, high), which are UTC."""
        instants = self._instants(low.replace(tzinfo=UTC), high.replace(tzinfo=UTC))
        return (each.replace(tzinfo=None) for each in instants)

    def expand(self, start: datetime, end: datetime) -> Window:
        """Return what falls into the half-open [start, end)."""
        return Window(tuple(_exactly(instant) for instant in self._instants(start, end)), ())

    def _instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        start = max(start, self.anchor if self.start is None else self.start)
        end = end if self.end is None else min(end, self.end)
        first = max(0, -((self.anchor - start) // self.every))
        last = -((self.anchor - end) // self.every)
        return (self.anchor + n * self.every for n in range(first, last))

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences [start, end) holds."""
        return (end - start) / self.every


def _exactly(instant: datetime) -> Occurrence:
    return Occurrence(instant, instant.replace(tzinfo=None), timedelta(0), Decision.EXACT)
