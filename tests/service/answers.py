"""Answers of routes, and their examples in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, cast

_JSON = "application/json"


def examples_of_answers(openapi: dict[str, Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the example and the schema of the answer of each operation that answers JSON."""
    return {
        operation["operationId"]: (content["example"], content["schema"])
        for methods in openapi["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and (content := answer["content"].get(_JSON))
    }


def members_of_answer(document: Mapping[str, Any]) -> set[str]:
    """Return the names of the members of an answer, and of those in the first of each list."""
    found = set(document)
    for name, value in document.items():
        first = next(iter(cast("list[object]", value)), None) if isinstance(value, list) else None
        if isinstance(first, dict):
            found |= {f"{name}.{each}" for each in cast("dict[str, object]", first)}
    return found
