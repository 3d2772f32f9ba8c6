"""The text values inside a `when`: periods, calendar offsets, times of day, instants.

Each has one spelling in a normalised document. An error says what to write instead.
"""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from dueledger.ledger.schedule.zones import load_zone, similar_zones, zone_names

PERIOD_MAX: Final = timedelta(days=36_525)  # a century
OFFSET_DAYS_MAX: Final = 36_525
DUE_YEAR_MIN: Final = 1970
DUE_YEAR_MAX: Final = 2199
_PERIOD_CHARS_MAX: Final = 100
_PERIOD_ACCEPTED: Final = "a period such as PT24H, PT90M or 4h30m"
_MONTHS_A_YEAR: Final = 12

_ISO_PERIOD: Final = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9})S)?)?"
)
_SHORT_PERIOD: Final = re.compile(
    r"(?:(?P<hours>\d{1,9})h)?(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,9})s)?"
)
_OFFSET: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<years>[+-]?\d{1,4})Y)?(?:(?P<months>[+-]?\d{1,5})M)?"
    r"(?:(?P<weeks>[+-]?\d{1,5})W)?(?:(?P<days>[+-]?\d{1,5})D)?"
)
_TIME_OF_DAY: Final = re.compile(r"(\d{2}):(\d{2})(?::(\d{2}))?")
_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})"
)

_LOCAL_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def value_error(reason: str, accepted: str) -> PydanticCustomError:
    """Return the error that a field validator raises: the reason, and what to write instead."""
    return PydanticCustomError("refused", "{reason}", {"reason": reason, "accepted": accepted})


def field_error(
    field: str, reason: str, accepted: str, *, withheld: bool = False
) -> PydanticCustomError:
    """Return the error of a check across fields; `field` is the one to change.

    A `withheld` value is not quoted: it may be a secret.
    """
    return PydanticCustomError(
        "refused",
        "{reason}",
        {"field": field, "reason": reason, "accepted": accepted, "withheld": withheld},
    )


def parse_period(text: object) -> timedelta:
    """Read elapsed time: ``PT24H``, ``P7D`` (seven times 24 hours), or short, ``4h30m``."""
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not text.isascii():
        raise value_error("a period is a text", _PERIOD_ACCEPTED)
    if len(text) > _PERIOD_CHARS_MAX:  # the pattern match takes quadratic time
        raise value_error("not a period of elapsed time", _PERIOD_ACCEPTED)
    return _read_period(text)


@lru_cache(maxsize=1024)  # the definitions of an installation repeat few values, mostly defaults
def _read_period(text: str) -> timedelta:
    match = _ISO_PERIOD.fullmatch(text) or _SHORT_PERIOD.fullmatch(text)
    parts = {} if match is None else {k: int(v) for k, v in match.groupdict().items() if v}
    if not parts:
        if (
            re.fullmatch(r"P[\dYMWDT]*\d[YM][\dYMWDTHS]*", text)
            and "T" not in text.partition("M")[0]
        ):
            raise value_error(
                "months and years have no fixed length", "the period in days or hours"
            )
        raise value_error("not a period of elapsed time", _PERIOD_ACCEPTED)
    try:
        period = timedelta(**parts)
    except OverflowError:
        period = timedelta.max
    if not timedelta(seconds=1) <= period <= PERIOD_MAX:
        raise value_error("a period is between one second and a century", _PERIOD_ACCEPTED)
    return period


