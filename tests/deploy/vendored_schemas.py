"""Schemas of formats of others, as a package brings them."""

import json
from importlib.resources import files
from typing import Any

from jsonschema.validators import validator_for


def problems_of(document: Any, schema_name: str) -> list[str]:  # noqa: ANN401 - as parsed
    """Return where a document breaks a schema, as `compose-spec` or `github-workflows`."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / f"{schema_name}.json").read_text("utf-8"))
    found = validator_for(schema)(schema).iter_errors(document)
    return [f"{each.json_path}: {each.message}" for each in found]
