"""Triggers of Quartz from `job-scheduling-data` files, as its XML plugin reads them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
    seems_secret,
)
from dueledger.importers.times import instant_of_text, local_time_of, second_after
from dueledger.importers.xml_tree import XmlElement, parse_xml
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "QuartzJobDue"

_DEFAULT_GROUP: Final = "DEFAULT"
_INTERVALS: Final = {
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
}
_FREQUENCIES: Final = {"DAY": "DAILY", "WEEK": "WEEKLY", "MONTH": "MONTHLY", "YEAR": "YEARLY"}
_DAYS_CERTAIN: Final = 28
_NUMBER_CHARS_MAX: Final = 15
_INSTRUCTION: Final = "MISFIRE_INSTRUCTION_"
_MISFIRES: Final[Mapping[str, str]] = {
    "FIRE_ONCE_NOW": "latest",
    "FIRE_NOW": "latest",
    "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT": "latest",
    "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT": "latest",
    "DO_NOTHING": "skip",
    "RESCHEDULE_NEXT_WITH_EXISTING_COUNT": "skip",
    "RESCHEDULE_NEXT_WITH_REMAINING_COUNT": "skip",
    "IGNORE_MISFIRE_POLICY": "all",
}
_SMART: Final = {"cron": "latest", "simple": "skip", "calendar-interval": "latest"}
"""The smart policy, which is the default, of each type of trigger."""


def import_quartz_xml(
    text: str, path: Path, where: str, anew: NewDefinitionFields, found: ImportResult
) -> None:
    """Import every trigger of a file, with its job."""
    root = parse_xml(text, path)
    if root.name != "job-scheduling-data":
        found.count_other(f"XML document {root.name}")
        return
    jobs: dict[str, XmlElement] = {}
    triggers: list[XmlElement] = []
    for schedule in root.children:
        for element in schedule.children:
            if element.name == "job":
                jobs[_name(element, "name", "group")] = element
            elif element.name == "trigger":
                triggers += element.children
    for trigger in triggers:
        _add(found, f"{where}:{trigger.line}", trigger, jobs, anew)


def _name(element: XmlElement, name: str, group: str) -> str:
    own, of_group = element.value(name) or "", element.value(group)
    return f"{of_group}.{own}" if of_group and of_group != _DEFAULT_GROUP else own


def _add(
    found: ImportResult,
    where: str,
    trigger: XmlElement,
    jobs: Mapping[str, XmlElement],
    anew: NewDefinitionFields,
) -> None:
    name = _name(trigger, "name", "group")
    job_name = _name(trigger, "job-name", "job-group")
    read = _read(trigger, name, anew)
    if isinstance(read, ImportRefusal):
        found.skip_job(where, name, read)
        return
    job = jobs.get(job_name)
    data = _data(job) | _data(trigger)
    payload: dict[str, object] = {"job": job_name}
    payload |= {"class": job.value("job-class")} if job else {}
    payload |= {"data": data} if data else {}
    instruction = (trigger.value("misfire-instruction") or "").removeprefix(_INSTRUCTION)
    policy = _MISFIRES.get(instruction, _SMART[trigger.name])
    secret = any(seems_secret(f"{key}={value}") for key, value in data.items())
    imported = SourceJob(
        where=where,
        name=name,
        kind=KIND,
        schedule=read,
        payload=payload,
        catch_up={"policy": policy},
        description=trigger.value("description") or (job.value("description") if job else None),
        questions=(OpenQuestion.SECRET,) if secret else (),
        notes=() if job else ("its job is not in the file",),
    )
    add_job(found, imported, anew)


def _data(element: XmlElement | None) -> dict[str, str]:
    entries = element.child("job-data-map") if element else None
    return {
        key: entry.value("value") or ""
        for entry in (entries.children if entries else ())
        if (key := entry.value("key"))
    }


def _read(
    trigger: XmlElement, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    if trigger.name not in _READERS:
        return ImportRefusal(f"`{trigger.name}` is not a type of trigger", "cron or simple")
    if calendar := trigger.value("calendar-name"):
        reason = f"leaves out days of the calendar {calendar}, which is not in the file"
        return ImportRefusal(reason, "a calendar in the definition: `dueledger calendar import`")
    zone = trigger.value("time-zone") or anew.zone
    if zone is None and trigger.name != "simple":
        return ImportRefusal("the trigger does not name a time zone", "--timezone Europe/Berlin")
    return _READERS[trigger.name](trigger, zone or "UTC", name, anew)


def _cron(
    trigger: XmlElement, zone: str, _: str, __: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    text = trigger.value("cron-expression") or ""
    read = read_java_cron(text, zone, JavaDialect.QUARTZ)
    if isinstance(read, ImportRefusal):
        return read
    when = dict(read.when)
    for field, bound in (("start-time", "start"), ("end-time", "end")):
        value = trigger.value(field)
        if value is None:
            continue
        local = local_time_of(value, zone)
        if isinstance(local, ImportRefusal):
            return local
        when[bound] = second_after(local) if bound == "end" else local
    return replace(read, when=when)


def _simple(
    trigger: XmlElement, zone: str, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    interval, count = _number(trigger, "repeat-interval"), _number(trigger, "repeat-count")
    if count != -1:
        reason = "ends after a number of starts that is counted from its own"
        return ImportRefusal(reason, "`at` for one, or a repeat-count of -1")
    if not interval or interval < 0:
        return ImportRefusal("has no repeat-interval in milliseconds", "a whole number")
    return _rate(trigger, timedelta(milliseconds=interval), zone, name, anew)


def _calendar_interval(
    trigger: XmlElement, zone: str, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    interval, unit = _number(trigger, "repeat-interval"), trigger.value("repeat-interval-unit")
    if not interval or not 0 < interval <= 10**6:
        return ImportRefusal("has no repeat-interval", "a whole number")
    if unit in _INTERVALS:
        return _rate(trigger, interval * _INTERVALS[unit], zone, name, anew)
    start = local_time_of(trigger.value("start-time"), zone)
    if unit not in _FREQUENCIES or isinstance(start, ImportRefusal):
        return ImportRefusal("has no start-time from which it counts", "a start-time and a unit")
    if unit in {"MONTH", "YEAR"} and int(start[8:10]) > _DAYS_CERTAIN:
        reason = "begins on a day that some months lack, and goes on from their last one"
        return ImportRefusal(reason, "a cron trigger with `L`")
    rule = f"FREQ={_FREQUENCIES[unit]};INTERVAL={interval}"
    return TranslatedSchedule({"rrule": rule, "start": start, "timezone": zone})


def _rate(
    trigger: XmlElement, period: timedelta, zone: str, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    if period < timedelta(seconds=1) or period.microseconds:
        return ImportRefusal("its interval is not of whole seconds", "one second or more")
    start = trigger.value("start-time")
    if start is None:
        return TranslatedSchedule(fixed_rate(period, anew.anchor, name), (OpenQuestion.PHASE,))
    anchor = instant_of_text(start, zone)
    if isinstance(anchor, ImportRefusal):
        return anchor
    return TranslatedSchedule({"every": period_text(period), "anchor": anchor})


def _number(element: XmlElement, name: str) -> int | None:
    text = element.value(name) or ""
    digits = text.removeprefix("-")
    return (
        int(text)
        if digits.isascii() and digits.isdigit() and len(text) < _NUMBER_CHARS_MAX
        else None
    )


_READERS: Final[
    Mapping[
        str,
        Callable[[XmlElement, str, str, NewDefinitionFields], TranslatedSchedule | ImportRefusal],
    ]
] = {"cron": _cron, "simple": _simple, "calendar-interval": _calendar_interval}
