"""The cron dialect: which expressions are accepted, and what to write instead of the others.

Cron dialects read the same text differently. So an expression is parsed to plain sets of numbers,
an ambiguous one is refused, and croniter (in tests) gets the numbers. Measured on croniter 7.0:
``23-23/24`` and ``mon-mon`` match the whole field there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Never

from dueledger.ledger.schedule.expressions import DUE_YEAR_MAX, DUE_YEAR_MIN, value_error

EXPRESSION_CHARS_MAX: Final = 500
_FIELDS: Final = 5
_FIELDS_WITH_SECONDS: Final = 6
_FIELDS_WITH_YEARS: Final = 7
_NTH_MAX: Final = 5

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTH_NAMES: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
WEEKDAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class _CronField:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @cached_property
    def all(self) -> tuple[int, ...]:
        return tuple(range(self.low, self.high + 1))


_SECOND: Final = _CronField("second", 0, 59)
_MINUTE: Final = _CronField("minute", 0, 59)
_HOUR: Final = _CronField("hour", 0, 23)
_DAY: Final = _CronField("day of month", 1, 31)
_MONTH: Final = _CronField("month", 1, 12, MONTH_NAMES)
_WEEKDAY: Final = _CronField("day of week", 0, 6, WEEKDAY_NAMES)
_YEAR: Final = _CronField("year", DUE_YEAR_MIN, DUE_YEAR_MAX)


@dataclass(frozen=True, slots=True)
class CronFields:
    """A cron expression as numbers. Weekdays count from Sunday, 0; every tuple ascends.

    `days` and `weekdays` have all values if the field restricts nothing. `last_days` has the n of
    ``L-n``, 0 for ``L``; `nearest_weekdays` the n of ``nW``, and -n for ``L-nW``, 0 for ``LW``.
    `nth_weekdays` has the (weekday, n) of ``#``, `last_weekdays` those of ``L5``; if either is
    given, it is the whole restriction by weekday. `wildcard`: a time field has ``*`` or all of its
    values, so that the expression means "every so often", not "at a time of day".
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    last_days: tuple[int, ...]
    nearest_weekdays: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    nth_weekdays: tuple[tuple[int, int], ...]
    last_weekdays: tuple[int, ...]
    years: tuple[int, ...]
    wildcard: bool

    @property
    def restricts_day(self) -> bool:
        """Return whether the day-of-month field excludes days."""
        return self.days != _DAY.all

    @property
    def restricts_weekday(self) -> bool:
        """Return whether the day-of-week field excludes days."""
        return bool(self.nth_weekdays or self.last_weekdays) or self.weekdays != _WEEKDAY.all

    @property
    def restricts_year(self) -> bool:
        """Return whether the expression names years."""
        return self.years != _YEAR.all

    @property
    def canonical(self) -> str:
        """Return the numbers in the form that croniter reads unambiguously: seconds, years last.

        croniter reads neither `W` nor `L-n`.
        """
        weekdays = [f"{day}#{nth}" for day, nth in self.nth_weekdays]
        weekdays += [f"l{day}" for day in self.last_weekdays]
        days = [] if self.days == _DAY.all else [*map(str, self.days)]
        days += [_from_end(number) for number in self.last_days]
        days += [f"{day if day > 0 else _from_end(-day)}w" for day in self.nearest_weekdays]
        fields = [
            _listed(self.minutes, _MINUTE),
            _listed(self.hours, _HOUR),
            ",".join(days) or "*",
            _listed(self.months, _MONTH),
            ",".join(weekdays) or _listed(self.weekdays, _WEEKDAY),
        ]
        if self.seconds != (0,) or self.restricts_year:
            fields.append(_listed(self.seconds, _SECOND))
        if self.restricts_year:
            fields.append(_listed(self.years, _YEAR))
        return " ".join(fields)


@lru_cache(maxsize=4096)
def parse_cron(expression: str) -> CronFields:
    """Read an expression of 5 fields, 6 with seconds first, or 7 with years last as well.

    An error says what to write.
    """
    texts = _split(expression)
    years_text = texts.pop() if len(texts) == _FIELDS_WITH_YEARS else "*"
    seconds_text, *texts = texts if len(texts) == _FIELDS_WITH_SECONDS else ["0", *texts]
    minutes_text, hours_text, days_text, months_text, weekdays_text = texts
    days, last_days, nearest_weekdays = _days(days_text)
    weekdays, nth_weekdays, last_weekdays = _weekdays(weekdays_text)
    times = ((seconds_text, _SECOND), (minutes_text, _MINUTE), (hours_text, _HOUR))
    seconds, minutes, hours = (_numbers(text, field) for text, field in times)
    fields = CronFields(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        last_days=last_days,
        nearest_weekdays=nearest_weekdays,
        months=_numbers(months_text, _MONTH),
        weekdays=weekdays,
        nth_weekdays=nth_weekdays,
        last_weekdays=last_weekdays,
        years=_numbers(years_text, _YEAR),
        wildcard=any("*" in text or _numbers(text, field) == field.all for text, field in times),
    )
    if (nth_weekdays or last_weekdays) and fields.restricts_day:
        raise value_error(
            "`#` and `L` weekdays together with a day of month are ambiguous",
            "`*` as the day of month, or two definitions",
        )
    return fields


