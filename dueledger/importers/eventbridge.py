"""Schedules of Amazon EventBridge, wherever a document has them.

`aws scheduler get-schedule`, `aws events list-rules`, CloudFormation, SAM and Terraform (`show
-json`, `.tf.json`) name the same fields; a schedule is any object with an expression.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final, cast

import orjson

from dueledger.importers.eventbridge_documents import (
    EXPRESSION,
    FoundSchedule,
    block_fields,
    find_schedules,
)
from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_files import DOCUMENT_SUFFIXES, import_path, read_documents
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
    hashed_name,
    seems_secret,
)
from dueledger.importers.times import instant_of_text, local_time_of
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "EventBridgeScheduleDue"

_RATE: Final = re.compile(r"(?P<value>\d{1,6})\s+(?P<unit>minute|hour|day)s?", re.ASCII)
_MINUTES_MAX: Final = 1_440
_NAME_CHARS_MAX: Final = 150
_NUMBER_CHARS_MAX: Final = 9
_FOREIGN_NAME: Final = re.compile(r"\$\{|\{\{")  # of a template, not filled in
_FILLED_IN: Final = "a document with templates and variables filled in"
_OF_EVENTBRIDGE: Final = "a rule or schedule of EventBridge"
_TEMPLATE: Final = "${"
_STATES: Final = ("State", "Enabled", "IsEnabled")
_INPUTS: Final = ("InputTransformer", "InputPath")


def import_eventbridge(path: Path, anew: NewDefinitionFields) -> ImportResult:
    """Read a file, or every YAML and JSON file below a folder."""

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        schedules = [
            schedule
            for place, document in read_documents(file)
            for schedule in find_schedules(document, f"{where}{place}")
        ]
        for schedule in schedules:
            _add(found, schedule, anew)
        if not schedules:
            found.count_other("document without a schedule")

    return import_path(path, DOCUMENT_SUFFIXES, import_file)


def _add(found: ImportResult, schedule: FoundSchedule, anew: NewDefinitionFields) -> None:
    fields, name = schedule.fields, _name(schedule)
    if schedule.stray:
        refusal = ImportRefusal("is an expression outside a schedule", _FILLED_IN)
        found.skip_job(schedule.where, name, refusal)
        return
    if schedule.foreign:
        refusal = ImportRefusal(f"is of {schedule.foreign}, not of EventBridge", _OF_EVENTBRIDGE)
        found.skip_job(schedule.where, name, refusal)
        return
    if fields.get("EventPattern") and not fields.get("ScheduleExpression"):
        found.count_other("rule that events trigger")
        return
    read = _read(fields, name, anew)
    targets = _targets(fields)
    if isinstance(targets, ImportRefusal) or isinstance(read, ImportRefusal):
        refusal = targets if isinstance(targets, ImportRefusal) else read
        found.skip_job(schedule.where, name, cast("ImportRefusal", refusal))
        return
    for ending, target in targets:
        _add_target(found, schedule, (f"{name}{ending}", target), read, anew)


def _targets(fields: Mapping[str, object]) -> list[tuple[str, dict[str, object]]] | ImportRefusal:
    """Return each target with the ending of its name.

    A rule starts each of its targets, and names it by its Id. A schedule has one.
    """
    targets = fields.get("Targets")
    if not targets:
        return [("", block_fields(fields.get("Target")))]
    if not isinstance(targets, list):
        return ImportRefusal("its targets are a template", _FILLED_IN)
    found: list[tuple[str, dict[str, object]]] = []
    for member in cast("list[object]", targets):
        target = block_fields(member)
        named = _plain(target.get("Id")) or hashed_name("target", repr(member))
        found.append((f"/{named}", target))
    return found


def _add_target(
    found: ImportResult,
    schedule: FoundSchedule,
    named_target: tuple[str, Mapping[str, object]],
    read: TranslatedSchedule,
    anew: NewDefinitionFields,
) -> None:
    fields, (name, target) = schedule.fields, named_target
    arn = target.get("Arn") or schedule.function
    given = target.get("Input") or fields.get("Input")
    payload: dict[str, object] = {"schedule": _name(schedule)}
    payload |= {"target": arn} if isinstance(arn, str) else {}
    payload |= {"input": _decoded(given)} if isinstance(given, str) else {}
    description = fields.get("Description")
    job = SourceJob(
        where=schedule.where,
        name=name,
        kind=KIND,
        schedule=read,
        payload=payload,
        catch_up={"policy": "all"},  # EventBridge delivers late what it could not deliver in time
        duplicates="EventBridge may deliver it twice",
        description=description if isinstance(description, str) else None,
        questions=(OpenQuestion.SECRET,) if isinstance(given, str) and seems_secret(given) else (),
        notes=tuple(_notes(fields, target, payload)),
    )
    add_job(found, job, anew)


def _notes(
    fields: Mapping[str, object], target: Mapping[str, object], payload: Mapping[str, object]
) -> Iterator[str]:
    """Yield a note for each field that is not converted. SAM has a target's fields beside it."""
    either = {**fields, **target}
    if target and "target" not in payload:
        yield "the Arn of its target is a template: the payload lacks it"
    if either.get("Input") and "input" not in payload:
        yield "its Input is a template: the payload lacks it"
    for name in _INPUTS:
        if either.get(name):
            yield f"{name} is not converted: the payload has no part of the event"
    if fields.get("EventPattern"):
        yield "events trigger it, too: only its schedule is converted"
    if fields.get("GroupName") and not _plain(fields["GroupName"]):
        yield "its GroupName is a template: the name lacks it"
    yield from _delivery_notes(either)


