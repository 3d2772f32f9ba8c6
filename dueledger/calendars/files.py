"""Calendars from files on the command line, without a ledger: NAME=FILE."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import cast

import orjson

from dueledger.calendars.csv_file import read_csv
from dueledger.calendars.ics_file import read_ics
from dueledger.calendars.source_calendar import SourceCalendar, raise_invalid_source, read_weekend
from dueledger.ledger.definitions.calendar_document import parse_calendar
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.runtime.text_file import CALENDAR_BYTES_MAX, read_text
from dueledger.ledger.schedule import Calendar


@dataclass(frozen=True, slots=True)
class CalendarFileOptions:
    """What a CSV or ICS file does not have: the weekend, and its first and last complete day."""

    weekend: str | None = None
    first: date | None = None
    last: date | None = None


def read_file(path: Path, terms: CalendarFileOptions) -> SourceCalendar:
    """Read a calendar from a .csv or .ics file, or from the .json that `calendar show` prints."""
    if path.suffix.lower() == ".json":
        return _read_json(path)
    if terms.weekend is None:
        raise _lacking(
            "--weekend",
            "is missing, and a list of holidays does not contain it",
            "sat,sun, or none",
        )
    if terms.last is None:
        reason = "is missing, and a list of holidays does not say when it ends"
        raise _lacking("--valid-to", reason, "2027-12-31")
    weekend = read_weekend(terms.weekend)
    match path.suffix.lower():
        case ".csv":
            return read_csv(path, weekend, terms.first, terms.last)
        case ".ics":
            return read_ics(path, weekend, terms.first, terms.last)
        case _:
            raise _lacking(
                "FILE", f"{path.name} is not a file of a known type", ".csv, .ics or .json"
            )


def read_given(pairs: Sequence[str], terms: CalendarFileOptions) -> dict[str, Calendar]:
    """Read each NAME=FILE."""
    calendars: dict[str, Calendar] = {}
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not name or not equals or not file:
            raise _lacking("--calendar", repr(pair), "NAME=FILE, such as us=us.csv")
        calendars[name] = read_file(Path(file), terms).document.calendar(name)
    return calendars


def _read_json(path: Path) -> SourceCalendar:
    try:
        document: object = orjson.loads(read_text(path, CALENDAR_BYTES_MAX))
    except orjson.JSONDecodeError as error:
        raise_invalid_source(str(path), [Problem(str(path), "", f"no JSON: {error}")])
    if not isinstance(document, dict):
        raise_invalid_source(
            str(path), [Problem(str(path), "", "is not a mapping", "the output of `calendar show`")]
        )
    fields = cast("dict[str, object]", document)
    inner = fields.get("document", fields)
    if not isinstance(inner, dict):
        raise_invalid_source(
            str(path),
            [Problem("document", "", "is not a mapping", "the output of `calendar show`")],
        )
    return SourceCalendar(
        parse_calendar(cast("dict[str, object]", inner), source=str(path)), f"json {path.name}"
    )


def _lacking(option: str, reason: str, accepted: str) -> InvalidInput:
    return InvalidInput("The calendar cannot be read:", [Problem(option, "", reason, accepted)])
