"""Spring's `@Scheduled` in Java or Kotlin: each one a definition, or left out with the reason.

Spring forgets what it missed, and starts no method while its run before goes on: `overlap: skip`.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from math import prod
from typing import Final

from pydantic_core import PydanticCustomError

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.source_job import (
    NewDefinitionFields,
    TranslatedSchedule,
    fixed_rate,
    hashed_name,
)
from dueledger.importers.spring import add_spring_job, is_placeholder, read_spring_cron
from dueledger.ledger.schedule.expressions import parse_period, period_text

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*"'
_FOUND: Final = re.compile(r"(?P<at>@(?:\w{1,40}:)?(?:\w{1,40}\.){0,10})?\b(?P<type>Scheduled?)\b")
_ARGUMENTS: Final = re.compile(rf'\s*\((?P<arguments>(?:[^()"]|{_TEXT}){{0,2000}})\)')
_CONTAINER: Final = re.compile(
    rf'@Schedules\s*\((?:[^()"]|{_TEXT}|\((?:[^()"]|{_TEXT}){{0,2000}}\)){{0,9000}}\)'
)
"""Kotlin writes the annotations inside it without `@`."""
_OTHER_ANNOTATION: Final = re.compile(
    rf'@(?!interface\b)\w+(?:\s*\((?:[^()"]|{_TEXT}){{0,2000}}\))?|\w+\s*\((?:[^()"]|{_TEXT}){{0,2000}}\)\s*[,)\]]'
    r"|[\s,)}\]]+"
)
_DECLARED: Final = re.compile(
    r"[\w\s]{0,200}?@interface\s{1,20}(?P<annotation>\w{1,200})"
    r"|[\w<>\[\]?,.\s]{0,300}?\b(?P<method>\w{1,200})\s{0,20}\("
)
_PART: Final = re.compile(rf'(?:[^,"]|{_TEXT})+')
_ARGUMENT: Final = re.compile(r"\s*(?P<name>\w{1,40})\s*=\s*(?P<value>.*\S)\s*", re.DOTALL)
_CONSTANT: Final = re.compile(_TEXT)
_INTEGERS: Final = re.compile(r"\d[\d_]{0,11}L?(?:\s*\*\s*\d[\d_]{0,11}L?){0,8}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,12}", re.ASCII)
_UNITS: Final[Mapping[str, int]] = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}
_LITERAL_OR_COMMENT: Final = re.compile(
    rf'"""(?:[^"\\]|\\.|"(?!""))*"""|{_TEXT}|\'(?:[^\'\\\n]|\\.){{1,8}}\'|//[^\n]*|/\*', re.DOTALL
)
_SCOPE: Final = re.compile(
    r"\b(?:class|interface|object|record|enum)\s+(?P<name>[A-Za-z_]\w*)|(?P<brace>[{}])"
)
_FOREIGN: Final = re.compile(r"\bimport\s+io\.(?P<name>quarkus|micronaut)\.[\w.]*\bScheduled\b")
_RATES: Final = ("fixedRate", "fixedRateString", "fixedDelay", "fixedDelayString")
_TEXTS: Final = frozenset(("cron", "zone"))
_ANNOTATIONS_MAX: Final = 64  # of one method, with what stands between them
_COMPOSED: Final = ImportRefusal(
    "is part of an annotation, which makes a schedule of each method that has it",
    "the same @Scheduled at each of these methods",
)


@dataclass(frozen=True, slots=True)
class _Source:
    """A source without comments. `blanked` has blanks for its literals, at the same places."""

    code: str
    blanked: str


def import_annotations(
    text: str, where: str, anew: NewDefinitionFields, found: ImportResult
) -> None:
    """Import every `@Scheduled` of a source file."""
    source = _without_comments(text)
    lines = [each.start() for each in re.finditer("\n", source.blanked)]
    owners = list(_owners(source.blanked))
    foreign = _FOREIGN.search(source.blanked)
    ends: dict[int, int | None] = {}
    for each in _annotations(source):
        place = f"{where}:{bisect_left(lines, each.start()) + 1}"
        owner = owners[bisect_left(owners, (each.start(), "")) - 1][1]
        given = _ARGUMENTS.match(source.code, each.end())
        declared = _declared(source.code, given.end(), ends) if given else None
        if declared and (composed := declared["annotation"]):
            found.skip_job(place, composed, _COMPOSED)
            continue
        full_name = f"{owner}.{declared['method']}" if declared else owner
        if foreign or each["type"] == "Schedule":
            reason = f"is of {foreign['name'] if foreign else 'Jakarta'}, not of Spring"
            found.skip_job(place, full_name, ImportRefusal(reason, "Spring's @Scheduled"))
            continue
        said = given["arguments"] if given else ""
        name = hashed_name(full_name, " ".join(said.split()))
        arguments = _arguments(said) if given else {"": None}
        read = _of_annotation(arguments, name, anew)
        add_spring_job(found, (place, name), read, {"method": full_name}, anew)


def _annotations(source: _Source) -> Iterator[re.Match[str]]:
    inside = [each.span() for each in _CONTAINER.finditer(source.code)]
    for found in _FOUND.finditer(source.blanked):
        before = bisect_left(inside, (found.start(), 0)) - 1
        if found["at"] or (before >= 0 and found.end() < inside[before][1]):
            yield found


def _without_comments(text: str) -> _Source:
    """Return a source with comments as blanks, so that lines keep their numbers."""
    kept: list[str] = []
    blanked: list[str] = []
    at = 0
    while found := _LITERAL_OR_COMMENT.search(text, at):
        before, literal, end = text[at : found.start()], found[0], found.end()
        if literal == "/*":
            end = text.find("*/", found.end())
            end = len(text) if end < 0 else end + 2
        if literal.startswith("/"):
            literal = "\n" * text.count("\n", found.start(), end)
        kept += (before, literal)
        blanked += (before, re.sub(r"[^\n]", " ", literal))
        at = end
    kept.append(text[at:])
    blanked.append(text[at:])
    return _Source("".join(kept), "".join(blanked))


def _owners(code: str) -> Iterator[tuple[int, str]]:
    """Yield from where on which class is the innermost one."""
    yield 0, "Unnamed"
    open_scopes = ["Unnamed"]
    declared = None
    for found in _SCOPE.finditer(code):
        if found["name"]:
            declared = found["name"]
        elif found["brace"] == "{":
            open_scopes.append(declared or open_scopes[-1])
            declared = None
            yield found.start(), open_scopes[-1]
        elif len(open_scopes) > 1:
            open_scopes.pop()
            yield found.start(), open_scopes[-1]


def _declared(code: str, at: int, ends: dict[int, int | None]) -> re.Match[str] | None:
    """Return the method or the annotation type that follows an annotation, and others of it.

    `ends` keeps where the annotation at a place ends: those before it pass it as well.
    """
    for _ in range(_ANNOTATIONS_MAX):
        if at not in ends:
            other = _OTHER_ANNOTATION.match(code, at)
            ends[at] = other.end() if other else None
        end = ends[at]
        if end is None:
            break
        at = end
    return _DECLARED.match(code, at)


def _arguments(text: str) -> dict[str, str | None]:
    """Return the arguments by name; None for a value that is not a constant here."""
    arguments: dict[str, str | None] = {}
    for part in _PART.finditer(text):
        found = _ARGUMENT.fullmatch(part[0])
        if found is None:
            if part[0].strip():
                arguments[""] = None
            continue
        name, value = found["name"], found["value"]
        if _CONSTANT.fullmatch(value):
            shown = value[1:-1].replace("\\$", "$")  # Kotlin has to escape it
            arguments[name] = None if "\\" in shown else shown
        elif _INTEGERS.fullmatch(value):
            numbers = value.replace("_", "").replace("L", "").split("*")
            arguments[name] = str(prod(int(each) for each in numbers))
        else:
            arguments[name] = None if name in _TEXTS else value
    return arguments


def _of_annotation(
    arguments: Mapping[str, str | None], name: str, anew: NewDefinitionFields
) -> TranslatedSchedule | ImportRefusal:
    given = [each for each in ("cron", *_RATES) if each in arguments]
    if len(given) != 1 and "" not in arguments:
        reason = "has no cron, fixedRate or fixedDelay that is a value, or several"
        return ImportRefusal(reason, 'one of them, as cron = "0 0 6 * * *"')
    if None in [arguments.get(each, "") for each in ("", "zone", *given)]:
        reason = "its arguments are not values: constants and parts are not read"
        return ImportRefusal(reason, 'cron = "0 0 6 * * *"')
    [field] = given
    text = arguments[field] or ""
    if field == "cron":
        return read_spring_cron(text, arguments.get("zone") or anew.zone)
    period = _period(text, arguments.get("timeUnit") or "MILLISECONDS")
    if period is None:
        what = "a placeholder" if is_placeholder(text) else "not a number of whole seconds"
        return ImportRefusal(f"{field} is {what}", "a value, as 60000 or PT1M")
    if field.startswith("fixedDelay"):
        read = TranslatedSchedule({"after_completion": period_text(period)})
    else:
        rate = fixed_rate(period, anew.anchor, name)
        read = TranslatedSchedule(rate, (OpenQuestion.PHASE,))
    if any(each.startswith("initialDelay") for each in arguments):
        return replace(
            read, notes=("initialDelay is not converted: it counts from a program's start",)
        )
    return read


def _period(text: str, unit: str) -> timedelta | None:
    """Return a number of units, or a duration as PT5M or 5m; None if it has no whole seconds."""
    if _NUMBER.fullmatch(text):
        milliseconds = int(text) * _UNITS.get(unit.rpartition(".")[2], 0)
        if milliseconds < 1_000 or milliseconds % 1_000 or milliseconds > 10**12:  # noqa: PLR2004 - a second
            return None
        return timedelta(milliseconds=milliseconds)
    try:
        return parse_period(text.upper() if text[:1] in {"P", "p"} else text)
    except PydanticCustomError:
        return None
