"""Spring's cron values in properties and YAML: each one a definition, or left out with the reason.

Most programs have the expression in an annotation, or a placeholder there whose value is in
`application.properties` or `application.yml`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from dueledger.importers.import_result import ImportRefusal, ImportResult
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    hashed_name,
)
from dueledger.importers.times import zone_of_java

KIND: Final = "SpringJobDue"
SWITCHED_OFF: Final = "-"
"""An expression of Spring that never matches."""

_NAMES_CRON: Final = re.compile(r"cron", re.IGNORECASE)
_ZONES: Final = ("zone", "time-zone", "timezone", "timeZone")
_FIELDS_MIN: Final = 5
_PROPERTY: Final = re.compile(r"(?P<key>[^\s=:]+)(?:\s*[=:\s]\s*(?P<value>.*))?")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value with its path, and a name that does not depend on those before it in a list."""

    where: str
    path: str
    name: str
    text: str


def is_placeholder(text: str) -> bool:
    """Return whether settings or an expression decide the value. A default may be in it."""
    return "${" in text or "#{" in text


def read_spring_cron(
    text: str, zone: str | None, dialect: JavaDialect = JavaDialect.SPRING
) -> TranslatedSchedule | ImportRefusal:
    """Return what an expression of a program means. `zone` is that of the JVM, if it is known."""
    if is_placeholder(text):
        reason = "its expression is a placeholder"
        return ImportRefusal(reason, "the file of settings that has its value, imported as well")
    if text.strip() == SWITCHED_OFF:
        return ImportRefusal("`-` switches it off: nothing of it is due", "an expression")
    if zone is None:
        reason = "the file does not name the time zone of its machine"
        return ImportRefusal(reason, "--timezone Europe/Berlin")
    return read_java_cron(text, zone_of_java(zone), dialect)


def add_spring_job(
    found: ImportResult,
    place: tuple[str, str],
    read: TranslatedSchedule | ImportRefusal,
    payload: Mapping[str, object],
    anew: NewDefinitionFields,
) -> None:
    """Import a job of a program, or list why not. `place` is where it is, and its name."""
    where, name = place
    if isinstance(read, ImportRefusal):
        found.skip_job(where, name, read)
        return
    overlap = None if "after_completion" in read.when else "skip"
    job = SourceJob(
        where=where, name=name, kind=KIND, schedule=read, payload=payload, overlap=overlap
    )
    add_job(found, job, anew)


def import_settings(
    settings: Sequence[Setting],
    anew: NewDefinitionFields,
    dialect: JavaDialect,
    found: ImportResult,
) -> None:
    """Import the cron values among the settings of a document; the last of one path counts.

    A value is one if its own name has `cron` in it, or a name above it has and it looks like one.
    A `zone` beside it is its time zone.
    """
    last = {each.path: each for each in settings}
    for each in settings:
        above, _, own = each.path.rpartition(".")
        looks = each.text.startswith("@") or len(each.text.split()) >= _FIELDS_MIN
        if not _NAMES_CRON.search(own) and not (_NAMES_CRON.search(above) and looks):
            continue
        if not looks and each.text.strip().lower() in {"true", "false"}:
            continue
        if each is not last[each.path]:
            reason = f"is set again at {last[each.path].where}, which counts"
            found.skip_job(each.where, each.path, ImportRefusal(reason, "one of the two"))
            continue
        beside = (last.get(f"{above}.{name}" if above else name) for name in _ZONES)
        zone = next((one.text for one in beside if one), None) or anew.zone
        read = read_spring_cron(each.text, zone, dialect)
        add_spring_job(found, (each.where, each.name), read, {"setting": each.path}, anew)


def properties_of(text: str, where: str) -> list[Setting]:
    """Return the settings of a `.properties` file, or of a plain list of `NAME = EXPRESSION`."""
    settings: list[Setting] = []
    joined = ""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not joined and stripped.startswith(("#", "!")):
            continue
        joined += stripped.removesuffix("\\")
        if stripped.endswith("\\") and number <= text.count("\n"):
            continue
        if found := _PROPERTY.fullmatch(joined):
            path, value = found["key"], (found["value"] or "").strip()
            settings.append(Setting(f"{where}:{number}", path, path, value))
        joined = ""
    return settings


def settings_of(document: object, where: str) -> list[Setting]:
    """Return the values of a YAML or JSON document by their paths."""
    return list(_settings(document, Setting(where, "", "", "")))


def _settings(value: object, at: Setting) -> Iterator[Setting]:
    if isinstance(value, dict):
        for key, each in cast("dict[object, object]", value).items():
            path, name = (f"{one}.{key}" if one else str(key) for one in (at.path, at.name))
            yield from _settings(each, replace(at, path=path, name=name))
    elif isinstance(value, list):
        for place, each in enumerate(cast("list[object]", value)):
            path, name = f"{at.path}[{place}]", f"{at.name}[{_member_name(each)}]"
            yield from _settings(each, replace(at, path=path, name=name))
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value or "")
        yield replace(at, text=text)


def _member_name(member: object) -> str:
    """Name a member of a list by what it says: its place depends on those before it."""
    said = repr(member)
    named = cast("dict[object, object]", member).get("name") if isinstance(member, dict) else None
    return named if isinstance(named, str) else hashed_name("", said).lstrip("-")
