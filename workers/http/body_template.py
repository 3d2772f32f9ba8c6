"""The body of a request: the payload unchanged, or values that JMESPaths select.

They select from the item and the payload.

JMESPath, because definitions already use it for events: it only selects, and cannot run code, read
a file or loop. A body is a map of name to path, like `payload`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast, final

import orjson

from dueledger.ledger.rules.event_rules import evaluator

if TYPE_CHECKING:
    from dueledger.workers.item import DueItem

BODY_BYTES_MAX: Final = 1_048_576
VALUES_MAX: Final = 100_000

# What evaluating may raise: see `ledger.rules`.
_EVALUATION_FAILED: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class BodyFailed(Exception):
    """An item lacks a value that its body needs."""


@final
@dataclass(frozen=True, slots=True)
class BodyTemplate:
    """A JMESPath, a map of name to JMESPath, or None for the payload byte for byte."""

    paths: str | Mapping[str, str] | None

    def render(self, item: "DueItem") -> bytes:
        """Return the bytes to send. Raises BodyFailed, which names the path."""
        if self.paths is None:
            return item.payload
        document = _document(item)
        if isinstance(self.paths, str):
            value = _search(document, self.paths, "body")
            if value is None:
                raise BodyFailed(f"{self.paths} (as body) is missing or null")
        else:
            value = {
                name: _search(document, path, f"body.{name}") for name, path in self.paths.items()
            }
        return _encode(value)


def _document(item: "DueItem") -> dict[str, object]:
    try:
        payload = item.json()
    except ValueError:
        raise BodyFailed("the payload is not JSON") from None
    return {
        "item": {
            "id": str(item.id),
            "tenant": item.tenant,
            "kind": item.kind,
            "business_key": item.business_key,
            "cycle": item.cycle,
            "effective_date": item.effective_date.isoformat(),
            "due_at": item.due_at.isoformat(),
            "attempt": item.attempt,
        },
        "payload": payload,
    }


def _search(document: dict[str, object], path: str, field: str) -> object:
    try:
        return evaluator(path)(document)
    except _EVALUATION_FAILED as error:
        reason = " ".join(str(error).split())
        raise BodyFailed(f"{path} (as {field}): {reason}") from None


def _encode(value: object) -> bytes:
    _count_values(value)
    try:
        body = orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise BodyFailed(f"the body is not JSON: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise BodyFailed(f"the body has {len(body):,} bytes, over {BODY_BYTES_MAX:,}")
    return body


def _count_values(value: object) -> None:
    """Reject a value that grew too large: ``[@,@]|[@,@]|…`` doubles with each step."""
    left, waiting = VALUES_MAX, [value]
    while waiting:
        inner = _inner(waiting.pop())
        left -= len(inner)
        if left < 0:
            raise BodyFailed(f"the body has more than {VALUES_MAX:,} values")
        waiting += inner


def _inner(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []
