"""Cache of parsed work headers, by the bytes that many records share.

Most headers of a record are equal, byte for byte, to those of the next record of its claim. They
are looked up as one run of bytes; only an item's own headers are parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header, header_name, read_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

_CACHE_MAX: Final = 4096
# From after the position to the first header of the item's own, in the allocator's order.
_SHARED: Final = slice(2, envelope.WORK_HEADERS.index(envelope.ID))
_UUID_CHARACTERS: Final = 36
_FENCE: Final = header_name(envelope.FENCE)
_POSITION: Final = header_name(envelope.POSITION)
_ID: Final = header_name(envelope.ID)
_ITEM: Final = header_name(envelope.ITEM) + VARINTS[_UUID_CHARACTERS]
_SUBJECT: Final = header_name(envelope.SUBJECT)
_TRACEPARENT: Final = header_name(envelope.TRACEPARENT)

_cache: Final[dict[bytes, envelope.WorkHeaders]] = {}


def cache_headers(
    headers: Sequence[tuple[str, bytes | None]], parsed: envelope.WorkHeaders
) -> None:
    """Keep a record's parsed headers for records with the same shared headers."""
    names = tuple(name for name, _ in headers[: len(envelope.WORK_HEADERS)])
    if names == envelope.WORK_HEADERS:
        if len(_cache) >= _CACHE_MAX:
            _cache.clear()
        shared = [header(name, value) for name, value in headers[_SHARED] if value is not None]
        _cache[b"".join(shared)] = parsed


def cached_headers(body: bytes, at: int, end: int) -> envelope.WorkHeaders | None:
    """Return the work headers in the bytes from `at` to `end`.

    Returns None if their shared part is not cached, is in another order, or is malformed.
    """
    fence_and_position: list[int] = []
    for name in (_FENCE, _POSITION):
        if not body.startswith(name, at):
            return None
        try:
            text, at = _read_text(body, at + len(name))
        except (ValueError, IndexError):
            return None
        if not (text.isascii() and text.isdigit()):
            return None
        fence_and_position.append(int(text))
    fence, position = fence_and_position
    return cached_headers_after_position(body, at, end, (fence, position))


def cached_headers_after_position(
    body: bytes, at: int, end: int, fence_and_position: tuple[int, int]
) -> envelope.WorkHeaders | None:
    """Return the work headers of a record of known fence and position; the others begin at `at`."""
    fence, position = fence_and_position
    own = body.find(_ID, at, end)
    known = _cache.get(body[at:own])
    if known is None:
        return None
    fence_text = b"%d" % fence
    at = own + len(_ID) + 1  # the length: less than 64 with any fence
    item = body[at : at + _UUID_CHARACTERS]
    identity = b"%b%b:%b" % (VARINTS[_UUID_CHARACTERS + 1 + len(fence_text)], item, fence_text)
    repeated = b"%b%b%b" % (_ITEM, item, _SUBJECT)
    if not body.startswith(identity + repeated, at - 1):
        return None
    at += len(identity) - 1 + len(repeated)
    try:
        subject, at = _read_text(body, at)
        traceparent = None
        if body.startswith(_TRACEPARENT, at):
            traceparent, at = _read_text(body, at + len(_TRACEPARENT))
        if at != end:
            return None
        return envelope.WorkHeaders(
            fence,
            position,
            known.kind,
            known.tenant,
            subject,
            known.cycle,
            known.effective_date,
            known.due_at,
            UUID(item.decode()),
            known.attempt,
            known.content_type,
            traceparent,
        )
    except (ValueError, IndexError):
        return None


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    size, at = read_varint(body, at)
    return body[at : at + size].decode(), at + size
