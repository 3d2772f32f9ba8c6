"""The accepted recurrence rules of RFC 5545, parsed to plain numbers.

Section 3.3.10 says which parts can be combined. Combinations that it forbids, and those that
implementations read differently, are refused with what to write instead.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import IntEnum
from functools import lru_cache
from typing import Final, Never

from dueledger.ledger.schedule.expressions import DUE_YEAR_MAX, DUE_YEAR_MIN, value_error

TEXT_CHARS_MAX: Final = 1000
COUNT_MAX: Final = 10_000
INTERVAL_MAX: Final = 999_999
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_EXAMPLE: Final = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"


class Frequency(IntEnum):
    """How long the periods of a rule are, from short to long."""

    MINUTELY = 1
    HOURLY = 2
    DAILY = 3
    WEEKLY = 4
    MONTHLY = 5
    YEARLY = 6


@dataclass(frozen=True, slots=True)
class _PartBounds:
    """A list of numbers: its bounds, and whether they may count from the end."""

    high: int
    low: int = 0
    from_end: bool = False


_PARTS: Final[Mapping[str, _PartBounds]] = {
    "BYSECOND": _PartBounds(59),
    "BYMINUTE": _PartBounds(59),
    "BYHOUR": _PartBounds(23),
    "BYMONTHDAY": _PartBounds(31, 1, from_end=True),
    "BYYEARDAY": _PartBounds(366, 1, from_end=True),
    "BYWEEKNO": _PartBounds(53, 1, from_end=True),
    "BYMONTH": _PartBounds(12, 1),
    "BYSETPOS": _PartBounds(366, 1, from_end=True),
}
_NAMES: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_PARTS)
_NUMBER: Final = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_BYDAY: Final = re.compile(r"(?P<nth>[+-]?\d{1,2})?(?P<day>MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_UNTIL: Final = re.compile(r"\d{8}T\d{6}Z?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RecurrenceRule:
    """A rule as numbers. Weekdays count from Monday, 0; parts that are not given are empty or None.

    `nth_weekdays` has the (n, weekday) of ``2TU``. `until` is naive if it is a local time. `text`
    is the rule in one spelling.
    """

    text: str
    frequency: Frequency
    interval: int
    count: int | None
    until: datetime | None
    week_start: int
    weekdays: tuple[int, ...]
    nth_weekdays: tuple[tuple[int, int], ...]
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: tuple[int, ...]
    year_days: tuple[int, ...]
    week_numbers: tuple[int, ...]
    months: tuple[int, ...]
    positions: tuple[int, ...]

    def __hash__(self) -> int:
        return hash(self.text)  # it is a cache key, used once for each day of a window


@lru_cache(maxsize=4096)
def parse_rrule(text: str) -> RecurrenceRule:
    """Read a rule. An error says what to write instead."""
    parts = _split(text)
    frequency = _frequency(parts)
    numbers = {
        name: _numbers(name, parts[name], part) if name in parts else ()
        for name, part in _PARTS.items()
    }
    weekdays, nth_weekdays = _byday(parts.get("BYDAY"))
    count = _whole("COUNT", parts["COUNT"], COUNT_MAX) if "COUNT" in parts else None
    until = _until(parts["UNTIL"]) if "UNTIL" in parts else None
    if count is not None and until is not None:
        raise value_error("has COUNT and UNTIL at once", "one of the two")
    rule = RecurrenceRule(
        text=";".join(f"{name}={value}" for name, value in parts.items()),
        frequency=frequency,
        interval=_whole("INTERVAL", parts.get("INTERVAL", "1"), INTERVAL_MAX),
        count=count,
        until=until,
        week_start=_week_start(parts.get("WKST", "MO")),
        weekdays=weekdays,
        nth_weekdays=nth_weekdays,
        seconds=numbers["BYSECOND"],
        minutes=numbers["BYMINUTE"],
        hours=numbers["BYHOUR"],
        month_days=numbers["BYMONTHDAY"],
        year_days=numbers["BYYEARDAY"],
        week_numbers=numbers["BYWEEKNO"],
        months=numbers["BYMONTH"],
        positions=numbers["BYSETPOS"],
    )
    _check_together(rule)
    return rule


def _split(text: str) -> dict[str, str]:
    if not text.isascii():
        raise value_error("has characters other than ASCII", _EXAMPLE)
    if len(text) > TEXT_CHARS_MAX:
        raise value_error(f"is longer than {TEXT_CHARS_MAX} characters", "a shorter rule")
    rule = text.strip().upper()
    if "\n" in rule or rule.startswith(("DTSTART", "EXDATE", "RDATE", "EXRULE")):
        raise value_error(
            "has several lines of a calendar file",
            "the rule alone; `start:`, `exdate:` and `rdate:` beside it",
        )
    parts: dict[str, str] = {}
    for part in rule.removeprefix("RRULE:").split(";"):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not value:
            raise value_error(f"`{part}` is not NAME=value", _EXAMPLE)
        if name in parts:
            raise value_error(f"{name} is given twice", f"one {name}")
        if name in {"RSCALE", "SKIP"}:
            raise value_error(f"{name} of RFC 7529 is not accepted", "`business` for rolled days")
        if name not in _NAMES:
            close = get_close_matches(name, _NAMES, n=1)
            raise value_error(f"`{name}` is not a part of a rule", close[0] if close else _EXAMPLE)
        parts[name] = value
    return parts


def _frequency(parts: Mapping[str, str]) -> Frequency:
    known = ", ".join(each.name for each in reversed(Frequency))
    if "FREQ" not in parts:
        raise value_error("has no FREQ", f"FREQ=… with one of {known}")
    name = parts["FREQ"]
    if name == "SECONDLY":
        raise value_error(
            "FREQ=SECONDLY is finer than a minute", "`every: PT30S` with an `anchor:`"
        )
    if name not in Frequency.__members__:
        raise value_error(f"`{name}` is not a frequency", known)
    return Frequency[name]


def _whole(name: str, text: str, high: int) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else 0
    if not 1 <= number <= high:
        accepted = f"{name}=1 to {high}"
        if name == "COUNT":
            accepted += "; UNTIL or `end:` for a longer series"
        raise value_error(f"{name} `{text}` is outside its range", accepted)
    return number


def _numbers(name: str, text: str, part: _PartBounds) -> tuple[int, ...]:
    found: set[int] = set()
    for each in text.split(","):
        number = int(each) if _NUMBER.fullmatch(each) else None
        size = number if number is None or not part.from_end else abs(number)
        if number is None or size is None or not part.low <= size <= part.high:
            back = f", or -{part.high} to -1 from the end" if part.from_end else ""
            raise value_error(
                f"{name} `{each}` is outside its range", f"{part.low} to {part.high}{back}"
            )
        found.add(number)
    return tuple(sorted(found))


def _byday(text: str | None) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    plain: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for each in text.split(",") if text is not None else ():
        match = _BYDAY.fullmatch(each)
        number = 0 if match is None or match["nth"] is None else int(match["nth"])
        if match is None or (match["nth"] is not None and not 1 <= abs(number) <= 53):  # noqa: PLR2004 -- weeks of a year
            raise value_error(f"BYDAY `{each}` is not understood", "MO to SU, 2TU or -1FR")
        day = WEEKDAYS.index(match["day"])
        if number:
            nth.add((number, day))
        else:
            plain.add(day)
    if plain and nth:
        raise value_error(
            "BYDAY mixes plain and counted weekdays, which is ambiguous",
            "two definitions",
        )
    return tuple(sorted(plain)), tuple(sorted(nth))


def _week_start(text: str) -> int:
    if text not in WEEKDAYS:
        raise value_error(f"WKST `{text}` is not a weekday", "MO to SU")
    return WEEKDAYS.index(text)


def _until(text: str) -> datetime:
    accepted = "UNTIL=20271231T235959 for a local time, with Z for an instant"
    if re.fullmatch(r"\d{8}", text, re.ASCII):
        raise value_error("UNTIL is a date without a time of day", accepted)
    if not _UNTIL.fullmatch(text):
        raise value_error(f"UNTIL `{text}` is not understood", accepted)
    try:
        until = datetime.strptime(text[:15], "%Y%m%dT%H%M%S")  # noqa: DTZ007 -- local, or Z below
    except ValueError:
        raise value_error(f"UNTIL `{text}` is not an existing date and time", accepted) from None
    if not DUE_YEAR_MIN <= until.year <= DUE_YEAR_MAX:
        raise value_error("UNTIL is outside 1970 to 2199", accepted)
    return until.replace(tzinfo=UTC) if text.endswith("Z") else until


def _check_together(rule: RecurrenceRule) -> None:
    frequency = rule.frequency
    _check_counted(rule)
    if rule.month_days and frequency is Frequency.WEEKLY:
        _refuse_part("BYMONTHDAY", frequency, "FREQ=MONTHLY or DAILY with BYMONTHDAY")
    if rule.year_days and frequency in {Frequency.DAILY, Frequency.WEEKLY, Frequency.MONTHLY}:
        _refuse_part("BYYEARDAY", frequency, "FREQ=YEARLY with BYYEARDAY")
    if rule.week_numbers:
        if frequency is not Frequency.YEARLY:
            _refuse_part("BYWEEKNO", frequency, "FREQ=YEARLY with BYWEEKNO")
        if not rule.weekdays:
            raise value_error(
                "BYWEEKNO without BYDAY is ambiguous: one day of the week, or all seven",
                "BYWEEKNO with BYDAY",
            )
    others = (
        *(rule.weekdays, rule.nth_weekdays, rule.seconds, rule.minutes, rule.hours),
        *(rule.month_days, rule.year_days, rule.week_numbers, rule.months),
    )
    if rule.positions and not any(others):
        raise value_error("BYSETPOS needs another BY… part to choose from", _EXAMPLE)


def _check_counted(rule: RecurrenceRule) -> None:
    if not rule.nth_weekdays:
        return
    if rule.frequency < Frequency.MONTHLY:
        _refuse_part("BYDAY counts weekdays", rule.frequency, "plain weekdays such as BYDAY=TU")
    if rule.week_numbers:
        raise value_error("BYDAY counts weekdays beside BYWEEKNO", "plain weekdays")
    of_month = rule.frequency is Frequency.MONTHLY or rule.months
    if of_month and any(abs(nth) > 5 for nth, _ in rule.nth_weekdays):  # noqa: PLR2004 -- weeks of a month
        raise value_error("a month has each weekday four or five times", "1 to 5, or -5 to -1")


def _refuse_part(part: str, frequency: Frequency, accepted: str) -> Never:
    raise value_error(f"{part} does not go with FREQ={frequency.name}", accepted)
