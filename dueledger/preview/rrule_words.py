"""Recurrence rules in words, with what their start fills in."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from dueledger.ledger.schedule.rrule import Rrule
from dueledger.ledger.schedule.rrule_text import Frequency, RecurrenceRule, parse_rrule
from dueledger.preview.cron_words import one_of
from dueledger.preview.time_words import in_units, on_days, times_words
from dueledger.preview.word_lists import (
    WEEKDAYS,
    counted,
    from_end,
    joined,
    local_words,
    months_words,
    series,
    weekdays_words,
)

_LISTED_MAX: Final = 5
_PERIODS: Final = {
    Frequency.MINUTELY: "minute",
    Frequency.HOURLY: "hour",
    Frequency.DAILY: "day",
    Frequency.WEEKLY: "week",
    Frequency.MONTHLY: "month",
    Frequency.YEARLY: "year",
}


def rrule_words(when: Rrule) -> str:
    """Return when a rule is due, without its zone and its start."""
    rule = parse_rrule(when.rrule)
    words = on_days(_times(rule, when.start), _days(rule, when.start))
    if rule.months and not (_month_days(rule, when.start) or rule.nth_weekdays):
        words += f" in {months_words(rule.months)}"
    return ", ".join([words, *_limits(rule, when.start)])


def date_words(when: Rrule) -> list[str]:
    """Return which single times are added and removed."""
    listed = (("also at", when.rdate), ("not at", when.exdate))
    return [f"{words} {_listed(dates)}" for words, dates in listed if dates]


def _listed(dates: Sequence[datetime]) -> str:
    shown = [local_words(each) for each in dates[:_LISTED_MAX]]
    more = len(dates) - len(shown)
    return joined([*shown, f"{more:,} more until {local_words(dates[-1])}"] if more else shown)


def _times(rule: RecurrenceRule, start: datetime) -> str:
    seconds, minutes = rule.seconds or (start.second,), rule.minutes or (start.minute,)
    if rule.frequency > Frequency.HOURLY:
        return times_words(rule.hours or (start.hour,), minutes, seconds)
    hours = rule.hours or range(24)
    if rule.frequency is Frequency.MINUTELY:
        minutes = rule.minutes or range(60)
    if rule.interval == 1:
        return times_words(hours, minutes, seconds)
    begin = f"Every {rule.interval:,} {_PERIODS[rule.frequency]}s"
    within = in_units("hour", hours, 24)
    if rule.frequency is Frequency.MINUTELY or rule.minutes:
        within = in_units("minute", minutes, 60) + within
    at_second = "" if seconds == (0,) else f" at second {series(seconds, noun='second')}"
    return f"{begin} counted from {local_words(start)}{at_second}{within}"


def _month_days(rule: RecurrenceRule, start: datetime) -> tuple[int, ...]:
    named = rule.weekdays or rule.nth_weekdays or rule.month_days or rule.year_days
    filled = rule.frequency >= Frequency.MONTHLY and not named
    return (start.day,) if filled else rule.month_days


def _days(rule: RecurrenceRule, start: datetime) -> str:
    """Return the days: each part excludes some, as RFC 5545 says in section 3.3.10."""
    weekdays = rule.weekdays
    if rule.frequency is Frequency.WEEKLY and not weekdays:
        weekdays = (start.weekday(),)
    parts = list(_counted_days(rule, start))
    if weekdays:
        names = weekdays_words(weekdays)
        parts.append(names if not parts else one_of(names, len(weekdays)))
    words = ", if it is also ".join(parts)
    if rule.week_numbers:
        numbers = joined([f"the {from_end(number)}" for number in rule.week_numbers])
        words += f" of {numbers} week of the year"
        words += "" if rule.week_start == 0 else f" (weeks begin on {WEEKDAYS[rule.week_start]})"
    return f"on {words}" if words else ""


def _counted_days(rule: RecurrenceRule, start: datetime) -> Iterator[str]:
    of_year = rule.frequency is Frequency.YEARLY and not rule.months
    months = "each month" if rule.interval == 1 else "the month"
    if rule.months:
        months = months_words(rule.months)
    if days := _month_days(rule, start):
        named = months_words((start.month,)) if of_year and not rule.month_days else months
        before = [f"the {from_end(day)}{' day' if day < 0 else ''}" for day in days if day < 0]
        numbered = [day for day in days if day > 0]
        shown = [series(numbered, lambda day: f"the {from_end(day)}", "day")] if numbered else []
        yield f"{joined([*shown, *before])} of {named}"
    if rule.nth_weekdays:
        in_order = sorted(rule.nth_weekdays, key=lambda nth: (nth[0] < 0, nth))
        nth = [f"the {from_end(number)} {WEEKDAYS[day]}" for number, day in in_order]
        yield f"{joined(nth)} of {'the year' if of_year else months}"
    if rule.year_days:
        nth = [f"the {from_end(day)} day" for day in rule.year_days]
        yield f"{joined(nth)} of the year"


def _limits(rule: RecurrenceRule, start: datetime) -> Iterator[str]:
    period = _PERIODS[rule.frequency]
    if rule.positions:
        chosen = joined([f"the {from_end(place)}" for place in rule.positions])
        yield f"only {chosen} of these times in each {period}"
    if rule.interval > 1 and rule.frequency >= Frequency.DAILY:
        yield f"in every {from_end(rule.interval)} {period} counted from {_period(rule, start)}"
    elif rule.positions and rule.frequency is Frequency.WEEKLY and rule.week_start:
        yield f"weeks begin on {WEEKDAYS[rule.week_start]}"
    if rule.count is not None:
        yield counted(rule.count, "time")
    if rule.until is not None:
        zone = "" if rule.until.tzinfo is None else " UTC"
        yield f"the last not after {local_words(rule.until.replace(tzinfo=None))}{zone}"


def _period(rule: RecurrenceRule, start: datetime) -> str:
    match rule.frequency:
        case Frequency.YEARLY:
            return str(start.year)
        case Frequency.MONTHLY:
            return f"{months_words((start.month,))} {start.year}"
        case Frequency.WEEKLY:
            return f"the week of {start.date()} (weeks begin on {WEEKDAYS[rule.week_start]})"
        case _:
            return str(start.date())
