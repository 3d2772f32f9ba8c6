"""Versions of what a request replaces: ETag, If-Match, If-None-Match (RFC 9110)."""

from typing import Annotated, Final

from fastapi import Header, Response

from dueledger.ledger.errors import PreconditionFailed, PreconditionMissing
from dueledger.service.documents import answer

HEADER_CHARS_MAX: Final = 1_000

IfMatch = Annotated[
    str | None,
    Header(
        max_length=HEADER_CHARS_MAX,
        description="The ETag of the version that is replaced. Needed unless there is none yet.",
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        max_length=HEADER_CHARS_MAX,
        description="The ETag of a version that is known: the answer is then 304, without a body.",
    ),
]


def etag_of(version: object) -> str:
    """Return the ETag of a version."""
    return f'"{version}"'


def check_match(if_match: str | None, version: object | None) -> None:
    """Raise PreconditionMissing or PreconditionFailed unless If-Match names the version.

    Without a version there is nothing to replace, and no header is needed.
    """
    if if_match is None:
        if version is not None:
            message = f"It exists. Read it, and send its ETag as If-Match: {etag_of(version)}."
            raise PreconditionMissing(message)
        return
    if version is None:
        raise PreconditionFailed("There is none yet. Send the request without If-Match.")
    if not _names(if_match, version):
        message = f"It has changed: its ETag is {etag_of(version)} now. Read it again."
        raise PreconditionFailed(message)


def answer_version(
    document: object, version: object, if_none_match: str | None = None, status: int = 200
) -> Response:
    """Return a document with the ETag of its version; nothing but that if it is known."""
    headers = {"ETag": etag_of(version)}
    if if_none_match is not None and _names(if_none_match, version, weak=True):
        return Response(None, 304, headers)
    return answer(document, status, headers)


def _names(header: str, version: object, *, weak: bool = False) -> bool:
    given = [each.strip() for each in header.split(",")]
    if weak:
        given = [each.removeprefix("W/") for each in given]
    return "*" in given or etag_of(version) in given
