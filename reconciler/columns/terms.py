"""Digests of what an item says beside its identity and due time: of a draft and of a row alike.

They are hashes of Python, with a key of the process. So a session that edits a row cannot choose a
text with the same one, and digests are compared within a process only. Nothing but their equality
counts: another engine makes its own of the same texts (`sql/comparison/differences.sql`).
"""

import struct
from typing import Final

import numpy as np
import orjson

from dueledger.reconciler.columns.fixed_width import Column

NO_INSTANT: Final = -(2**63)
NO_SMEAR: Final = -1.0
ABSENT: Final = "\x1e"
SEPARATOR: Final = "\x1f"

_MASK: Final = 2**64 - 1
_FACTOR: Final = 0x9E37_79B9_7F4A_7C15
_SHIFT: Final = 29
_DOUBLE: Final = struct.Struct(">d")


def payload_digest(payload: bytes) -> int:
    """Return a digest of what a payload says, however its text is written.

    What is no JSON here, as texts that are too deep, is digested as it is written.
    """
    try:
        return hash(orjson.dumps(orjson.loads(payload), option=orjson.OPT_SORT_KEYS))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return hash(payload)


def payload_of_terms(terms: bytes) -> bytes:
    """Return the payload of a text of terms: it is the last of them."""
    return terms.rpartition(SEPARATOR.encode())[2]


def double_bits(number: float) -> int:
    """Return the bits of a double as PostgreSQL sends them, signed."""
    return int.from_bytes(_DOUBLE.pack(number), signed=True)


def mixed(digest: int, *numbers: int) -> int:
    """Return a digest with more numbers of 64 bits in it, signed."""
    found = digest & _MASK
    for number in numbers:
        found = ((found ^ (number & _MASK)) * _FACTOR) & _MASK
        found ^= found >> _SHIFT
    return found - 2**64 if found >> 63 else found


def all_mixed(digests: Column, *numbers: Column) -> Column:
    """Return what `mixed` returns, of each row."""
    found = digests.astype(np.int64).view(np.uint64)
    for column in numbers:
        found = (found ^ column.astype(np.int64).view(np.uint64)) * np.uint64(_FACTOR)
        found ^= found >> np.uint64(_SHIFT)
    return found.view(np.int64)
