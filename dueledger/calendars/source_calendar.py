"""A calendar from a source, before it becomes a version in the ledger."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NoReturn

from dueledger.ledger.definitions.calendar_document import CalendarDocument, parse_calendar
from dueledger.ledger.errors import InvalidInput, MissingExtra, Problem
from dueledger.ledger.schedule import Weekday
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN

PROBLEMS_MAX: Final = 50
NO_WEEKEND: Final = "none"
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DayRange:
    """The first and the last day for which a source is complete."""

    first: date
    last: date

    def __contains__(self, day: date) -> bool:
        """Return whether a day is in the range."""
        return self.first <= day <= self.last


@dataclass(frozen=True, slots=True)
class SourceCalendar:
    """A calendar, its origin, and what was left out of the source."""

    document: CalendarDocument
    source: str
    remarks: tuple[str, ...] = ()


def make_document(
    span: DayRange,
    weekend: Iterable[str],
    days: Mapping[date, str],
    workdays: Iterable[date] = (),
    *,
    source: str,
) -> CalendarDocument:
    """Return the document of a calendar; `days` are its holidays, with their names or ""."""
    document = {
        "weekend": list(weekend),
        "holidays": [day.isoformat() for day in days],
        "workdays": [day.isoformat() for day in workdays],
        "first_day": span.first.isoformat(),
        "last_day": span.last.isoformat(),
        "names": {day.isoformat(): name for day, name in days.items() if name},
    }
    return parse_calendar(document, source=source)


def read_weekend(text: str) -> tuple[str, ...]:
    """Read days such as `sat,sun`; `none` if every day is worked."""
    if text.strip().lower() == NO_WEEKEND:
        return ()
    days = tuple(day.strip().lower() for day in text.split(","))
    known = {day.value for day in Weekday}
    if wrong := next((day for day in days if day not in known), None):
        problem = Problem("--weekend", repr(wrong), "is not a day of the week", "sat,sun, or none")
        raise InvalidInput("The weekend cannot be read:", [problem])
    return days


def check_span(first: date, last: date, option: str) -> DayRange:
    """Return a range of days. Raises InvalidInput if it ends before it begins."""
    if last < first:
        problem = Problem(option, last.isoformat(), f"is before the first day, {first}")
    elif first < DUE_MIN.date() or last >= DUE_END.date():
        years = f"{DUE_MIN.year} to {DUE_END.year - 1}"
        problem = Problem(option, f"{first} to {last}", f"outside {years}")
    else:
        return DayRange(first, last)
    raise InvalidInput("The calendar's range is invalid:", [problem])


def raise_invalid_source(source: str, problems: list[Problem]) -> NoReturn:
    """Raise InvalidInput with every problem of a source."""
    more = f" ({len(problems):,} problems)" if len(problems) > PROBLEMS_MAX else ""
    raise InvalidInput(f"{source} cannot be read{more}:", problems[:PROBLEMS_MAX], source=source)


def missing_extra(extra: str, what: str) -> MissingExtra:
    """Return the error of a library that is not installed, with the command that installs it."""
    return MissingExtra(
        f"{what} needs a library that is not installed: pip install 'dueledger[{extra}]'",
        extra=extra,
    )


def days_between(first: date, last: date, wanted: Callable[[date], bool]) -> list[date]:
    """Return the days from `first` to `last` for which `wanted` returns true."""
    count = (last - first).days + 1
    return [day for day in (first + n * _DAY for n in range(count)) if wanted(day)]
