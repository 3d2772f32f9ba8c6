"""Which items have records in Kafka, as far as its retention and what was read go.

A repair asks before it emits or redrives an item: one that was published may have had its effect.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
"""Covers since: no record was ever deleted."""


class SightingState(StrEnum):
    """Whether an item has a record in what was read."""

    SEEN = "seen"
    NOT_SEEN = "not_seen"
    UNKNOWN = "unknown"


class RecordPlace(NamedTuple):
    """Where a record is in Kafka."""

    topic: str
    partition: int
    offset: int


class Sighting(NamedTuple):
    """Whether an item has records in what was read, and where the newest is.

    NOT_SEEN says so of what was published from `covers_since` to `covers_until` only. UNKNOWN:
    something could not be read, so that a missing record proves nothing.
    """

    state: SightingState
    place: RecordPlace | None = None


class RecordIndex(Protocol):
    """Looks up items in the work topics, as they were read."""

    @property
    def covers_since(self) -> datetime | None:
        """Return the business time from which on each published record is retained and was read.

        `ALWAYS` if none was ever deleted; None if nothing can be concluded from a missing record.
        """
        ...

    @property
    def covers_until(self) -> datetime | None:
        """Return the business time at which the topics' ends were read; None before the first."""
        ...

    def find(self, ids: Sequence[bytes]) -> dict[bytes, Sighting]:
        """Look up items by id (16 bytes), all of them in one pass over what is kept."""
        ...
