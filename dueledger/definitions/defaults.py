"""The defaults of a definition: apart from what its author had to write."""

from collections.abc import Iterator

from pydantic import JsonValue

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition

Document = dict[str, JsonValue]


def without_defaults(definition: Definition) -> Document:
    """Return the shortest document that parses to the definition."""
    whole = definition.normalised()
    written = definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    if not _is_same(written, definition):
        written = whole
    for path in list(_paths(written, ())):
        shorter = _without(written, path)
        if _is_same(shorter, definition):
            written = shorter
    return {name: written[name] for name in whole if name in written}


def defaults_of(definition: Definition) -> Document:
    """Return the members of a document that the one it was parsed from has not."""
    given = definition.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return _rest(definition.normalised(), given)


def _is_same(document: Document, definition: Definition) -> bool:
    try:
        return parse_definition(document, calendars=None).digest == definition.digest
    except InvalidDefinition:
        return False


def _paths(document: Document, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each member, that of a part before those in it."""
    for name, value in document.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def _without(document: Document, path: tuple[str, ...]) -> Document:
    """Return the document without a member; as it is where there is none any more."""
    name, *below = path
    if name not in document:
        return document
    if not below:
        return {each: value for each, value in document.items() if each != name}
    shorter, part = dict(document), document[name]
    if isinstance(part, dict):
        shorter[name] = _without(part, tuple(below))
    return shorter


def _rest(whole: Document, written: Document) -> Document:
    rest: Document = {}
    for name, value in whole.items():
        given = written.get(name)
        if isinstance(value, dict) and isinstance(given, dict):
            below = _rest(value, given)
            if below:
                rest[name] = below
        elif name not in written:
            rest[name] = value
    return rest
