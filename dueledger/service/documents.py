"""Bodies of answers: JSON in which texts of JSON are kept to the letter."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from fastapi import Response
from pydantic import BaseModel

_OPTIONS: Final = orjson.OPT_UTC_Z


def answer(
    document: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a document as an answer. Times are UTC, with Z."""
    return Response(encoded(document), status, dict(headers or {}), "application/json")


def encoded(document: object) -> bytes:
    """Return a document, or a part of one, as JSON. Times are UTC, with Z."""
    return orjson.dumps(document, default=str, option=_OPTIONS)


def members_of(model: type[BaseModel], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a row that a model has, with the text of `payload` as it was given."""
    members = {name: row[name] for name in model.model_fields}
    if "payload" in members:
        members["payload"] = orjson.Fragment(members["payload"])
    return members
