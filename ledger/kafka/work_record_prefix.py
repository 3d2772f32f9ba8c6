"""How a work record begins: what the allocator writes and the worker looks for, as bytes. Pure.

A record of a claim is no different from its neighbour but for its position, key and value, and the
headers that are an item's own. So both sides handle its beginning as one stretch of bytes.
"""

from collections.abc import Callable
from typing import Final

from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header

PLACES_MAX: Final = 20_000
"""No claim is longer, so no record's place in one is further than this."""
_GROWTH: Final = 1024


class _PositionTable(list[bytes]):
    """What a record at each place of its claim says; grows as far as it is asked for."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self._make = make

    def slice_from(self, first: int, count: int) -> list[bytes]:
        """Return those of `count` places from `first` on, counted from 0, as far as there are."""
        end = min(first + count, PLACES_MAX)
        if len(self) < end:
            self += map(self._make, range(len(self), min(end + _GROWTH, PLACES_MAX)))
        return self[first:end]


# No attributes; as old as the first record of its batch; at this offset from it.
RECORD_PREFIXES: Final = _PositionTable(lambda place: b"\0\0" + VARINTS[place])
POSITION_HEADERS: Final = _PositionTable(
    lambda place: header(envelope.POSITION, b"%d" % (place + 1))
)


def fence_header(fence: int) -> bytes:
    """Return the header that every record of a claim begins with."""
    return header(envelope.FENCE, b"%d" % fence)


def kind_and_attempt(kind: str, attempt: int) -> bytes:
    """Return the headers that follow the position."""
    return header(envelope.TYPE, kind.encode()) + header(envelope.ATTEMPT, b"%d" % attempt)