def stars_time(expression: object) -> bool:
    """Return whether the minute or the hour begins with `*`, as Debian's cron checks."""
    text = expression.strip().lower() if isinstance(expression, str) else ""
    texts = _MACROS.get(text, text).split()
    of_day = texts[1:3] if len(texts) > _FIELDS else texts[:2]
    return any(each.startswith("*") for each in of_day)


_YEARS: Final = re.compile(r"(19|20|21)\d\d([-,/]\d+)*", re.ASCII)


def _split(expression: str) -> list[str]:
    if not expression.isascii():
        raise value_error(
            "has characters other than ASCII", "plain ASCII digits, letters and spaces"
        )
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise value_error(f"is longer than {EXPRESSION_CHARS_MAX} characters", "steps and ranges")
    text = expression.strip().lower()
    if text.startswith(("tz=", "cron_tz=")):
        raise value_error("has a time zone inside the expression", "`timezone:` beside `cron:`")
    if text.startswith("@every"):
        raise value_error("`@every` counts elapsed time", "`every: PT5M` with an `anchor:`")
    if text.startswith("@"):
        if text not in _MACROS:
            raise value_error(
                "is an unknown macro", "five fields, or " + ", ".join(sorted(_MACROS))
            )
        text = _MACROS[text]
    texts = text.split()
    if len(texts) == _FIELDS_WITH_SECONDS and _YEARS.fullmatch(texts[-1]):
        raise value_error("has years in six fields", "seven fields, with `0` first for the second")
    if len(texts) not in {_FIELDS, _FIELDS_WITH_SECONDS, _FIELDS_WITH_YEARS}:
        raise value_error(
            f"has {len(texts)} fields instead of five",
            "minute hour day-of-month month day-of-week, six with seconds first, or seven with "
            "years last",
        )
    return texts


def _from_end(number: int) -> str:
    return f"l-{number}" if number else "l"


def _listed(numbers: tuple[int, ...], field: _CronField) -> str:
    return "*" if numbers == field.all else ",".join(map(str, numbers))


def _refuse(field: _CronField, text: str, reason: str, accepted: str) -> Never:
    raise value_error(f"{field.name} `{text}`: {reason}", accepted)


def _numbers(text: str, field: _CronField) -> tuple[int, ...]:
    return _sorted(number for part in text.split(",") for number in _part(part, field))


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))


_PART: Final = re.compile(r"(?P<low>\*|\?|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\d{1,4}))?", re.ASCII)
_FOREIGN: Final = re.compile(r"(?:h|r)(?:\(.*\))?(?:/\d+)?", re.ASCII)


def _part(text: str, field: _CronField) -> tuple[int, ...]:
    match = _PART.fullmatch(text)
    if match is None or _FOREIGN.fullmatch(text):
        _refuse_part(text, field)
    low_text, high_text, step_text = match.group("low", "high", "step")
    step = 1 if step_text is None else int(step_text)
    if step == 0:
        _refuse(field, text, "a step of zero does not advance", "a step of one or more")
    if low_text in {"*", "?"}:
        return _starred(text, field, step)
    low = _number(low_text, text, field)
    if high_text is None:
        if step_text is None:
            return (low % 7 if field is _WEEKDAY else low,)
        if low >= field.high:
            _refuse(
                field,
                text,
                "there is no value after the last one to step to",
                f"`{low_text}` for that value, or `*/{step}`",
            )
        _check_step(text, field, step, field.high + 1 - low)
        return tuple(range(low, field.high + 1, step))
    high = _number(high_text, text, field)
    if low == high and not low_text.isdigit():
        _refuse(
            field,
            text,
            "equal names are ambiguous: one value, or all",
            f"`{low_text}` for one, `*` for all",
        )
    if (low, high) == (field.low, field.high):  # generators write `2-23/24` for its first value
        _check_step(text, field, step, len(field.all))
    return _ranged(low, high, step, field)


