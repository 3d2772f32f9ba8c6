"""Record batches as fetched, and their records, read as far as somebody asks.

A claim is one record batch, so nearly every record only says that it is the next of its claim. That
much is read of it; the rest waits until a handler asks. Kafka's client makes an object of each
record and a tuple of each header: that was most of what a worker did (see docs/performance.md).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, final

from dueledger.ledger.errors import InvalidHeader, Problem
from dueledger.ledger.kafka.envelope import parse_work_headers
from dueledger.ledger.kafka.header_cache import (
    cache_headers,
    cached_headers,
    cached_headers_after_position,
)
from dueledger.ledger.kafka.record_format import read_varint
from dueledger.ledger.kafka.work_record_prefix import (
    POSITION_HEADERS,
    RECORD_PREFIXES,
    fence_header,
    kind_and_attempt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.kafka.envelope import WorkHeaders
    from dueledger.ledger.kafka.record_format import BatchHeader

_MORE: Final = 0x80  # every byte of a varint but the last
_BITS: Final = 0x7F

RawHeaders = list[tuple[bytes, bytes | None]]


@final
class FetchedBatch:
    """Records that were fetched together; those before `first_offset` were consumed before."""

    __slots__ = ("base_offset", "body", "first_offset", "next_offset", "size")

    def __init__(self, header: BatchHeader, body: bytes, first_offset: int) -> None:
        self.base_offset = header.base_offset
        self.next_offset = header.next_offset
        self.first_offset = max(first_offset, header.base_offset)
        self.size = max(1, min(header.records, self.next_offset - self.first_offset))
        self.body = body


class RawRecord(NamedTuple):
    """A record that was read, or what can be told of one that cannot be."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@final
