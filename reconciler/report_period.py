"""The period of a report: which findings and repairs belong to it."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from dueledger.reconciler.finding_row import FindingRow

DAYS: Final = 35
"""Days of a period of which the first one is not given: a month, and some to look at it."""

ReportDates = tuple[date | None, date | None]
"""The first date of a period, and the date after its last; None where it is not given."""


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """A half-open range of dates in UTC, on business time. Without `to_date` it ends now.

    A finding belongs to it if it is open, if it was open at any time of the period, or if what it
    is about was due in it; a repair if it waits, or was open at any time of the period. A report
    also has what its pass found and a person resolved before.
    """

    from_date: date
    to_date: date | None = None

    @classmethod
    def of(
        cls, as_of: datetime, from_date: date | None = None, to_date: date | None = None
    ) -> "ReportPeriod":
        """Return the period of these dates; by default the days before `as_of`."""
        end = to_date or as_of.date()
        return cls(from_date or end - timedelta(days=DAYS), to_date)

    def has(self, finding: FindingRow) -> bool:
        """Return whether a finding belongs to it: as `list_findings_of_period` does."""
        closed_at, due_at = finding["closed_at"], finding["due_at"]
        return (
            closed_at is None
            or (closed_at >= self.from_at and self._is_before_end(finding["first_seen_at"]))
            or (due_at is not None and due_at >= self.from_at and self._is_before_end(due_at))
        )

    def _is_before_end(self, instant: datetime) -> bool:
        return self.to_at is None or instant < self.to_at

    @property
    def from_at(self) -> datetime:
        """Return the first instant of the period."""
        return datetime.combine(self.from_date, time(), UTC)

    @property
    def to_at(self) -> datetime | None:
        """Return the instant at which it ends, or None: now."""
        return None if self.to_date is None else datetime.combine(self.to_date, time(), UTC)
