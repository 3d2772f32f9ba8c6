"""The text fields of a definition's document, with their checks."""

from typing import Annotated, Final
from unicodedata import category

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from dueledger.ledger.identity import unusable_reason
from dueledger.ledger.schedule.expressions import field_error, value_error

__all__ = [
    "NAME_CHARS_MAX",
    "PATH_CHARS_MAX",
    "TOKEN_CHARS_MAX",
    "TOPIC_CHARS_MAX",
    "DefinitionName",
    "DocumentPart",
    "EventType",
    "JmesPath",
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
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit

_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


def check_path(text: str) -> str:
    """Return `text` if it is a JMESPath expression. Refuse it otherwise."""
    try:
        jmespath.compile(text)
    except (JMESPathError, RecursionError) as error:
        reason = f"not a JMESPath expression: {' '.join(str(error).split())}"
        raise value_error(reason, "a path on the event such as data.policy_number") from None
    return text


def check_usable(text: str) -> str:
    """Return `text` if a key may contain it. Refuse it otherwise."""
    if reason := unusable_reason(text):
        raise value_error(reason, "a text without control characters")
    return text


def check_name(text: str) -> str:
    """Return `text` if all of its characters are visible. Refuse it otherwise."""
    odd = next((each for each in text if category(each) in _UNSEEN), None)
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
KeyText = Annotated[str, chars(PATH_CHARS_MAX), AfterValidator(check_usable)]


class DocumentPart(BaseModel):
    """A part of the document: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
