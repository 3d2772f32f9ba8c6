"""The text fields of a definition's document, with their checks."""

import re
from functools import lru_cache
from typing import Annotated, Final, cast

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.lexer import Lexer
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError

from dueledger.ledger.identity import unusable_reason
from dueledger.ledger.schedule.expressions import field_error, value_error
from dueledger.ledger.visible_text import is_invisible

__all__ = [
    "NAME_CHARS_MAX",
    "PATH_CHARS_MAX",
    "TOKEN_CHARS_MAX",
    "TOPIC_CHARS_MAX",
    "DefinitionName",
    "DocumentPart",
    "EventType",
    "JmesPath",
    "JsonPointer",
    "KeyText",
    "Token",
    "Topic",
    "chars",
    "check_path",
    "check_usable",
    "field_error",
]

NAME_CHARS_MAX: Final = 200
TOKEN_CHARS_MAX: Final = 100
PATH_CHARS_MAX: Final = 1000
PATH_DEPTH_MAX: Final = 32
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit

_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")
_OPENING: Final = frozenset({"filter", "lbrace", "lbracket", "lparen"})
_CLOSING: Final = frozenset({"rbrace", "rbracket", "rparen"})


@lru_cache(maxsize=1024)
def check_path(text: str) -> str:
    """Return `text` if it is a JMESPath expression of at most PATH_DEPTH_MAX levels, or refuse it.

    Evaluation bounds what an expression builds; deeper ones would exhaust the stack first.
    """
    try:
        _check_brackets(text)
        expression = jmespath.compile(text).parsed
    except (JMESPathError, RecursionError) as error:
        reason = f"not a JMESPath expression: {' '.join(str(error).split())}"
        raise value_error(reason, "a path on the event such as data.policy_number") from None
    depth, level = 0, cast("list[object]", [expression])
    while level:
        depth += 1
        if depth > PATH_DEPTH_MAX:
            raise _too_deep()
        level = [child for node in level for child in _children(node)]
    return text


def _children(node: object) -> list[object]:
    """Return the parts of an expression; a slice has numbers instead."""
    return cast("dict[str, list[object]]", node)["children"] if isinstance(node, dict) else []


def _check_brackets(text: str) -> None:
    """Refuse brackets that nest too deep before they are parsed, by recursion."""
    depth = 0
    for token in Lexer().tokenize(text):
        if token["type"] in _OPENING:
            depth += 1
            if depth > PATH_DEPTH_MAX:
                raise _too_deep()
        elif token["type"] in _CLOSING:
            depth -= 1


def _too_deep() -> PydanticCustomError:
    reason = f"not a JMESPath expression that can be used: deeper than {PATH_DEPTH_MAX} levels"
    return value_error(reason, "a path on the event such as data.policy_number")


def check_pointer(text: str) -> str:
    """Return `text` if it is a JSON Pointer (RFC 6901). Refuse it otherwise."""
    if not _POINTER.fullmatch(text):
        raise value_error("not a JSON Pointer", "a path such as /customer/email, with ~1 for a /")
    return text


def check_usable(text: str) -> str:
    """Return `text` if a key may contain it. Refuse it otherwise."""
    if reason := unusable_reason(text):
        raise value_error(reason, "a text without control characters")
    return text


def check_name(text: str) -> str:
    """Return `text` if all of its characters are visible. Refuse it otherwise."""
    if text.isprintable():
        return text
    odd = next((each for each in text if is_invisible(each)), None)
    if odd is not None:
        reason = f"has U+{ord(odd):04X}, which is invisible or changes how others are shown"
        raise value_error(reason, "a name of visible characters")
    return text


def check_topic(text: str) -> str:
    """Return `text` if Kafka allows a topic of that name. Refuse it otherwise."""
    if text in {".", ".."}:
        raise value_error("Kafka does not allow this topic name", "a topic such as due.orders")
    return text


def chars(length_max: int) -> StringConstraints:
    """Return constraints of a text of 1 to `length_max` characters."""
    return StringConstraints(min_length=1, max_length=length_max, strict=True)


Token = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=TOKEN_CHARS_MAX, pattern=r"^[A-Za-z0-9._-]+$", strict=True
    ),
]
Topic = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=TOPIC_CHARS_MAX, pattern=r"^[A-Za-z0-9._-]+$", strict=True
    ),
    AfterValidator(check_topic),
]
DefinitionName = Annotated[
    str, chars(NAME_CHARS_MAX), AfterValidator(check_usable), AfterValidator(check_name)
]
EventType = Annotated[str, chars(NAME_CHARS_MAX), AfterValidator(check_usable)]
JmesPath = Annotated[
    str, chars(PATH_CHARS_MAX), AfterValidator(check_usable), AfterValidator(check_path)
]
JsonPointer = Annotated[
    str,
    StringConstraints(max_length=PATH_CHARS_MAX, strict=True),
    AfterValidator(check_usable),
    AfterValidator(check_pointer),
]
KeyText = Annotated[str, chars(PATH_CHARS_MAX), AfterValidator(check_usable)]


class DocumentPart(BaseModel):
    """A part of the document: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
