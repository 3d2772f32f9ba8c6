"""Cache of parsed work headers, by the bytes that many records share.

Most headers of a record are equal, byte for byte, to those of the next record of its claim. They
are looked up as one run of bytes; only an item's own headers are parsed. If items are due one by
one, those before the due time are looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from dueledger.ledger.claim_id import ClaimId, parse_claim_id
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header, header_name, read_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

_CACHE_MAX: Final = 4096
# From after the position to the first header of the item's own, in the allocator's order.
_SHARED: Final = slice(3, envelope.WORK_HEADERS.index(envelope.ID))
_BEFORE_TIME: Final = slice(3, envelope.WORK_HEADERS.index(envelope.TIME))
_UUID_CHARACTERS: Final = 36
_FENCE: Final = header_name(envelope.FENCE)
_TOKEN: Final = header_name(envelope.TOKEN)
_POSITION: Final = header_name(envelope.POSITION)
_ID: Final = header_name(envelope.ID)
_ITEM: Final = header_name(envelope.ITEM) + VARINTS[_UUID_CHARACTERS]
_SUBJECT: Final = header_name(envelope.SUBJECT)
_TRACEPARENT: Final = header_name(envelope.TRACEPARENT)
_TIME: Final = header_name(envelope.TIME)
_DUE_AT: Final = header_name(envelope.DUE_AT)

_cache: Final[dict[bytes, envelope.WorkHeaders]] = {}


def cache_headers(
    headers: Sequence[tuple[str, bytes | None]], parsed: envelope.WorkHeaders
) -> None:
    """Keep a record's parsed headers for records with the same shared headers."""
    names = tuple(name for name, _ in headers[: len(envelope.WORK_HEADERS)])
    if names == envelope.WORK_HEADERS:
        for part in (_BEFORE_TIME, _SHARED):
            shared = [header(name, value) for name, value in headers[part] if value is not None]
            _keep(b"".join(shared), parsed)


def _keep(shared: bytes, parsed: envelope.WorkHeaders) -> None:
    if len(_cache) >= _CACHE_MAX:
        _cache.clear()
    _cache[shared] = parsed


def cached_headers(body: bytes, at: int, end: int) -> envelope.WorkHeaders | None:
    """Return the work headers in the bytes from `at` to `end`.

    Returns None if their shared part is not cached, is in another order, or is malformed.
    """
    try:
        fence, at = _read_after(body, at, _FENCE)
        token, at = _read_after(body, at, _TOKEN)
        position, at = _read_after(body, at, _POSITION)
        for digits in (fence, position):
            if not (digits.isascii() and digits.isdigit()):
                return None
        claim_id = parse_claim_id(int(fence), token)
    except (ValueError, IndexError):
        return None
    return cached_headers_after_position(body, at, end, claim_id, int(position))


def cached_headers_after_position(
    body: bytes, at: int, end: int, claim_id: ClaimId, position: int
) -> envelope.WorkHeaders | None:
    """Return the work headers of a record of known claim and position; the others begin at `at`."""
    own = body.find(_ID, at, end)
    known = _cache.get(body[at:own]) or _cached_but_due_at(body[at:own])
    if known is None:
        return None
    fence_text = b"%d" % claim_id.fence
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
            claim_id,
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


def _cached_but_due_at(shared: bytes) -> envelope.WorkHeaders | None:
    """Return the headers if all but the due time are cached, and cache them."""
    time_at = shared.find(_TIME)
    known = _cache.get(shared[:time_at])
    if known is None:
        return None
    time_and_due_at = shared[time_at + len(_TIME) :]
    value = time_and_due_at[: (len(time_and_due_at) - len(_DUE_AT)) // 2]
    instant = value[1:]
    if time_and_due_at != value + _DUE_AT + value or value[:1] != VARINTS[len(instant)]:
        return None
    try:
        parsed = known._replace(due_at=envelope.parse_instant(instant))
    except ValueError:
        return None
    _keep(shared, parsed)
    return parsed


def _read_after(body: bytes, at: int, name: bytes) -> tuple[str, int]:
    if not body.startswith(name, at):
        raise ValueError("another header is there")
    return _read_text(body, at + len(name))


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    size, at = read_varint(body, at)
    return body[at : at + size].decode(), at + size
