"""Real records compared with the message in docs/asyncapi.yaml."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import orjson
import yaml
from aiokafka import ConsumerRecord

from dueledger.ledger.kafka.rejects import ConsumedRecord

CONTRACT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "asyncapi.yaml").read_text()
)
TYPES = {
    "object": dict,
    "string": str,
    "integer": int,
    "null": type(None),
}
FORMATS = {"uuid": UUID, "date-time": datetime.fromisoformat}
KNOWN = {
    "additionalProperties", "allOf", "const", "description", "enum", "format", "if", "maximum",
    "maxLength", "minimum", "minLength", "pattern", "properties", "required", "then", "type",
}  # fmt: skip


def faults(message: str, record: ConsumerRecord | ConsumedRecord) -> list[str]:
    """Say where a record differs from the contract."""
    schema = CONTRACT["components"]["messages"][message]
    headers = {name: (text or b"").decode() for name, text in record.headers}
    return [
        *_faults("headers", schema["headers"], headers),
        *_faults("payload", schema["payload"], orjson.loads(record.value or b"null")),
    ]


def _faults(where: str, schema: dict[str, Any], value: object) -> list[str]:
    """Hold a value against the part of JSON Schema that the contract uses."""
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    types = schema.get("type", [])
    wanted = [TYPES[name] for name in ([types] if isinstance(types, str) else types)]
    if wanted and type(value) not in wanted:
        return [f"{where} is {value!r}"]
    found = [fault for part in schema.get("allOf", ()) for fault in _faults(where, part, value)]
    if "if" in schema and not _faults(where, schema["if"], value):
        found += _faults(where, schema["then"], value)
    if "const" in schema and value != schema["const"]:
        found.append(f"{where} is not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is none of {schema['enum']}")
    match value:
        case int():
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                found.append(f"{where} is out of bounds")
        case str():
            found += _text_faults(where, schema, value)
        case dict():
            found += _object_faults(where, schema, cast("dict[str, object]", value))
        case _:
            pass
    return found


def _text_faults(where: str, schema: dict[str, Any], text: str) -> list[str]:
    found: list[str] = []
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)):
        found.append(f"{where} has the wrong length")
    if "pattern" in schema and not re.search(schema["pattern"], text):
        found.append(f"{where} breaks its pattern")
    if "format" in schema:
        try:
            FORMATS[schema["format"]](text)
        except ValueError:
            found.append(f"{where} is no {schema['format']}")
    return found


def _object_faults(where: str, schema: dict[str, Any], members: dict[str, object]) -> list[str]:
    properties = schema.get("properties", {})
    found = [
        f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in members
    ]
    for name, member in members.items():
        if name in properties:
            found += _faults(f"{where}.{name}", properties[name], member)
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}.{name} is not in the contract")
    return found
