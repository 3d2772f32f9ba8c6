"""Timers of systemd as definitions: `.timer` units, their drop-ins, or what `systemctl cat` prints.

systemd starts no unit that is still active: `overlap: skip`. The handler does what the unit did.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
)
from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "SystemdTimerDue"

_LINE_CHARS_MAX: Final = 4_096
_UNIT_HEADER: Final = re.compile(
    r"# (?P<path>/\S+/(?P<unit>[^/\s]+\.timer)(?:\.d/[^/\s]+\.conf)?)", re.ASCII
)
_SECTION: Final = re.compile(r"\[(?P<name>[^\]]+)\]")
_SETTING: Final = re.compile(r"(?P<name>[A-Za-z]+)\s*=\s*(?P<value>.*)", re.ASCII)
_SPAN: Final = re.compile(r"(?P<value>\d{1,9})\s*(?P<unit>[a-zA-Z]*)\s*", re.ASCII)
_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
"""In seconds. Months and years have no fixed length."""
_SPAN_SECONDS_MAX: Final = 315_360_000
_BOOT: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_TRUE: Final = frozenset(("1", "yes", "y", "true", "t", "on"))
_HASH_CHARS: Final = 6


@dataclass(slots=True)
class _Timer:
    """The settings of one unit: each with its values and their places, in order."""

    name: str
    settings: dict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[str, str]]](list)
    )

    def last(self, name: str) -> str | None:
        """Return the value that counts where the last one does."""
        values = self.settings.get(name)
        return values[-1][1] if values else None


def import_systemd(path: Path, anew: NewDefinitionFields) -> ImportResult:
    """Read a file, or every timer below a folder with its drop-ins."""

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        lines = _located(file, where)
        for drop_in in sorted(file.with_name(f"{file.name}.d").glob("*.conf")):
            lines += _located(drop_in, f"{where}.d/{drop_in.name}")
        for timer in _timers(lines, file.name):
            _add_timer(found, timer, anew)

    return import_path(path, (".timer",), import_file)


def _located(file: Path, where: str) -> list[tuple[str, str]]:
    text = read_text(file, DEFINITION_BYTES_MAX)
    return [(f"{where}:{number}", line) for number, line in enumerate(text.split("\n"), start=1)]


def _timers(lines: Sequence[tuple[str, str]], file_name: str) -> Iterator[_Timer]:
    """Yield the timers of a file; what `systemctl cat` prints has a header for each."""
    timers: dict[str, _Timer] = {}
    unit, section, joined = file_name, "", ""
    for where, line in lines:
        if header := _UNIT_HEADER.fullmatch(line[:_LINE_CHARS_MAX].strip()):
            unit, section = header["unit"], ""
            continue
        text = (joined + line.strip())[:_LINE_CHARS_MAX]
        if text.startswith(("#", ";")):
            continue
        if text.endswith("\\"):
            joined = text[:-1] + " "
            continue
        joined = ""
        if found := _SECTION.fullmatch(text):
            section = found["name"]
        elif (found := _SETTING.fullmatch(text)) and section in {"Unit", "Timer"}:
            settings = timers.setdefault(unit, _Timer(unit)).settings[found["name"]]
            if not found["value"]:
                settings.clear()  # an empty value undoes those before it
            else:
                settings.append((where, found["value"].strip()))
    yield from timers.values()


def _add_timer(found: ImportResult, timer: _Timer, anew: NewDefinitionFields) -> None:
    schedules = list(_schedules(timer, anew))
    for where, name in _from_boot(timer) if schedules else ():
        meaning = "counts from the start of the machine: not a time"
        found.reported.append(ReportedLine(where, f"{timer.name} {name}", meaning))
    if not schedules:
        reason = "has no OnCalendar=, OnUnitActiveSec= or OnUnitInactiveSec="
        refusal = ImportRefusal(reason, "a service's own start, or OnCalendar=")
        found.skip_job(timer.name, timer.name, refusal)
    for place, (where, text, read) in enumerate(schedules):
        if isinstance(read, ImportRefusal):
            found.skip_job(where, f"{timer.name} {text}", read)
            continue
        stem = timer.name.removesuffix(".timer")
        mark = hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]
        name = stem if place == 0 else f"{stem}-{mark}"
        add_job(found, _job(where, timer, name, read), anew)


def _from_boot(timer: _Timer) -> Iterator[tuple[str, str]]:
    return ((where, name) for name in _BOOT for where, _ in timer.settings.get(name, ()))


def _schedules(
    timer: _Timer, anew: NewDefinitionFields
) -> Iterator[tuple[str, str, TranslatedSchedule | ImportRefusal]]:
    """Yield each line that makes the timer elapse again and again."""
    for where, text in timer.settings.get("OnCalendar", ()):
        yield where, text, read_on_calendar(text, anew.zone)
    for name in ("OnUnitActiveSec", "OnUnitInactiveSec"):
        for where, text in timer.settings.get(name, ()):
            period = _span(text)
            if period is None:
                yield where, text, ImportRefusal(f"`{text}` is not a time span", "1h 30min")
            elif name == "OnUnitInactiveSec":
                yield where, text, TranslatedSchedule({"after_completion": period_text(period)})
            else:
                rate = fixed_rate(period, anew.anchor, timer.name)
                yield where, text, TranslatedSchedule(rate, (OpenQuestion.PHASE,))


def _job(where: str, timer: _Timer, name: str, read: TranslatedSchedule) -> SourceJob:
    notes: list[str] = []
    delay = timer.last("RandomizedDelaySec")
    smear = _span(delay) if delay else None
    if delay and smear is None and delay.strip() not in {"0", "0s"}:
        notes.append(f"RandomizedDelaySec={delay} is not converted: not a time span")
    persistent = (timer.last("Persistent") or "").lower() in _TRUE
    unit = timer.last("Unit") or f"{PurePosixPath(timer.name).stem}.service"
    return SourceJob(
        where=where,
        name=name,
        kind=KIND,
        schedule=replace(read, smear=smear),
        payload={"unit": unit},
        overlap=None if "after_completion" in read.when else "skip",
        catch_up={"policy": "latest"} if persistent and "cron" in read.when else None,
        description=timer.last("Description"),
        notes=tuple(notes),
    )


def _span(text: str) -> timedelta | None:
    """Return a time span of systemd, such as `1h 30min`; None if it is none, or zero."""
    seconds, at = 0, 0
    while at < len(text):
        found = _SPAN.match(text, at)
        unit = None if found is None else _UNITS.get(found["unit"])
        if found is None or unit is None:
            return None
        seconds += int(found["value"]) * unit
        at = found.end()
    return timedelta(seconds=seconds) if 0 < seconds <= _SPAN_SECONDS_MAX else None
