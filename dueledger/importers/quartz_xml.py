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
from dueledger.importers.times import (
    has_offset,
    instant_of_text,
    local_time_of,
    second_after,
    zone_of_java,
)
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
_START_AFTER: Final = "start-time-seconds-in-future"
_SCHEMA: Final = "what job_scheduling_data_2_0.xsd has there"
_NUMBER_CHARS_MAX: Final = 15
_PRIORITY: Final = "5"
"""Quartz' default."""
_INSTRUCTION: Final = "MISFIRE_INSTRUCTION_"
_CALENDAR_MISFIRES: Final[Mapping[str, str]] = {
    "SMART_POLICY": "latest",
    "FIRE_ONCE_NOW": "latest",
    "DO_NOTHING": "skip",
    "IGNORE_MISFIRE_POLICY": "all",
}
_MISFIRES: Final[Mapping[str, Mapping[str, str]]] = {
    "cron": _CALENDAR_MISFIRES,
    "calendar-interval": _CALENDAR_MISFIRES,
    "simple": {
        "SMART_POLICY": "skip",  # of one that repeats for ever
        "FIRE_NOW": "latest",
        "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT": "latest",
        "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT": "latest",
        "RESCHEDULE_NEXT_WITH_EXISTING_COUNT": "skip",
        "RESCHEDULE_NEXT_WITH_REMAINING_COUNT": "skip",
        "IGNORE_MISFIRE_POLICY": "all",
    },
}
_COMMON: Final = frozenset(
    (
        *("name", "group", "description", "job-name", "job-group", "job-data-map"),
        *("priority", "calendar-name", "misfire-instruction"),
        *("start-time", "start-time-seconds-in-future", "end-time"),
    )
)
_ELEMENTS: Final[Mapping[str, frozenset[str]]] = {
    "cron": _COMMON | {"cron-expression", "time-zone"},
    "simple": _COMMON | {"repeat-count", "repeat-interval"},
    "calendar-interval": _COMMON | {"repeat-interval", "repeat-interval-unit"},
}
"""The elements of each type of trigger, after job_scheduling_data_2_0.xsd."""
_ROOT: Final = "job-scheduling-data"
_NO_SCHEDULE: Final = frozenset(("pre-processing-commands", "processing-directives"))
_SPRING_PROPERTIES: Final = frozenset(("cronExpression", "repeatInterval"))


def import_quartz_xml(
    text: str, path: Path, where: str, anew: NewDefinitionFields, found: ImportResult
) -> None:
    """Import every trigger of a file, with its job."""
    root = parse_xml(text, path)
    if root.name != _ROOT:
        _list_foreign(root, where, found)
        return
    jobs: dict[str, XmlElement] = {}
    triggers: list[XmlElement] = []
    strays: list[XmlElement] = []
    for part in root.children:
        if part.name != "schedule":
            strays += [] if part.name in _NO_SCHEDULE else [part]
            continue
        for element in part.children:
            if element.name == "job":
                jobs[_name(element, "name", "group")] = element
            elif element.name == "trigger" and element.children:
                triggers += element.children
            else:
                strays.append(element)
    for stray in strays:
        refusal = ImportRefusal(f"`{stray.name}` is empty or does not belong here", _SCHEMA)
        found.skip_job(f"{where}:{stray.line}", stray.name, refusal)
    for trigger in triggers:
        _add(found, f"{where}:{trigger.line}", trigger, jobs, anew)


def _list_foreign(root: XmlElement, where: str, found: ImportResult) -> None:
    """List the schedules of another document, such as Spring's beans, as left out."""
    reason = f"is in an XML document `{root.name}`, which is not read"
    refusal = ImportRefusal(reason, "its expression in a file of settings: NAME = EXPRESSION")
    foreign = [each for each in root.walk() if _is_foreign_schedule(each, root.name)]
    for each in foreign:
        name = each.attributes.get("method") or each.attributes.get("name") or each.name
        found.skip_job(f"{where}:{each.line}", name, refusal)
    if not foreign:
        found.count_other(f"XML document {root.name}")


def _is_foreign_schedule(element: XmlElement, root: str) -> bool:
    if root == "quartz":  # of Quartz 1.5
        return element.name == "trigger"
    of_spring = element.attributes.get("name") in _SPRING_PROPERTIES
    return element.name == "scheduled" or (element.name == "property" and of_spring)


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
    notes = [] if job else ["its job is not in the file"]
    if (priority := trigger.value("priority") or _PRIORITY) != _PRIORITY:
        notes.append(f"priority {priority} is not converted: it orders starts of the same time")
    if trigger.value(_START_AFTER):
        notes.append(f"{_START_AFTER} is not converted: it counts from the program's start")
    secret = any(seems_secret(f"{key}={value}") for key, value in data.items())
    imported = SourceJob(
        where=where,
        name=name,
        kind=KIND,
        schedule=read,
        payload=payload,
        catch_up={"policy": _MISFIRES[trigger.name][_instruction(trigger)]},
        description=trigger.value("description") or (job.value("description") if job else None),
        questions=(OpenQuestion.SECRET,) if secret else (),
        notes=tuple(notes),
    )
    add_job(found, imported, anew)