class KafkaRecord:
    """A record of format v2: a stretch of its batch's bytes.

    What it says is read when it is asked for. Raises InvalidHeader where it cannot be read.
    `rest` is where its headers go on after fence and position, where those are known.
    """

    __slots__ = ("_body", "_end", "_headers_from", "_start", "offset")

    def __init__(self, body: bytes, start: int, end: int, offset: int, rest: int = 0) -> None:
        self._body = body
        self._start = start
        self._end = end
        self._headers_from = rest
        self.offset = offset

    @property
    def key(self) -> bytes | None:
        """What chose its partition."""
        return self._read()[0]

    @property
    def value(self) -> bytes | None:
        """The item's payload."""
        if self._headers_from:
            with suppress(ValueError, IndexError):
                _, at = _read_bytes(self._body, _key_at(self._body, self._start))
                return _read_bytes(self._body, at)[0]
        return self._read()[1]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, in the order written."""
        return _named(self._read()[2])

    def work_headers(self) -> WorkHeaders:
        """Return what its headers say."""
        told = cached_headers(self._body, self._headers_at(), self._end)
        return self._parse_all_headers() if told is None else told

    def work_headers_at(self, fence: int, position: int) -> WorkHeaders:
        """Return what its headers say, of which these are known."""
        told = None
        if self._headers_from:
            told = cached_headers_after_position(
                self._body, self._headers_from, self._end, (fence, position)
            )
        return self._parse_all_headers() if told is None else told

    def read_all(self) -> RawRecord:
        """Return all of it, read at once."""
        key, value, headers = self._read()
        return RawRecord(self.offset, key, value, _named(headers))

    def read_best_effort(self) -> RawRecord:
        """Return what can be read of it, or else its bytes as the value."""
        try:
            key, value, headers = self._read()
        except InvalidHeader:
            return RawRecord(self.offset, None, self._body[self._start : self._end], [])
        told = [(name.decode(errors="backslashreplace"), each) for name, each in headers]
        return RawRecord(self.offset, key, value, told)

    def _parse_all_headers(self) -> WorkHeaders:
        headers = self.headers
        told = parse_work_headers(headers)
        cache_headers(headers, told)
        return told

    def _headers_at(self) -> int:
        try:
            _, at = _read_bytes(self._body, _key_at(self._body, self._start))
            _, at = _read_bytes(self._body, at)
        except (ValueError, IndexError):
            return self._end
        return at + 1  # how many there are is one byte

    def _read(self) -> tuple[bytes | None, bytes | None, RawHeaders]:
        try:
            key, value, headers, end = _read_record(self._body, self._start)
        except (ValueError, IndexError):
            raise _unreadable("a length in it cannot be read") from None
        if end != self._end:
            raise _unreadable("what is in it does not end where it ends")
        return key, value, headers


@final
class RecordReader:
    """Goes through the records of a batch once, from the first that was not consumed."""

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

        Where a length or its offset is none, it and all that follow are one that cannot be read.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        body, at, place = self._body, self._at, self._index
        if at >= len(body):
            return None
        try:
            size, start = read_varint(body, at)
            place, _ = read_varint(body, _age_end(body, start))
        except (ValueError, IndexError):
            size = start = 0
        end = start + size
        # Compaction leaves holes, but turns nobody round.
        if size <= 0 or end > len(body) or not self._index <= place < self._size:
            start, end, place = at, len(body), min(self._index, self._size - 1)
        self._at, self._index = end, place + 1
        return KafkaRecord(body, start, end, self._base_offset + place)

    def next_of_claim(
        self, fence: int, position: int, kind: str, attempt: int
    ) -> list[KafkaRecord]:
        """Return the records from here on that are the next of their claim, in order.

        From `position` on, all of one kind and attempt, and as the allocator writes them: whichever
        differs ends them. The hottest loop of the worker.
        """
        body, at, place = self._body, self._at, self._index
        base_offset, end_max = self._base_offset, len(body)
        beginning, going_on = fence_header(fence), kind_and_attempt(kind, attempt)
        count = min(self._size - place, (end_max - at) // (len(beginning) + len(going_on)))
        found: list[KafkaRecord] = []
        append = found.append
        for opening, in_claim in zip(
            RECORD_PREFIXES.slice_from(place, count),
            POSITION_HEADERS.slice_from(position - 1, count),
            strict=False,
        ):
            try:
                size, start = body[at], at + 1
                if size & _MORE:
                    size, start = _read_size(body, at)
                end = start + (size >> 1)
                if size & 1 or end > end_max or not body.startswith(opening, start):
                    break
                rest = start + len(opening)
                size = body[rest]  # of the key
                rest += 1
                if size & _MORE:
                    size, rest = _read_size(body, rest - 1)
                rest += size >> 1
                size = body[rest]  # of the value
                rest += 1
                if size & _MORE:
                    size, rest = _read_size(body, rest - 1)
                rest += (size >> 1) + 1  # how many headers there are is one byte
            except (ValueError, IndexError):
                break
            expected = beginning + in_claim
            if not body.startswith(expected + going_on, rest):
                break
            rest += len(expected)
            if rest > end:
                break
            append(KafkaRecord(body, start, end, base_offset + place, rest))
            place += 1
            at = end
        self._at, self._index = at, place
        return found


def _read_record(body: bytes, start: int) -> tuple[bytes | None, bytes | None, RawHeaders, int]:
    """Read key, value and headers of the record whose attributes are at `start`, and its end.

    Raises ValueError and IndexError. A length that lies is found by the end.
    """
    key, at = _read_bytes(body, _key_at(body, start))
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    if not 0 <= count <= len(body) - at:
        raise ValueError("absurdly many headers, or fewer than none")
    headers: RawHeaders = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        if name is None:
            raise ValueError("a header without a name")
        told, at = _read_bytes(body, at)
        headers.append((name, told))
    return key, value, headers, at


def _age_end(body: bytes, start: int) -> int:
    """Pass by the attributes and the age."""
    at = start + 1
    while body[at] & _MORE:
        at += 1
    return at + 1


def _key_at(body: bytes, start: int) -> int:
    """Pass by the attributes, the age and the offset."""
    at = _age_end(body, start)
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
            raise ValueError("shorter than nothing")
        return None, at
    end = at + (size >> 1)
    return body[at:end], end


def _read_size(body: bytes, at: int) -> tuple[int, int]:
    """Return twice the length whose varint is at `at`, or one more where it is negative."""
    second = body[at + 1]
    if not second & _MORE:
        return body[at] & _BITS | second << 7, at + 2
    number, at = read_varint(body, at)
    return (number << 1 if number >= 0 else (-number << 1) - 1), at


def _named(headers: RawHeaders) -> list[tuple[str, bytes | None]]:
    try:
        return [(name.decode(), value) for name, value in headers]
    except UnicodeDecodeError:
        raise _unreadable("the name of a header is not UTF-8") from None


def _unreadable(reason: str) -> InvalidHeader:
    return InvalidHeader("the record cannot be read", [Problem("record", "", reason)])
