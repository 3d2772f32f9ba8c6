"""The published JSON Schema of definitions, held by a validator against what is read and refused.

It accepts whatever is read; of what is refused it refuses what a schema can say.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from dueledger.ledger.definitions.documents import read_documents
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.schedule.when import KINDS, kind_of
from tests.definition_documents import LETTERS, NIGHTLY, REFUSED, RENEWAL, document
from tests.document_blocks import all_blocks

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCHEMA = json.loads((ROOT / "docs" / "definition.schema.json").read_text(encoding="utf-8"))
VALIDATOR: Any = Draft202012Validator(SCHEMA)

EXPRESSED = (
    *(
        "no such field",
        "does not belong here",
        "must be a text",
        "mapping",
        "not one of the accepted words",
    ),
    *("greater than or equal", "less than", "characters", "no known kind", "not a date"),
    *("unknown roll", "not a business day", "without a time of day", "not a local time"),
)
"""Reasons of refusal that a schema can express."""

FREE = ("payload", "labels", "body", "headers", "secret_headers")
"""Fields whose own fields are the author's."""


def written(text: str) -> list[dict[str, Any]]:
    """Return the documents of a text as they are written, before any model has read them."""
    return [
        cast("dict[str, Any]", each.value)
        for each in read_documents(text, source="test")
        if isinstance(each.value, dict)
    ]


def shown() -> Iterator[dict[str, Any]]:
    """Yield what the documents show; a part of a definition is shown in a whole one."""
    for block in all_blocks():
        if block.language == "yaml" and block.is_run_by_language:
            for one in written(block.text):
                is_whole = "definition" in one or one.keys() >= {"kind", "tenant"}
                yield one if is_whole else document(NIGHTLY, **one)
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for row in re.findall(r"^\| `(\{.*\})` \|", text, re.MULTILINE):
        (when,) = written(row)
        if kind_of(when):
            yield document(RENEWAL if "relative" in when else NIGHTLY, when=when)


SHOWN = [
    *written(RENEWAL + "---" + NIGHTLY + "---" + LETTERS),
    *written((ROOT / "examples" / "insurer" / "definitions.yaml").read_text(encoding="utf-8")),
    *shown(),
]


def definitions_of_tests() -> Iterator[dict[str, Any]]:
    """Yield definitions that tests have as text or as a mapping, and each `when`, in one."""
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from readable(node.value)
            elif isinstance(node, ast.Dict):
                try:
                    found = cast("dict[str, Any]", ast.literal_eval(node))
                    json.dumps(found)
                except (ValueError, TypeError):
                    continue
                yield found
                if kind_of(found):
                    text = RENEWAL if "relative" in found else NIGHTLY
                    yield document(text, when=found)
                    yield document(text, when={"timezone": "UTC"} | found)


def readable(text: str) -> list[dict[str, Any]]:
    if "definition:" not in text:
        return []
    try:
        return written(text)
    except InvalidDefinition:
        return []


def is_read(raw: Mapping[str, Any]) -> bool:
    try:
        Definition.model_validate(raw)
    except ValidationError:
        return False
    return True


def places(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each value of a document, without the author's own fields."""
    if path:
        yield path
    if isinstance(value, dict) and not (path and path[-1] in FREE):
        for name, member in cast("dict[str, object]", value).items():
            yield from places(member, *path, name)
    elif isinstance(value, list):
        for index, member in enumerate(cast("list[object]", value)):
            yield from places(member, *path, index)


def parent_of(raw: dict[str, Any], path: tuple[str | int, ...]) -> dict[str | int, object]:
    found = cast("dict[str | int, object]", raw)
    for step in path[:-1]:
        found = cast("dict[str | int, object]", found[step])
    return found


def test_the_schema_is_a_schema_and_the_docs_show_every_kind() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert {kind_of(one.get("when")) for one in SHOWN} == {*KINDS, None}


@pytest.mark.parametrize(
    "raw", SHOWN, ids=lambda raw: f"{raw.get('definition')}-{kind_of(raw.get('when'))}"
)
def test_what_is_shown_is_read_and_is_valid_as_written_and_as_stored(raw: dict[str, Any]) -> None:
    stored = parse_definition(raw, calendars=None).normalised()
    assert [each.message for each in VALIDATOR.iter_errors(raw)] == []
    assert [each.message for each in VALIDATOR.iter_errors(stored)] == []


def test_whatever_definition_of_the_tests_is_read_is_valid() -> None:
    accepted = [raw for raw in definitions_of_tests() if is_read(raw)]
    assert {kind_of(raw.get("when")) for raw in accepted} == {*KINDS, None}
    assert [raw for raw in accepted if not VALIDATOR.is_valid(raw)] == []


@pytest.mark.parametrize(
    ("text", "changes", "field"),
    [row[:3] for row in REFUSED if any(reason in row[3] for reason in EXPRESSED)],
)
def test_what_a_schema_can_refuse_it_refuses_at_its_path(
    text: str, changes: dict[str, object], field: str
) -> None:
    (error, *_) = VALIDATOR.iter_errors(document(text, **changes))
    assert field.startswith(".".join(map(str, error.absolute_path)))


@pytest.mark.parametrize(
    "raw", SHOWN, ids=lambda raw: f"{raw.get('definition')}-{kind_of(raw.get('when'))}"
)
def test_a_value_of_another_type_or_an_unknown_field_is_refused_on_every_floor(
    raw: dict[str, Any],
) -> None:
    stored = parse_definition(raw, calendars=None).normalised()
    for path in places(stored):
        if path[-1] in ("payload", "body"):
            continue  # any JSON
        changed = deepcopy(stored)
        parent = parent_of(changed, path)
        value = parent[path[-1]]
        parent[path[-1]] = 7 if isinstance(value, list | dict) else [value]
        assert not VALIDATOR.is_valid(changed), path
        assert not is_read(changed), path
        if isinstance(value, dict) and path[-1] not in FREE:
            parent[path[-1]] = {**value, "unknown": 7}
            assert not VALIDATOR.is_valid(changed), path
            assert not is_read(changed), path
