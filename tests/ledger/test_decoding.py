"""Compressed batches of any client are decompressed, and none beyond its bound."""

import gzip
import pathlib
import resource
import struct
from collections.abc import Callable

import cramjam
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX, DecompressionFailed, decompress

TEXT = b"premium 123.45 " * 20_000
HUGE = bytes(DECODED_BYTES_MAX + 1)


def raw_snappy_encode(payload: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(payload))


ENCODED = {
    "gzip": (1, gzip_encode(TEXT)),
    "gzip-in-parts": (1, gzip.compress(TEXT[:777]) + gzip.compress(TEXT[777:])),
    "snappy": (2, snappy_encode(TEXT)),
    "snappy-raw": (2, raw_snappy_encode(TEXT)),
    "lz4": (3, lz4_encode(TEXT)),
    "lz4-in-parts": (3, lz4_encode(TEXT[:777]) + lz4_encode(TEXT[777:])),
    "zstd": (4, zstd_encode(TEXT)),
}


@pytest.mark.parametrize("name", ENCODED)
def test_what_was_compressed_comes_back(name: str) -> None:
    codec, compressed = ENCODED[name]
    assert decompress(codec, memoryview(compressed)) == TEXT


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("cut", [0, 1, 10, 30])
def test_what_was_cut_off_is_refused(name: str, cut: int) -> None:
    codec, compressed = ENCODED[name]
    with pytest.raises(DecompressionFailed):
        decompress(codec, memoryview(compressed)[: cut or -3])


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (1, gzip_encode),
        (2, snappy_encode),
        (2, raw_snappy_encode),
        (3, lz4_encode),
        (4, zstd_encode),
    ],
    ids=["gzip", "snappy", "snappy-raw", "lz4", "zstd"],
)
def test_what_would_be_too_much_is_refused_and_its_memory_given_back(
    codec: int, compress: Callable[[bytes], bytes]
) -> None:
    compressed = compress(HUGE)
    for _ in range(3):
        with pytest.raises(DecompressionFailed):
            decompress(codec, memoryview(compressed))
    with pathlib.Path("/proc/self/statm").open() as statm:
        before = int(statm.read().split()[1])
    with pytest.raises(DecompressionFailed):
        decompress(codec, memoryview(compressed))
    with pathlib.Path("/proc/self/statm").open() as statm:
        after = int(statm.read().split()[1])
    assert (after - before) * resource.getpagesize() < DECODED_BYTES_MAX / 4


def test_exactly_as_much_as_may_be_is_had() -> None:
    assert decompress(4, memoryview(zstd_encode(HUGE[1:]))) == HUGE[1:]


@pytest.mark.parametrize("length", [0, -4, -1, 2**31 - 1])
def test_a_block_of_snappy_whose_length_lies_is_refused(length: int) -> None:
    lying = snappy_encode(TEXT)[:16] + struct.pack("!i", length)
    with pytest.raises(DecompressionFailed):
        decompress(2, memoryview(lying))


def test_a_codec_that_there_is_not_is_refused() -> None:
    with pytest.raises(DecompressionFailed, match="no codec 7"):
        decompress(7, memoryview(b""))
