"""Definitions of several files, read and checked together, and the file of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dueledger.ledger.definitions.parsing import PROBLEMS_MAX, Definition, load_definitions
from dueledger.ledger.errors import InvalidDefinition, Problem, UnreadableFile, shown_value
from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text
from dueledger.ledger.schedule import NO_CALENDARS, Calendar

DefinitionFiles = Mapping[tuple[str, str], Path]
"""The file of each definition, by tenant and name."""

SINGLE_FILE: Final[DefinitionFiles] = {}
"""If all are from one file, messages do not name it."""


def read_definitions(
    path: Path, calendars: Mapping[str, Calendar] | None = NO_CALENDARS
) -> list[Definition]:
    """Read every definition of a YAML or JSON file, or none if one is refused.

    `calendars` are those that they may name; None leaves names unresolved.
    """
    text = read_text(path, DEFINITION_BYTES_MAX)
    return load_definitions(text, source=str(path), calendars=calendars)


def read_files(paths: Sequence[Path]) -> tuple[list[Definition], DefinitionFiles]:
    """Read every definition of all files, or none if one is refused. Calendars are not resolved.

    InvalidDefinition lists the problems of all files, each with its file's name before it.
    """
    if len(paths) == 1:
        return read_definitions(paths[0], calendars=None), SINGLE_FILE
    definitions: list[Definition] = []
    sources: dict[tuple[str, str], Path] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            read = read_definitions(path, calendars=None)
        except (InvalidDefinition, UnreadableFile) as error:
            problems += [_located(path, problem) for problem in error.problems]
            continue
        for one in read:
            name = (one.tenant, one.definition)
            earlier = sources.setdefault(name, path)
            if earlier is not path:
                problems.append(_twice(one, path, earlier))
        definitions += read
    if problems:
        more = f", the first {PROBLEMS_MAX} of them" if len(problems) > PROBLEMS_MAX else ""
        message = f"{len(paths)} files: {len(problems)} problems{more}"
        raise InvalidDefinition(message, problems[:PROBLEMS_MAX])
    return definitions, sources


def location_of(definition: Definition, sources: DefinitionFiles) -> str:
    """Return the name of a definition in a problem, with its file if there are several."""
    name = f"({definition.definition})"
    path = sources.get((definition.tenant, definition.definition))
    return name if path is None else f"{path}: {name}"


def _located(path: Path, problem: Problem) -> Problem:
    """Return the problem with the file before the field, unless the field has it."""
    named = problem.field == str(path)
    return problem if named else replace(problem, field=f"{path}: {problem.field}")


def _twice(definition: Definition, path: Path, earlier: Path) -> Problem:
    where = f"in {earlier}" if earlier != path else "the same file, which is given twice"
    reason = f"the same tenant and name as {where}"
    shown = shown_value(definition.definition)
    return Problem(f"{path}: definition", shown, reason, "another name")
