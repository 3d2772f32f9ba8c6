"""When a definition is due, as a sentence: `At 06:00 on Monday to Friday, Europe/Berlin`.

The words are made from the numbers of the rule, so two rules that are due at different times have
different words; lists of more than a few dates are shortened.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final, assert_never

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.schedule import (
    AfterCompletion,
    At,
    Business,
    CalendarRule,
    Cron,
    Every,
    Relative,
    Roll,
    Rrule,
    When,
)
from dueledger.ledger.schedule.calendars import WEEK
from dueledger.ledger.schedule.expressions import DateOffset, time_text
from dueledger.ledger.schedule.resolution import Fold, Gap
from dueledger.preview.cron_words import cron_words
from dueledger.preview.rrule_words import date_words, rrule_words
from dueledger.preview.word_lists import (
    counted,
    elapsed_words,
    from_end,
    joined,
    local_words,
    ordinal,
    weekdays_words,
)

_DATES_LISTED_MAX: Final = 3
_MONTHS_A_YEAR: Final = 12
_SHORTEST_MONTH: Final = 28
_ROLLS: Final = {
    Roll.FOLLOWING: "on the next one",
    Roll.PRECEDING: "on the one before",
    Roll.MODIFIED_FOLLOWING: "on the next one, or the one before if the next is in another month",
    Roll.NEAREST: "on the nearest one, or the next if two are as near",
    Roll.SKIP: "it is skipped",
}
_GAPS: Final = {
    Gap.SKIP: "skipped",
    Gap.SHIFT_FORWARD: "later by the length of the gap",
    Gap.GAP_END: "right after the gap",
}
_FOLDS: Final = {
    Fold.FIRST: "due the first time",
    Fold.SECOND: "due the second time",
    Fold.BOTH: "due both times",
}


def rule_words(definition: Definition) -> str:
    """Return when a definition is due, in words; empty if it declares a kind and owes nothing."""
    when = definition.when
    if when is None:
        return ""
    words = _due(when, definition.calendar)
    if definition.event is not None:
        words = f"For each {definition.event}: {words[0].lower()}{words[1:]}"
    zone: str | None = getattr(when, "timezone", None)
    clauses = [words if zone is None else f"{words}, {zone}"]
    if definition.calendar is not None:
        clauses += _calendar_words(when, definition.calendar)
    clauses += [*_bounds(when), *_clock_words(when)]
    if definition.smear is not None:
        clauses.append(f"each delayed by up to {elapsed_words(definition.smear)}")
    return "; ".join(clauses)


def _due(when: When, rule: CalendarRule | None) -> str:
    """Return when it is due, in its zone and without what other days than business days do."""
    match when:
        case Cron():
            words = cron_words(when)
        case Rrule():
            words = rrule_words(when)
        case Every():
            words = f"Every {elapsed_words(when.every)} counted from {_instant(when.anchor)}"
        case AfterCompletion():
            delay = elapsed_words(when.after_completion)
            words = f"{delay} after the end of the item before"
        case At():
            words = f"Once, at {local_words(when.at)}"
        case Business():
            words = f"At {time_text(when.at)} on {_business_day(when, rule)}"
        case Relative():
            words = f"At {time_text(when.at)}, {_offset(when.relative)} effective date"
        case _:
            assert_never(when)
    return words


def _business_day(when: Business, rule: CalendarRule | None) -> str:
    day = when.business
    if day.nth is not None:
        days = "" if rule is None else f" ({_business_days(rule)})"
        return f"the {from_end(day.nth).replace('1st', 'first')} business day{days} of each month"
    number = day.day_of_month or 0
    each = "each month" if number <= _SHORTEST_MONTH else "each month that has it"
    return f"the {ordinal(number)} of {each}"


def _calendar_words(when: When, rule: CalendarRule) -> Iterator[str]:
    """Yield what happens on other days than business days, if days of the rule may be others."""
    roll = rule.roll
    if isinstance(when, Business):
        if when.business.nth is not None:
            return
        roll = when.business.roll or roll
    if roll is not None:
        yield f"if that is not a business day ({_business_days(rule)}), {_ROLLS[roll]}"


def _business_days(rule: CalendarRule) -> str:
    """Return which days are business days."""
    if rule.name is not None:
        return f"calendar {rule.name}"
    worked = [number for number, day in enumerate(WEEK) if day not in (rule.weekend or ())]
    words = weekdays_words(worked) if len(worked) < len(WEEK) else "every day"
    listed = (("except", rule.holidays, "holiday"), ("and", rule.workdays, "other day"))
    for before, days, noun in listed:
        words += f" {before} {_dates(days, noun)}" if days else ""
    if rule.first_day is not None:
        words += f" from {rule.first_day}"
    return words if rule.last_day is None else f"{words} until {rule.last_day}"


def _dates(days: tuple[date, ...], noun: str) -> str:
    if len(days) <= _DATES_LISTED_MAX:
        return joined([str(day) for day in days])
    return f"{counted(len(days), noun)} from {days[0]} to {days[-1]}"


def _offset(offset: DateOffset) -> str:
    """Return `30 days before the`, `on the`: how far a day is from an effective date."""
    years, months = divmod(abs(offset.months), _MONTHS_A_YEAR)
    first = [counted(n, noun) for n, noun in ((years, "year"), (months, "month")) if n]
    days = counted(abs(offset.days), "day")
    if not offset.months:
        return f"{days} {_side(offset.days)} the" if offset.days else "on the"
    side = _side(offset.months)
    if not offset.days:
        return f"{joined(first)} {side} the"
    if side == _side(offset.days):
        return f"{joined([*first, days])} {side} the"
    return f"{days} {_side(offset.days)} the day that is {joined(first)} {side} the"


def _side(number: int) -> str:
    return "after" if number > 0 else "before"


def _bounds(when: When) -> Iterator[str]:
    """Yield from when and until when it is due."""
    start: datetime | None = getattr(when, "start", None)
    end: datetime | None = getattr(when, "end", None)
    if start is not None and start != getattr(when, "anchor", None):
        yield f"from {_moment(start)} on"
    if end is not None:
        yield f"before {_moment(end)}"
    if isinstance(when, Rrule):
        yield from date_words(when)


def _clock_words(when: When) -> Iterator[str]:
    """Yield what clock changes do, where the rule says otherwise than its form does by default."""
    if isinstance(when, Every | AfterCompletion):
        return
    fields = type(when).model_fields
    document = when.model_dump(include={"cron"})
    if when.gap is not fields["gap"].get_default(
        call_default_factory=True, validated_data=document
    ):
        yield f"a time that a clock change skips is {_GAPS[when.gap]}"
    if when.fold is not fields["fold"].get_default(
        call_default_factory=True, validated_data=document
    ):
        yield f"a time that a clock change repeats is {_FOLDS[when.fold]}"


def _moment(at: datetime) -> str:
    return local_words(at) if at.tzinfo is None else _instant(at)


def _instant(at: datetime) -> str:
    return f"{local_words(at.astimezone(UTC).replace(tzinfo=None))} UTC"
