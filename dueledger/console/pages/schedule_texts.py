"""What a page says of a definition: its document as YAML, its rule, and what a version changes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from dueledger.console.listing import Row
from dueledger.definitions.defaults import defaults_of, without_defaults
from dueledger.importers.definition_yaml import document_text
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import DueledgerError, InvalidDefinition
from dueledger.ledger.store.definitions import DefinitionVersion
from dueledger.preview.policy_words import policy_words
from dueledger.preview.rule_words import rule_words
from dueledger.service.schedule_times import read_definition

_TEXTS_KEPT: Final = 100
"""Documents as YAML: milliseconds to write, and a version's does not change."""
_VALUE_CHARS_MAX: Final = 200
_PLACES: Final = {"timezone", "gap", "fold"}


class DefinitionTexts(NamedTuple):
    """A document as YAML: what its author had to write, and the defaults that apply."""

    written: str
    defaults: str


class ValueTexts(NamedTuple):
    """A member of a document that changes: its name, and its texts; empty for none."""

    name: str
    before: str
    after: str


def schedule_path(tenant: str, name: str) -> str:
    """Return the path of a definition's page."""
    return f"/schedules/{quote(tenant, safe='')}/{quote(name, safe='')}"


def texts_of(version: DefinitionVersion) -> DefinitionTexts:
    """Return the document of a version, in the order of the schema.

    All of it is `written` if it would not be accepted any more.
    """
    return _texts_of(orjson.dumps(version.document))


@lru_cache(_TEXTS_KEPT)
def _texts_of(stored: bytes) -> DefinitionTexts:
    document = orjson.loads(stored)
    try:
        written = without_defaults(parse_definition(document, calendars=None))
        defaults = defaults_of(parse_definition(written, calendars=None))
    except InvalidDefinition:
        known = [name for name in Definition.model_fields if name in document]
        others = [name for name in document if name not in Definition.model_fields]
        return DefinitionTexts(
            document_text({name: document[name] for name in [*known, *others]}), ""
        )
    return DefinitionTexts(document_text(written), document_text(defaults) if defaults else "")


def texts_of_values(changes: Iterable[tuple[str, Any, Any]]) -> list[ValueTexts]:
    """Return the members of documents that differ, as `value_changes` has them, as texts."""
    return [
        ValueTexts(name, _value_text(before), _value_text(after)) for name, before, after in changes
    ]


def _value_text(value: object) -> str:
    """Return a value of a document on one line, shortened; empty for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def owner_of(version: DefinitionVersion) -> str | None:
    """Return the label `owner` of a schedule; of an event rule it is an expression."""
    labels: Mapping[str, str] = version.document.get("labels") or {}
    return labels.get("owner") if version.event_type is None else None


def policies_of(version: DefinitionVersion) -> list[str]:
    """Return what happens to missed occurrences, and to items that meet; [] if unreadable."""
    try:
        return policy_words(read_definition(version))
    except DueledgerError:
        return []


def words_of(version: DefinitionVersion) -> str:
    """Return when a version is due, in words; empty if it cannot be read."""
    try:
        return rule_words(read_definition(version))
    except DueledgerError:
        return ""


def rule_text(document: Row) -> str:
    """Return when a definition is due, as its document says it."""
    when: dict[str, Any] = document.get("when") or {}
    zone = when.get("timezone")
    parts = [f"{name} {value}" for name, value in when.items() if name not in _PLACES and value]
    event = document.get("event")
    return ", ".join([*([f"on {event}"] if event else []), *parts, *([str(zone)] if zone else [])])
