"""Turning claimed rows into claims and their records: one claim, one topic-partition, one batch.

Small claims for one partition share a batch: Kafka takes one at a time, and each takes as long.

No call into the database, no task and no decoding a row: the payload passes as text.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from dueledger.allocator.publish import OutgoingBatch
from dueledger.allocator.publish.record_writer import ClaimDeadlines, FlowHeaders, RecordWriter
from dueledger.ledger.kafka.partitioner import partitions_of
from dueledger.ledger.store import Record
from dueledger.ledger.store.claims import Claim, DueFlow

DrawFences = Callable[[int], Awaitable[list[int]]]

_SPARE_FENCES: Final = 4
_YIELD_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """A claim and the batch that holds its records, behind the `first` ones of other claims."""

    claim: Claim
    records: OutgoingBatch
    records_before: int

    @property
    def fence(self) -> int:
        """Number of the claim."""
        return self.claim.fence

    @property
    def topic(self) -> str:
        """Topic it goes to."""
        return self.claim.topic

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        return self.claim.partition


@dataclass(slots=True)
class _PartitionRows:
    """Rows bound for one topic-partition, with their keys, in the order claimed."""

    topic: str
    partition: int
    batch_max: int | None
    flow_no: int | None  # where it is of one counted flow
    deadlines: ClaimDeadlines
    rows: list[Record] = field(default_factory=list[Record])
    keys: list[bytes] = field(default_factory=list[bytes])


@final
class ClaimBatchBuilder:
    """Makes claims from rows for one allocator."""

    def __init__(
        self,
        allocator_no: int,
        new_batch: Callable[[], OutgoingBatch],
        holders: Mapping[str, int] | None = None,
    ) -> None:
        """`holders` are the actors, by topic, who settle what is held by topic."""
        self._allocator_no = allocator_no
        self._new_batch = new_batch
        self._writer = RecordWriter()
        self._settling_actors: Mapping[str, int] = {} if holders is None else holders

    async def build(
        self,
        rows: Sequence[Record],
        flows: Mapping[int, DueFlow],
        partitions: Mapping[str, int],
        draw_fences: DrawFences,
    ) -> list[ClaimBatch]:
        """Split `rows` (columns of claim_items) into claims, each full or the last of its lane.

        Fences are drawn with the rows or after they were locked, so that an item's fences only
        grow; a stock drawn earlier could go to an item that another allocator has had since.
        """
        wordings = self._writer.flow_headers(flows)
        lanes = _group_by_partition(rows, wordings, partitions)
        expected = sum(map(_claims_expected, lanes))
        fences = [row[13] for row in rows if row[13] is not None]
        if len(fences) < expected:
            fences = await draw_fences(expected + _SPARE_FENCES)
        fences.sort(reverse=True)
        made: list[ClaimBatch] = []
        last: dict[tuple[str, int], OutgoingBatch] = {}
        for lane in lanes:
            start = 0
            while start < len(lane.rows):
                if not fences:
                    fences = (await draw_fences(len(lanes) + _SPARE_FENCES))[::-1]
                batch, start = self._fill(lane, start, fences.pop(), wordings, last)
                made.append(batch)
                if len(rows) > _YIELD_ROWS:
                    await asyncio.sleep(0)  # so that what is small need not wait for what is large
        return made

    def _fill(
        self,
        lane: _PartitionRows,
        start: int,
        fence: int,
        wordings: Mapping[int, FlowHeaders],
        last: dict[tuple[str, int], OutgoingBatch],
    ) -> tuple[ClaimBatch, int]:
        """Add rows from `start` on to the last batch of their partition, or to a new one.

        Returns the claim and the next start.
        """
        stop = len(lane.rows) if lane.batch_max is None else start + lane.batch_max
        rows, keys = lane.rows[start:stop], lane.keys[start:stop]
        at = (lane.topic, lane.partition)
        records = last.get(at)
        written: list[bytes] = []
        first = 0
        if records is not None:
            first = records.record_count()
            written = self._writer.write(
                rows, keys, fence, wordings, records.bytes_left, first=first
            )
        if records is None or not written:
            records, first = self._new_batch(), 0
            last[at] = records
            written = self._writer.write(rows, keys, fence, wordings, records.bytes_left)
        records.add(written)
        end = len(written)
        rows = lane.rows[start : start + end]
        is_held = wordings[rows[0][3]].flow.settled_by_topic
        claim = Claim(
            fence=fence,
            allocator_no=self._allocator_no,
            topic=lane.topic,
            partition=lane.partition,
            item_nos=[row[0] for row in rows],
            effective_dates=[row[2] for row in rows],
            attempts=[row[10] + 1 for row in rows],
            starts=[row[11] + 1 for row in rows],
            batch_max=lane.batch_max,
            flow_no=lane.flow_no,
            settled_by_no=self._settling_actors.get(lane.topic) if is_held else None,
            **lane.deadlines._asdict(),
        )
        return ClaimBatch(claim, records, first), start + end


def _claims_expected(lane: _PartitionRows) -> int:
    return 1 if lane.batch_max is None else -(-len(lane.rows) // lane.batch_max)


def _group_by_partition(
    rows: Sequence[Record], wordings: Mapping[int, FlowHeaders], partitions: Mapping[str, int]
) -> list[_PartitionRows]:
    by_topic: dict[str, list[Record]] = {}
    for row in rows:
        by_topic.setdefault(wordings[row[3]].topic, []).append(row)
    lanes: dict[tuple[str, int, int | None, int | None, ClaimDeadlines], _PartitionRows] = {}
    for topic, members in by_topic.items():
        keys = [(row[4] if row[5] is None else row[5]).encode() for row in members]
        for row, key, partition in zip(
            members, keys, partitions_of(keys, partitions[topic]), strict=True
        ):
            wording = wordings[row[3]]
            at = (topic, partition, row[12], wording.counted_flow_no, wording.deadlines)
            lane = lanes.get(at)
            if lane is None:
                lane = lanes[at] = _PartitionRows(*at)
            lane.rows.append(row)
            lane.keys.append(key)
    return list(lanes.values())
