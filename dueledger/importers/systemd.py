"""Timers of systemd as definitions: `.timer` units, their drop-ins, or what `systemctl cat` prints.

Each line that makes a timer elapse again is a definition, or left out with the reason, after
systemd.timer(5). systemd starts no unit that is still active: `overlap: skip`. The handler does
what the unit did.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from dueledger.importers.import_result import (
    ImportRefusal,
    ImportResult,
    OpenQuestion,
    ReportedLine,
)
from dueledger.importers.on_calendar import read_on_calendar
from dueledger.importers.source_files import import_path
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
    hashed_name,
)
from dueledger.importers.systemd_units import (
    TIMER,
    TimerUnit,
    UnitLine,
    is_link_within,
    read_units,
    real_path,
)
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "SystemdTimerDue"

_SPAN: Final = re.compile(r"(?P<value>\d{1,9})\s*(?P<unit>[a-zA-Z]*)\s*", re.ASCII)
_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("us", "usec"), 1),
    **dict.fromkeys(("ms", "msec"), 1_000),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}
"""In microseconds. Months and years have no fixed length."""
_SPAN_MICROS_MAX: Final = 3_650 * 86_400_000_000
_ZERO: Final = frozenset(("0", "0s"))
_ACCURACY: Final = timedelta(minutes=1)
"""systemd's default for `AccuracySec=`: no timer is more exact unless it says so."""
_BOOT_MEANING: Final = "counts from the start of the machine: not a time"
_CLOCK_MEANING: Final = "elapses when somebody sets the clock or its zone: not a time"
_EVENTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("OnBootSec", "OnStartupSec", "OnActiveSec"), _BOOT_MEANING),
    **dict.fromkeys(("OnClockChange", "OnTimezoneChange"), _CLOCK_MEANING),
}
_RELATIVE: Final = frozenset(("OnUnitActiveSec", "OnUnitInactiveSec"))
_TIMES: Final = _RELATIVE | {"OnCalendar"}
_LIST: Final = _TIMES | {"OnBootSec", "OnStartupSec", "OnActiveSec"}
"""One list for systemd: an empty value of any of them empties it."""
_SCALARS: Final = frozenset(
    (
        *("AccuracySec", "RandomizedDelaySec", "RandomizedOffsetSec", "FixedRandomDelay"),
        *("DeferReactivation", "Persistent", "RemainAfterElapse", "Unit", "WakeSystem"),
    )
)
_TRUE: Final = frozenset(("1", "yes", "y", "true", "t", "on"))
_FALSE: Final = frozenset(("0", "no", "n", "false", "f", "off"))


def import_systemd(path: Path, anew: NewDefinitionFields) -> ImportResult:
    """Read a file, or every timer below a folder with its drop-ins."""
    drop_ins: set[Path] = set()

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        if is_link_within(file, path):
            found.reported.append(ReportedLine(where, file.name, "a link to a timer that is read"))
            return
        units = read_units(file, where, drop_ins)
        if not units:
            found.skip_job(where, "", ImportRefusal("has no timer", "what `systemctl cat` prints"))
        for unit in units:
            _add_timer(found, unit, anew)

    found = import_path(path, (TIMER,), import_file)
    for each in sorted(path.rglob("*timer.d/*.conf")) if path.is_dir() else ():
        if f".{each.parent.name}".endswith(f"{TIMER}.d") and real_path(each) not in drop_ins:
            reason = "is a drop-in of a timer that is not in the folder"
            accepted = "the timer beside it, or what `systemctl cat` prints"
            found.skip_job(str(each.relative_to(path)), "", ImportRefusal(reason, accepted))
    return found


def _add_timer(found: ImportResult, timer: TimerUnit, anew: NewDefinitionFields) -> None:
    in_force = list(_in_force(found, timer))
    times = [line for line in in_force if line.name in _TIMES]
    events = [line for line in in_force if line.name in _EVENTS]
    for line in events:
        if times:
            _report(found, timer, line, _EVENTS[line.name])
        else:
            refusal = ImportRefusal(_EVENTS[line.name], "a service's own start, or OnCalendar=")
            found.skip_job(line.where, f"{timer.name} {line.name}", refusal)
    if not (times or events):
        reason = "has no OnCalendar=, OnUnitActiveSec= or OnUnitInactiveSec="
        found.skip_job(timer.where, timer.name, ImportRefusal(reason, "OnCalendar="))
    for line in times:
        read = _refused(timer, line, times) or _schedule(timer, line, anew)
        if isinstance(read, ImportRefusal):
            found.skip_job(line.where, f"{timer.name} {line.value}", read)
        else:
            add_job(found, _job(timer, line, read, count=len(times)), anew)


def _report(found: ImportResult, timer: TimerUnit, line: UnitLine, meaning: str) -> None:
    found.reported.append(ReportedLine(line.where, f"{timer.name} {line.name}".strip(), meaning))


