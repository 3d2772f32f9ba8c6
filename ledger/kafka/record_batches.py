"""Fetched record batches and their records, parsed lazily.

A claim is one record batch, so nearly every record is the next position of its claim. Only this is
checked when a batch is read; key, value and headers are parsed when a handler needs them. Kafka's
client makes an object of each record and a tuple of each header, which took most of a worker's time
(see docs/measured-rates.md).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

from dueledger.ledger.errors import InvalidHeader, Problem
from dueledger.ledger.kafka.envelope import ID, ITEM, WORK_HEADERS, parse_work_headers
from dueledger.ledger.kafka.header_cache import (
    cache_headers,
    cached_headers,
    cached_headers_after_position,
)
from dueledger.ledger.kafka.record_format import VARINTS, header_name, read_varint
from dueledger.ledger.kafka.work_record_prefix import (
    POSITION_HEADERS,
    RECORD_PREFIXES,
    claim_headers,
    kind_and_attempt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.claim_id import ClaimId
    from dueledger.ledger.kafka.envelope import WorkHeaders
    from dueledger.ledger.kafka.record_format import BatchHeader

_MORE: Final = 0x80  # every byte of a varint but the last
_BITS: Final = 0x7F
_UUID_CHARACTERS: Final = 36
_ID: Final = header_name(ID)
_ITEM: Final = header_name(ITEM) + VARINTS[_UUID_CHARACTERS]
# From after the position to the first header of the item's own, in the allocator's order.
SHARED_HEADERS: Final = [header_name(each) for each in WORK_HEADERS[3 : WORK_HEADERS.index(ID)]]

RawHeaders = list[tuple[bytes, bytes | None]]


@final
class FetchedBatch:
    """One fetched batch. Records before `first_offset` were consumed earlier."""

    __slots__ = ("base_offset", "body", "first_offset", "next_offset", "size")

    def __init__(self, header: BatchHeader, body: bytes, first_offset: int) -> None:
        self.base_offset = header.base_offset
        self.next_offset = header.next_offset
        self.first_offset = max(first_offset, header.base_offset)
        self.size = max(1, min(header.records, self.next_offset - self.first_offset))
        self.body = body


class RawRecord(NamedTuple):
    """A parsed record, or the readable parts of a malformed one."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class KafkaRecord(NamedTuple):
    """A record of format v2, as a range of its batch's bytes.

    Its properties parse it on each access and raise InvalidHeader if it is malformed. `headers_at`
    is the offset of the headers after the position, or 0 if it is not known. A tuple: one an item.
    """

    body: bytes
    start: int
    end: int
    offset: int
    headers_at: int = 0

    @property
    def key(self) -> bytes | None:
        """The partition key."""
        return self._read()[0]

    @property
    def value(self) -> bytes | None:
        """The item's payload."""
        if self.headers_at:
            with suppress(ValueError, IndexError):
                _, at = _read_bytes(self.body, _key_at(self.body, self.start))
                return _read_bytes(self.body, at)[0]
        return self._read()[1]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers, in the order written."""
        return _named(self._read()[2])

    def work_headers(self) -> WorkHeaders:
        """Return its work headers, from the cache if possible."""
        cached = cached_headers(self.body, self._first_header_at(), self.end)
        return self._parse_all_headers() if cached is None else cached

    def work_headers_at(self, claim_id: ClaimId, position: int) -> WorkHeaders:
        """Return its work headers, of which claim and position are known."""
        cached = None
        if self.headers_at:
            cached = cached_headers_after_position(
                self.body, self.headers_at, self.end, claim_id, position
            )
        return self._parse_all_headers() if cached is None else cached

    def read_all(self) -> RawRecord:
        """Parse the complete record."""
        key, value, headers = self._read()
        return RawRecord(self.offset, key, value, _named(headers))

    def read_best_effort(self) -> RawRecord:
        """Parse what is readable. Of an unreadable record the value is all of its bytes."""
        try:
            key, value, headers = self._read()
        except InvalidHeader:
            return RawRecord(self.offset, None, self.body[self.start : self.end], [])
        readable = [(name.decode(errors="backslashreplace"), each) for name, each in headers]
        return RawRecord(self.offset, key, value, readable)

    def _parse_all_headers(self) -> WorkHeaders:
        headers = self.headers
        parsed = parse_work_headers(headers)
        cache_headers(headers, parsed)
        return parsed

    def _first_header_at(self) -> int:
        try:
            _, at = _read_bytes(self.body, _key_at(self.body, self.start))
            _, at = _read_bytes(self.body, at)
        except (ValueError, IndexError):
            return self.end
        return at + 1  # the number of headers is one byte

    def _read(self) -> tuple[bytes | None, bytes | None, RawHeaders]:
        try:
            key, value, headers, end = _read_record(self.body, self.start)
        except (ValueError, IndexError):
            raise _unreadable("a length in it is malformed") from None
        if end != self.end:
            raise _unreadable("its length is not that of its key, value and headers")
        return key, value, headers


# The named tuple's own constructor takes five times as long.
_AS_RECORD: Final = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    KafkaRecord,
)


@final
class RecordReader:
    """Iterates once over the records of a batch, from the first that was not consumed."""

    def __init__(self, batch: FetchedBatch) -> None:
        self._body = batch.body
        self._base_offset = batch.base_offset
        self._size = batch.next_offset - batch.base_offset
        self._at = 0
        self._index = 0  # in the batch, counted from 0
        self._first: KafkaRecord | None = None
        if batch.first_offset > batch.base_offset:
            record = self.next()
            while record is not None and record.offset < batch.first_offset:
                record = self.next()
            self._first = record

    def next(self) -> KafkaRecord | None:
        """Return the next record, or None after the last one.

        If its length or offset is malformed, it and all bytes after it are one unreadable record.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        body, at, index = self._body, self._at, self._index
        if at >= len(body):
            return None
        try:
            size, start = read_varint(body, at)
            index, _ = read_varint(body, _timestamp_end(body, start))
        except (ValueError, IndexError):
            size = start = 0
        end = start + size
        # Compaction removes records, but does not change their order.
        if size <= 0 or end > len(body) or not self._index <= index < self._size:
            start, end, index = at, len(body), min(self._index, self._size - 1)
        self._at, self._index = end, index + 1
        return KafkaRecord(body, start, end, self._base_offset + index)

    def next_of_claim(
        self, claim_id: ClaimId, position: int, kind: str, attempt: int, *, records_max: int
    ) -> list[KafkaRecord]:
        """Return the next records while they continue the claim, in order, up to `records_max`.

        The first has `position`. All have this claim, kind and attempt, and the allocator's order
        of headers; the first record that differs ends the list. The hottest loop of the worker.
        """
        body, at, index = self._body, self._at, self._index
        base_offset, end_max = self._base_offset, len(body)
        before, after = claim_headers(claim_id), kind_and_attempt(kind, attempt)
        count = min(self._size - index, (end_max - at) // (len(before) + len(after)), records_max)
        found: list[tuple[bytes, int, int, int, int]] = []
        append, starts_with = found.append, body.startswith
        before_bytes = len(before)
        for offset, prefix, position_header in zip(
            range(base_offset + index, base_offset + index + count),
            RECORD_PREFIXES.slice_from(index, count),
            POSITION_HEADERS.slice_from(position - 1, count),
            strict=False,
        ):
            try:
                # A length of two bytes is read here: the call of a function takes as long again.
                size, start = body[at], at + 1
                if size & _MORE:
                    more = body[start]
                    if more & _MORE:
                        size, start = _read_size(body, at)
                    else:
                        size, start = size & _BITS | more << 7, start + 1
                end = start + (size >> 1)
                if size & 1 or end > end_max or not starts_with(prefix, start):
                    break
                rest = start + len(prefix)
                size = body[rest]  # of the key
                rest += 1
                if size & _MORE:
                    size, rest = _read_size(body, rest - 1)
                rest += size >> 1
                size = body[rest]  # of the value
                rest += 1
                if size & _MORE:
                    more = body[rest]
                    if more & _MORE:
                        size, rest = _read_size(body, rest - 1)
                    else:
                        size, rest = size & _BITS | more << 7, rest + 1
                rest += (size >> 1) + 1  # the number of headers is one byte
            except (ValueError, IndexError):
                break
            headers_at = rest + before_bytes + len(position_header)
            if headers_at > end or not starts_with(before + position_header + after, rest):
                break
            append((body, start, end, offset, headers_at))
            at = end
        self._at, self._index = at, index + len(found)
        return list(map(_AS_RECORD, found))

    def next_items_of_claim(self, claim_id: ClaimId, position: int) -> list[bytes]:
        """Return the items' ids, as text, of the next records while they continue the claim.

        The first has `position`. All have this claim and the allocator's order of headers; the
        first record that differs ends the list. Keys, values and the headers between are skipped.
        """
        body, at, index, end_max = self._body, self._at, self._index, len(self._body)
        before = claim_headers(claim_id)
        after_id = b":%d%b" % (claim_id.fence, _ITEM)
        id_header = _ID + VARINTS[_UUID_CHARACTERS + len(after_id) - len(_ITEM)]
        shared = id_header
        count = min(self._size - index, (end_max - at) // len(before))
        found: list[bytes] = []
        for prefix, position_header in zip(
            RECORD_PREFIXES.slice_from(index, count),
            POSITION_HEADERS.slice_from(position - 1, count),
            strict=False,
        ):
            try:
                size, start = body[at], at + 1
                if size & _MORE:
                    size, start = _read_size(body, at)
                end = start + (size >> 1)
                if size & 1 or end > end_max or not body.startswith(prefix, start):
                    break
                rest = _skip_bytes(body, _skip_bytes(body, start + len(prefix)))
                rest += 1  # the number of headers is one byte
                expected = before + position_header
                if not body.startswith(expected, rest):
                    break
                rest += len(expected)
                if not body.startswith(shared, rest):  # an item of another kind or due time
                    own = _skip_headers(body, rest, SHARED_HEADERS)
                    shared = body[rest:own] + id_header
                    if not body.startswith(shared, rest):
                        break
                rest += len(shared)
            except (ValueError, IndexError):
                break
            item = body[rest : rest + _UUID_CHARACTERS]
            rest += _UUID_CHARACTERS
            if not body.startswith(after_id + item, rest) or rest + len(after_id + item) > end:
                break
            found.append(item)
            index += 1
            at = end
        self._at, self._index = at, index
        return found


def _skip_bytes(body: bytes, at: int) -> int:
    """Return the end of a key, name or value. Raises ValueError and IndexError."""
    size = body[at]
    at += 1
    if size & _MORE:
        size, at = _read_size(body, at - 1)
    if size & 1:
        if size > 1:
            raise ValueError("a length is negative")
        return at
    return at + (size >> 1)


def _skip_headers(body: bytes, at: int, names: Sequence[bytes]) -> int:
    """Return the end of headers with these names. Raises ValueError and IndexError."""
    for name in names:
        if not body.startswith(name, at):
            raise ValueError("another header is there")
        at = _skip_bytes(body, at + len(name))
    return at


def _read_record(body: bytes, start: int) -> tuple[bytes | None, bytes | None, RawHeaders, int]:
    """Return key, value, headers and end of the record whose attributes are at `start`.

    Raises ValueError and IndexError. The caller checks the end: a wrong length shows there.
    """
    key, at = _read_bytes(body, _key_at(body, start))
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    if not 0 <= count <= len(body) - at:
        raise ValueError("the number of headers is negative or exceeds the record")
    headers: RawHeaders = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        if name is None:
            raise ValueError("a header without a name")
        content, at = _read_bytes(body, at)
        headers.append((name, content))
    return key, value, headers, at


def _timestamp_end(body: bytes, start: int) -> int:
    """Return the offset after the attributes and the timestamp delta."""
    at = start + 1
    while body[at] & _MORE:
        at += 1
    return at + 1


def _key_at(body: bytes, start: int) -> int:
    """Return the offset after the attributes, the timestamp delta and the offset delta."""
    at = _timestamp_end(body, start)
    while body[at] & _MORE:
        at += 1
    return at + 1


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    size = body[at]
    at += 1
    if size & _MORE:
        size, at = _read_size(body, at - 1)
    if size & 1:
        if size > 1:
            raise ValueError("a length is negative")
        return None, at
    end = at + (size >> 1)
    return body[at:end], end


def _read_size(body: bytes, at: int) -> tuple[int, int]:
    """Return the length at `at`, still zigzag-encoded (odd if negative), and its end."""
    second = body[at + 1]
    if not second & _MORE:
        return body[at] & _BITS | second << 7, at + 2
    number, at = read_varint(body, at)
    return (number << 1 if number >= 0 else (-number << 1) - 1), at


def _named(headers: RawHeaders) -> list[tuple[str, bytes | None]]:
    try:
        return [(name.decode(), value) for name, value in headers]
    except UnicodeDecodeError:
        raise _unreadable("a header name is not UTF-8") from None


def _unreadable(reason: str) -> InvalidHeader:
    return InvalidHeader("the record cannot be read", [Problem("record", "", reason)])
