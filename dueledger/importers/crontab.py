"""Crontabs, of a user or of the system, as definitions.

cron runs a line by its machine's clock, drops runs that it missed, and records nothing. Each line
becomes a schedule whose payload has the command, for a handler that runs it.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final

from dueledger.importers.cron_text import Scheduler, read_cron
from dueledger.importers.import_result import (
    ImportRefusal,
    ImportResult,
    OpenQuestion,
    ReportedLine,
)
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    add_job,
    hashed_name,
    seems_secret,
)

KIND: Final = "CrontabJobDue"

_ENVIRONMENT: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*|\"[^\"]+\"|'[^']+')\s*=\s*(?P<value>.*)", re.ASCII
)
_TIMES: Final = re.compile(r"\s*(?P<times>@\S+|\S+(?:\s+\S+){4})\s+(?P<rest>.*\S)\s*")
_FIELD: Final = re.compile(r"[\d*/,?~a-z#-]+", re.ASCII | re.IGNORECASE)
_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.ASCII | re.IGNORECASE)
_HEADER: Final = re.compile(r"m\s+h\s+(dom|dayofmonth)\s+mon\s+dow\b.*", re.IGNORECASE)
_USERS_OF_SYSTEMS: Final = frozenset(
    ("root", "daemon", "nobody", "www-data", "apache", "nginx", "postgres", "mysql", "backup")
)
_CHANGES_FOLDER: Final = re.compile(r"cd\s[^;&|]*(&&|;)")
_UNESCAPED_PERCENT: Final = re.compile(r"(?<!\\)%")
_MINUTES: Final = re.compile(r"\d{1,4}", re.ASCII)
_NAME_CHARS_MAX: Final = 80
_ROW_CHARS_MAX: Final = 4_096


@dataclass(slots=True)
class _Environment:
    """What the lines so far set for the jobs after them."""

    zone: str | None = None
    mail_to: str | None = None
    command_zone: str | None = None
    random_delay: timedelta | None = None


@dataclass(frozen=True, slots=True)
class _CrontabJob:
    """A job as written in the crontab."""

    where: str
    times: str
    user: str | None
    command: str
    description: str | None
    environment: _Environment


@dataclass(slots=True)
class _CrontabReader:
    found: ImportResult = field(default_factory=ImportResult)
    lines: list[_CrontabJob] = field(default_factory=list[_CrontabJob])
    environment: _Environment = field(default_factory=_Environment)
    comments: list[str] = field(default_factory=list[str])


def import_crontab(
    text: str, file: str, anew: NewDefinitionFields, *, of_system: bool = False
) -> ImportResult:
    """Import every job of a crontab, or list why not; note what every other line means.

    Without `anew.zone`, `CRON_TZ` must name a zone. In a crontab of the system each command has a
    user before it.
    """
    reading = _CrontabReader()
    rows = text.split("\n")
    for number, row in enumerate(rows, start=1):
        _read_row(
            reading, f"{file}:{number}", row.removesuffix("\r"), anew.zone, of_system=of_system
        )
    if rows[-1].strip() and not rows[-1].lstrip().startswith("#"):
        meaning = "the last line has no newline; several crons ignore it: check whether it ran"
        reading.found.reported.append(ReportedLine(f"{file}:{len(rows)}", "", meaning))
    for line in reading.lines:
        _add_line(reading.found, line, anew)
    reading.found.skipped.sort(key=lambda one: int(one.where.rpartition(":")[2]))
    return reading.found


def _read_row(
    reading: _CrontabReader, where: str, row: str, zone: str | None, *, of_system: bool
) -> None:
    text = row.strip()
    if len(text) > _ROW_CHARS_MAX:
        reason = f"is longer than {_ROW_CHARS_MAX:,} characters, and crons cut lines at a thousand"
        reading.found.skip_job(where, "", ImportRefusal(reason, "a script that the line calls"))
        reading.comments.clear()
    elif not text:
        reading.comments.clear()
    elif text.startswith("#"):
        _read_comment(reading, where, text.lstrip("#").strip())
    elif found := _ENVIRONMENT.fullmatch(row):
        name, value = found["name"].strip("\"'"), found["value"].strip().strip("\"'")
        reading.found.reported.append(
            ReportedLine(where, name, _set(reading.environment, name, value, zone))
        )
        reading.comments.clear()
    else:
        _read_job(reading, where, text, of_system=of_system)
        reading.comments.clear()


def _read_comment(reading: _CrontabReader, where: str, comment: str) -> None:
    if _HEADER.fullmatch(comment):
        return
    job = _TIMES.fullmatch(comment)
    if job and _looks_like_times(job["times"]):
        meaning = "a job in a comment: it counts as switched off"
        reading.found.reported.append(ReportedLine(where, job["times"], meaning))
        reading.comments.clear()
    elif comment:
        reading.comments.append(comment)


def _looks_like_times(times: str) -> bool:
    fields = times.split()
    if len(fields) == 1:
        return fields[0].startswith("@")
    return all(_FIELD.fullmatch(each) for each in fields) and any(
        character in "*0123456789" for character in times
    )


def _set(environment: _Environment, name: str, value: str, zone: str | None) -> str:
    """Read an environment line, and note what it means here. Values may be secrets."""
    match name:
        case "CRON_TZ":
            environment.zone = value
            return f"the jobs after it are read in {value}; Debian's cron ignores the line"
        case "TZ":
            environment.command_zone = value
            if zone is None and environment.zone is None:
                return (
                    f"{value} for commands; cronie and Debian's cron read schedules in the "
                    "machine's zone, Solaris in this one: choose with --timezone"
                )
            return f"{value} for commands, not for schedules"
        case "MAILTO":
            environment.mail_to = value or None
            return "receives the output; used as the owner of the jobs after it"
        case "RANDOM_DELAY":
            environment.random_delay = _minutes(value)
            delayed = "delays every start by up to as many random minutes: `smear`"
            return (
                delayed if environment.random_delay else "delays no start: not a number of minutes"
            )
        case _:
            return "for commands: set it where the handler runs"


def _minutes(value: str) -> timedelta | None:
    minutes = int(value) if _MINUTES.fullmatch(value) else 0
    return timedelta(minutes=minutes) if minutes else None


def _read_job(reading: _CrontabReader, where: str, text: str, *, of_system: bool) -> None:
    found = _TIMES.fullmatch(text)
    if found is None:
        macro = text.split(maxsplit=1)[0] if text.startswith("@") else ""
        refusal = ImportRefusal(
            "is not times and a command", "five fields, or @daily, and a command"
        )
        reading.found.skip_job(where, macro, refusal)
        return
    times, command, user = found["times"], found["rest"], None
    if of_system:
        user, command = (*command.split(maxsplit=1), "")[:2]
        if not _USER.fullmatch(user) or not command:
            refusal = ImportRefusal(
                "a system crontab has a user before the command", "without --system"
            )
            reading.found.skip_job(where, times, refusal)
            return
    elif command.split()[0] in _USERS_OF_SYSTEMS:
        reason = f"`{command.split()[0]}` is a user, as in a system crontab"
        reading.found.skip_job(where, times, ImportRefusal(reason, "--system"))
        return
    reading.lines.append(
        _CrontabJob(
            where,
            times,
            user,
            command,
            " ".join(reading.comments) or None,
            replace(reading.environment),
        )
    )


def _add_line(found: ImportResult, line: _CrontabJob, anew: NewDefinitionFields) -> None:
    zone = line.environment.zone or anew.zone
    if zone is None and line.times.lower() != "@reboot":
        reason = "the crontab does not name the time zone of its machine"
        found.skip_job(line.where, line.times, ImportRefusal(reason, "--timezone Europe/Berlin"))
        return
    read = read_cron(line.times, zone or "UTC", Scheduler.CRON)
    if isinstance(read, ImportRefusal):
        found.skip_job(line.where, line.times, read)
        return
    if read.smear and line.environment.command_zone and not line.environment.zone:
        reason = "Jenkins, whose `H` it has, reads `TZ=` as its zone, and crons do not"
        found.skip_job(line.where, line.times, ImportRefusal(reason, "CRON_TZ=, without TZ="))
        return
    if line.environment.random_delay is not None:
        read = replace(read, smear=(read.smear or timedelta()) + line.environment.random_delay)
    command, stdin = _percent(line.command)
    payload: dict[str, object] = {"command": command}
    payload |= {"stdin": stdin} if stdin is not None else {}
    payload |= {"user": line.user} if line.user else {}
    payload |= {"description": line.description} if line.description else {}
    job = SourceJob(
        where=line.where,
        name=_name(line),
        kind=KIND,
        schedule=read,
        payload=payload,
        labels={"user": line.user} if line.user else {},
        lane="user" if line.user else None,
        owner=line.environment.mail_to or line.user,
        description=line.description,
        questions=(OpenQuestion.SECRET,) if seems_secret(line.command) else (),
        notes=("% in the command is a new line",) if stdin is not None else (),
    )
    add_job(found, job, anew)


def _percent(command: str) -> tuple[str, str | None]:
    """Split a command from its standard input: the first bare `%` separates; more are newlines."""
    first, *others = _UNESCAPED_PERCENT.split(command)
    stdin = "\n".join(others).replace("\\%", "%") if others else None
    return first.replace("\\%", "%").rstrip(), stdin


def _name(line: _CrontabJob) -> str:
    """Name a job by its program and the text of its line, with the zone above it."""
    said = "\n".join((line.times, line.user or "", line.command, line.environment.zone or ""))
    return hashed_name(_program(line.command), said)


def _program(command: str) -> str:
    if changes := _CHANGES_FOLDER.match(command):
        command = command[changes.end() :]
    words = [word for word in command.split() if "=" not in word] or ["job"]
    name = PurePosixPath(words[0]).name or words[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:_NAME_CHARS_MAX] or "job"
