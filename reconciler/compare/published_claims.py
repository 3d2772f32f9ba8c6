"""Claims against the records in Kafka: which claims have theirs, and which records have a claim.

Pure. Claims are added by pages, in any order; what differs is kept until it was read again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from dueledger.ledger.store.published_claims import PublishedClaim
from dueledger.reconciler.read.published_records import (
    PartitionRecords,
    PublishedRecords,
    PublishedSlice,
    TopicPlace,
)

_DELETED: Final = "claims of which Kafka has deleted the records"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class OrphanReason(StrEnum):
    """Why no claim describes records."""

    UNREADABLE = "it is no work record"
    NO_CLAIM = "the ledger has no such claim"
    OTHER_PLACE = "its claim was published at another place"
    OTHER_POSITION = "its claim has no such position"
    OTHER_ITEM = "its claim has another item at its position"
    OTHER_TOKEN = "its claim has another token"  # noqa: S105 - no password, a reason
    NO_ITEM = "the item of its claim does not exist"


class ToVerify(NamedTuple):
    """A claim with its records, of which the items were not compared yet."""

    claim: PublishedClaim
    records: PublishedSlice
    place: int
    """Index of the slice in its partition."""


@dataclass(slots=True)
class MissingRecords:
    """A claim that was marked as published and whose records are not there, from `offset` on.

    Without a mark, one that workers started, and of which there is no record from there on.
    `found` is another record there, `elsewhere` where the claim's own are, if anywhere.
    """

    claim: PublishedClaim
    offset: int
    found: PublishedSlice | None = None
    elsewhere: PublishedSlice | None = None


class Orphan(NamedTuple):
    """Records that no claim describes."""

    records: PublishedSlice
    reason: OrphanReason
    claim: PublishedClaim | None = None


@dataclass(slots=True)
class ClaimComparison:
    """Compares claims with the records that were read.

    `missing`, `unread` and `unmarked` are by fence. Claims of `unread` are published beyond what
    was read; those of `unmarked` were started, and no record of theirs was found yet.
    """

    records: PublishedRecords
    missing: dict[int, MissingRecords] = field(default_factory=dict[int, MissingRecords])
    unread: dict[int, PublishedClaim] = field(default_factory=dict[int, PublishedClaim])
    unmarked: dict[int, PublishedClaim] = field(default_factory=dict[int, PublishedClaim])
    orphans: list[Orphan] = field(default_factory=list[Orphan])
    left_out: Counter[str] = field(default_factory=Counter[str])
    oldest: dict[TopicPlace, tuple[int, datetime]] = field(
        default_factory=dict[TopicPlace, tuple[int, datetime]]
    )
    _matched: dict[TopicPlace, bytearray] = field(init=False)
    _found_at: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self._matched = {
            place: bytearray(len(part)) for place, part in self.records.partitions.items()
        }

    def add(self, claims: Sequence[PublishedClaim]) -> list[ToVerify]:
        """Match marked claims with their records; return those of which the items are unknown."""
        found: list[ToVerify] = []
        for claim in claims:
            place = claim.topic, claim.partition
            part = self.records.partitions.get(place)
            if claim.base_offset is None:
                if part is not None:
                    self.unmarked[claim.fence] = claim
            elif part is None:
                self.left_out["claims on a topic that does not exist"] += 1
            else:
                found += self._match(claim, claim.base_offset, place, part)
        return found

    def _match(
        self, claim: PublishedClaim, base_offset: int, place: TopicPlace, part: PartitionRecords
    ) -> list[ToVerify]:
        after = base_offset + claim.size
        if after <= part.first:
            is_deleted = after <= part.retained
            self.left_out[_DELETED if is_deleted else "claims of which no record was read"] += 1
            return []
        at = max(base_offset, part.first)
        claimed_at = (claim.claimed_at - _EPOCH) // _MICROSECOND
        found: list[ToVerify] = []
        while at < min(after, part.end):
            index = part.index_of(at)
            if (
                index is None
                or part.fences[index] != claim.fence
                or part.claimed_at[index] != claimed_at
                or part.offsets[index] - part.positions[index] + 1 != base_offset
            ):
                there = None if index is None else part.slice_at(index)
                self.missing[claim.fence] = MissingRecords(claim, at, there)
                return []
            found += self._take(claim, place, part, index)
            at = part.offsets[index] + part.sizes[index]
        if at < after:
            self.unread[claim.fence] = claim
        return found

    def _take(
        self, claim: PublishedClaim, place: TopicPlace, part: PartitionRecords, index: int
    ) -> list[ToVerify]:
        """Match a slice with its claim."""
        self._matched[place][index] = 1
        if claim.published_at is not None:
            offset = part.offsets[index]
            known = self.oldest.get(place)
            if known is None or offset < known[0]:
                self.oldest[place] = offset, claim.published_at
        if part.positions[index] + part.sizes[index] - 1 > claim.size:
            self.orphans.append(Orphan(part.slice_at(index), OrphanReason.OTHER_POSITION, claim))
            return []
        return [] if part.verified[index] else [ToVerify(claim, part.slice_at(index), index)]

    def read_again(self, first: dict[TopicPlace, int], log_end: dict[TopicPlace, int]) -> None:
        """Judge by the offsets that Kafka has now what it does not have, or was not read."""
        for fence, found in list(self.missing.items()):
            if found.offset < first[found.claim.topic, found.claim.partition]:
                del self.missing[fence]
                self.left_out[_DELETED] += 1
        for fence, claim in list(self.unread.items()):
            place = claim.topic, claim.partition
            if (claim.base_offset or 0) + claim.size > log_end[place]:
                del self.unread[fence]
                offset = max(claim.base_offset or 0, self.records.partitions[place].end)
                self.missing[fence] = MissingRecords(claim, offset)

    def miss_unsent(self, covers_since: datetime | None) -> None:
        """Miss the records of claims without a mark, after all records were judged.

        `covers_since`: from when on all records were read; None: not known.
        """
        for fence, claim in self.unmarked.items():
            if covers_since is not None and claim.claimed_at >= covers_since:
                offset = self.records.partitions[claim.topic, claim.partition].first
                self.missing[fence] = MissingRecords(claim, offset)

    def unmatched(self) -> Iterator[tuple[PublishedSlice, int]]:
        """Yield the slices, with their indexes, that no marked claim has."""
        for place, part in self.records.partitions.items():
            matched = self._matched[place]
            index = matched.find(0)
            while index >= 0:
                yield part.slice_at(index), index
                index = matched.find(0, index + 1)

    def judge(
        self, records: PublishedSlice, index: int, claim: PublishedClaim | None
    ) -> list[ToVerify]:
        """Judge a slice that no marked claim had; `claim` is the one of its fence now."""
        place = records.topic, records.partition
        if (
            claim is None
            or records.claim_id is None
            or (claim.claimed_at != records.claim_id.claimed_at)
        ):
            is_work = records.claim_id is not None
            reason = OrphanReason.NO_CLAIM if is_work else OrphanReason.UNREADABLE
            self.orphans.append(Orphan(records, reason))
            return []
        is_there = place == (claim.topic, claim.partition)
        base_offset = claim.base_offset
        if base_offset is None and is_there:  # the mark was lost; the first records are its own
            base_offset = self._found_at.setdefault(claim.fence, records.base_offset)
            self.unmarked.pop(claim.fence, None)
        if is_there and base_offset == records.base_offset:
            return self._take(claim, place, self.records.partitions[place], index)
        known = self.missing.get(claim.fence)
        if known is not None and known.elsewhere is None:
            known.elsewhere = records
        else:
            self.orphans.append(Orphan(records, OrphanReason.OTHER_PLACE, claim))
        return []
