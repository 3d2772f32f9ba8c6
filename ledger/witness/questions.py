"""What a library is asked about a schedule, and our own times to hold against its answer. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from dueledger.ledger.schedule import Cron, Rrule, expand, load_zone
from dueledger.ledger.schedule.cron import DayRule
from dueledger.ledger.schedule.cron_dialect import MONTH_NAMES, WEEKDAY_NAMES
from dueledger.ledger.schedule.falls_due import YEARS_SEARCHED
from dueledger.ledger.schedule.local_times import midnight_of
from dueledger.ledger.schedule.rrule_text import WEEKDAYS, Frequency, parse_rrule
from dueledger.ledger.schedule.when import DUE_END

TIMES_MAX: Final = 50
"""How many times of a schedule are compared."""

_SPAN: Final = timedelta(days=YEARS_SEARCHED * 365.25)
_HOURS: Final = 6
"""Of a day together: each second of them is 21,600 times."""
_SECOND: Final = timedelta(seconds=1)
_WEEK: Final = timedelta(days=7)
_PASSED_OVER_MAX: Final = 20_000
"""dateutil counts from the start of a rule: about how many times it may pass over."""
_CRONITER_YEAR_MAX: Final = 2099
_DAYS_OF_ANY_MONTH: Final = 28
CRONITER: Final = "croniter"
DATEUTIL: Final = "python-dateutil"
_COUNTED_END: Final = re.compile(r"COUNT=.*|UNTIL=.*Z")
_FIELDS: Final = 5
_DAY: Final = 2
_WEEKDAY: Final = 4
_RANGE: Final = re.compile(r"(?!l-)(?P<low>\w+)-(?P<high>\w+)(?P<step>/\d+)?")
_MONTHS: Final = {name: number for number, name in enumerate(MONTH_NAMES, 1)}
_WEEKDAYS: Final = {name: number for number, name in enumerate(WEEKDAY_NAMES)} | {"7": 0, "07": 0}

Question = Mapping[str, object]
"""A question to the child process, as it is sent."""


class NotAsked(Exception):
    """No library can be asked about this schedule; the message says why."""


@dataclass(frozen=True, slots=True)
class WitnessQuestion:
    """A question to `package`, and our own times in the same bounds: at least one."""

    package: str
    question: Question
    ours: tuple[datetime, ...]


def ask_about(when: Cron | Rrule, since: datetime) -> WitnessQuestion:
    """Return the question about the next times from `since` on. Raises NotAsked if there is none.

    Both sides count at most TIMES_MAX times in the years that an expression is searched.
    """
    local = since.astimezone(load_zone(when.timezone)).replace(tzinfo=None, fold=0)
    low = local if local.microsecond == 0 else local.replace(microsecond=0) + _SECOND
    low = _cron_low(when, low) if isinstance(when, Cron) else _rrule_low(when, low)
    high = min(low + _SPAN, DUE_END.replace(tzinfo=None), when.end or datetime.max)  # noqa: DTZ901 - naive as the others
    plain = _in_utc(when)
    ours = tuple(islice(_times(plain, low, high), TIMES_MAX)) if low < high else ()
    if not ours:
        raise NotAsked(f"nothing falls due within {YEARS_SEARCHED} years")
    bounds = {"low": low.isoformat(), "high": high.isoformat(), "count": TIMES_MAX}
    if isinstance(plain, Rrule):
        dates = {"rdate": _texts(plain.rdate), "exdate": _texts(plain.exdate)}
        form = {"rules": [plain.rrule], "start": plain.start.isoformat(), **dates}
        return WitnessQuestion(DATEUTIL, form | bounds, ours)
    if any(plain.fields.last_days):
        none: dict[str, object] = {"rdate": [], "exdate": []}
        form = {"rules": _rules_from_end(plain), "start": low.isoformat(), **none}
        return WitnessQuestion(DATEUTIL, form | bounds, ours)
    return WitnessQuestion(CRONITER, _text_for_croniter(plain, high) | bounds, ours)


def _cron_low(when: Cron, low: datetime) -> datetime:
    return max(low, when.begins)


def _rrule_low(when: Rrule, low: datetime) -> datetime:
    begin, reached = when.start.replace(tzinfo=UTC), low.replace(tzinfo=UTC)
    if low < when.start or when.estimate(begin, reached) > _PASSED_OVER_MAX:
        low = when.start
    rule = parse_rrule(when.rrule)
    if rule.positions and rule.frequency is Frequency.WEEKLY:
        # dateutil cuts the first week at the start before it chooses; RFC 5545 does not.
        low = max(low, when.start + _WEEK)
    return low


def _in_utc(when: Cron | Rrule) -> Cron | Rrule:
    """Return the rule in UTC, where each local time exists once, without an end that counts.

    COUNT and an UNTIL with Z end a rule by its instants, which libraries do not know.
    """
    document = when.model_dump(mode="json", exclude_none=True)
    document |= {"timezone": "UTC", "sparse": True}
    if isinstance(when, Cron):
        return Cron.model_validate(document)
    parts = parse_rrule(when.rrule).text.split(";")
    document["rrule"] = ";".join(part for part in parts if not _COUNTED_END.fullmatch(part))
    return Rrule.model_validate(document)


def _times(when: Cron | Rrule, low: datetime, high: datetime) -> Iterator[datetime]:
    """Yield the times of a rule in UTC as they are expanded for everything else."""
    start, end = low.replace(tzinfo=UTC), high.replace(tzinfo=UTC)
    for day in when.days(low.date(), high.date()):
        midnight = midnight_of(day).replace(tzinfo=UTC)
        for hour in range(0, 24, _HOURS):
            begin = max(start, midnight + timedelta(hours=hour))
            until = min(end, midnight + timedelta(hours=hour + _HOURS))
            for found in expand(when, begin, until).occurrences:
                yield found.nominal


def _texts(times: Iterable[datetime]) -> list[str]:
    return [each.isoformat() for each in times]


def _text_for_croniter(when: Cron, high: datetime) -> dict[str, object]:
    """Return the expression as it is written, or as numbers if croniter is known to misread it."""
    fields = when.fields
    nearest = fields.nearest_weekdays
    others = fields.days or fields.last_days or fields.restricts_weekday
    if nearest and (len(nearest) > 1 or others):
        raise NotAsked("no library reads `W` beside other days")
    if nearest and not 0 < nearest[0] <= _DAYS_OF_ANY_MONTH:
        raise NotAsked("croniter reads `W` of another day where a month does not have that one")
    if high.year > _CRONITER_YEAR_MAX:
        raise NotAsked(f"croniter ends in {_CRONITER_YEAR_MAX}")
    misread = is_misread(when)
    return {
        "text": when.fields.canonical if misread else when.cron,
        "seconds_first": not misread,
        "day_or": when.day_rule is not DayRule.ALL,
        "years": YEARS_SEARCHED + 1,
    }


def is_misread(when: Cron) -> bool:
    """Return whether the text has a form into which croniter reads another meaning than we do.

    docs/schedules.md lists these forms.
    """
    texts = when.cron.lower().split()
    if len(texts) < _FIELDS:  # a macro
        return False
    with_seconds = len(texts) > _FIELDS
    day, weekday = texts[_DAY + with_seconds], texts.pop(_WEEKDAY + with_seconds)
    restricts_day, restricts_weekday = when.fields.restricts_day, when.fields.restricts_weekday
    names_every_day = not restricts_day and restricts_weekday and day not in {"*", "?"}
    names_every_weekday = not restricts_weekday and restricts_day and weekday not in {"*", "?"}
    return (
        names_every_day
        or names_every_weekday
        or any(_is_misread_range(part, _MONTHS) for text in texts for part in text.split(","))
        or any(_is_misread_range(part, _WEEKDAYS) for part in weekday.split(","))
    )


def _is_misread_range(part: str, numbers: Mapping[str, int]) -> bool:
    """Return whether a part is a range to its own beginning, or one with a step past the end.

    croniter reads the first as the whole field, and goes on in the wrong place in the second.
    """
    found = _RANGE.fullmatch(part)
    if found is None:
        return False
    low, high = (
        numbers[value] if value in numbers else int(value) for value in found.group("low", "high")
    )
    return low == high or (low > high and found["step"] is not None)


def _rules_from_end(when: Cron) -> list[str]:
    """Return recurrence rules for `L-n`, which croniter does not read: BYMONTHDAY counts back."""
    fields = when.fields
    if fields.nearest_weekdays or fields.restricts_year:
        raise NotAsked("no library reads `L-n` beside `W` or years")
    times = {"BYHOUR": fields.hours, "BYMINUTE": fields.minutes, "BYSECOND": fields.seconds}
    parts = ["FREQ=MONTHLY", *(_part(name, numbers) for name, numbers in times.items())]
    parts.append(_part("BYMONTH", fields.months))
    days = _part("BYMONTHDAY", [*fields.days, *(-1 - back for back in fields.last_days)])
    weekdays = _part("BYDAY", [WEEKDAYS[(weekday - 1) % 7] for weekday in fields.weekdays])
    if not fields.restricts_weekday:
        found = [[days]]
    elif when.day_rule is DayRule.ALL:
        found = [[days, weekdays]]
    else:
        found = [[days], [weekdays]]
    return [";".join([*parts, *chosen]) for chosen in found]


def _part(name: str, values: Iterable[object]) -> str:
    return f"{name}={','.join(map(str, values))}"
