"""Schedules of Amazon EventBridge, wherever a document has them.

`aws scheduler get-schedule`, `aws events list-rules`, CloudFormation, SAM and Terraform (`show
-json`, `.tf.json`) name the same fields; a schedule is any object with an expression.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, cast

import orjson

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_files import DOCUMENT_SUFFIXES, import_path, read_documents
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
    seems_secret,
)
from dueledger.importers.times import instant_of_text, local_time_of
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "EventBridgeScheduleDue"

_DEPTH_MAX: Final = 24
_EXPRESSION: Final = re.compile(r"(?P<kind>cron|rate|at)\((?P<inner>[^()]{1,200})\)", re.ASCII)
_RATE: Final = re.compile(r"(?P<value>\d{1,6})\s+(?P<unit>minute|hour|day)s?", re.ASCII)
_MINUTES_MAX: Final = 1_440
_NAME_CHARS_MAX: Final = 150
_FOREIGN_NAME: Final = re.compile(r"\$\{|\{\{")  # of a template, not filled in
_WORDS: Final = re.compile(r"(?:^|_)([a-z0-9])")


@dataclass(frozen=True, slots=True)
class _Found:
    """An object with an expression, its fields as AWS names them, and the key that leads to it."""

    where: str
    key: str
    fields: Mapping[str, object]


def import_eventbridge(path: Path, anew: NewDefinitionFields) -> ImportResult:
    """Read a file, or every YAML and JSON file below a folder."""

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        schedules = [
            schedule
            for place, document in read_documents(file)
            for schedule in _schedules(document, f"{where}{place}", "", 0)
        ]
        for schedule in schedules:
            _add(found, schedule, anew)
        if not schedules:
            found.count_other("document without a schedule")

    return import_path(path, DOCUMENT_SUFFIXES, import_file)


def _schedules(value: object, where: str, key: str, depth: int) -> Iterator[_Found]:
    """Yield each schedule, and those that were listed without their expression."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, list):
        for place, member in enumerate(cast("list[object]", value)):
            yield from _schedules(member, f"{where}[{place}]", key, depth + 1)
    if not isinstance(value, dict):
        return
    members = cast("dict[object, object]", value)
    fields = {_pascal(name): each for name, each in members.items() if isinstance(name, str)}
    if fields.get("ScheduleExpression") or "EventPattern" in fields or _is_listed(fields):
        yield _Found(where, key, fields)
        return
    named = members.get("name") or members.get("logicalId")
    for name, member in members.items():
        # Terraform's `values`, CloudFormation's `Properties`: the key above is the name.
        inner = key if name in {"Properties", "values"} else str(name)
        if name == "values" and isinstance(named, str):
            inner = named
        yield from _schedules(member, where, inner, depth + 1)


def _pascal(name: str) -> str:
    """Return a field as AWS names it: Terraform has `schedule_expression`."""
    return _WORDS.sub(lambda found: found[1].upper(), name) if name.islower() else name


def _is_listed(fields: Mapping[str, object]) -> bool:
    arn = fields.get("Arn")
    return isinstance(arn, str) and arn.startswith("arn:aws:scheduler:") and "Target" in fields


def _add(found: ImportResult, schedule: _Found, anew: NewDefinitionFields) -> None:
    fields, name = schedule.fields, _name(schedule)
    if "EventPattern" in fields and not fields.get("ScheduleExpression"):
        found.count_other("rule that events trigger")
        return
    read = _read(fields, name, anew)
    if isinstance(read, ImportRefusal):
        found.skip_job(schedule.where, name, read)
        return
    target = _only(fields.get("Target") or fields.get("Targets"))
    arn, given = target.get("Arn"), target.get("Input")
    payload: dict[str, object] = {"schedule": name}
    payload |= {"target": arn} if isinstance(arn, str) else {}
    payload |= {"input": _decoded(given)} if isinstance(given, str) else {}
    description = fields.get("Description")
    policy = _only(target.get("RetryPolicy"))
    attempts = policy.get("MaximumRetryAttempts")
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
        notes=(f"up to {attempts} retries",) if isinstance(attempts, int) else (),
    )
    add_job(found, job, anew)


def _name(schedule: _Found) -> str:
    """Return the group and name, or the key if the document has none or a template for it."""

    def plain(value: object) -> str | None:
        usable = isinstance(value, str) and 0 < len(value) <= _NAME_CHARS_MAX
        return str(value) if usable and not _FOREIGN_NAME.search(str(value)) else None

    group = plain(schedule.fields.get("GroupName"))
    name = plain(schedule.fields.get("Name")) or plain(schedule.key) or "schedule"
    return f"{group}/{name}" if group and group != "default" else name


def _read(
    fields: Mapping[str, object], name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    text = fields.get("ScheduleExpression")
    found = _EXPRESSION.fullmatch(text.strip()) if isinstance(text, str) else None
    zone = fields.get("ScheduleExpressionTimezone") or "UTC"
    if found is None or not isinstance(zone, str):
        return _unreadable(text)
    if str(fields.get("State", "ENABLED")).upper() != "ENABLED" or fields.get("IsEnabled") is False:
        reason = "is disabled: nothing of it is due"
        return ImportRefusal(reason, "import it enabled when it should run")
    return _translated(found, zone, fields, name, anew)


def _unreadable(expression: object) -> ImportRefusal:
    if expression is None:
        reason = "is listed without its expression"
        return ImportRefusal(reason, "`aws scheduler get-schedule` for each schedule of the list")
    reason = "its expression is not cron(…), rate(…) or at(…), or its zone is not a text"
    return ImportRefusal(reason, "a document with templates and variables filled in")


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
    if not isinstance(read, ImportRefusal):
        read = _bounded(read, fields, zone)
    if isinstance(read, ImportRefusal):
        return read
    return replace(read, smear=_flexible_window(fields))


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
        at = instant_of_text(value, "UTC") if "every" in when else local_time_of(value, zone)
        if isinstance(at, ImportRefusal):
            return at
        when[bound] = at
    return replace(read, when=when)


def _flexible_window(fields: Mapping[str, object]) -> timedelta | None:
    window = {_pascal(name): each for name, each in _only(fields.get("FlexibleTimeWindow")).items()}
    minutes = window.get("MaximumWindowInMinutes")
    if window.get("Mode") != "FLEXIBLE" or not isinstance(minutes, int):
        return None
    return timedelta(minutes=minutes) if 0 < minutes <= _MINUTES_MAX else None


def _only(value: object) -> Mapping[str, object]:
    """Return a block: Terraform has it as a list of one."""
    if isinstance(value, list):
        members = cast("list[object]", value)
        value = members[0] if members else None
    if not isinstance(value, dict):
        return {}
    block = cast("dict[object, object]", value)
    return {_pascal(name): each for name, each in block.items() if isinstance(name, str)}


def _decoded(text: str) -> object:
    """Return an input as the JSON that it mostly is."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
