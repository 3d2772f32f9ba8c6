"""Decompression of record batches, with a limit on the decompressed size.

A few kilobytes may decompress to gigabytes. Codecs are numbered as in the attributes of a batch.
"""

import mmap
import struct
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeAlias

import cramjam

DECODED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit for one batch. Brokers accept batches of a megabyte by default."""

_KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES: Final = 16

_Decompressor: TypeAlias = Callable[[memoryview, memoryview], int]

_lock: Final = Lock()
# Decompressed bytes go here first, because their number is not known before. Only written pages
# take memory.
_output_buffer: Final = mmap.mmap(
    -1, DECODED_BYTES_MAX, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
)


class DecompressionFailed(Exception):
    """The bytes do not match the batch's codec, or decompress to more than the limit."""


def decompress(codec: int, compressed: memoryview) -> bytes:
    """Decompress the records of a batch. Raises DecompressionFailed."""
    if codec == 0:
        return bytes(compressed)
    decode = _DECODERS.get(codec)
    if decode is None:
        raise DecompressionFailed(f"there is no codec {codec}")
    with _lock:
        size = DECODED_BYTES_MAX
        try:
            with memoryview(_output_buffer) as scratch:
                size = decode(compressed, scratch)
            return _output_buffer[:size]
        except (cramjam.DecompressionError, struct.error) as error:
            raise DecompressionFailed(str(error)) from error
        finally:
            if size > _KEPT_BYTES_MAX:
                _output_buffer.madvise(mmap.MADV_DONTNEED)


def _snappy_into(view: memoryview, output: memoryview) -> int:
    """Decompress raw snappy, or the length-prefixed blocks that Java clients write."""
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return cramjam.snappy.decompress_raw_into(view, output)
    at, size = _XERIAL_HEADER_BYTES, 0
    while at < len(view) or size == 0:
        (length,) = struct.unpack_from("!I", view, at)
        at += 4
        size += cramjam.snappy.decompress_raw_into(view[at : at + length], output[size:])
        at += length
    return size


_DECODERS: Final[dict[int, _Decompressor]] = {
    1: cramjam.gzip.decompress_into,
    2: _snappy_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}