def _in_force(found: ImportResult, timer: TimerUnit) -> Iterator[UnitLine]:
    """Yield the lines that make the timer elapse, and report those that systemd ignores."""
    elapses: list[UnitLine] = []
    for line in timer.lines:
        known = line.name in _LIST | _EVENTS.keys() | _SCALARS
        if line.section != "Timer":
            if known:
                _report(found, timer, line, "is not in [Timer]: systemd ignores it")
        elif not known:
            _report(found, timer, line, "is not a setting of a timer: systemd ignores it")
        elif line.name in _LIST and not line.value:
            for undone in (each for each in elapses if each.name in _LIST):
                _report(found, timer, undone, f"is undone by the empty {line.name}= after it")
            elapses = [each for each in elapses if each.name not in _LIST]
        elif line.name in _LIST:
            elapses.append(line)
        elif line.name in _EVENTS:  # a boolean: the last one counts
            elapses = [each for each in elapses if each.name != line.name or not line.value]
            elapses += [line] if line.value.lower() in _TRUE else []
    yield from elapses


def _refused(timer: TimerUnit, line: UnitLine, times: Sequence[UnitLine]) -> ImportRefusal | None:
    if timer.name.endswith(f"@{TIMER}"):
        reason = "is of a template, whose instances are not in the file"
        return ImportRefusal(reason, "a file for each instance, such as name@instance.timer")
    if "%" in line.value:
        return ImportRefusal("has a specifier, which systemd replaces", "its value")
    if line.name in _RELATIVE and len(times) > 1:
        reason = f"{line.name}= counts from starts that the other lines of the timer cause, too"
        return ImportRefusal(reason, "a timer of its own")
    return None


def _schedule(
    timer: TimerUnit, line: UnitLine, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    if line.name == "OnCalendar":
        return read_on_calendar(line.value, anew.zone)
    period = _span(line.value)
    if period is None:
        return ImportRefusal(f"`{line.value}` is not a time span", "1h 30min")
    if line.name == "OnUnitInactiveSec":
        return TranslatedSchedule({"after_completion": period_text(period)})
    rate = fixed_rate(period, anew.anchor, timer.name)
    return TranslatedSchedule(rate, (OpenQuestion.PHASE,))


def _job(timer: TimerUnit, line: UnitLine, read: TranslatedSchedule, *, count: int) -> SourceJob:
    smear, notes = _spread(timer)
    notes += _unconverted(timer)
    if count > 1:
        notes.append("one of several lines of its timer: here two of them may run at once")
    # The first one counts: systemd ignores the others.
    units = [each for each in _values(timer, "Unit") if each] or [
        f"{PurePosixPath(timer.name).stem}.service"
    ]
    if "%" in units[0]:
        notes.append(f"Unit={units[0]} has a specifier, which systemd replaces")
    persistent = _flag(timer, "Persistent") and "cron" in read.when
    return SourceJob(
        where=line.where,
        name=hashed_name(timer.name.removesuffix(TIMER), f"{line.name}={line.value}"),
        kind=KIND,
        schedule=replace(read, smear=smear or None),
        payload={"unit": units[0]},
        overlap=None if "after_completion" in read.when else "skip",
        catch_up={"policy": "latest"} if persistent else None,
        description=_last(timer, "Description", section="Unit"),
        notes=tuple(notes),
    )


def _spread(timer: TimerUnit) -> tuple[timedelta, list[str]]:
    """Return over how long its starts are spread at random, and notes."""
    smear, notes = timedelta(), list[str]()
    for name in ("RandomizedDelaySec", "RandomizedOffsetSec"):
        text = _last(timer, name)
        span = _span(text) if text else None
        smear += span or timedelta()
        if text and span is None and text not in _ZERO:
            notes.append(f"{name}={text} is not converted: not a time span")
        elif span and (name == "RandomizedOffsetSec" or _flag(timer, "FixedRandomDelay")):
            notes.append(f"{name}= is the same at each start; here it is not")
    return smear, notes


def _unconverted(timer: TimerUnit) -> Iterator[str]:
    """Yield a note for each setting that has no counterpart."""
    accuracy = _last(timer, "AccuracySec")
    if accuracy and accuracy not in _ZERO and (_span(accuracy) or timedelta.max) > _ACCURACY:
        yield f"AccuracySec={accuracy} is not converted: it is due at its exact time"
    if _flag(timer, "WakeSystem"):
        yield "WakeSystem= is not converted: nothing wakes a machine"
    unit = [line.name for line in timer.lines if line.section == "Unit" and line.value]
    for name in dict.fromkeys(unit):
        if name.startswith(("Condition", "Assert")):
            yield f"{name}= is not converted: the timer started only where it held"


def _values(timer: TimerUnit, name: str, section: str = "Timer") -> list[str]:
    return [each.value for each in timer.lines if (each.section, each.name) == (section, name)]


def _last(timer: TimerUnit, name: str, section: str = "Timer") -> str | None:
    """Return the last value that is not empty: systemd ignores those of no number or truth."""
    return next((each for each in reversed(_values(timer, name, section)) if each), None)


def _flag(timer: TimerUnit, name: str) -> bool:
    values = [each.lower() for each in _values(timer, name)]
    return next((each in _TRUE for each in reversed(values) if each in _TRUE | _FALSE), False)


def _span(text: str) -> timedelta | None:
    """Return a time span of systemd, such as `1h 30min`; None if it is none, or zero."""
    micros, at = 0, 0
    while at < len(text):
        found = _SPAN.match(text, at)
        unit = None if found is None else _UNITS.get(found["unit"])
        if found is None or unit is None:
            return None
        micros += int(found["value"]) * unit
        at = found.end()
    return timedelta(microseconds=micros) if 0 < micros <= _SPAN_MICROS_MAX else None
