"""What a work record's headers say, read once for all records that say the same.

Items of a claim differ in little: most of a record's headers are those of its neighbour, byte for
byte. So they are looked up as one stretch, and only what is an item's own is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header, header_name, read_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

_CACHE_MAX: Final = 4096
# Between the position and what is an item's own, in the allocator's order.
_SHARED: Final = slice(2, envelope.WORK_HEADERS.index(envelope.ID))
_UUID_CHARACTERS: Final = 36
_FENCE: Final = header_name(envelope.FENCE)
_POSITION: Final = header_name(envelope.POSITION)
_ID: Final = header_name(envelope.ID)
_ITEM: Final = header_name(envelope.ITEM) + VARINTS[_UUID_CHARACTERS]
_SUBJECT: Final = header_name(envelope.SUBJECT)
_TRACEPARENT: Final = header_name(envelope.TRACEPARENT)

_cache: Final[dict[bytes, envelope.WorkHeaders]] = {}


def cache_headers(headers: Sequence[tuple[str, bytes | None]], told: envelope.WorkHeaders) -> None:
    """Keep what a record says for those that say the same."""
    names = tuple(name for name, _ in headers[: len(envelope.WORK_HEADERS)])
    if names == envelope.WORK_HEADERS:
        if len(_cache) >= _CACHE_MAX:
            _cache.clear()
        shared = [header(name, value) for name, value in headers[_SHARED] if value is not None]
        _cache[b"".join(shared)] = told


def cached_headers(body: bytes, at: int, end: int) -> envelope.WorkHeaders | None:
    """Return what the headers from `at` to `end` say.

    None where nobody has said the same before, or where they are in another order or malformed.
    """
    place: list[int] = []
    for name in (_FENCE, _POSITION):
        if not body.startswith(name, at):
            return None
        try:
            text, at = _read_text(body, at + len(name))
        except (ValueError, IndexError):
            return None
        if not (text.isascii() and text.isdigit()):
            return None
        place.append(int(text))
    return cached_headers_after_position(body, at, end, (place[0], place[1]))


def cached_headers_after_position(
    body: bytes, at: int, end: int, place: tuple[int, int]
) -> envelope.WorkHeaders | None:
    """Return what headers say whose fence and position are known and that go on at `at`."""
    fence, position = place
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
