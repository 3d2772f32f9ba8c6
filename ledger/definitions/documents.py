"""Documents from YAML or JSON text, with the same meaning in both.

YAML 1.1 reads `at: 17:00` as the number 1020, `on` as true and `2026-12-25` as a date. Here a
plain scalar is null, a boolean, a number or a text, as in JSON and YAML 1.2. What YAML would
resolve without a word (a repeated key, an alias) is refused with its line.
"""

import json
import re
from dataclasses import dataclass
from math import inf
from typing import Any, Final, cast

import yaml

from dueledger.ledger.errors import InvalidDefinition, Problem, shown_value

TEXT_CHARS_MAX: Final = 33_554_432
DEPTH_MAX: Final = 32

_PLAIN_STYLES: Final = (None, "")  # unquoted: the pure parser's style, the C parser's style
_STRING: Final = "tag:yaml.org,2002:str"
_TAG_NAMES: Final = (
    *("str", "int", "float", "bool", "null", "timestamp"),
    *("map", "seq", "merge", "value"),
)
_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in _TAG_NAMES)
_WORDS: Final = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,40})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{1,40}([eE][-+]?[0-9]{1,3})?")

# The C parser where the wheel includes it: 1,335 definitions take 0.04 s to compose instead of 0.9.
_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document, and the line on which it begins (None for JSON)."""

    value: object
    line: int | None


def read_documents(text: str, *, source: str) -> list[SourceDocument]:
    """Return the documents of a text: several in one YAML stream, or a list of them."""
    if len(text) > TEXT_CHARS_MAX:
        reason = f"longer than {TEXT_CHARS_MAX:,} characters"
        raise _unreadable(source, [Problem("document", "", reason, "several files")])
    documents = _read_json(text, source) if text.lstrip()[:1] in {"{", "["} else None
    if documents is None:
        documents = _read_yaml(text, source)
    found: list[SourceDocument] = []
    for document in documents:
        if isinstance(document.value, list):
            members = cast("list[object]", document.value)
            found += [SourceDocument(member, document.line) for member in members]
        elif document.value is not None:
            found.append(document)
    if not found:
        reason = "the text has no definition"
        raise _unreadable(source, [Problem("document", "", reason, "definition: name …")])
    return found


def _unreadable(source: str, problems: list[Problem]) -> InvalidDefinition:
    return InvalidDefinition(f"{source} cannot be read:", problems, source=source)


def _read_json(text: str, source: str) -> list[SourceDocument] | None:
    """Return the documents of a JSON text; None if it is not JSON, as YAML's flow style."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _unreadable(source, [_twice(key)])
            found[key] = value
        return found

    def constant(name: str) -> float:
        raise _unreadable(source, [Problem("document", name, "not a JSON number", "a number")])

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError:
        return None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        problem = Problem("document", "", "has an integer of thousands of digits", "a text")
        raise _unreadable(source, [problem]) from None
    except RecursionError:
        raise _unreadable(source, [_too_deep()]) from None
    if nests_too_deep(value):
        raise _unreadable(source, [_too_deep()])
    return [SourceDocument(value, None)]


def nests_too_deep(value: object) -> bool:
    """Return whether a document nests deeper than DEPTH_MAX; JSON may as deep as YAML."""
    depth, level = 0, [value]
    while level and depth <= DEPTH_MAX:
        depth += 1
        level = [member for found in level for member in _members(found)]
    return bool(level)


def _members(found: object) -> list[object]:
    if isinstance(found, dict):
        return list(cast("dict[str, object]", found).values())
    return cast("list[object]", found) if isinstance(found, list) else []


def too_deep_at(text: str, *, values_max: float = inf) -> int | None:
    """Return the line on which YAML nests deeper than DEPTH_MAX or has too many values, or None.

    Call it before composing: the C parser composes by recursion and crashes the process on a
    hundred thousand levels. Raises yaml.YAMLError if the text is not YAML.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.NodeEvent):
            values += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX + 1 or values > values_max:
            return 1 if event.start_mark is None else int(event.start_mark.line) + 1
    return None


def _read_yaml(text: str, source: str) -> list[SourceDocument]:
    try:
        if too_deep_at(text) is not None:
            raise _unreadable(source, [_too_deep()])
        loader = _LOADER(text)
    except yaml.YAMLError as error:
        raise _unreadable(source, [_syntax(error)]) from None
    try:
        documents: list[SourceDocument] = []
        while loader.check_node():
            node = cast("yaml.Node", loader.get_node())
            value = _NodeReader(source).value(node, depth=0)
            documents.append(SourceDocument(value, _line(node)))
    except yaml.YAMLError as error:
        raise _unreadable(source, [_syntax(error)]) from None
    except RecursionError:
        raise _unreadable(source, [_too_deep()]) from None
    finally:
        loader.dispose()
    return documents


class _NodeReader:
    """Converts one document's nodes to plain values. A node that occurs twice is an alias."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, *, depth: int) -> object:
        if depth > DEPTH_MAX:
            raise self._refused(node, _too_deep())
        if id(node) in self._seen:
            problem = Problem("document", "", "an alias", "the value written out")
            raise self._refused(node, problem)
        self._seen.add(id(node))
        if node.tag not in _TAGS:
            problem = Problem("document", str(node.tag), "a custom tag", "the value without it")
            raise self._refused(node, problem)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, depth)
            case yaml.SequenceNode():
                return [self.value(member, depth=depth + 1) for member in node.value]
            case yaml.ScalarNode():
                return _scalar(node)
            case _:
                raise self._refused(node, Problem("document", node.tag, "not understood"))

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refused(key_node, Problem("document", "", "a key that is not a text"))
            key = str(key_node.value)
            if key == "<<" and key_node.style in _PLAIN_STYLES:
                problem = Problem(key, "", "a merge", "the fields written out")
                raise self._refused(key_node, problem)
            if key in found:
                raise self._refused(key_node, _twice(key))
            found[key] = self.value(value_node, depth=depth + 1)
        return found

    def _refused(self, node: yaml.Node, problem: Problem) -> InvalidDefinition:
        place = f"{problem.field} (line {_line(node)})"
        located = Problem(place, problem.value, problem.reason, problem.accepted)
        return _unreadable(self._source, [located])


def _scalar(node: yaml.ScalarNode) -> object:
    text = str(node.value)
    if node.style not in _PLAIN_STYLES or node.tag == _STRING:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text  # only YAML 1.1 reads these as something else: 17:00, yes, 2026-12-25


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _twice(key: str) -> Problem:
    return Problem(shown_value(key), "", "given twice in one mapping", "the field once")


def _too_deep() -> Problem:
    return Problem("document", "", f"nested deeper than {DEPTH_MAX}", "a flatter document")


def _syntax(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    place = "document" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
    reason = str(getattr(error, "problem", None) or error).splitlines()[0]
    return Problem(place, "", f"not YAML: {reason}", "YAML or JSON")
