"""The part of a definition that sends its items to an HTTP endpoint.

A definition names secrets and never contains them: everybody with read access sees it.
"""

import re
from datetime import timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from dueledger.ledger.definitions.fields import (
    PATH_CHARS_MAX,
    DocumentPart,
    JmesPath,
    Token,
    chars,
    check_path,
    field_error,
)
from dueledger.ledger.definitions.http_url import InvalidUrl, read_url
from dueledger.ledger.schedule.expressions import Period, value_error

HEADERS_MAX: Final = 32
BODY_FIELDS_MAX: Final = 100
HEADER_CHARS_MAX: Final = 1000
TIMEOUT_MAX: Final = timedelta(minutes=5)
CONCURRENCY_MAX: Final = 256
TOPIC_PREFIX: Final = "due-http."

_BODILESS: Final = frozenset({"GET", "DELETE"})
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_PLAIN: Final = frozenset({"url", "method", "body", "timeout", "concurrency", "partition_key"})
# The client sets these: they frame and carry the message.
_OF_THE_CLIENT: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# The dispatcher sets these: they describe the item.
_OF_THE_ITEM: Final = frozenset({"idempotency-key", "traceparent", "tracestate"})
_PREFIXES_OF_THE_ITEM: Final = ("ce-", "webhook-")
_SECRET: Final = re.compile(
    r"(proxy-)?authorization|cookie|(.*[-_])?(api[-_]?key|password|secret|token)"
)


def _check_url(text: str) -> str:
    try:
        return str(read_url(text))
    except InvalidUrl as error:
        withheld = not {"@", "?"}.isdisjoint(text)  # a password before @, or a token after ?
        raise PydanticCustomError(
            "refused",
            "{reason}",
            {"reason": error.reason, "accepted": error.accepted, "withheld": withheld},
        ) from None


def _check_secret_name(text: str) -> str:
    if text.startswith("whsec_"):
        raise value_error(
            "is a secret, not the name of a secret", "the name of one of the worker's secrets"
        )
    return text


def _check_header_value(text: str) -> str:
    if not _HEADER_VALUE.fullmatch(text):
        raise value_error(
            "has a character that a header cannot contain",
            "printable ASCII without leading or trailing spaces",
        )
    return text


Url = Annotated[str, chars(10_000), AfterValidator(_check_url)]
SecretName = Annotated[Token, AfterValidator(_check_secret_name)]
HeaderName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", strict=True),
]
HeaderValue = Annotated[str, chars(HEADER_CHARS_MAX), AfterValidator(_check_header_value)]


class HttpDispatch(DocumentPart):
    """The request that works an item. `retry` beside `dispatch` limits its repetitions."""

    url: Url = Field(description="an https address, or an http one on the worker's allow list")
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = "POST"
    headers: dict[HeaderName, HeaderValue] = Field(
        default_factory=dict, max_length=HEADERS_MAX, description="constants; nothing secret"
    )
    secret_headers: dict[HeaderName, SecretName] = Field(
        default_factory=dict,
        max_length=HEADERS_MAX,
        description="headers whose value is a secret of the tenant, by the secret's name",
    )
    secret: SecretName | None = Field(
        default=None,
        description="name of the tenant's secret that signs the request; none: unsigned",
    )
    body: JsonValue = Field(
        default=None,
        description="a JMESPath on {item, payload}, or a map of name to JMESPath; "
        "none: the payload byte for byte",
    )
    timeout: Period = Field(
        default=timedelta(seconds=15),
        le=TIMEOUT_MAX,
        description="of the whole exchange; at most four fifths of the worker's lease apply",
    )
    concurrency: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX, strict=True)] = 32
    partition_key: JmesPath = "business_key"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.method in _BODILESS and self.body is not None:
            raise field_error(
                "body", f"a {self.method} request has no body", "method: POST, or no body"
            )
        for field, path in self._paths().items():
            _check_body(field, path)
        names = [name.lower() for name in (*self.headers, *self.secret_headers)]
        for name in (*self.headers, *self.secret_headers):
            field = "headers" if name in self.headers else "secret_headers"
            _check_header_name(f"{field}.{name}", name.lower())
            if names.count(name.lower()) > 1:
                raise field_error(
                    f"{field}.{name}", "given twice", "the header once", withheld=True
                )
        for name in self.headers:
            if _SECRET.fullmatch(name.lower()):
                raise field_error(
                    f"headers.{name}",
                    "a secret does not belong in a definition",
                    f"secret_headers: {{{name}: the name of a secret}}",
                    withheld=True,
                )
        return self

    def _paths(self) -> dict[str, JsonValue]:
        match self.body:
            case None:
                return {}
            case dict() as fields if 1 <= len(fields) <= BODY_FIELDS_MAX:
                return {f"body.{name}": path for name, path in fields.items()}
            case dict():
                raise field_error("body", f"not 1 to {BODY_FIELDS_MAX} fields", "a path to a map")
            case path:
                return {"body": path}


def _check_body(field: str, path: object) -> None:
    accepted = "a path such as payload.premium or item.business_key"
    if not isinstance(path, str) or not 1 <= len(path) <= PATH_CHARS_MAX:
        raise field_error(field, f"no JMESPath of 1 to {PATH_CHARS_MAX} characters", accepted)
    try:
        check_path(path)
    except PydanticCustomError as error:
        raise field_error(field, str((error.context or {})["reason"]), accepted) from None


def may_be_secret(path: str) -> bool:
    """Return whether the value at a path must not be quoted in a message.

    Somebody may have written the secret where its name, or nothing, belongs.
    """
    beginning, _, rest = path.partition("dispatch.http.")
    return not beginning and bool(rest) and rest.split(".")[0] not in _PLAIN


def http_topic(tenant: str, kind: str) -> str:
    """Return the topic between the allocator and the workers that send a kind by HTTP.

    One topic for each endpoint: items that wait for a hanging endpoint delay no other endpoint.
    """
    return f"{TOPIC_PREFIX}{tenant}.{kind}"


def _check_header_name(field: str, name: str) -> None:
    if name in _OF_THE_CLIENT:
        raise field_error(field, "is set by the HTTP client", "no such header", withheld=True)
    if name in _OF_THE_ITEM or name.startswith(_PREFIXES_OF_THE_ITEM):
        raise field_error(
            field, "describes the item and is always sent", "no such header", withheld=True
        )
