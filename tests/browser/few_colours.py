"""PNG files in few colours: a third of the size, for pictures that are committed."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB = 3
_PALETTE = 3
"""The colour type of rows that have an index for each pixel."""
_PAETH = 4
"""The filter of rows that takes off the nearest of the pixels to the left and above."""
Pixels = NDArray[np.uint8]


def in_few_colours(png: bytes, colours: int = 64) -> bytes:
    """Return a screenshot with the colours that leave the smallest error, chosen one by one."""
    pixels = _read(png)
    found, indexes, counts = np.unique(
        pixels.reshape(-1, _RGB), axis=0, return_inverse=True, return_counts=True
    )
    points = found.astype(np.int64)
    chosen = [int(counts.argmax())]
    distances = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    nearest = np.zeros(len(points), dtype=np.uint8)
    while len(chosen) < colours and distances.any():
        chosen.append(int((distances * counts).argmax()))
        to_last = ((points - points[chosen[-1]]) ** 2).sum(axis=1)
        nearest[to_last < distances] = len(chosen) - 1
        distances = np.minimum(distances, to_last)
    height, width, _ = pixels.shape
    return _write(nearest[indexes].reshape(height, width), found[chosen])


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        [size] = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _read(png: bytes) -> Pixels:
    """Return the pixels of a file of 8 bits a channel, without transparency."""
    chunks = list(_chunks(png))
    width, height, depth, colour_type = struct.unpack_from(">IIBB", dict(chunks)[b"IHDR"])
    channels = {2: 3, 6: 4}[colour_type]
    assert depth == 8
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    stride = width * channels
    above = bytearray(stride)
    rows: list[bytearray] = []
    for start in range(0, height * (stride + 1), stride + 1):
        row = bytearray(data[start + 1 : start + 1 + stride])
        _unfilter(row, above, data[start], channels)
        rows.append(row)
        above = row
    pixels = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(height, width, channels)
    return pixels[:, :, :_RGB]


def _unfilter(row: bytearray, above: bytearray, method: int, step: int) -> None:
    """Add to each byte what its row's filter took off it."""
    for index in range(len(row)) if method else ():
        left, corner = (row[index - step], above[index - step]) if index >= step else (0, 0)
        up = above[index]
        if method == _PAETH:
            added = min((left, up, corner), key=lambda each: abs(left + up - corner - each))
        else:
            added = (left, up, (left + up) // 2)[method - 1]
        row[index] = (row[index] + added) & 255


def _write(indexes: Pixels, palette: Pixels) -> bytes:
    height, width = indexes.shape
    rows = np.insert(indexes, 0, 0, axis=1).tobytes()  # each begins with the number of no filter
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0),
        b"PLTE": palette.tobytes(),
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts.items()
    )
