"""Holidays from an iCalendar file (RFC 5545): its all-day events; yearly ones are repeated.

Events that are not whole days are refused: which days they close would be a guess, because a time
of day depends on a zone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

from dueledger.calendars.source_calendar import (
    DayRange,
    SourceCalendar,
    check_span,
    make_document,
    missing_extra,
    raise_invalid_source,
)
from dueledger.calendars.yearly_rule import YearlyRule, read_yearly_rule
from dueledger.ledger.definitions.calendar_document import NAME_CHARS_MAX
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.runtime.text_file import CALENDAR_BYTES_MAX, read_text
from dueledger.ledger.schedule.calendars import CLOSED_DAYS_MAX, DAYS_LISTED_MAX

IcsEvent: TypeAlias = Any  # the library's type is a union of all possible property types

_DAY: Final = timedelta(days=1)
_SHOWN_MAX: Final = 5
_REPEATING: Final = ("RDATE", "RECURRENCE-ID")
_LENGTHS: Final = ("DTEND", "DURATION")
_LINES_MAX: Final = 50_000
_YEARS_MAX: Final = 100_000
"""Years that the rules of a file may be computed for: 500 rules for two centuries each."""
_DAYS_MAX: Final = 100_000
"""Days of all events of a file, those outside the calendar included."""

_REASON_CHARS_MAX: Final = 120
# A property that the library could not parse raises InvalidCalendar, a ValueError, when it is used;
# days after the year 9999 overflow.
_UNREADABLE: Final = (OverflowError, TypeError, ValueError)


@dataclass(slots=True)
class _IcsHolidays:
    """The holidays so far, the events that were left out, and how much was computed."""

    span: DayRange
    days: dict[date, str] = field(default_factory=dict[date, str])
    cancelled: list[str] = field(default_factory=list[str])
    outside: int = 0
    years_computed: int = 0
    days_computed: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])


def read_ics(
    path: Path, weekend: tuple[str, ...], first: date | None, last: date
) -> SourceCalendar:
    """Read all-day events as holidays. The default first day is the earliest of them.

    CANCELLED events, and days outside the range, are left out and counted. Raises InvalidInput with
    each event that is not whole days or does not repeat yearly, and MissingExtra without the
    library.
    """
    try:
        from icalendar import Calendar as Ics  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_extra("ics", "An .ics file") from None
    text = read_text(path, CALENDAR_BYTES_MAX)
    if text.count("\n") > _LINES_MAX:
        reason = f"has more than {_LINES_MAX:,} lines"
        raise_invalid_source(str(path), [Problem(str(path), "", reason, "the holidays alone")])
    check_span(first or last, last, "--valid-to")
    try:
        events = [event for each in Ics.from_ical(text, multiple=True) for event in _events(each)]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = f"is not iCalendar: {_reason(error)}"
        raise_invalid_source(str(path), [Problem(str(path), "", reason, "a .ics file")])
    found = _IcsHolidays(DayRange(first or date.min, last))
    for event in events:
        _take(found, event)
        if len(found.days) > DAYS_LISTED_MAX:
            found.problems.append(Problem(str(path), "", f"has more than {DAYS_LISTED_MAX:,} days"))
            break
    if not found.days and not found.problems:
        found.problems.append(Problem(str(path), "", "has no all-day event in the range"))
    if found.problems:
        raise_invalid_source(str(path), found.problems)
    span = check_span(first or min(found.days), last, "--valid-to")
    document = make_document(span, weekend, found.days, source=str(path))
    return SourceCalendar(document, f"ics {path.name}", tuple(_remarks(found)))


def _remarks(found: _IcsHolidays) -> Iterator[str]:
    if found.cancelled:
        names = ", ".join(found.cancelled[:_SHOWN_MAX])
        more = ", …" if len(found.cancelled) > _SHOWN_MAX else ""
        yield f"left out as CANCELLED ({len(found.cancelled):,}): {names}{more}"
    if found.outside:
        yield f"left out as outside the range: {found.outside:,} days"


def _take(found: _IcsHolidays, event: IcsEvent) -> None:
    name = " ".join(str(event.get("SUMMARY", "")).split())[:NAME_CHARS_MAX]
    place = name or str(event.get("UID", "an event"))
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        found.cancelled.append(place)
        return
    try:
        problem = next(_unusable(event, place), None)
        days = [] if problem else _holidays(found, event)
    except InvalidInput as refused:
        problem, days = replace(refused.problems[0], field=place), []
    except _UNREADABLE as error:
        problem, days = Problem(place, "", f"cannot be read: {_reason(error)}"), []
    if problem:
        found.problems.append(problem)
    for day in days:
        if day in found.span:
            known = found.days.get(day)
            found.days[day] = name if known is None else _joined(known, name)
        else:
            found.outside += 1


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:_REASON_CHARS_MAX]


def _holidays(found: _IcsHolidays, event: IcsEvent) -> list[date]:
    """Return the days of an event, some of them maybe outside of the range."""
    begin: date = event["DTSTART"].dt
    length = _length(event, begin)
    if not _DAY <= length <= CLOSED_DAYS_MAX * _DAY:
        raise ValueError(f"it is not between 1 and {CLOSED_DAYS_MAX} days long")
    excluded = set(_excluded(event))
    days: list[date] = []
    for start in _starts(found, event, begin, length.days):
        if start not in excluded:
            days += (start + number * _DAY for number in range(length.days))
        if found.days_computed + len(days) > _DAYS_MAX:
            raise ValueError(f"with it the file has more than {_DAYS_MAX:,} days")
    found.days_computed += len(days)
    return days


def _starts(found: _IcsHolidays, event: IcsEvent, begin: date, length: int) -> Iterator[date]:
    """Yield the days on which it begins; for a repeated event, those in or near the range."""
    rule = _rule(event, begin)
    if rule is None:
        yield begin
        return
    first = date.fromordinal(max(1, found.span.first.toordinal() - length + 1))
    found.years_computed += max(0, found.span.last.year - rule.first_searched(first).year + 1)
    if found.years_computed > _YEARS_MAX:
        raise ValueError(f"with it the file has rules for more than {_YEARS_MAX:,} years")
    yield from (day for day in rule.days(first, found.span.last) if day >= first)


def _rule(event: IcsEvent, begin: date) -> YearlyRule | None:
    rule = event.get("RRULE")
    if rule is None:
        return None
    text = rule if isinstance(rule, str) else rule.to_ical().decode()
    return read_yearly_rule(str(text), begin)


def _joined(known: str, name: str) -> str:
    """Return the names of both holidays of a day, each once."""
    if not name or name in known.split(" / "):
        return known
    return f"{known} / {name}"[:NAME_CHARS_MAX] if known else name


def _unusable(event: IcsEvent, place: str) -> Iterator[Problem]:
    """Yield the reasons why an event is not whole days, once or every year."""
    if twice := next((name for name in _LENGTHS if isinstance(event.get(name), list)), None):
        yield Problem(place, "", f"has more than one {twice}", f"one {twice}")
    begin, end, rule = event.get("DTSTART"), event.get("DTEND"), event.get("RRULE")
    if begin is None or isinstance(begin, list):
        yield Problem(place, "", "does not have exactly one DTSTART", "DTSTART;VALUE=DATE:20271224")
    elif isinstance(begin.dt, datetime) or not isinstance(begin.dt, date):
        reason = "is at a time of day; which days it closes would be a guess"
        yield Problem(place, str(begin.dt), reason, "DTSTART;VALUE=DATE:20271224")
    if end is not None and isinstance(end.dt, datetime):
        yield Problem(place, str(end.dt), "ends at a time of day", "DTEND;VALUE=DATE:20271225")
    if other := next((name for name in _REPEATING if name in event), None):
        yield Problem(
            place, "", f"{other} is not supported", "RRULE:FREQ=YEARLY, or one event for each day"
        )
    if isinstance(rule, list):
        yield Problem(place, "", "has more than one RRULE", "one RRULE, or one event for each day")


def _length(event: IcsEvent, begin: date) -> timedelta:
    if "DTEND" in event:
        return event["DTEND"].dt - begin
    length: Any = event["DURATION"].dt if "DURATION" in event else _DAY
    return length - length % _DAY if length >= _DAY else length


def _events(calendar: IcsEvent) -> list[IcsEvent]:
    return calendar.walk("VEVENT")


def _excluded(event: IcsEvent) -> Iterator[date]:
    listed: Any = event.get("EXDATE", [])
    several: list[Any] = listed if hasattr(listed, "append") else [listed]
    for dates in several:
        for one in dates.dts:
            yield one.dt.date() if isinstance(one.dt, datetime) else one.dt
