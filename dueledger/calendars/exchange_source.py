"""The sessions of an exchange, from the `exchange_calendars` library."""

import warnings
from collections.abc import Iterator
from datetime import date
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from dueledger.calendars.source_calendar import (
    DayRange,
    SourceCalendar,
    days_between,
    make_document,
    missing_extra,
    raise_invalid_source,
)
from dueledger.ledger.errors import Problem
from dueledger.ledger.schedule.calendars import WEEK

_OPEN: Final = "1"
_SHOWN_MAX: Final = 5


def read_exchange(code: str, span: DayRange) -> SourceCalendar:
    """Read the sessions of an exchange such as XNYS: a business day is a day with a session.

    Raises InvalidInput for a code or years that the library does not know, MissingExtra without it.
    """
    try:
        library: Any = import_module("exchange_calendars")  # an extra, and untyped
    except ImportError:
        raise missing_extra("exchanges", "An exchange's sessions") from None
    known: list[str] = library.get_calendar_names()
    if code not in known:
        near = get_close_matches(code, known, n=5, cutoff=0.5) or ["XNYS", "XLON"]
        accepted = f"a code such as {', '.join(near)}"
        raise_invalid_source(
            "--exchange", [Problem("--exchange", code, "is not a known exchange", accepted)]
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library that it uses
        try:
            found = library.get_calendar(code, start=str(span.first), end=str(span.last))
        except (ValueError, library.errors.CalendarError) as error:
            reason = " ".join(str(error).split())[:200]
            asked = f"{span.first} to {span.last}"
            raise_invalid_source("--exchange", [Problem(code, asked, reason, "a shorter range")])
        sessions = frozenset[date](stamp.date() for stamp in found.sessions)
        short = [stamp.date() for stamp in (*found.early_closes, *found.late_opens)]
        names = _names(found, span)
    weekend = tuple(day for day, mark in zip(WEEK, found.weekmask, strict=True) if mark != _OPEN)
    closed = {WEEK.index(day) for day in weekend}
    holidays = days_between(
        span.first,
        span.last,
        lambda day: day not in sessions and day.weekday() not in closed,
    )
    workdays = sorted(day for day in sessions if day.weekday() in closed)
    source = f"exchange_calendars {library.__version__} {code}"
    days = {day: names.get(day, "") for day in holidays}
    document = make_document(span, weekend, days, workdays, source=source)
    return SourceCalendar(document, source, tuple(_remarks(sorted(set(short)))))


def _names(found: Any, span: DayRange) -> dict[date, str]:  # noqa: ANN401 - the library is untyped
    rules = found.regular_holidays
    if rules is None:
        return {}
    named = rules.holidays(str(span.first), str(span.last), return_name=True)
    return {stamp.date(): str(name) for stamp, name in named.items() if name}


def _remarks(short: list[date]) -> Iterator[str]:
    if short:
        shown = ", ".join(map(str, short[:_SHOWN_MAX]))
        more = ", …" if len(short) > _SHOWN_MAX else ""
        yield (
            f"not imported: {len(short):,} sessions that open late or close early ({shown}{more}); "
            "they count as whole business days"
        )
