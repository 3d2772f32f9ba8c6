"""The records of the work topics, as slices of claims, and an index of their items.

What is kept is 8 bytes a record and some 90 a slice. The next pass of the same process reads on
where this one ended; records that Kafka deletes meanwhile are left out.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from sys import byteorder
from typing import TYPE_CHECKING, Final, NamedTuple

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka.record_slices import ID_BYTES, RecordSlice
from dueledger.reconciler.record_index import RecordPlace, Sighting, SightingState

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGEST_BYTES: Final = 16
NO_CLAIM: Final = -1
TopicPlace = tuple[str, int]
"""A topic and the number of a partition."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def digest_of(ids: bytes) -> bytes:
    """Return the digest of the items of a slice, in order."""
    return hashlib.sha256(ids).digest()[:DIGEST_BYTES]


class PublishedSlice(NamedTuple):
    """Consecutive records of a claim in a partition. `claim_id` is None for no work record."""

    topic: str
    partition: int
    offset: int
    size: int
    position: int
    claim_id: ClaimId | None
    digest: bytes
    first_item: bytes

    @property
    def token(self) -> str:
        """The token of the claim that they name; empty without one."""
        return self.claim_id.token if self.claim_id else ""

    @property
    def base_offset(self) -> int:
        """The offset that the first record of the claim would have."""
        return self.offset - self.position + 1


@dataclass(slots=True, eq=False)
class PartitionRecords:
    """The slices of a partition by ascending offset, in columns, and the keys of their items.

    Offsets from `first` to `end` were read. `is_whole` if no record was deleted before them;
    `retained` is the first offset that Kafka has, before `first` where not all were read.
    """

    topic: str
    partition: int
    first: int
    end: int
    retained: int = 0
    is_whole: bool = False
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("i"))
    positions: array[int] = field(default_factory=lambda: array("i"))
    fences: array[int] = field(default_factory=lambda: array("q"))
    claimed_at: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("Q"))
    digests: bytearray = field(default_factory=bytearray)
    first_items: bytearray = field(default_factory=bytearray)
    verified: bytearray = field(default_factory=bytearray)
    keys: array[int] = field(default_factory=lambda: array("Q"))
    key_ends: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def total(self) -> int:
        """The control total of the items of all records."""
        return sum(self.keys)

    def add(self, found: RecordSlice) -> None:
        """Add a slice after the others."""
        claim = found.claim_id
        self.offsets.append(found.offset)
        self.sizes.append(found.size)
        self.positions.append(found.position)
        self.fences.append(NO_CLAIM if claim is None else claim.fence)
        self.claimed_at.append(0 if claim is None else (claim.claimed_at - _EPOCH) // _MICROSECOND)
        self.tokens.append(0 if claim is None else int(claim.token, 16))
        self.digests += digest_of(found.ids)
        self.first_items += found.ids[:ID_BYTES]
        self.verified.append(0)
        halves = array("Q", found.ids)
        if byteorder == "little":
            halves.byteswap()
        keys = halves[1::2]
        self.keys += keys
        self.key_ends.append((self.key_ends[-1] if self.key_ends else 0) + len(keys))

    def slice_at(self, index: int) -> PublishedSlice:
        """Return the slice at an index."""
        fence = self.fences[index]
        claim_id = None
        if fence != NO_CLAIM:
            at = _EPOCH + self.claimed_at[index] * _MICROSECOND
            claim_id = ClaimId(fence, at, f"{self.tokens[index]:016x}")
        return PublishedSlice(
            self.topic,
            self.partition,
            self.offsets[index],
            self.sizes[index],
            self.positions[index],
            claim_id,
            bytes(self.digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]),
            bytes(self.first_items[index * ID_BYTES : (index + 1) * ID_BYTES]),
        )

    def index_of(self, offset: int) -> int | None:
        """Return the index of the slice that has an offset; None if no record has it."""
        index = bisect_right(self.offsets, offset) - 1
        if index < 0 or offset >= self.offsets[index] + self.sizes[index]:
            return None
        return index

    def forget_before(self, offset: int) -> None:
        """Leave out what Kafka deleted: slices that end at or before an offset."""
        count = bisect_right(self.offsets, offset)
        if count and self.offsets[count - 1] + self.sizes[count - 1] > offset:
            count -= 1
        if count:
            keys = self.key_ends[count - 1]
            del self.keys[:keys]
            self.key_ends = array("q", [each - keys for each in self.key_ends[count:]])
            for column in (
                self.offsets,
                self.sizes,
                self.positions,
                self.fences,
                self.claimed_at,
                self.tokens,
                self.verified,
            ):
                del column[:count]
            del self.digests[: count * DIGEST_BYTES]
            del self.first_items[: count * ID_BYTES]
        if offset > self.first:
            self.first, self.is_whole = offset, False
            self.end = max(self.end, offset)

    def offsets_of(self, keys: set[int]) -> dict[int, int]:
        """Return the greatest offset of each of the keys that is there, in two passes at most."""
        seen = keys.intersection(self.keys)
        if not seen:
            return {}
        places = {key: place for place, key in enumerate(self.keys) if key in seen}
        offsets: dict[int, int] = {}
        for key, place in places.items():
            index = bisect_right(self.key_ends, place)
            before = self.key_ends[index - 1] if index else 0
            offsets[key] = self.offsets[index] + place - before
        return offsets


@dataclass(slots=True, eq=False)
class PublishedRecords:
    """All records that were read, by partition. It is the index of records (`RecordIndex`)."""

    partitions: dict[TopicPlace, PartitionRecords] = field(
        default_factory=dict[TopicPlace, PartitionRecords]
    )
    covers_since: datetime | None = None
    covers_until: datetime | None = None

    @property
    def oldest_claimed_at(self) -> datetime | None:
        """The earliest time of a claim that a record names; None without records."""
        times = [
            least
            for part in self.partitions.values()
            if (least := min((each for each in part.claimed_at if each), default=0))
        ]
        return _EPOCH + min(times) * _MICROSECOND if times else None

    def forget_verified(self) -> None:
        """Let the next comparison read the items of all claims again."""
        for part in self.partitions.values():
            part.verified = bytearray(len(part))

    def find(self, ids: Sequence[bytes]) -> dict[bytes, Sighting]:
        """Look up items by id, in one pass over the keys."""
        wanted = {int.from_bytes(identity[ID_BYTES // 2 :]): identity for identity in ids}
        keys = set(wanted)
        missing = SightingState.UNKNOWN if self.covers_since is None else SightingState.NOT_SEEN
        found = {identity: Sighting(missing) for identity in ids}
        for part in self.partitions.values():
            for key, offset in part.offsets_of(keys).items():
                place = RecordPlace(part.topic, part.partition, offset)
                found[wanted[key]] = Sighting(SightingState.SEEN, place)
        return found
