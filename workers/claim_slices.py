"""From records to stretches: contiguous positions of one claim and one kind, as they came.

An item's offset is the claim's base offset + position − 1, so a stretch is contiguous in both.
That also places a record that cannot be read: beside readable ones of its claim its position is
known, so it is started and parked with them instead of leaving a hole at which every later
start of the claim would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader, Problem
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_batches import RecordReader
from dueledger.workers.item import DueItem

if TYPE_CHECKING:
    from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord
    from dueledger.workers.item import ConsumedWorkRecord

_FENCE_MAX: Final = 2**63 - 1
_POSITION_MAX: Final = 2**31 - 1


@final
@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """Stands in a stretch where a record could not be read; parks with the reason."""

    reason: str


@final
@dataclass(slots=True)
class ClaimSlice:
    """Items of one claim and kind, positions and offsets both contiguous."""

    fence: int
    kind: str
    from_position: int
    first_offset: int
    items: list[DueItem | UnreadableItem]
    is_alone: bool = False  # its worker died before: nothing must run beside it

    @property
    def to_position(self) -> int:
        """The last position, inclusive."""
        return self.from_position + len(self.items) - 1

    @property
    def end_offset(self) -> int:
        """The offset after the last one."""
        return self.first_offset + len(self.items)

    def split(self, count: int) -> ClaimSlice:
        """Cut the first `count` items off and return them as a stretch of their own."""
        head = ClaimSlice(
            self.fence,
            self.kind,
            self.from_position,
            self.first_offset,
            self.items[:count],
            self.is_alone,
        )
        del self.items[:count]
        self.from_position += count
        self.first_offset += count
        return head


@final
@dataclass(frozen=True, slots=True)
class RejectedWorkRecord:
    """A record that breaks the contract, and how."""

    record: ConsumedWorkRecord
    error: InvalidHeader


@final
class ClaimSlicer:
    """Cuts the records of one partition, in the order polled, into stretches."""

    def __init__(self) -> None:
        self.slices: list[ClaimSlice] = []
        self.rejected: list[RejectedWorkRecord] = []
        self._rejected_before_first: list[RejectedWorkRecord] = []

    def cut(self, batch: FetchedBatch) -> None:
        """Take every record, into a stretch or among the rejected."""
        reader = RecordReader(batch)
        while (record := reader.next()) is not None:
            try:
                told = record.work_headers()
                stretch = self._place(record, told)
            except InvalidHeader as error:
                self._reject(RejectedWorkRecord(record.read_best_effort(), error))
                continue
            fence, position, attempt = told.fence, told.position + 1, told.attempt
            # Nearly every record: the next of its claim.
            alike = reader.next_of_claim(fence, position, told.kind, attempt)
            stretch.items += [
                DueItem(each, fence, place, attempt) for place, each in enumerate(alike, position)
            ]

    def _reject(self, rejected: RejectedWorkRecord) -> None:
        if (
            self._rejected_before_first
            and self._rejected_before_first[-1].record.offset != rejected.record.offset - 1
        ):
            self._rejected_before_first.clear()
        self._rejected_before_first.append(rejected)
        self.rejected.append(rejected)

    def _place(self, record: KafkaRecord, told: envelope.WorkHeaders) -> ClaimSlice:
        """Extend the last stretch or open a new one, unreadable neighbours included."""
        fence, position, kind = told.fence, told.position, told.kind
        _require_between(envelope.FENCE, fence, _FENCE_MAX)
        _require_between(envelope.POSITION, position, _POSITION_MAX)
        unplaced, self._rejected_before_first = self._rejected_before_first, []
        if unplaced and unplaced[-1].record.offset != record.offset - 1:
            unplaced = []
        item = DueItem(record, fence, position, told.attempt)
        last = self.slices[-1] if self.slices else None
        if (
            last is not None
            and (last.fence, last.kind) == (fence, kind)
            and record.offset - last.end_offset == len(unplaced)
            and position - last.to_position - 1 == len(unplaced)
        ):
            last.items += [_unreadable(rejected) for rejected in unplaced]
            last.items.append(item)
            return last
        known = min(len(unplaced), position - 1)
        before = unplaced[len(unplaced) - known :]
        stretch = ClaimSlice(
            fence,
            kind,
            position - known,
            record.offset - known,
            [*(_unreadable(rejected) for rejected in before), item],
            is_alone=told.is_alone,
        )
        self.slices.append(stretch)
        return stretch


def _unreadable(rejected: RejectedWorkRecord) -> UnreadableItem:
    return UnreadableItem(f"malformed record: {rejected.error}")


def _require_between(header: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        reason = f"is not between 1 and {most}"
        problem = Problem(header, str(number), reason)
        raise InvalidHeader(f"{header} {reason}", [problem])
