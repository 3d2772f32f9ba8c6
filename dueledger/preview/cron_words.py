"""Cron expressions in words, from the numbers that they mean."""

from typing import Final

from dueledger.ledger.schedule.cron import Cron, DayRule
from dueledger.ledger.schedule.cron_dialect import CronFields
from dueledger.preview.time_words import on_days, times_words
from dueledger.preview.word_lists import (
    WEEKDAYS,
    joined,
    months_words,
    ordinal,
    series,
    weekdays_words,
)

_MONTHS: Final = 12
_NEAREST: Final = "weekday (Monday to Friday)"


def cron_words(when: Cron) -> str:
    """Return when an expression is due: `At 06:00 on the last day of each month`."""
    fields = when.fields
    times = times_words(fields.hours, fields.minutes, fields.seconds)
    words = on_days(times, _days(fields, when.day_rule))
    if len(fields.months) < _MONTHS and not (fields.restricts_day or _counts_weekdays(fields)):
        words += f" in {months_words(fields.months)}"
    return f"{words} in {series(fields.years, noun='year')}" if fields.restricts_year else words


def _counts_weekdays(fields: CronFields) -> bool:
    return bool(fields.nth_weekdays or fields.last_weekdays)


def _days(fields: CronFields, day_rule: DayRule | None) -> str:
    """Return the days, with their months if they are counted in a month; empty for each day."""
    months = "each month" if len(fields.months) == _MONTHS else months_words(fields.months)
    if _counts_weekdays(fields):
        nth = [f"the {ordinal(nth)} {_weekday(day)}" for day, nth in fields.nth_weekdays]
        nth += [f"the last {_weekday(day)}" for day in fields.last_weekdays]
        return f"on {joined(nth)} of {months}"
    weekdays = weekdays_words([_from_monday(day) for day in fields.weekdays])
    if not fields.restricts_day:
        return f"on {weekdays}" if fields.restricts_weekday else ""
    days = f"on {_days_of_month(fields)} of {months}"
    if not fields.restricts_weekday:
        return days
    if day_rule is DayRule.ALL:
        return f"{days} if it is {one_of(weekdays, len(fields.weekdays))}"
    every = "every " if len(fields.weekdays) == 1 else ""
    within = "" if len(fields.months) == _MONTHS else f" of {months}"
    return f"{days} and also on {every}{weekdays}{within}"


def one_of(names: str, count: int) -> str:
    """Return `a Friday`, or `one of Monday to Friday`."""
    return f"a {names}" if count == 1 else f"one of {names}"


def _days_of_month(fields: CronFields) -> str:
    words = [series(fields.days, lambda day: f"the {ordinal(day)}", "day")] if fields.days else []
    words += [f"the {_before_last(back)}" for back in fields.last_days]
    for day in fields.nearest_weekdays:
        if day == 0:
            words.append(f"the last {_NEAREST}")
        else:
            named = ordinal(day) if day > 0 else _before_last(-day)
            words.append(f"the {_NEAREST} nearest to the {named}")
    return joined(words)


def _before_last(back: int) -> str:
    return f"{ordinal(back)} day before the last" if back else "last day"


def _from_monday(day: int) -> int:
    return (day - 1) % len(WEEKDAYS)


def _weekday(day: int) -> str:
    return WEEKDAYS[_from_monday(day)]
