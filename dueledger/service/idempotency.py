"""Requests that may be repeated: the first answer under an Idempotency-Key is the answer to all.

It is written in the transaction of the request's effect, so there is no effect without it. An error
writes nothing, and the next request under the key begins anew.
"""

import hashlib
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response

from dueledger.ledger.errors import (
    IdempotencyKeyMissing,
    IdempotencyKeyReused,
    InvalidInput,
    Problem,
)
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_answers import begin_answer, record_answer
from dueledger.ledger.store.api_keys import SERVICE_ROLE, ApiCaller, assume_role

HEADER: Final = "Idempotency-Key"
_LOCATION: Final = "Location"
_SHAPE: Final = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
PARAMETER: Final = {
    "name": HEADER,
    "in": "header",
    "required": True,
    "description": "Any text of your choice. A repetition of the request under it has no second "
    "effect and gets the same answer, without secrets, for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "example": "5f1c2b1e-5d0c-4a43-9c8a-2f6f6a1f2d11",
}
"""In the OpenAPI document."""

REPLAYED: Final = {"Idempotency-Replayed": "true"}


class AnswerOnce(Response):
    """An answer with a secret: a repetition gets `kept` instead, which has none."""

    def __init__(self, body: Response, kept: Response) -> None:
        super().__init__(body.body, body.status_code, dict(body.headers))
        self.kept = bytes(kept.body)


def idempotency_key_of(request: Request) -> str:
    """Return the Idempotency-Key of a request.

    Raises IdempotencyKeyMissing, or InvalidInput for one that cannot be kept.
    """
    key = request.headers.get(HEADER)
    if key is None:
        message = (
            f"The request has no {HEADER}. Send one of its own with each, and the same with a "
            "repetition, which then has no second effect."
        )
        raise IdempotencyKeyMissing(message)
    if not _SHAPE.fullmatch(key):
        problem = Problem(HEADER, "", "it has other characters", "1 to 200 visible ones of ASCII")
        raise InvalidInput("The header cannot be used:", [problem])
    return key


async def answer_under_key(
    connection: Connection,
    caller: ApiCaller,
    digested: tuple[str, bytes],
    answering: Callable[[], Coroutine[Any, Any, Response]],
) -> Response:
    """Answer a request under its key once, within a transaction; answer a repetition alike.

    `answering` may assume the role of its route. `digested` is the key, and the digest of the
    request (`digest_of`). Raises IdempotencyKeyReused.
    """
    key, digest = digested
    begun = await begin_answer(connection, caller.actor_no, key, digest)
    if begun.request_digest != digest:
        message = "Another request had this Idempotency-Key. Use one of its own for each."
        raise IdempotencyKeyReused(message)
    if begun.status is not None:
        headers = dict(REPLAYED)
        if begun.location is not None:
            headers[_LOCATION] = begun.location
        return Response(begun.body, begun.status, headers, "application/json")
    response = await answering()
    await assume_role(connection, caller, SERVICE_ROLE)
    kept = response.kept if isinstance(response, AnswerOnce) else bytes(response.body)
    text, location = kept.decode(), response.headers.get(_LOCATION)
    await record_answer(
        connection, caller.actor_no, key, response.status_code, text, location=location
    )
    return response


def digest_of(request: Request, body: bytes) -> bytes:
    """Return the digest of what a request asks for."""
    address = request.scope["raw_path"] + b"?" + request.scope["query_string"]
    lines = (request.method.encode(), address, body)
    return hashlib.sha256(b"\n".join(lines)).digest()
