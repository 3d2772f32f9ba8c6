"""`when: {every: …}`: a fixed rate, counted in elapsed time from an anchor.

No zone and no scan: occurrence n is anchor + n * period. There is none before the anchor.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dueledger.ledger.schedule.expressions import Instant, Period
from dueledger.ledger.schedule.local_rule import ResolutionPolicy, check_bounds
from dueledger.ledger.schedule.local_times import LocalTimesOfDay, midnight_of
from dueledger.ledger.schedule.resolution import Decision, Fold, Gap, Occurrence, ScheduleWindow
from dueledger.ledger.schedule.zones import load_zone

_DAY: Final = timedelta(days=1)


class Every(BaseModel):
    """An instant each `every`, beginning at `anchor`. Nominal times are UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Period
    anchor: Instant
    start: Instant | None = Field(
        default=None, description="no occurrence before it; default: the anchor"
    )
    end: Instant | None = Field(default=None, description="exclusive")

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        check_bounds(self.start or self.anchor, self.end)
        check_bounds(self.anchor, self.end)
        return self

    @property
    def ruling(self) -> ResolutionPolicy:
        """Return how nominal times are resolved to instants: they are UTC."""
        return ResolutionPolicy(load_zone("UTC"), Gap.SKIP, Fold.BOTH)

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield the UTC days from `first` to `last` that may have an occurrence."""
        low = max(midnight_of(first).replace(tzinfo=UTC), self._begin)
        day = self._from(low).date()
        end = last if self.end is None else min(last, self.end.astimezone(UTC).date())
        while day <= end:
            yield day
            after = midnight_of(day).replace(tzinfo=UTC) + _DAY
            day = self._from(after).date() if self.every > _DAY else after.date()

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return the times of a UTC day."""
        midnight = midnight_of(day).replace(tzinfo=UTC)
        end = midnight + _DAY if self.end is None else min(midnight + _DAY, self.end)
        first = self._from(max(midnight, self._begin))
        count = max(0, -((first - end) // self.every))
        return _ticks(first - midnight, self.every, count)

    @property
    def _begin(self) -> datetime:
        return self.anchor if self.start is None else max(self.anchor, self.start)

    def _from(self, low: datetime) -> datetime:
        """Return the first instant at or after `low`; `low` is not before its beginning."""
        return self.anchor - (self.anchor - low) // self.every * self.every

    def expand(self, start: datetime, end: datetime) -> ScheduleWindow:
        """Return the occurrences in the half-open [start, end)."""
        return ScheduleWindow(
            tuple(_exactly(instant) for instant in self._instants(start, end)), ()
        )

    def _instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        start = max(start, self.anchor if self.start is None else self.start)
        end = end if self.end is None else min(end, self.end)
        first = max(0, -((self.anchor - start) // self.every))
        last = -((self.anchor - end) // self.every)
        return (self.anchor + n * self.every for n in range(first, last))

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences are in [start, end)."""
        return (end - start) / self.every


def _exactly(instant: datetime) -> Occurrence:
    return Occurrence(instant, instant.replace(tzinfo=None), timedelta(0), Decision.EXACT)


@lru_cache(maxsize=16)  # days with the same first time share one; 4 MB each at most
def _ticks(first: timedelta, every: timedelta, count: int) -> LocalTimesOfDay:
    return tuple(first + n * every for n in range(count))