def _delivery_notes(either: Mapping[str, object]) -> Iterator[str]:
    policy = block_fields(either.get("RetryPolicy"))
    attempts, age = policy.get("MaximumRetryAttempts"), policy.get("MaximumEventAgeInSeconds")
    if attempts is not None:
        yield f"up to {_shown(attempts)} retries"
    if age is not None:
        yield f"an event older than {_shown(age)} s is dropped there"
    if either.get("RetryPolicy") and attempts is age is None:
        yield "its RetryPolicy is a template"
    if either.get("DeadLetterConfig"):
        yield "failed events go to a queue there (DeadLetterConfig)"


def _shown(value: object) -> str:
    number = _number(value)
    return "an unknown number of" if number is None else str(number)


def _number(value: object) -> int | None:
    """Return a whole number, also of a text, as templates have it."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) if len(value) <= _NUMBER_CHARS_MAX else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(value: object) -> str | None:
    """Return a name; None if it is a template, or no text."""
    usable = isinstance(value, str) and 0 < len(value) <= _NAME_CHARS_MAX
    return str(value) if usable and not _FOREIGN_NAME.search(str(value)) else None


def _name(schedule: FoundSchedule) -> str:
    """Return the group and name, or the key if the document has none or a template for it."""
    group = _plain(schedule.fields.get("GroupName"))
    name = _plain(schedule.fields.get("Name")) or _plain(schedule.key) or "schedule"
    return f"{group}/{name}" if group and group != "default" else name


def _read(
    fields: Mapping[str, object], name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    text = fields.get("ScheduleExpression")
    found = EXPRESSION.fullmatch(text) if isinstance(text, str) else None
    zone = fields.get("ScheduleExpressionTimezone") or "UTC"
    if found is None:
        return _unreadable(text)
    if not isinstance(zone, str) or _TEMPLATE in zone:
        return ImportRefusal("its zone is a template", _FILLED_IN)
    if refusal := _switched_off(fields):
        return refusal
    smear = _flexible_window(fields)
    if isinstance(smear, ImportRefusal):
        return smear
    read = _translated(found, zone, fields, name, anew)
    return read if isinstance(read, ImportRefusal) else replace(read, smear=smear)


def _switched_off(fields: Mapping[str, object]) -> ImportRefusal | None:
    for name in _STATES:
        value = fields.get(name)
        state = str(value).upper() if isinstance(value, str | bool) else ""
        if state in {"DISABLED", "FALSE"}:
            reason = "is disabled: nothing of it is due"
            return ImportRefusal(reason, "import it enabled when it should run")
        if value is not None and state != "TRUE" and not state.startswith("ENABLED"):
            return ImportRefusal(f"its {name} is a template, or not a known state", _FILLED_IN)
    return None


def _unreadable(expression: object) -> ImportRefusal:
    if expression is None:
        reason = "is listed without its expression"
        return ImportRefusal(reason, "`aws scheduler get-schedule` for each schedule of the list")
    is_template = isinstance(expression, dict | list) or _TEMPLATE in str(expression)
    is_what = "a template" if is_template else "not cron(…), rate(…) or at(…)"
    return ImportRefusal(f"its expression is {is_what}", _FILLED_IN)


def _translated(
    expression: re.Match[str],
    zone: str,
    fields: Mapping[str, object],
    name: str,
    anew: NewDefinitionFields,
) -> TranslatedSchedule | ImportRefusal:
    inner = expression["inner"].strip()
    match expression["kind"]:
        case "cron":
            read = read_java_cron(inner, zone, JavaDialect.EVENTBRIDGE)
        case "rate":
            read = _rate(inner, fields, name, anew)
        case _:
            local = local_time_of(inner, zone)
            if isinstance(local, ImportRefusal):
                return local
            read = TranslatedSchedule({"at": local, "timezone": zone})
    return read if isinstance(read, ImportRefusal) else _bounded(read, fields, zone)


def _rate(
    text: str, fields: Mapping[str, object], name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    found = _RATE.fullmatch(text)
    if found is None or not int(found["value"]):
        return ImportRefusal(
            "its rate is not a number of minutes, hours or days", "rate(5 minutes)"
        )
    period = timedelta(**{f"{found['unit']}s": int(found["value"])})
    start = fields.get("StartDate")
    if start is None:
        return TranslatedSchedule(fixed_rate(period, anew.anchor, name), (OpenQuestion.PHASE,))
    anchor = instant_of_text(start, "UTC")
    if isinstance(anchor, ImportRefusal):
        return anchor
    return TranslatedSchedule({"every": period_text(period), "anchor": anchor})


def _bounded(
    read: TranslatedSchedule, fields: Mapping[str, object], zone: str
) -> TranslatedSchedule | ImportRefusal:
    """Add StartDate and EndDate, which the scheduler ignores for `at()`."""
    if "at" in read.when:
        return read
    when = dict(read.when)
    for name, bound in (("StartDate", "start"), ("EndDate", "end")):
        value = fields.get(name)
        if value is None:
            continue
        at = instant_of_text(value, "UTC")  # whatever the zone of the expression is
        if isinstance(at, str) and "every" not in when:
            at = local_time_of(at, zone)
        if isinstance(at, ImportRefusal):
            return at
        when[bound] = at
    return replace(read, when=when)


def _flexible_window(fields: Mapping[str, object]) -> timedelta | ImportRefusal | None:
    given = fields.get("FlexibleTimeWindow")
    window = block_fields(given)
    if not given or window.get("Mode") in {"OFF", False}:  # YAML reads OFF as false
        return None
    minutes = _number(window.get("MaximumWindowInMinutes"))
    if window.get("Mode") == "FLEXIBLE" and minutes and 0 < minutes <= _MINUTES_MAX:
        return timedelta(minutes=minutes)
    reason = "its FlexibleTimeWindow is a template, or not of 1 to 1,440 minutes"
    return ImportRefusal(reason, "Mode OFF, or FLEXIBLE with MaximumWindowInMinutes")


def _decoded(text: str) -> object:
    """Return an input as the JSON that it mostly is."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
