"""Holidays from a CSV file: a header `date` or `date,name`, and one line for each day."""

import csv
from datetime import date
from pathlib import Path
from typing import Final

from dueledger.calendars.source_calendar import (
    DayRange,
    SourceCalendar,
    check_span,
    make_document,
    raise_invalid_source,
)
from dueledger.ledger.definitions.calendar_document import NAME_CHARS_MAX
from dueledger.ledger.errors import Problem
from dueledger.ledger.runtime.text_file import CALENDAR_BYTES_MAX, read_text
from dueledger.ledger.schedule.calendars import DAYS_LISTED_MAX

_HEADERS: Final = (["date"], ["date", "name"])
_ISO_DATE_CHARS: Final = 10


def read_csv(
    path: Path, weekend: tuple[str, ...], first: date | None, last: date
) -> SourceCalendar:
    """Read holidays. The default first day is the earliest listed day.

    Raises InvalidInput with each wrong line: not a date, given twice, or outside the range.
    """
    lines = _lines(path)
    problems: list[Problem] = []
    days: dict[date, str] = {}
    line_of: dict[date, int] = {}
    for number, fields, columns in lines:
        place = f"line {number}"
        day = _date(fields[0])
        name = fields[1].strip() if columns > 1 and len(fields) > 1 else ""
        if len(fields) != columns:
            reason = f"has {len(fields)} fields; the header has {columns}"
            problems.append(Problem(place, ",".join(fields)[:80], reason, 'quotes around a ","'))
        elif day is None:
            problems.append(Problem(place, repr(fields[0][:80]), "no date", "2027-12-24"))
        elif day in days:
            reason = f"is given in line {line_of[day]} already"
            problems.append(Problem(place, day.isoformat(), reason, "each day once"))
        elif len(name) > NAME_CHARS_MAX:
            problems.append(
                Problem(place, "", f"has a name of more than {NAME_CHARS_MAX} characters")
            )
        elif day > last or (first is not None and day < first):
            begin = "" if first is None else f"{first} to "
            reason = f"is outside the range, {begin}{last}"
            problems.append(Problem(place, day.isoformat(), reason, "a --valid-to that covers it"))
        else:
            days[day], line_of[day] = name, number
    if not days and not problems:
        problems.append(Problem(str(path), "", "has no days", "one line for each holiday"))
    if problems:
        raise_invalid_source(str(path), problems)
    span = check_span(first or min(days), last, "--valid-to")
    return _found(path, span, weekend, days)


def _found(
    path: Path, span: DayRange, weekend: tuple[str, ...], days: dict[date, str]
) -> SourceCalendar:
    document = make_document(span, weekend, days, source=str(path))
    return SourceCalendar(document, f"csv {path.name}")


def _lines(path: Path) -> list[tuple[int, list[str], int]]:
    """Return each line's number, its fields, and how many the header has."""
    reader = csv.reader(read_text(path, CALENDAR_BYTES_MAX).splitlines(keepends=True), strict=True)
    found: list[tuple[int, list[str], int]] = []
    header: list[str] | None = None
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if header is None:
                header = [field.strip().lower() for field in fields]
                if header not in _HEADERS:
                    shown = ",".join(fields)[:80]
                    problem = Problem(
                        f"line {reader.line_num}", repr(shown), "is not a known header", "date,name"
                    )
                    raise_invalid_source(str(path), [problem])
                continue
            found.append((reader.line_num, fields, len(header)))
            if len(found) > DAYS_LISTED_MAX:
                reason = f"has more than {DAYS_LISTED_MAX:,} days"
                raise_invalid_source(str(path), [Problem(f"line {reader.line_num}", "", reason)])
    except csv.Error as error:
        raise_invalid_source(
            str(path), [Problem(f"line {reader.line_num}", "", str(error), "date,name")]
        )
    return found


def _date(text: str) -> date | None:
    """Read an ISO 8601 date; other formats are ambiguous, so they are refused."""
    text = text.strip()
    if len(text) != _ISO_DATE_CHARS or text[4::3] != "--" or not text.isascii():
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