def period_text(period: timedelta) -> str:
    """Return the one ISO spelling of a period: hours, minutes, seconds."""
    minutes, seconds = divmod(int(period.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    return "PT" + ("".join(f"{value}{unit}" for value, unit in parts if value) or "0S")


@dataclass(frozen=True, slots=True)
class DateOffset:
    """A distance in calendar dates: first months, clamped to the month's end, then days."""

    months: int
    days: int

    def applied_to(self, start: date) -> date:
        """Return `start` moved by this distance. Raises ValueError beyond years 1 to 9999."""
        month_index = start.year * _MONTHS_A_YEAR + start.month - 1 + self.months
        year, month = divmod(month_index, _MONTHS_A_YEAR)
        if not date.min.year <= year <= date.max.year:
            raise ValueError("beyond the calendar")
        last_day = monthrange(year, month + 1)[1]
        moved = date(year, month + 1, min(start.day, last_day))
        try:
            return moved + timedelta(days=self.days)
        except OverflowError as error:
            raise ValueError("beyond the calendar") from error

    def __str__(self) -> str:
        parts = ((self.months, "M"), (self.days, "D"))
        return "P" + ("".join(f"{value}{unit}" for value, unit in parts if value) or "0D")


def parse_offset(text: object) -> DateOffset:
    """Read a distance in calendar dates: ``P-30D``, ``-P30D``, ``P1M``, ``P1Y-2W``."""
    if isinstance(text, DateOffset):
        return text
    accepted = "a distance in dates such as P-30D, P0D or P1M; the time of day belongs in `at`"
    match = _OFFSET.fullmatch(text) if isinstance(text, str) and text.isascii() else None
    parts = {} if match is None else match.groupdict()
    sign = -1 if parts.pop("sign", "") == "-" else 1
    numbers = {unit: sign * int(value) for unit, value in parts.items() if value}
    if not numbers:
        raise value_error("not a distance in dates", accepted)
    months = numbers.get("years", 0) * _MONTHS_A_YEAR + numbers.get("months", 0)
    days = numbers.get("weeks", 0) * 7 + numbers.get("days", 0)
    if abs(months) * 31 + abs(days) > OFFSET_DAYS_MAX:
        raise value_error("is a distance of more than a century", accepted)
    return DateOffset(months, days)


def parse_time_of_day(text: object) -> time:
    """Read a local time of day: ``09:00`` or ``09:00:30``."""
    if isinstance(text, time):
        return text
    match = _TIME_OF_DAY.fullmatch(text) if isinstance(text, str) and text.isascii() else None
    try:
        if match is not None:
            hours, minutes, seconds = (int(part or 0) for part in match.groups())
            return time(hours, minutes, seconds)
    except ValueError:
        pass  # 25:00 matches the pattern
    raise value_error("not a time of day", 'two-digit hours and minutes, such as "09:00"')


def time_text(of_day: time) -> str:
    """Return the one spelling of a time of day, with seconds only if they are not zero."""
    return of_day.isoformat("seconds" if of_day.second else "minutes")


def parse_instant(text: object) -> datetime:
    """Read an instant with its offset: ``2026-10-31T13:00:00Z``. Returned in UTC."""
    accepted = "an instant with Z or an offset, such as 2026-10-31T13:00:00Z"
    if isinstance(text, datetime):
        if text.tzinfo is None:
            raise value_error("an instant without an offset is ambiguous", accepted)
        return text.astimezone(UTC)
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise value_error("not an instant", accepted)
    try:
        instant = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise value_error("not an existing date and time", accepted) from None
    if not DUE_YEAR_MIN <= instant.year <= DUE_YEAR_MAX:
        raise value_error("outside 1970 to 2199", accepted)
    return instant


def instant_text(instant: datetime) -> str:
    """Return the one spelling of an instant, in UTC with Z."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_local_time(text: object) -> datetime:
    """Read a local date and time without an offset: ``2026-11-01T01:30``."""
    accepted = "a local time such as 2026-11-01T01:30; its zone is `timezone`"
    if isinstance(text, datetime):
        if text.tzinfo is not None or text.microsecond:
            raise value_error("a local time has no offset and whole seconds", accepted)
        local = text.replace(fold=0)
    else:
        if not isinstance(text, str) or not text.isascii():
            raise value_error("a local time is a text", accepted)
        if _INSTANT.fullmatch(text):
            raise value_error("a local time has no offset", accepted)
        if _DATE.fullmatch(text):
            raise value_error("a date without a time of day", accepted)
        if not _LOCAL_TIME.fullmatch(text):
            raise value_error("not a local time", accepted)
        try:
            local = datetime.fromisoformat(text)
        except ValueError:
            raise value_error("not an existing date and time", accepted) from None
    if not DUE_YEAR_MIN <= local.year <= DUE_YEAR_MAX:
        raise value_error("outside 1970 to 2199", accepted)
    return local


def local_time_text(local: datetime) -> str:
    """Return the one spelling of a local time, with seconds only if they are not zero."""
    return local.isoformat(timespec="seconds" if local.second else "minutes")


def parse_date(text: object) -> date:
    """Read a calendar date: ``2026-12-25``."""
    accepted = "a date such as 2026-12-25"
    if isinstance(text, date) and not isinstance(text, datetime):
        return text
    if not isinstance(text, str) or not text.isascii() or not _DATE.fullmatch(text):
        raise value_error("not a date", accepted)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise value_error("not an existing date", accepted) from None


def parse_zone_name(text: object) -> str:
    """Accept the exact name of a zone of the pinned tz database."""
    if not isinstance(text, str):
        raise value_error("a time zone is a name", "an IANA name such as Europe/Berlin, or UTC")
    if text not in zone_names():
        raise value_error("unknown time zone", similar_zones(text))
    load_zone(text)
    return text


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Period = Annotated[
    timedelta,
    BeforeValidator(parse_period),
    PlainSerializer(period_text),
    _schema(r"^(P(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?|(\d+h)?(\d+m)?(\d+s)?)$", "PT24H"),
]
Offset = Annotated[
    DateOffset,
    BeforeValidator(parse_offset),
    PlainSerializer(str),
    _schema(r"^[+-]?P([+-]?\d+Y)?([+-]?\d+M)?([+-]?\d+W)?([+-]?\d+D)?$", "P-30D"),
]
TimeOfDay = Annotated[
    time,
    BeforeValidator(parse_time_of_day),
    PlainSerializer(time_text),
    _schema(r"^\d{2}:\d{2}(:\d{2})?$", "09:00"),
]
Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(instant_text),
    _schema(
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$",
        "2026-10-31T13:00:00Z",
    ),
]
LocalTime = Annotated[
    datetime,
    BeforeValidator(parse_local_time),
    PlainSerializer(local_time_text),
    _schema(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?$", "2026-11-01T01:30"),
]
CalendarDate = Annotated[
    date,
    BeforeValidator(parse_date),
    PlainSerializer(date.isoformat),
    _schema(r"^\d{4}-\d{2}-\d{2}$", "2026-12-25"),
]
ZoneName = Annotated[str, BeforeValidator(parse_zone_name), _schema("^.+$", "America/New_York")]
