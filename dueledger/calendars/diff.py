"""What a new version of a calendar changes: business days added and removed, and its range."""

from dataclasses import dataclass
from datetime import date

from dueledger.calendars.source_calendar import days_between
from dueledger.ledger.definitions.calendar_document import CalendarDocument
from dueledger.ledger.schedule import Weekday


@dataclass(frozen=True, slots=True)
class ListedDay:
    """A listed day, with its name if it has one."""

    day: date
    name: str = ""


@dataclass(frozen=True, slots=True)
class CalendarDifference:
    """The changes from one version to the next.

    `added` and `removed` are listed holidays, `workdays_added` and `workdays_removed` listed
    workdays. `turned` are days that both know and that are a business day in one only.
    """

    weekend: tuple[tuple[Weekday, ...], tuple[Weekday, ...]]
    range: tuple[tuple[date, date], tuple[date, date]]
    added: tuple[ListedDay, ...]
    removed: tuple[ListedDay, ...]
    workdays_added: tuple[date, ...]
    workdays_removed: tuple[date, ...]
    renamed: int
    changed_days: tuple[date, ...]

    @property
    def reaches_less(self) -> bool:
        """Return whether days are unknown now that were known before."""
        (first, last), (new_first, new_last) = self.range
        return new_first > first or new_last < last


def compare(old: CalendarDocument, new: CalendarDocument) -> CalendarDifference:
    """Return what `new` changes."""
    before, after = set(old.holidays), set(new.holidays)
    worked, working = set(old.workdays), set(new.workdays)
    first, last = max(old.first_day, new.first_day), min(old.last_day, new.last_day)
    was, shall = old.calendar("old"), new.calendar("new")
    turned = days_between(
        first, last, lambda day: was.is_business_day(day) != shall.is_business_day(day)
    )
    return CalendarDifference(
        weekend=(old.weekend, new.weekend),
        range=((old.first_day, old.last_day), (new.first_day, new.last_day)),
        added=_listed(after - before, new),
        removed=_listed(before - after, old),
        workdays_added=tuple(sorted(working - worked)),
        workdays_removed=tuple(sorted(worked - working)),
        renamed=sum(old.names.get(day) != new.names.get(day) for day in before & after),
        changed_days=tuple(turned),
    )


def _listed(days: set[date], document: CalendarDocument) -> tuple[ListedDay, ...]:
    return tuple(ListedDay(day, document.names.get(day, "")) for day in sorted(days))
