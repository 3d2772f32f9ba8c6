"""Parse definitions from documents. Every problem of a document is reported at once."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dueledger.ledger.definitions.declaration import OWING_FIELDS
from dueledger.ledger.definitions.documents import read_documents
from dueledger.ledger.definitions.http_dispatch import HttpDispatch, may_be_secret
from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.policies import (
    CatchUpPolicy,
    DeadlinePolicy,
    DirectDispatch,
    Dispatch,
    EventMatch,
    KafkaDispatch,
    OperationPolicy,
    OrderPolicy,
    RetryPolicy,
    SlaPolicy,
)
from dueledger.ledger.error_counts import too_many_errors
from dueledger.ledger.errors import InvalidDefinition, Problem, UnknownCalendar, shown_value
from dueledger.ledger.schedule import (
    NO_CALENDARS,
    AfterCompletion,
    At,
    Business,
    Calendar,
    CalendarRule,
    Cron,
    Every,
    Relative,
    Rrule,
)
from dueledger.ledger.schedule.when import KINDS, named_kinds

__all__ = [
    "PROBLEMS_MAX",
    "CatchUpPolicy",
    "Definition",
    "Dispatch",
    "EventMatch",
    "HttpDispatch",
    "KafkaDispatch",
    "RetryPolicy",
    "SlaPolicy",
    "definition_schema",
    "load_definitions",
    "parse_definition",
]

DOCUMENTS_MAX: Final = 1_000_000
PROBLEMS_MAX: Final = 50

# Fields written at the wrong level of the document, and where they belong.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "start": "`start` inside `when`",
    "end": "`end` inside `when`",
    "preset": "`preset` inside `when`",
    "timezone": "`timezone` inside `when`",
    "when.calendar": "`calendar` beside `when`",
    "when.roll": "`calendar: {…, roll: …}` beside `when`",
    "when.smear": "`smear` beside `when`",
    "when.catch_up": "`catch_up` beside `when`",
}
_OTHER_WORD: Final = "not one of the accepted words"
_ENUM_MEMBER: Final = re.compile(r"<\w+\.\w+: ('\w+')>")  # as pydantic lists a few of an enum
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "": Definition,
    "catch_up": CatchUpPolicy,
    "sla": SlaPolicy,
    "retry": RetryPolicy,
    "order": OrderPolicy,
    "operations": OperationPolicy,
    "deadlines": DeadlinePolicy,
    "dispatch": Dispatch,
    "dispatch.kafka": KafkaDispatch,
    "dispatch.http": HttpDispatch,
    "dispatch.direct": DirectDispatch,
    "calendar": CalendarRule,
    "when.cron": Cron,
    "when.rrule": Rrule,
    "when.every": Every,
    "when.at": At,
    "when.business": Business,
    "when.after_completion": AfterCompletion,
    "when.relative": Relative,
}


def load_definitions(
    text: str, *, source: str, calendars: Mapping[str, Calendar] | None = NO_CALENDARS
) -> list[Definition]:
    """Read every definition of a YAML or JSON text.

    All or none: InvalidDefinition lists each problem with its path, value, reason and, if one
    exists, the accepted spelling. `source` names the text in messages. `calendars` are those that
    a definition may name; None skips that check, and `Definition.with_calendar` makes it later.
    """
    documents = read_documents(text, source=source)
    if len(documents) > DOCUMENTS_MAX:
        raise InvalidDefinition(f"{source} holds more than {DOCUMENTS_MAX:,} definitions.")
    definitions: list[Definition] = []
    problems: list[Problem] = []
    first_index: dict[tuple[str, str], int] = {}
    for index, document in enumerate(documents):
        if len(problems) > PROBLEMS_MAX:
            break  # no more are shown
        prefix = f"[{index}]." if len(documents) > 1 else ""
        try:
            definition = Definition.model_validate(document.value)
        except ValidationError as error:
            problems += _problems(error, document.value, prefix)
            continue
        definition, unknown = _observed(definition, calendars, prefix)
        problems += unknown
        key = (definition.tenant, definition.definition)
        earlier = first_index.setdefault(key, index)
        if earlier != index:
            reason = f"the same tenant and name as [{earlier}]"
            shown = shown_value(definition.definition)
            problems.append(Problem(f"{prefix}definition", shown, reason, "another name"))
        definitions.append(definition)
    if problems:
        raise _invalid(source, problems)
    return definitions


def parse_definition(
    document: Mapping[str, object],
    *,
    source: str = "document",
    calendars: Mapping[str, Calendar] | None = NO_CALENDARS,
) -> Definition:
    """Parse one definition from a decoded document, as the ledger stores it.

    `calendars` as for `load_definitions`.
    """
    try:
        definition = Definition.model_validate(document)
    except ValidationError as error:
        raise _invalid(source, _problems(error, document, "")) from None
    definition, problems = _observed(definition, calendars, "")
    if problems:
        raise _invalid(source, problems)
    return definition


def _observed(
    definition: Definition, calendars: Mapping[str, Calendar] | None, prefix: str
) -> tuple[Definition, list[Problem]]:
    """Return the definition with the calendar that it names, and problems if there is none."""
    if calendars is None:
        return definition, []
    try:
        return definition.with_calendar(calendars), []
    except UnknownCalendar as error:
        problems = [replace(problem, field=prefix + problem.field) for problem in error.problems]
        return definition, problems


def definition_schema() -> str:
    """Return the JSON Schema of the document; `docs/definition.schema.json` is a copy."""
    schema = Definition.model_json_schema()
    schema["if"] = {"anyOf": [{"required": [name]} for name in OWING_FIELDS]}
    schema["then"] = {"required": schema["required"]}
    schema["required"] = ["kind", "tenant"]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _invalid(source: str, problems: list[Problem]) -> InvalidDefinition:
    shown = problems[:PROBLEMS_MAX]
    if len(problems) > PROBLEMS_MAX:
        count = f"more than {PROBLEMS_MAX} problems, the first of them"
    else:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return InvalidDefinition(f"{source}: {count}", shown, source=source)


def _problems(error: ValidationError, document: object, prefix: str) -> list[Problem]:
    name = (
        cast("Mapping[str, object]", document).get("definition")
        if isinstance(document, Mapping)
        else None
    )
    label = f"{prefix}({name})." if prefix and isinstance(name, str) else prefix
    if reason := too_many_errors(error):
        return [Problem(f"{label}document", "", reason)]
    found = (each for each in error.errors(include_url=False) if not _follows(each))
    return [_problem(details, label) for details in islice(found, PROBLEMS_MAX + 1)]


def _follows(details: ErrorDetails) -> bool:
    """Return whether this error only follows from another one, which is reported itself."""
    return details["type"] == "default_factory_not_called"


def _problem(details: ErrorDetails, label: str) -> Problem:
    context: dict[str, Any] = details.get("ctx") or {}
    kind, path = _path(details["loc"])
    value = details["input"]
    if "field" in context:  # a check across fields names the one to change
        path = f"{path}.{context['field']}" if path else str(context["field"])
        value = _member(value, str(context["field"]))
    reason, accepted = _reason(details, path, kind)
    withheld = details["type"] == "missing" or context.get("withheld") or may_be_secret(path)
    shown = "" if withheld or value is None else shown_value(value)
    return Problem(label + (path or "document"), shown, reason, accepted)


def _path(location: tuple[int | str, ...]) -> tuple[str, str]:
    """Return the kind of `when`, which pydantic adds to the location, and the path without it."""
    kind = ""
    if len(location) > 1 and location[0] == "when" and location[1] in KINDS:
        kind = str(location[1])
        location = ("when", *location[2:])
    return kind, ".".join(map(str, location))


def _member(value: object, field: str) -> object:
    for name in field.split("."):
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(name)
        else:
            value = getattr(value, name, None)
    return value if isinstance(value, str | int | float | bool) else None


def _reason(details: ErrorDetails, path: str, kind: str) -> tuple[str, str | None]:
    """Return what is wrong, in the document's terms, and what is accepted instead."""
    context: dict[str, Any] = details.get("ctx") or {}
    match details["type"]:
        case "refused":
            reason = str(context["reason"]), str(context["accepted"])
        case "missing":
            reason = "is missing", f"{path.rpartition('.')[2]}: …"
        case "extra_forbidden":
            reason = _extra_reason(path, kind)
        case "union_tag_not_found" | "union_tag_invalid":
            reason = _when_reason(details["input"])
        case "literal_error" | "enum":
            reason = _OTHER_WORD, _words(context)
        case "string_type":
            reason = "must be a text", "the value in quotes"
        case "string_pattern_mismatch":
            reason = "has characters that are not accepted", "A-Z a-z 0-9 . _ -"
        case "model_type" | "dict_type" | "model_attributes_type":
            reason = "must be a mapping of fields", None
        case _:
            reason = details["msg"][:1].lower() + details["msg"][1:], None
    return reason


