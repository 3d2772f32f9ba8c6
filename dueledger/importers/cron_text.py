"""Cron expressions of other schedulers, read by their rules and written in our dialect.

The same text means different things: Vixie cron and robfig/cron (Kubernetes, Prow) disagree on
`*/2` beside a weekday, on 7 for Sunday, on `5/15`. An expression that the scheduler itself would
refuse, or that is ambiguous, is left out with the reason; none gets another meaning.
"""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from dueledger.importers.hashed_cron import HashedCron, read_hashed
from dueledger.importers.import_result import ImportRefusal, OpenQuestion
from dueledger.importers.source_job import TranslatedSchedule
from dueledger.ledger.schedule import Cron, Decision, Fold, Gap, expand, zone_names
from dueledger.ledger.schedule.cron_dialect import EXPRESSION_CHARS_MAX, CronFields, parse_cron
from dueledger.ledger.schedule.zones import similar_zones
from dueledger.preview.clock_changes import ClockChange, clock_changes

_FIELDS: Final = 5
_DAY, _MONTH, _WEEKDAY = 2, 3, 4
_MONTH_NAMES: Final = re.findall(r"...", "janfebmaraprmayjunjulaugsepoctnovdec")
_WEEKDAY_NAMES: Final = re.findall(r"...", "sunmontuewedthufrisat")
_ZONE_CHARS_MAX: Final = 64
_SUNDAY_AGAIN: Final = 7
_PART: Final = re.compile(r"(?P<low>\*|\?|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_AHEAD: Final = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC))
_AROUND: Final = timedelta(hours=7)
"""Beside a clock change, and further by its length: two within six hours may be seen as one."""


class Scheduler(StrEnum):
    """The scheduler whose expression it is."""

    CRON = "cron"
    KUBERNETES = "Kubernetes"
    PROW = "Prow"


def read_cron(text: str, zone: str, scheduler: Scheduler) -> TranslatedSchedule | ImportRefusal:
    """Return what `text` means to `scheduler` on clocks that show the time of `zone`."""
    if refusal := out_of_bounds(text, zone):
        return refusal
    read = read_hashed(text) if scheduler is Scheduler.CRON else HashedCron(text)
    if isinstance(read, ImportRefusal):
        return read
    text = read.expression
    if refusal := _foreign(text, scheduler):
        return refusal
    fields = cron_fields(text)
    if isinstance(fields, ImportRefusal):
        return fields
    expression, day_rule, note = _days(text, fields, scheduler)
    when: dict[str, object] = {"cron": expression, "timezone": zone}
    if day_rule is not None:
        when["day_rule"] = day_rule
    translated = complete_cron(when, _clock_policy(text, scheduler))
    if isinstance(translated, ImportRefusal):
        return translated
    questions = (OpenQuestion.DAYS, *translated.questions) if note else translated.questions
    notes = tuple(each for each in (note, read.note) if each)
    return TranslatedSchedule(translated.when, questions, notes, read.smear)


def cron_fields(expression: str) -> CronFields | ImportRefusal:
    """Return the fields of an expression in the product's dialect, or why it is refused."""
    try:
        return parse_cron(expression)
    except PydanticCustomError as error:
        context = error.context or {}
        return ImportRefusal(str(context["reason"]), str(context["accepted"]))


def complete_cron(
    when: dict[str, object], policy: tuple[str, str]
) -> TranslatedSchedule | ImportRefusal:
    """Return a cron `when` with its policies for gaps and folds, if clocks change in its zone.

    An expression that never matches is accepted, and asked about: it may be switched off.
    """
    if _changes_ahead(str(when["timezone"])):
        when["gap"], when["fold"] = policy
    questions: list[OpenQuestion] = []
    cron = _parsed(when)
    if isinstance(cron, ImportRefusal):
        when["sparse"] = True
        questions.append(OpenQuestion.SWITCHED_OFF)
        cron = _parsed(when)
    if isinstance(cron, ImportRefusal):
        return cron
    if _moved(cron):
        questions.append(OpenQuestion.CLOCKS)
    return TranslatedSchedule(when, tuple(questions))


def out_of_bounds(text: str, zone: str) -> ImportRefusal | None:
    """Refuse texts without parsing: too long, an unknown zone, @reboot."""
    if len(text) > EXPRESSION_CHARS_MAX or len(zone) > _ZONE_CHARS_MAX:
        reason = f"longer than {EXPRESSION_CHARS_MAX} characters, or in a zone of {_ZONE_CHARS_MAX}"
        return ImportRefusal(reason, "an expression of five fields, and an IANA name")
    if zone not in zone_names():
        return ImportRefusal(f"unknown time zone {zone!r}", similar_zones(zone))
    if text.strip().lower() == "@reboot":
        return ImportRefusal(
            "@reboot is not a time: it runs when a machine starts", "a service's own start"
        )
    return None


def _parsed(when: dict[str, object]) -> Cron | ImportRefusal:
    try:
        return Cron.model_validate(when)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        context = first.get("ctx") or {}
        reason = str(context.get("reason", first["msg"]))
        return ImportRefusal(reason, str(context["accepted"]) if "accepted" in context else None)


def _days(text: str, fields: CronFields, scheduler: Scheduler) -> tuple[str, str | None, str]:
    """Return the expression, its day rule, and a note if both day fields are restricted."""
    texts = text.split()
    expression = " ".join(texts)
    if len(texts) < _FIELDS:
        return expression, None, ""  # a macro restricts at most one of them
    minute, hour, day, month, weekday = texts[-_FIELDS:]
    both = fields.restricts_day and fields.restricts_weekday
    if _starred(day, scheduler) or _starred(weekday, scheduler):
        if not both:
            return expression, None, ""
        return expression, "all", f"both day fields must match, as {scheduler} reads a `*` in one"
    if both:
        return expression, "any", f"either day field may match, as {scheduler} reads them"
    expression = " ".join([*texts[:-_FIELDS], minute, hour, "*", month, "*"])
    return expression, None, f"every day, as {scheduler} reads `{day}` beside `{weekday}`"


def _starred(field: str, scheduler: Scheduler) -> bool:
    """Return whether a day field restricts nothing for a scheduler."""
    parts = [part.partition("/") for part in field.split(",")]
    match scheduler:
        case Scheduler.CRON:
            return field.startswith("*")
        case Scheduler.PROW:  # robfig/cron v2
            return any(low in {"*", "?"} for low, _, _ in parts)
        case Scheduler.KUBERNETES:  # v3: a star with a step restricts
            return any(low in {"*", "?"} and step in {"", "1"} for low, _, step in parts)


def _clock_policy(text: str, scheduler: Scheduler) -> tuple[str, str]:
    """Return the scheduler's gap and fold policies.

    Vixie cron runs a fixed time once, after the gap; with `*` for minute or hour it follows the
    clock. robfig/cron always follows the clock: never in a gap, twice in a fold.
    """
    minute, hour = [*text.split(), "0", "0"][:2]
    fixed = not (minute.startswith("*") or hour.startswith("*") or minute == "@hourly")
    if scheduler is Scheduler.CRON and fixed:
        return Gap.GAP_END.value, Fold.FIRST.value
    return Gap.SKIP.value, Fold.BOTH.value


@lru_cache(maxsize=1024)
def _changes_ahead(zone: str) -> tuple[ClockChange, ...]:
    return tuple(clock_changes(zone, *_AHEAD))


def _moved(cron: Cron) -> bool:
    """Return whether a clock change in the coming years moves, drops or doubles a fixed time.

    A time with a wildcard follows the clock, as intended.
    """
    if cron.fields.wildcard and (cron.gap, cron.fold) == (Gap.SKIP, Fold.BOTH):
        return False
    for change in _changes_ahead(cron.timezone):
        around = _AROUND + abs(change.jump)
        window = expand(cron, change.at - around, change.at + around)
        if window.skipped or any(one.decision is not Decision.EXACT for one in window.occurrences):
            return True
    return False


def _foreign(text: str, scheduler: Scheduler) -> ImportRefusal | None:
    """Refuse an expression that the scheduler would refuse, or reads in its own way."""
    fields = text.lower().split()
    if len(fields) == 1 and fields[0].startswith("@"):
        return None
    accepted = {_FIELDS, _FIELDS + 1} if scheduler is Scheduler.PROW else {_FIELDS}
    if len(fields) not in accepted:
        return ImportRefusal(
            f"has {len(fields)} fields, and {scheduler} reads five",
            "minute hour day-of-month month day-of-week",
        )
    for place, field in enumerate(fields[-_FIELDS:]):
        for part in field.split(","):
            if refusal := _foreign_part(part, place, scheduler):
                return refusal
    return None


def _foreign_part(part: str, place: int, scheduler: Scheduler) -> ImportRefusal | None:
    if "~" in part:
        return ImportRefusal(
            f"`{part}` is chosen at random, differently on each host", "a fixed value"
        )
    not_understood = ImportRefusal(
        f"`{part}` is not accepted by {scheduler}", "a, a-b, a-b/n or */n"
    )
    found = _PART.fullmatch(part)
    if found is None:
        return not_understood
    low_text, high_text, step = found.group("low", "high", "step")
    if low_text in {"*", "?"}:
        foreign = low_text == "?" and scheduler is Scheduler.CRON
        return ImportRefusal("cron does not read `?`", "`*`") if foreign else None
    low, high = _value(low_text, place), _value(high_text or low_text, place)
    if low is None or high is None:
        return not_understood
    reason, accepted = None, None
    if low > high:
        reason = f"`{part}` is descending: schedulers refuse it or never match it"
        accepted = "two ranges, such as 22-23,0-2"
    elif step and high_text is None and scheduler is Scheduler.CRON:
        reason = (
            f"`{part}`: some crons read {low_text} alone, others every {step} beginning with it"
        )
        accepted = f"`{low_text}`, or a range such as `{low_text}-59/{step}`"
    elif place == _WEEKDAY and high >= _SUNDAY_AGAIN and scheduler is not Scheduler.CRON:
        reason = f"`{part}`: {scheduler} counts weekdays from 0 to 6"
        accepted = "0 for Sunday"
    return ImportRefusal(reason, accepted) if reason else None


def _value(word: str, place: int) -> int | None:
    if word.isdigit():
        return int(word) if len(word) <= len("59") else None
    names = {_MONTH: _MONTH_NAMES, _WEEKDAY: _WEEKDAY_NAMES}.get(place, [])
    return names.index(word) + (place == _MONTH) if word in names else None
