"""Rules of yearly holidays in iCalendar files (RFC 5545), as days.

A rule is checked by the arithmetic of `ledger.schedule` before any day of it is computed, so none
takes long or has no end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import Final

from pydantic_core import PydanticCustomError

from dueledger.ledger.errors import InvalidInput, Problem, shown_value
from dueledger.ledger.schedule.recurrence import Recurrence
from dueledger.ledger.schedule.rrule_text import Frequency, RecurrenceRule, parse_rrule

_PARTS: Final = ("FREQ", "INTERVAL", "COUNT", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST")
_UNTIL: Final = re.compile(r";UNTIL=([^;]*)", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """On which days of which years something is repeated."""

    begin: date
    rule: RecurrenceRule
    until: date = date.max

    def first_searched(self, first: date) -> date:
        """Return the day from which its days must be computed to have those from `first` on."""
        return self.begin if self.rule.count is not None else max(self.begin, first)

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield in order its days from `first` to `last`, and earlier ones if it counts them."""
        start = datetime(self.begin.year, self.begin.month, self.begin.day)  # noqa: DTZ001 - local
        days = Recurrence(self.rule, start).days(self.first_searched(first), min(last, self.until))
        return islice(days, self.rule.count)


def read_yearly_rule(text: str, begin: date) -> YearlyRule:
    """Read an RRULE of an all-day event. Raises InvalidInput, which names the part."""
    ends = _UNTIL.findall(f";{text}")
    try:
        rule = parse_rrule(_UNTIL.sub("", f";{text}")[1:])
    except PydanticCustomError as error:
        context = error.context or {}
        raise _refused(str(context["reason"]), str(context["accepted"])) from None
    if rule.frequency is not Frequency.YEARLY:
        reason = "does not repeat yearly"
        raise _refused(reason, "FREQ=YEARLY, or one event for each day")
    names = [part.partition("=")[0] for part in rule.text.split(";")]
    if unknown := [name for name in names if name not in _PARTS]:
        raise _refused(f"{unknown[0]} is not supported", ", ".join(_PARTS))
    return YearlyRule(begin, rule, min((_until(each) for each in ends), default=date.max))


def _until(text: str) -> date:
    if "T" in text.upper():
        raise _refused("UNTIL is a time of day", "UNTIL=20301231")
    digits = _DATE.fullmatch(text)  # Python reads other forms too
    try:
        return date.fromisoformat(digits[0] if digits else "")
    except ValueError:
        raise _refused(f"UNTIL {shown_value(text)} is not a day", "UNTIL=20301231") from None


def _refused(reason: str, accepted: str) -> InvalidInput:
    return InvalidInput("The rule cannot be used:", [Problem("RRULE", "", reason, accepted)])
