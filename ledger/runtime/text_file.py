"""Text files that people and other programs write: bounded, in UTF-8, and waited for only so long.

A path on a command line or in a setting may name a device without an end, or a pipe that nobody
writes.
"""

import os
from collections.abc import Iterator
from errno import ETIMEDOUT
from pathlib import Path
from select import POLLIN, poll
from time import monotonic
from typing import Final

from dueledger.ledger.errors import UnreadableFile

DEFINITION_BYTES_MAX: Final = 33_554_432
"""Also of files that are converted to definitions."""
CALENDAR_BYTES_MAX: Final = 4_194_304
EVENT_BYTES_MAX: Final = 4_194_304
SOURCES_BYTES_MAX: Final = 1_048_576
SECRET_BYTES_MAX: Final = 65_536
"""Of a password, a token or an address."""

_WAIT_SECONDS_MAX: Final = 30.0
_BLOCK_BYTES: Final = 1_048_576
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # no wait for a writer


def read_text(path: Path, bytes_max: int) -> str:
    """Return the text of a file or pipe, without a byte order mark.

    Raises UnreadableFile if it has more bytes, is not UTF-8 or has a NUL, cannot be read, or is a
    pipe whose writer takes too long. Its message has nothing of the content.
    """
    try:
        content = _read_bytes(path, bytes_max)
    except OSError as error:
        raise UnreadableFile(path, f"cannot be read: {error.strerror}") from None
    if len(content) > bytes_max:
        raise UnreadableFile(path, f"is longer than {bytes_max:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise UnreadableFile(path, f"byte {content.index(0)} is NUL")
    return text


def _read_bytes(path: Path, bytes_max: int) -> bytes:
    """Return at most one byte more than `bytes_max`."""
    descriptor = os.open(path, _FLAGS)
    try:
        return b"".join(_blocks(descriptor, bytes_max + 1))
    finally:
        os.close(descriptor)


def _blocks(descriptor: int, bytes_left: int) -> Iterator[bytes]:
    readable = poll()
    readable.register(descriptor, POLLIN)
    deadline = monotonic() + _WAIT_SECONDS_MAX
    while bytes_left:
        try:
            block = os.read(descriptor, min(bytes_left, _BLOCK_BYTES))
        except BlockingIOError:
            if not readable.poll(max(0.0, deadline - monotonic()) * 1_000):
                message = f"its writer did not end within {_WAIT_SECONDS_MAX:g} seconds"
                raise TimeoutError(ETIMEDOUT, message) from None
            continue
        if not block:
            return
        yield block
        bytes_left -= len(block)
