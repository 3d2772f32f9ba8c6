"""Cuts records into claim slices: contiguous positions of one claim and kind.

An item's offset is the claim's base offset + position − 1, so a slice is contiguous in both. An
unreadable record beside readable ones of its claim therefore has a known position. It is started
and parked with them; a hole would make the ledger refuse every later start of the claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader, Problem
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_batches import RecordReader
from dueledger.workers.item import DueItem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.ledger.claim_id import ClaimId
    from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord
    from dueledger.workers.item import ConsumedWorkRecord

_FENCE_MAX: Final = 2**63 - 1
_POSITION_MAX: Final = 2**31 - 1
RECORDS_TOGETHER: Final = 1000
"""How many records are read without a pause: a batch may have hundreds of thousands."""


@final
@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """Takes the place of an unreadable record in a slice. It is parked with the reason."""

    reason: str


@final
@dataclass(slots=True)
class ClaimSlice:
    """Items of one claim and kind. Positions and offsets are contiguous."""

    claim_id: ClaimId
    kind: str
    from_position: int
    first_offset: int
    items: list[DueItem | UnreadableItem]
    suspects_max: int | None = None  # set for suspects: how many of them may run together

    @property
    def fence(self) -> int:
        """The number of the claim."""
        return self.claim_id.fence

    @property
    def to_position(self) -> int:
        """The last position, inclusive."""
        return self.from_position + len(self.items) - 1

    @property
    def end_offset(self) -> int:
        """The offset after the last one."""
        return self.first_offset + len(self.items)

    def split(self, count: int) -> ClaimSlice:
        """Cut off the first `count` items and return them as a slice."""
        head = ClaimSlice(
            self.claim_id,
            self.kind,
            self.from_position,
            self.first_offset,
            self.items[:count],
            self.suspects_max,
        )
        del self.items[:count]
        self.from_position += count
        self.first_offset += count
        return head


@final
@dataclass(frozen=True, slots=True)
class RejectedWorkRecord:
    """A record that breaks the contract, and the error."""

    record: ConsumedWorkRecord
    error: InvalidHeader


@final
class ClaimSlicer:
    """Cuts the records of one partition, in the order polled, into slices."""

    def __init__(self) -> None:
        self.slices: list[ClaimSlice] = []
        self.rejected: list[RejectedWorkRecord] = []
        self._rejected_before_first: list[RejectedWorkRecord] = []

    def take_rejected(self) -> list[RejectedWorkRecord]:
        """Return the records that break the contract, each once."""
        rejected, self.rejected = self.rejected, []
        return rejected

    def cut(self, batch: FetchedBatch) -> Iterator[None]:
        """Add every record to a slice or to the rejected; pause after each RECORDS_TOGETHER."""
        reader = RecordReader(batch)
        read = 0
        while (record := reader.next()) is not None:
            if read >= RECORDS_TOGETHER:
                read = 0
                yield
            read += 1
            try:
                headers = record.work_headers()
                claim_slice = self._place(record, headers)
            except InvalidHeader as error:
                self._reject(RejectedWorkRecord(record.read_best_effort(), error))
                continue
            claim_id, position, attempt = headers.claim_id, headers.position + 1, headers.attempt
            # Nearly every record is the next one of its claim.
            following = reader.next_of_claim(
                claim_id, position, headers.kind, attempt, records_max=RECORDS_TOGETHER - read
            )
            read += len(following)
            claim_slice.items += [
                DueItem(each, claim_id, place, attempt)
                for place, each in enumerate(following, position)
            ]

    def _reject(self, rejected: RejectedWorkRecord) -> None:
        if (
            self._rejected_before_first
            and self._rejected_before_first[-1].record.offset != rejected.record.offset - 1
        ):
            self._rejected_before_first.clear()
        self._rejected_before_first.append(rejected)
        self.rejected.append(rejected)

    def _place(self, record: KafkaRecord, headers: envelope.WorkHeaders) -> ClaimSlice:
        """Extend the last slice or open a new one; include unreadable neighbours."""
        claim_id, position, kind = headers.claim_id, headers.position, headers.kind
        _require_between(envelope.FENCE, claim_id.fence, _FENCE_MAX)
        _require_between(envelope.POSITION, position, _POSITION_MAX)
        rejected_before, self._rejected_before_first = self._rejected_before_first, []
        if rejected_before and rejected_before[-1].record.offset != record.offset - 1:
            rejected_before = []
        item = DueItem(record, claim_id, position, headers.attempt, headers)
        last = self.slices[-1] if self.slices else None
        if (
            last is not None
            and (last.claim_id, last.kind) == (claim_id, kind)
            and record.offset - last.end_offset == len(rejected_before)
            and position - last.to_position - 1 == len(rejected_before)
        ):
            last.items += [_unreadable(rejected) for rejected in rejected_before]
            last.items.append(item)
            return last
        placed = min(len(rejected_before), position - 1)
        before = rejected_before[len(rejected_before) - placed :]
        claim_slice = ClaimSlice(
            claim_id,
            kind,
            position - placed,
            record.offset - placed,
            [*(_unreadable(rejected) for rejected in before), item],
            suspects_max=headers.suspects_max,
        )
        self.slices.append(claim_slice)
        return claim_slice


def _unreadable(rejected: RejectedWorkRecord) -> UnreadableItem:
    return UnreadableItem(f"malformed record: {rejected.error}")


def _require_between(header: str, number: int, maximum: int) -> None:
    if not 1 <= number <= maximum:
        reason = f"is not between 1 and {maximum}"
        problem = Problem(header, str(number), reason)
        raise InvalidHeader(f"{header} {reason}", [problem])
