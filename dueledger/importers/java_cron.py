"""Cron expressions with seconds and years: of Quartz, Spring and EventBridge.

They number weekdays differently (Quartz and EventBridge from 1 for Sunday, Spring from 0), and
differ in what both day fields mean. `W` near the end of a month is left out where their code runs
into the next month.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from dueledger.importers.cron_text import complete_cron, cron_fields, out_of_bounds
from dueledger.importers.import_result import ImportRefusal
from dueledger.importers.source_job import TranslatedSchedule
from dueledger.ledger.schedule import Fold, Gap

_FIELDS: Final = 6
_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MACROS: Final = ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly")
_RANGE: Final = re.compile(r"(?P<low>\d{1,4})-(?P<high>\d{1,4})(?:/\d+)?", re.ASCII)
_WEEKDAY: Final = re.compile(
    r"(?P<low>\d|[a-z]{3})(?:(?P<last>l)|#(?P<nth>\d)|(?:-(?P<high>\d|[a-z]{3}))?(?P<step>/\d)?)",
    re.ASCII,
)
_NEAREST: Final = re.compile(r"(?P<day>\d{1,2})w", re.ASCII)
_BACK: Final = re.compile(r"l-(?P<back>\d{1,2})w?", re.ASCII)
_DAYS_CERTAIN: Final = 28


class JavaDialect(StrEnum):
    """The scheduler whose expression it is."""

    QUARTZ = "Quartz"
    SPRING = "Spring"
    EVENTBRIDGE = "EventBridge"


_POLICIES: Final[Mapping[JavaDialect, tuple[str, str]]] = {
    JavaDialect.QUARTZ: (Gap.SKIP.value, Fold.SECOND.value),
    JavaDialect.SPRING: (Gap.SKIP.value, Fold.BOTH.value),
    JavaDialect.EVENTBRIDGE: (Gap.SKIP.value, Fold.FIRST.value),
}
"""Each scheduler's gap and fold policies, whatever the expression is.

EventBridge documents them. Those of Quartz 2.2.3, 2.3.2 and 2.5.2 and Spring 5.3, 6.1 and 6.2
were found by running them: `tests/importers/test_java_cron.py`.
"""


def read_java_cron(
    text: str, zone: str, dialect: JavaDialect
) -> TranslatedSchedule | ImportRefusal:
    """Return what `text` means to the scheduler on clocks that show the time of `zone`."""
    if refusal := out_of_bounds(text, zone):
        return refusal
    texts = text.lower().split()
    if dialect is JavaDialect.SPRING and texts and texts[0].removeprefix("@") in _MACROS:
        return complete_cron({"cron": texts[0], "timezone": zone}, _POLICIES[dialect])
    expression = _translated(texts, dialect)
    if isinstance(expression, ImportRefusal):
        return expression
    fields = cron_fields(expression)
    if isinstance(fields, ImportRefusal):
        return fields
    when: dict[str, object] = {"cron": expression, "timezone": zone}
    if fields.restricts_day and fields.restricts_weekday:
        when["day_rule"] = "all"  # only Spring accepts both
    return complete_cron(when, _POLICIES[dialect])


def _translated(texts: list[str], dialect: JavaDialect) -> str | ImportRefusal:
    """Return the expression as ours."""
    expected = {_FIELDS, _FIELDS + 1} if dialect is JavaDialect.QUARTZ else {_FIELDS}
    if len(texts) not in expected:
        return ImportRefusal(f"has {len(texts)} fields, and {dialect} reads six", _fields(dialect))
    if dialect is JavaDialect.EVENTBRIDGE:
        texts = ["0", *texts]
    texts = [*texts, "*"][: _FIELDS + 1]
    if refusal := _foreign(texts, dialect):
        return refusal
    weekday = _weekdays(texts[5], dialect)
    if isinstance(weekday, ImportRefusal):
        return weekday
    return _shortest([*texts[:5], weekday, texts[6]])


def _fields(dialect: JavaDialect) -> str:
    if dialect is JavaDialect.EVENTBRIDGE:
        return "minute hour day-of-month month day-of-week year"
    return "second minute hour day-of-month month day-of-week"


def _shortest(texts: list[str]) -> str:
    """Leave out years that restrict nothing, and then the second if it is 0."""
    if texts[-1] in {"*", "?"}:
        texts = texts[1:-1] if texts[0] == "0" else texts[:-1]
    return " ".join(texts)


def _foreign(texts: list[str], dialect: JavaDialect) -> ImportRefusal | None:
    """Refuse an expression that the scheduler would refuse, or reads in its own way."""
    day, weekday = texts[3], texts[5]
    if dialect is not JavaDialect.SPRING and (day == "?") == (weekday == "?"):
        return ImportRefusal(f"{dialect} needs `?` in one of both day fields", "`?` in one of them")
    for text in (texts[0], texts[1], texts[2], texts[4], texts[6]):
        if "?" in text:
            return ImportRefusal(f"`{text}`: `?` belongs in a day field", "`*`")
    if dialect is not JavaDialect.QUARTZ:
        for part in ",".join(texts).split(","):
            found = _RANGE.fullmatch(part)
            if found and int(found["low"]) > int(found["high"]):
                return ImportRefusal(f"`{part}` is descending", "two ranges")
    return _uncertain_day(day, dialect)


def _uncertain_day(text: str, dialect: JavaDialect) -> ImportRefusal | None:
    """Refuse days that not every month has, where the scheduler's code may leave the month."""
    for part in text.split(","):
        near, back = _NEAREST.fullmatch(part), _BACK.fullmatch(part)
        certain = _DAYS_CERTAIN - (dialect is JavaDialect.SPRING)
        if near and int(near["day"]) > certain:
            reason = f"`{part}`: {dialect} may run into the next month"
            return ImportRefusal(reason, f"`{certain}W` at most, or `LW` for the last weekday")
        if back and int(back["back"]) >= _DAYS_CERTAIN:
            return ImportRefusal(
                f"`{part}`: not in every month", f"`L-{_DAYS_CERTAIN - 1}` at most"
            )
    return None


def _weekdays(text: str, dialect: JavaDialect) -> str | ImportRefusal:
    """Return the weekdays as ours: from 0 for Sunday, `L5` for the last Friday."""
    if text in {"*", "?"}:
        return "*"
    if text == "l" and dialect is not JavaDialect.SPRING:
        return "6"  # the last day of the week
    first = 0 if dialect is JavaDialect.SPRING else 1

    def number(word: str) -> str | None:
        if word in _NAMES:
            return str(_NAMES.index(word))
        value = int(word) - first if word.isdigit() else -1
        return str(value) if 0 <= value <= 7 - first else None

    parts = [_weekday(part, number) for part in text.split(",")]
    if None in parts:
        accepted = "SUN to SAT, MON-FRI, FRI#2 or FRIL"
        return ImportRefusal(f"day of week `{text.upper()}` is not accepted by {dialect}", accepted)
    return ",".join(part for part in parts if part)


def _weekday(part: str, number: Callable[[str], str | None]) -> str | None:
    if part.startswith("*/"):
        return part
    found = _WEEKDAY.fullmatch(part)
    low = number(found["low"]) if found else None
    if found is None or low is None:
        return None
    if found["last"]:
        return f"l{low}"
    if found["nth"]:
        return f"{low}#{found['nth']}"
    high = number(found["high"]) if found["high"] else None
    if found["high"] and high is None:
        return None
    return low + (f"-{high}" if high else "") + (found["step"] or "")
