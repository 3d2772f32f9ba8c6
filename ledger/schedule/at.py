"""`when: {at: …}`: one local time, once."""

from collections.abc import Iterator
from datetime import date, datetime

from pydantic import Field

from dueledger.ledger.schedule.expressions import LocalTime, ZoneName
from dueledger.ledger.schedule.local_rule import LocalRule, ResolutionPolicy
from dueledger.ledger.schedule.local_times import LocalTimesOfDay, midnight_of
from dueledger.ledger.schedule.resolution import Fold, Gap, naive_bounds
from dueledger.ledger.schedule.zones import load_zone


class At(LocalRule):
    """Due once, at a local time. Gaps and folds follow the same policies as a series."""

    at: LocalTime
    timezone: ZoneName
    gap: Gap = Field(default=Gap.SHIFT_FORWARD)
    fold: Fold = Field(default=Fold.FIRST)

    @property
    def ruling(self) -> ResolutionPolicy:
        """Return how its local time is resolved to an instant."""
        return ResolutionPolicy(load_zone(self.timezone), self.gap, self.fold)

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield its day if that is one of `first` to `last`."""
        if first <= self.at.date() <= last:
            yield self.at.date()

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return its time on its day."""
        return (self.at - midnight_of(day),) if day == self.at.date() else ()

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences are in [start, end)."""
        low, high = naive_bounds(start, end)
        return float(low <= self.at < high)