def _extra_reason(path: str, kind: str) -> tuple[str, str | None]:
    if path in _ELSEWHERE:
        return "does not belong here", _ELSEWHERE[path]
    return "no such field", _similar_field(path, kind)


def _words(context: Mapping[str, Any]) -> str:
    return _ENUM_MEMBER.sub(r"\1", str(context["expected"]))


def _when_reason(when: object) -> tuple[str, str | None]:
    accepted = "one of " + ", ".join(f"`{kind}: …`" for kind in KINDS)
    if not isinstance(when, Mapping):
        return "must be a mapping", accepted
    several = named_kinds(set(cast("Mapping[str, object]", when)))
    if several:
        return f"has {' and '.join(several)} at once", "one of them, or two definitions"
    return "has no known kind", accepted


def _similar_field(path: str, kind: str) -> str | None:
    parent, _, name = path.rpartition(".")
    model = _MODELS.get(f"{parent}.{kind}" if kind else parent)
    if model is None:
        return None
    names = list(model.model_fields)
    close = get_close_matches(name, names, n=1)
    return close[0] if close else "one of " + ", ".join(names)


if (
    __name__ == "__main__"
):  # python -m dueledger.ledger.definitions.parsing > docs/definition.schema.json
    sys.stdout.write(definition_schema())
