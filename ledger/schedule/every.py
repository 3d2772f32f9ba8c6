"""`when: {every: …}`: a fixed rate, counted in elapsed time from an anchor.

No zone and no scan: occurrence n is anchor + n * period. Nothing is owed before the anchor.
"""

from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from ledger.schedule.expressions import Instant, Period
from ledger.schedule.resolution import Decision, Occurrence, Window


class Every(BaseModel):
    """An instant each `every`, from `anchor` on. Nominal times are UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Period
    anchor: Instant

    def expand(self, start: datetime, end: datetime) -> Window:
        """Return what falls into the half-open [start, end)."""
        first = max(0, -((self.anchor - start) // self.every))
        last = -((self.anchor - end) // self.every)
        instants = (self.anchor + n * self.every for n in range(first, last))
        return Window(tuple(_exactly(instant) for instant in instants), ())

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences [start, end) holds."""
        return (end - start) / self.every


def _exactly(instant: datetime) -> Occurrence:
    return Occurrence(instant, instant.replace(tzinfo=None), timedelta(0), Decision.EXACT)
