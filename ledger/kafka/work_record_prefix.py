"""The first bytes of a work record, which the allocator writes and the worker expects. Pure.

Records of a claim differ only in position, key, value and an item's own headers. So both sides
handle the bytes before these as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header

if TYPE_CHECKING:
    from collections.abc import Callable

    from dueledger.ledger.claim_id import ClaimId

POSITIONS_MAX: Final = 20_000
"""The largest number of items in a claim."""
_GROWTH: Final = 1024


class _PositionTable(list[bytes]):
    """Encoded bytes by index in a claim, counted from 0. It grows on demand."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self._make = make

    def slice_from(self, first: int, count: int) -> list[bytes]:
        """Return at most `count` entries from index `first` on, below `POSITIONS_MAX`."""
        end = min(first + count, POSITIONS_MAX)
        if len(self) < end:
            self += map(self._make, range(len(self), min(end + _GROWTH, POSITIONS_MAX)))
        return self[first:end]


# No attributes, timestamp delta 0, and the offset delta.
RECORD_PREFIXES: Final = _PositionTable(lambda index: b"\0\0" + VARINTS[index])
POSITION_HEADERS: Final = _PositionTable(
    lambda index: header(envelope.POSITION, b"%d" % (index + 1))
)


def claim_headers(claim_id: ClaimId) -> bytes:
    """Return the first headers of every record of a claim."""
    return header(envelope.FENCE, b"%d" % claim_id.fence) + header(
        envelope.TOKEN, claim_id.token_text.encode()
    )


def kind_and_attempt(kind: str, attempt: int) -> bytes:
    """Return the headers that follow the position."""
    return header(envelope.TYPE, kind.encode()) + header(envelope.ATTEMPT, b"%d" % attempt)