def _check_step(text: str, field: _CronField, step: int, values: int) -> None:
    """Refuse a step past the end of the field: its author meant a period."""
    if step > values:
        _refuse(
            field,
            text,
            f"a step larger than its {values} values matches only the first",
            "that value alone, or `every:` with a period for elapsed time",
        )


def _starred(text: str, field: _CronField, step: int) -> tuple[int, ...]:
    if text.startswith("?") and (text != "?" or field not in {_DAY, _WEEKDAY}):
        _refuse(field, text, "`?` is accepted alone, in a day field", "`*`")
    _check_step(text, field, step, len(field.all))
    return field.all[::step]


def _ranged(low: int, high: int, step: int, field: _CronField) -> tuple[int, ...]:
    if low <= high:
        numbers = range(low, high + 1, step)
    elif field is _YEAR:
        _refuse(field, f"{low}-{high}", "the range is descending", f"`{high}-{low}`")
    else:  # 22-2, sat-tue: past the end, continued at the start
        around = [*range(low, field.high + 1), *range(field.low, high + 1)]
        numbers = around[::step]
    return tuple(number % 7 for number in numbers) if field is _WEEKDAY else tuple(numbers)


def _number(name: str, text: str, field: _CronField) -> int:
    if name.isdigit():
        number = int(name)
        if field.low <= number <= field.high or (field is _WEEKDAY and number == 7):  # noqa: PLR2004
            return number
        _refuse(field, text, f"{number} is outside the field", f"{field.low} to {field.high}")
    if name not in field.names:
        _refuse_part(text, field)
    return field.names.index(name) + field.low


def _refuse_part(text: str, field: _CronField) -> Never:
    if _FOREIGN.fullmatch(text) or re.match(r"[hr]\(", text):
        _refuse(
            field,
            text,
            "`H` and `R` choose by hash or at random, differently in each system",
            f"a fixed {field.name}, and `smear:` to spread items of many definitions",
        )
    names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    _refuse(
        field,
        text,
        "is not understood",
        f"numbers {field.low} to {field.high}{names}, a-b, a-b/n, */n",
    )


_COUNTED_DAY: Final = re.compile(r"(?:l(?:-(?P<back>\d{1,2}))?|(?P<day>\d{1,2}))(?P<nearest>w)?")


def _days(text: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the plain days, those counted from the end, and those of `W`."""
    numbered: list[str] = []
    last: set[int] = set()
    nearest: set[int] = set()
    for part in text.split(","):
        found = _COUNTED_DAY.fullmatch(part)
        if found is None and ("l" in part or "w" in part):
            _refuse(_DAY, part, "is not understood", "`L`, `L-3`, `15W` or `LW`")
        if found is None or part.isdigit():
            numbered.append(part)
            continue
        back = int(found["back"] or 0)
        if found["back"] and not 1 <= back < _DAY.high:
            _refuse(_DAY, part, "no month has that day", "`L`, or `L-1` to `L-30`")
        day = -back if found["day"] is None else _number(found["day"], part, _DAY)
        if found["nearest"]:
            nearest.add(day)
        else:
            last.add(back)
    days = _numbers(",".join(numbered), _DAY) if numbered else ()
    return (days, (), ()) if days == _DAY.all else (days, _sorted(last), _sorted(nearest))


_NTH: Final = re.compile(r"(?P<day>[a-z]{3}|\d)#(?P<nth>\d)", re.ASCII)
_LAST: Final = re.compile(r"l(?P<day>\d)", re.ASCII)


def _weekdays(
    text: str,
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
    parts = text.split(",")
    if "#" not in text and "l" not in text:
        return _numbers(text, _WEEKDAY), (), ()
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for part in parts:
        if found := _NTH.fullmatch(part):
            number = int(found["nth"])
            if not 1 <= number <= _NTH_MAX:
                _refuse(
                    _WEEKDAY, part, "a month has each weekday four or five times", "`#1` to `#5`"
                )
            nth.add((_number(found["day"], part, _WEEKDAY) % 7, number))
        elif found := _LAST.fullmatch(part):
            last.add(_number(found["day"], part, _WEEKDAY) % 7)
        elif "#" in part or "l" in part:
            _refuse(
                _WEEKDAY,
                part,
                "is not understood",
                "`fri#2` for the second, `L5` for the last Friday",
            )
        else:
            _refuse(
                _WEEKDAY,
                part,
                "plain weekdays beside `#` or `L` weekdays are ambiguous",
                "two definitions",
            )
    return _WEEKDAY.all, tuple(sorted(nth)), tuple(sorted(last))
