"""What identifies a claim: its fence, when it was claimed, and a token.

A fence alone names no claim for ever: after a restore, Postgres gives the fences of the lost
commits again, while Kafka still has their records.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN_BYTES: Final = 8
TOKEN_TEXT_CHARACTERS: Final = 32
_TIME_CHARACTERS: Final = TOKEN_TEXT_CHARACTERS - 2 * TOKEN_BYTES
_TOKEN_TEXT: Final = re.compile(rf"[0-9a-f]{{{TOKEN_TEXT_CHARACTERS}}}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


@final
class ClaimId(NamedTuple):
    """A claim: no other has the same three. `token` is 64 random bits as 16 hex digits."""

    fence: int
    claimed_at: datetime
    token: str

    @property
    def token_text(self) -> str:
        """What records carry beside the fence: the time in microseconds, then the token, in hex."""
        microseconds = (self.claimed_at - _EPOCH) // _MICROSECOND
        return f"{microseconds:0{_TIME_CHARACTERS}x}{self.token}"


def new_claim_id(fence: int, claimed_at: datetime) -> ClaimId:
    """Return the identity of a new claim, with a token from the system's random source.

    The token is drawn here: the records carry it, and are complete before the claim is inserted.
    Where one statement claims and records, Postgres draws it.
    """
    return ClaimId(fence, claimed_at, secrets.token_hex(TOKEN_BYTES))


def parse_claim_id(fence: int, token_text: str) -> ClaimId:
    """Return the identity that a record carries. Raises ValueError if the text is malformed."""
    if not _TOKEN_TEXT.fullmatch(token_text):
        raise ValueError(f"not {TOKEN_TEXT_CHARACTERS} lower-case hex digits")
    microseconds = int(token_text[:_TIME_CHARACTERS], 16)
    if microseconds > _MICROSECONDS_MAX:
        raise ValueError("its time is after the year 9999")
    claimed_at = _EPOCH + timedelta(microseconds=microseconds)
    return ClaimId(fence, claimed_at, token_text[_TIME_CHARACTERS:])


def first_and_last(instants: Iterable[datetime]) -> tuple[datetime, datetime]:
    """Return the bounds of the times that a statement looks up; of none, any instant.

    Postgres prunes table partitions before it opens them only by values that it knows then: it
    knows a bound, and does not look into an array.
    """
    known = list(instants) or [_EPOCH]
    return min(known), max(known)