def _instruction(trigger: XmlElement) -> str:
    named = trigger.value("misfire-instruction") or ""
    return named.removeprefix(_INSTRUCTION) or "SMART_POLICY"


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
    if refusal := _refused(trigger):
        return refusal
    zone = trigger.value("time-zone") or anew.zone
    if zone is None and trigger.name != "simple":
        return ImportRefusal("the trigger does not name a time zone", "--timezone Europe/Berlin")
    return _READERS[trigger.name](trigger, zone_of_java(zone or "UTC"), name, anew)


def _refused(trigger: XmlElement) -> ImportRefusal | None:
    """Refuse a trigger that Quartz would refuse, or with days that are not in the file."""
    known = _ELEMENTS.get(trigger.name)
    if known is None:
        return ImportRefusal(f"`{trigger.name}` is not a type of trigger", "cron or simple")
    names = [each.name for each in trigger.children]
    for each in names:
        if each not in known or names.count(each) > 1:
            reason = f"`{each}` is not an element of a {trigger.name} trigger, or is there twice"
            return ImportRefusal(reason, _SCHEMA)
    if {"start-time", _START_AFTER} <= set(names):
        return ImportRefusal(f"has a start-time and {_START_AFTER}", "one of the two")
    if _instruction(trigger) not in _MISFIRES[trigger.name]:
        reason = (
            f"`{_instruction(trigger)}` is not a misfire instruction of a {trigger.name} trigger"
        )
        return ImportRefusal(reason, " or ".join(_MISFIRES[trigger.name]))
    if calendar := trigger.value("calendar-name"):
        reason = f"leaves out days of the calendar {calendar}, which is not in the file"
        return ImportRefusal(reason, "a calendar in the definition: `dueledger calendar import`")
    return None


def _instant(
    trigger: XmlElement, name: str, anew: NewDefinitionFields
) -> str | ImportRefusal | None:
    """Return a time of a trigger, None if it has none. Without an offset it is the JVM's."""
    text = trigger.value(name)
    if text is None:
        return None
    at = instant_of_text(text, anew.zone or "UTC")
    if isinstance(at, str) and anew.zone is None and not has_offset(text):
        return ImportRefusal(f"its {name} does not name a time zone", "--timezone Europe/Berlin")
    return at


def _cron(
    trigger: XmlElement, zone: str, _: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    read = read_java_cron(trigger.value("cron-expression") or "", zone, JavaDialect.QUARTZ)
    return read if isinstance(read, ImportRefusal) else _bounded(trigger, read, zone, anew)


def _bounded(
    trigger: XmlElement, read: TranslatedSchedule, zone: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    """Add the start and the end. Quartz' cron triggers include the end, the others do not."""
    when = dict(read.when)
    for field, bound in (("start-time", "start"), ("end-time", "end")):
        at = _instant(trigger, field, anew)
        if isinstance(at, str) and "every" not in when:
            at = local_time_of(at, zone)
        if isinstance(at, ImportRefusal):
            return at
        if at is not None and (bound == "end" or "every" not in when):
            when[bound] = second_after(at) if bound == "end" and "cron" in when else at
    return replace(read, when=when)


def _simple(
    trigger: XmlElement, _: str, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    interval, count = _number(trigger, "repeat-interval"), _number(trigger, "repeat-count")
    if count != -1:
        reason = "ends after a number of starts that is counted from its own"
        return ImportRefusal(reason, "`at` for one, or a repeat-count of -1")
    if not interval or interval < 0:
        return ImportRefusal("has no repeat-interval in milliseconds", "a whole number")
    return _rate(trigger, timedelta(milliseconds=interval), name, anew)


def _calendar_interval(
    trigger: XmlElement, zone: str, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    interval, unit = _number(trigger, "repeat-interval"), trigger.value("repeat-interval-unit")
    units = (*_INTERVALS, *_FREQUENCIES)
    if not interval or not 0 < interval <= 10**6 or unit not in units:
        reason = "has no repeat-interval, or no repeat-interval-unit that is known"
        return ImportRefusal(reason, f"a whole number, and {' or '.join(units)}")
    if unit in _INTERVALS:
        return _rate(trigger, interval * _INTERVALS[unit], name, anew)
    if trigger.value("start-time") is None:
        return ImportRefusal("has no start-time from which it counts", "a start-time")
    rule = f"FREQ={_FREQUENCIES[unit]};INTERVAL={interval}"
    read = _bounded(trigger, TranslatedSchedule({"rrule": rule, "timezone": zone}), zone, anew)
    if isinstance(read, ImportRefusal):
        return read
    if unit in {"MONTH", "YEAR"} and int(str(read.when["start"])[8:10]) > _DAYS_CERTAIN:
        reason = "begins on a day that some months lack, and goes on from their last one"
        return ImportRefusal(reason, "a cron trigger with `L`")
    return read


def _rate(
    trigger: XmlElement, period: timedelta, name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    if period < timedelta(seconds=1) or period.microseconds:
        return ImportRefusal("its interval is not of whole seconds", "one second or more")
    read = TranslatedSchedule(fixed_rate(period, anew.anchor, name), (OpenQuestion.PHASE,))
    anchor = _instant(trigger, "start-time", anew)
    if isinstance(anchor, ImportRefusal):
        return anchor
    if anchor is not None:
        read = TranslatedSchedule({"every": period_text(period), "anchor": anchor})
    return _bounded(trigger, read, "UTC", anew)


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
