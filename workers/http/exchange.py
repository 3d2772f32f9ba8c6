"""A request and its response, as plain values, and what is kept of them as evidence.

The evidence is bounded and has no secret; any of it may be shown to a person.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, final

from dueledger.ledger.definitions.http_url import HttpUrl, InvalidUrl, read_url
from dueledger.workers.http.redaction import Redactor

BODY_READ_BYTES_MAX: Final = 65_536
SNIPPET_CHARS_MAX: Final = 2_000
REASON_CHARS_MAX: Final = 500
HEADER_CHARS_MAX: Final = 200
RETRY_AFTER_SECONDS_MIN: Final = 1.0
RETRY_AFTER_SECONDS_MAX: Final = 86_400.0

_KEPT_HEADERS: Final = (
    "content-type",
    "date",
    "location",
    "retry-after",
    "server",
    "x-correlation-id",
    "x-request-id",
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_SECONDS: Final = re.compile(r"[0-9]{1,18}")


@final
@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The request. Its repr shows neither headers nor body."""

    method: str
    url: HttpUrl
    headers: Mapping[str, str]
    body: bytes | None
    timeout_seconds: float

    def __repr__(self) -> str:
        return f"Request({self.method} {self.url.shown})"


@final
@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response. Header names are lower case; `address` is the address that sent it.

    `is_whole` is False if the body was longer than the part that is read, or was cut off.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    address: str | None


def evidence_of(
    request: HttpRequest, response: HttpResponse, redactor: Redactor, *, seconds: float
) -> dict[str, object]:
    """Return the evidence of an exchange, for the journal."""
    return {
        "status": response.status,
        "method": request.method,
        "url": request.url.shown,
        "address": response.address,
        "seconds": round(seconds, 3),
        "headers": {
            name: _header(name, value, redactor)
            for name in _KEPT_HEADERS
            if (value := response.headers.get(name)) is not None
        },
        "body": body_text(response, redactor, SNIPPET_CHARS_MAX),
        "body_is_whole": response.is_whole,
    }


def evidence_of_failure(request: HttpRequest, error: str, *, seconds: float) -> dict[str, object]:
    """Return the evidence of a request without a readable response, for the journal."""
    return {
        "method": request.method,
        "url": request.url.shown,
        "seconds": round(seconds, 3),
        "error": error,
    }


def reason_of(request: HttpRequest, response: HttpResponse, redactor: Redactor) -> str:
    """Return one line about a response that is not a success."""
    said = " ".join(body_text(response, redactor, REASON_CHARS_MAX).split())
    where = f"{request.method} {request.url.shown}"
    location = response.headers.get("location")
    to = f" to {_header('location', location, redactor)}" if location else ""
    return f"{response.status}{to} from {where}" + (f": {said}" if said else "")


def body_text(response: HttpResponse, redactor: Redactor, chars_max: int) -> str:
    """Return the beginning of a body as text that can be shown and stored.

    Secrets are removed before it is cut: a secret across the cut would be left in part.
    """
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in {"", "identity"}:
        return f"[{len(response.body)} bytes encoded as {_plain(encoding)[:40]}]"
    text = redactor.redact(response.body.decode("utf-8", "replace"))
    return _plain(text)[:chars_max]


def retry_after_seconds(response: HttpResponse, now: datetime) -> float | None:
    """Return the delay that an endpoint asks for, within bounds; None if it asks for none.

    Both forms of RFC 9110, section 10.2.3: seconds, and a date.
    """
    value = response.headers.get("retry-after", "").strip()
    if not value.isascii():
        return None
    if _SECONDS.fullmatch(value):
        seconds = float(value)
    else:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        if at.tzinfo is None:  # "-0000": HTTP dates are GMT
            at = at.replace(tzinfo=now.tzinfo)
        seconds = (at - now).total_seconds()
    return min(max(seconds, RETRY_AFTER_SECONDS_MIN), RETRY_AFTER_SECONDS_MAX)


def _header(name: str, value: str, redactor: Redactor) -> str:
    if name == "location":
        value = _without_query(value)
    return _plain(redactor.redact(value))[:HEADER_CHARS_MAX]


def _without_query(location: str) -> str:
    try:
        return read_url(location).shown
    except InvalidUrl:
        return re.split(r"[?#]", location, maxsplit=1)[0].rpartition("@")[2]


def _plain(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
