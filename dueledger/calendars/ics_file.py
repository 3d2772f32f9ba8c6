"""Holidays from an iCalendar file (RFC 5545): its all-day events; yearly ones are repeated.

Events that are not whole days are refused: which days they close would be a guess, because a time
of day depends on a zone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

from dueledger.calendars.csv_file import read_text
from dueledger.calendars.source_calendar import (
    DayRange,
    SourceCalendar,
    check_span,
    make_document,
    missing_extra,
    raise_invalid_source,
)
from dueledger.ledger.definitions.calendar_document import NAME_CHARS_MAX
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.schedule.calendars import CLOSED_DAYS_MAX, DAYS_LISTED_MAX

IcsEvent: TypeAlias = Any  # the library's type is a union of all possible property types

_DAY: Final = timedelta(days=1)
_SHOWN_MAX: Final = 5
_REPEATING: Final = ("RDATE", "RECURRENCE-ID")
_LENGTHS: Final = ("DTEND", "DURATION")
_STARTS_MAX: Final = 10_000
"""How often one event may repeat until the last day of the calendar: daily, for 27 years."""

_REASON_CHARS_MAX: Final = 120
# A property that the library could not parse raises InvalidCalendar, a ValueError, when it is used;
# days after the year 9999 overflow.
_UNREADABLE: Final = (OverflowError, TypeError, ValueError)


@dataclass(slots=True)
class _IcsHolidays:
    """The holidays so far, and the events that were left out."""

    days: dict[date, str] = field(default_factory=dict[date, str])
    cancelled: list[str] = field(default_factory=list[str])
    outside: int = 0
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
    try:
        calendars = Ics.from_ical(read_text(path), multiple=True)
    except InvalidInput:
        raise
    except (ValueError, LookupError, TypeError) as error:
        reason = f"is not iCalendar: {_reason(error)}"
        raise_invalid_source(str(path), [Problem(str(path), "", reason, "a .ics file")])
    found = _IcsHolidays()
    beginning = date.min if first is None else first
    events: list[IcsEvent] = [event for calendar in calendars for event in _events(calendar)]
    for event in events:
        _take(found, event, DayRange(beginning, last))
    if not found.days and not found.problems:
        found.problems.append(Problem(str(path), "", "has no all-day event in the range"))
    if len(found.days) > DAYS_LISTED_MAX:
        found.problems.append(Problem(str(path), "", f"has more than {DAYS_LISTED_MAX:,} days"))
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


def _take(found: _IcsHolidays, event: IcsEvent, span: DayRange) -> None:
    name = " ".join(str(event.get("SUMMARY", "")).split())[:NAME_CHARS_MAX]
    place = name or str(event.get("UID", "an event"))
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        found.cancelled.append(place)
        return
    try:
        problem = next(_unusable(event, place), None)
        days = [] if problem else _holidays(event, span)
    except _UNREADABLE as error:
        problem, days = Problem(place, "", f"cannot be read: {_reason(error)}"), []
    if problem:
        found.problems.append(problem)
    for day in days:
        if day in span:
            known = found.days.get(day)
            found.days[day] = name if known is None else _joined(known, name)
        else:
            found.outside += 1


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:_REASON_CHARS_MAX]


def _holidays(event: IcsEvent, span: DayRange) -> list[date]:
    """Return the days of an event, some of them maybe outside of the range."""
    begin: date = event["DTSTART"].dt
    length = _length(event, begin)
    if not _DAY <= length <= CLOSED_DAYS_MAX * _DAY:
        raise ValueError(f"it is not between 1 and {CLOSED_DAYS_MAX} days long")
    return [
        start + number * _DAY
        for start in _starts(event, begin, span, length)
        for number in range(length.days)
    ]


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
    if rule is None:
        return
    if isinstance(rule, list) or [str(one).upper() for one in rule.get("FREQ", [])] != ["YEARLY"]:
        reason = "does not repeat yearly"
        yield Problem(place, "", reason, "RRULE:FREQ=YEARLY, or one event for each day")
    elif any(interval < 1 for interval in rule.get("INTERVAL", [])):
        yield Problem(place, "", "INTERVAL is less than 1", "INTERVAL=1")
    elif any(isinstance(until, datetime) for until in rule.get("UNTIL", [])):
        yield Problem(place, "", "UNTIL is a time of day", "UNTIL=20301231")


def _length(event: IcsEvent, begin: date) -> timedelta:
    if "DTEND" in event:
        return event["DTEND"].dt - begin
    length: Any = event["DURATION"].dt if "DURATION" in event else _DAY
    return length - length % _DAY if length >= _DAY else length


def _starts(event: IcsEvent, begin: date, span: DayRange, length: timedelta) -> Iterator[date]:
    """Yield the days on which it begins; for a repeated event, those in or near the range."""
    rule = event.get("RRULE")
    if rule is None:
        yield begin
        return
    excluded = set(_excluded(event))
    start = datetime(begin.year, begin.month, begin.day)  # noqa: DTZ001 - local days, no instants
    from dateutil.rrule import rrulestr  # noqa: PLC0415 - of the same extra

    repeated = rrulestr(rule.to_ical().decode(), dtstart=start)
    for number, found in enumerate(repeated):
        day = found.date()
        if day > span.last:
            return
        if number == _STARTS_MAX:
            raise ValueError(f"it repeats more than {_STARTS_MAX:,} times")
        if day + length > span.first and day not in excluded:
            yield day


def _events(calendar: IcsEvent) -> list[IcsEvent]:
    return calendar.walk("VEVENT")


def _excluded(event: IcsEvent) -> Iterator[date]:
    listed: Any = event.get("EXDATE", [])
    several: list[Any] = listed if hasattr(listed, "append") else [listed]
    for dates in several:
        for one in dates.dts:
            yield one.dt.date() if isinstance(one.dt, datetime) else one.dt
