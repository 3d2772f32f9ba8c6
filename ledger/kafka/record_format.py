"""Kafka's record format v2: the parts that writing and reading records share. Pure.

A batch is a header of 61 bytes and its records, compressed together or not. Inside a record every
length and number is a zigzag varint. https://kafka.apache.org/documentation/#messageformat
"""

from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = 2
CODEC_MASK: Final = 0x07
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

MAGIC_OFFSET: Final = 16
CHECKED_OFFSET: Final = 21
"""Offset of the attributes: the CRC covers the batch from here on."""
_LENGTH_OFFSET: Final = 8
_LENGTH_END: Final = 12

# Base offset, length, leader epoch, magic, CRC. Then the fields that the CRC covers: attributes,
# last offset delta, first and maximal timestamp, producer id, epoch and base sequence, number of
# records.
_FRONT: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
BATCH_HEADER_BYTES: Final = _FRONT.size + _CHECKED.size
_NO_LEADER_EPOCH: Final = -1

_VARINT_LAST_BITS: Final = 0x7F
_VARINT_MORE: Final = 0x80
_VARINT_BYTES_MAX: Final = 10
_VARINTS_KEPT: Final = 8192


class BatchHeader(NamedTuple):
    """The header of a batch, before its records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def next_offset(self) -> int:
        """The offset after the batch. It counts records that compaction removed."""
        return self.base_offset + self.last_offset_delta + 1


def batch_end(fetched: bytes, start: int) -> int | None:
    """Return the end of the batch at `start`, or None if the batch is cut off or missing."""
    if len(fetched) - start < MAGIC_OFFSET + 1:
        return None
    length = fetched[start + _LENGTH_OFFSET : start + _LENGTH_END]
    end = start + _LENGTH_END + int.from_bytes(length)
    return end if end <= len(fetched) else None


def read_batch_header(batch: bytes | memoryview) -> BatchHeader:
    """Read the header of a complete batch of format v2."""
    return BatchHeader(*_FRONT.unpack_from(batch), *_CHECKED.unpack_from(batch, CHECKED_OFFSET))


def write_checked(
    *,
    codec: int,
    count: int,
    timestamp_milliseconds: int,
    producer: tuple[int, int, int],
) -> bytes:
    """Return the second part of a batch's header, which the CRC covers.

    `producer` is its id, epoch and the batch's first sequence number.
    """
    return _CHECKED.pack(
        codec, count - 1, timestamp_milliseconds, timestamp_milliseconds, *producer, count
    )


def write_front(length: int, crc: int) -> bytes:
    """Return the first part of a batch's header; the CRC covers `length` bytes."""
    return _FRONT.pack(0, length + CHECKED_OFFSET - _LENGTH_END, _NO_LEADER_EPOCH, MAGIC, crc)


def encode_varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while rest > _VARINT_LAST_BITS:
        encoded.append(rest & _VARINT_LAST_BITS | _VARINT_MORE)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


class _Varints(dict[int, bytes]):
    """Varints of non-negative numbers. Those below `_VARINTS_KEPT` are encoded once."""

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if number < _VARINTS_KEPT:
            self[number] = encoded
        return encoded


VARINTS: Final = _Varints()
"""The varint of a non-negative number. A lookup costs a tenth of the encoding."""


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag varint at `at`, and its end. Raises ValueError and IndexError."""
    rest = shift = 0
    for place in range(at, at + _VARINT_BYTES_MAX):
        byte = body[place]
        rest |= (byte & _VARINT_LAST_BITS) << shift
        if byte < _VARINT_MORE:
            return rest >> 1 ^ -(rest & 1), place + 1
        shift += 7
    raise ValueError(f"a varint is longer than {_VARINT_BYTES_MAX} bytes")


def header(name: str, value: bytes) -> bytes:
    """Return one header of a record."""
    return b"%b%b%b" % (header_name(name), VARINTS[len(value)], value)


def header_name(name: str) -> bytes:
    """Return the encoded name of a header, which precedes the length of its value."""
    encoded = name.encode()
    return VARINTS[len(encoded)] + encoded
