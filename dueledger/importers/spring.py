"""Spring's schedules: `@Scheduled` in Java or Kotlin, and cron values in properties and YAML.

Most programs have the expression in the annotation, or a placeholder there whose value is in
`application.properties` or `application.yml`. Spring forgets what it missed, and starts no method
while its run before goes on: `overlap: skip`.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final, cast

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
)
from dueledger.ledger.schedule.expressions import period_text

KIND: Final = "SpringJobDue"
SWITCHED_OFF: Final = "-"
"""An expression of Spring that never matches."""

_ANNOTATION: Final = re.compile(
    r'@Scheduled\s*\((?P<arguments>(?:[^()"]|"(?:[^"\\\n]|\\.)*"){0,2000})\)'
)
_OTHER_ANNOTATION: Final = re.compile(
    r'@\w+(?:\s*\((?:[^()"]|"(?:[^"\\\n]|\\.)*"){0,2000}\))?|[\s,)}]+'
)
_METHOD: Final = re.compile(r"[\w<>\[\]?,.\s]{0,300}?\b(?P<name>\w{1,200})\s{0,20}\(")
_CLASS: Final = re.compile(r"\b(?:class|interface|object)\s+(?P<name>[A-Za-z_]\w*)")
_ARGUMENT: Final = re.compile(
    r'\b(?P<name>\w{1,40})\s{0,20}=\s{0,20}(?:"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<word>[\w.]+))'
)
_MILLISECONDS: Final = re.compile(r"(?P<number>\d{1,12})L?", re.ASCII)
_UNITS: Final[Mapping[str, int]] = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}
_LITERAL_OR_COMMENT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*')
_NAMES_CRON: Final = re.compile(r"cron", re.IGNORECASE)
_ENDING: Final = re.compile(r"[._-]?cron(?:[._-]?expression)?$", re.IGNORECASE)
_ZONES: Final = ("zone", "time-zone", "timezone", "timeZone")
_FIELDS_MIN: Final = 5
_PROPERTY: Final = re.compile(r"(?P<key>[^\s=:]+)\s*[=:\s]\s*(?P<value>.*)")
_ANNOTATIONS_MAX: Final = 64  # of one method, with what stands between them
_DEPTH_MAX: Final = 24
_HASH_CHARS: Final = 6


def import_annotations(
    text: str, where: str, anew: NewDefinitionFields, found: ImportResult
) -> None:
    """Import every `@Scheduled` of a source file."""
    code = _without_comments(text)
    lines = [found.start() for found in re.finditer("\n", code)]
    classes = [(0, "Unnamed"), *((each.start(), each["name"]) for each in _CLASS.finditer(code))]
    names: set[str] = set()
    for annotation in _ANNOTATION.finditer(code):
        line = bisect_left(lines, annotation.start()) + 1
        owner = classes[bisect_left(classes, (annotation.start(), "")) - 1][1]
        arguments = {
            each["name"]: each["text"] if each["text"] is not None else each["word"]
            for each in _ARGUMENT.finditer(annotation["arguments"])
        }
        method = _method(code, annotation)
        name = full_name = f"{owner}.{method}" if method else owner
        if name in names:
            mark = hashlib.sha256(annotation["arguments"].encode()).hexdigest()[:_HASH_CHARS]
            name = f"{name}-{mark}"
        names.add(name)
        read = _of_annotation(arguments, name, anew)
        _add(found, (f"{where}:{line}", name), read, {"method": full_name}, anew)


def _without_comments(text: str) -> str:
    """Return a source with comments as blanks, so that lines keep their numbers."""
    kept: list[str] = []
    at = 0
    while found := _LITERAL_OR_COMMENT.search(text, at):
        kept.append(text[at : found.start()])
        if found[0] == "/*":
            end = text.find("*/", found.end())
            end = len(text) if end < 0 else end + 2
            kept.append("\n" * text.count("\n", found.start(), end))
        else:
            end = found.end()
            kept.append(found[0] if found[0].startswith('"') else "")
        at = end
    kept.append(text[at:])
    return "".join(kept)


def _method(code: str, annotation: re.Match[str]) -> str | None:
    at = annotation.end()
    for _ in range(_ANNOTATIONS_MAX):
        other = _OTHER_ANNOTATION.match(code, at)
        if other is None:
            break
        at = other.end()
    method = _METHOD.match(code, at)
    return method["name"] if method else None


def _of_annotation(
    arguments: Mapping[str, str], name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    if (text := arguments.get("cron")) is not None:
        zone = arguments.get("zone") or anew.zone
        return _cron(text, zone, JavaDialect.SPRING)
    unit = _UNITS.get(arguments.get("timeUnit", "MILLISECONDS").rpartition(".")[2], 0)
    for field in ("fixedRate", "fixedRateString", "fixedDelay", "fixedDelayString"):
        text = arguments.get(field)
        if text is None:
            continue
        found = _MILLISECONDS.fullmatch(text)
        milliseconds = int(found["number"]) * unit if found else 0
        if milliseconds < 1_000 or milliseconds % 1_000 or milliseconds > 10**12:  # noqa: PLR2004 - a second
            return ImportRefusal(f"{field} is not a number of whole seconds", "a value, not a name")
        period = timedelta(milliseconds=milliseconds)
        if field.startswith("fixedDelay"):
            return TranslatedSchedule({"after_completion": period_text(period)})
        return TranslatedSchedule(fixed_rate(period, anew.anchor, name), (OpenQuestion.PHASE,))
    return ImportRefusal("has no cron, fixedRate or fixedDelay that is a value", 'cron = "…"')


def _cron(text: str, zone: str | None, dialect: JavaDialect) -> TranslatedSchedule | ImportRefusal:
    if "${" in text or "#{" in text:
        reason = "its expression is a placeholder"
        return ImportRefusal(reason, "the file of settings that has its value, imported as well")
    if text.strip() == SWITCHED_OFF:
        return ImportRefusal("`-` switches it off: nothing of it is due", "an expression")
    if zone is None:
        reason = "the file does not name the time zone of its machine"
        return ImportRefusal(reason, "--timezone Europe/Berlin")
    return read_java_cron(text, zone, dialect)


def _add(
    found: ImportResult,
    place: tuple[str, str],
    read: TranslatedSchedule | ImportRefusal,
    payload: Mapping[str, object],
    anew: NewDefinitionFields,
) -> None:
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
    settings: Mapping[str, tuple[str, str]],
    anew: NewDefinitionFields,
    dialect: JavaDialect,
    found: ImportResult,
) -> None:
    """Import the cron values among settings, which come with their places.

    A value is one if its own name has `cron` in it, or a name above it has and it looks like one.
    A `zone` beside it is its time zone.
    """
    for path, (where, value) in settings.items():
        above, _, own = path.rpartition(".")
        looks = value.startswith("@") or len(value.split()) >= _FIELDS_MIN
        if not _NAMES_CRON.search(own) and not (_NAMES_CRON.search(above) and looks):
            continue
        if not looks and value.strip().lower() in {"true", "false"}:
            continue
        beside = (settings.get(f"{above}.{name}" if above else name) for name in _ZONES)
        zone = next((each[1] for each in beside if each), None) or anew.zone
        name = _ENDING.sub("", path) or path
        read = _cron(value, zone, dialect)
        _add(found, (where, name), read, {"setting": path}, anew)


def properties_of(text: str, where: str) -> dict[str, tuple[str, str]]:
    """Return the settings of a `.properties` file, or of a plain list of `NAME = EXPRESSION`."""
    settings: dict[str, tuple[str, str]] = {}
    joined = ""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not joined and stripped.startswith(("#", "!")):
            continue
        joined += stripped
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if found := _PROPERTY.fullmatch(joined):
            settings[found["key"]] = (f"{where}:{number}", found["value"].strip())
        joined = ""
    return settings


def settings_of(document: object, where: str) -> dict[str, tuple[str, str]]:
    """Return the texts of a YAML or JSON document by their paths."""
    return {path: (where, text) for path, text in _texts(document, "", 0)}


def _texts(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, each in cast("dict[object, object]", value).items():
            yield from _texts(each, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list):
        for place, each in enumerate(cast("list[object]", value)):
            yield from _texts(each, f"{path}[{place}]", depth + 1)
