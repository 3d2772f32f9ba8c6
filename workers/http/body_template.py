"""The body of a request: the payload unchanged, or values that JMESPaths select.

They select from the item and the payload.

JMESPath, because definitions already use it for events: it only selects, and cannot run code, read
a file or loop. A body is a map of name to path, like `payload`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import orjson

from dueledger.ledger.rules.path_evaluation import (
    CHARS_A_VALUE,
    EVALUATION_FAILED,
    VALUES_MAX,
    PathDocument,
    TooLarge,
    failure_reason,
    weigh,
)

if TYPE_CHECKING:
    from dueledger.workers.item import DueItem

BODY_BYTES_MAX: Final = 1_048_576

_WEIGHT_MAX: Final = VALUES_MAX + BODY_BYTES_MAX // CHARS_A_VALUE


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


def _document(item: "DueItem") -> PathDocument:
    try:
        payload = item.json()
    except ValueError:
        raise BodyFailed("the payload is not JSON") from None
    return PathDocument(
        {
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
    )


def _search(document: PathDocument, path: str, field: str) -> object:
    try:
        return document.search(path)
    except EVALUATION_FAILED as error:
        raise BodyFailed(f"{path} (as {field}): {failure_reason(error)}") from None


def _encode(value: object) -> bytes:
    try:
        weigh(value, _WEIGHT_MAX)  # of paths that each give the whole payload
        body = orjson.dumps(value)
    except TooLarge:
        reason = f"more than {VALUES_MAX:,} values, or is over {BODY_BYTES_MAX:,} bytes"
        raise BodyFailed(f"the body has {reason}") from None
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise BodyFailed(f"the body is not JSON: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise BodyFailed(f"the body has {len(body):,} bytes, over {BODY_BYTES_MAX:,}")
    return body
