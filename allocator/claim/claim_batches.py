"""Builds claims and their record batches from claimed rows.

A claim goes to one topic-partition, in one batch. Small claims for one partition share a batch:
Kafka takes one batch of a partition at a time, and a small one takes as long as a large one.

No row costs a database call, a task or a decoding: the payload stays text.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, final

from dueledger.allocator.publish import OutgoingBatch
from dueledger.allocator.publish.record_writer import ClaimDeadlines, FlowHeaders, RecordWriter
from dueledger.ledger.claim_id import ClaimId, new_claim_id
from dueledger.ledger.kafka.partitioner import partitions_of
from dueledger.ledger.store.claimed_rows import (
    CLAIMED_COLUMNS,
    ClaimedRows,
    RowValues,
    columns_getter,
)
from dueledger.ledger.store.claims import Claim, DueFlow

DrawFences = Callable[[int], Awaitable[list[int]]]

_SPARE_FENCES: Final = 4
_YIELD_ROWS: Final = 200
# Of each row a few columns by one call.
_FENCE: Final = columns_getter("fence")
_FLOW_NO: Final = columns_getter("flow_no")
_KEYS: Final = columns_getter("business_key", "partition_key")
_RECORDED_FOR: Final = columns_getter("flow_no", "partition", "token")
_GROUPED: Final = columns_getter("flow_no", "batch_max")
_ITEM_NO: Final = columns_getter("item_no")
_EFFECTIVE_DATE: Final = columns_getter("effective_date")
_ATTEMPT: Final = columns_getter("attempt")
_STARTS: Final = columns_getter("starts")
_BATCH_MAX: Final = columns_getter("batch_max")


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """A claim and its batch. `records_before` records of other claims come first in the batch."""

    claim: Claim
    records: OutgoingBatch
    records_before: int

    @property
    def fence(self) -> int:
        """Number of the claim."""
        return self.claim.id.fence

    @property
    def topic(self) -> str:
        """Topic that it is sent to."""
        return self.claim.topic

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        return self.claim.partition


@dataclass(slots=True)
class _PartitionRows:
    """Rows for one topic-partition, with their keys, in the order claimed."""

    topic: str
    partition: int
    batch_max: int | None
    flow_no: int | None  # set if all rows are of one counted flow
    deadlines: ClaimDeadlines
    rows: list[RowValues] = field(default_factory=list[RowValues])
    keys: list[bytes] = field(default_factory=list[bytes])


@final
class ClaimBatchBuilder:
    """Builds claims from rows, for one allocator."""

    def __init__(
        self,
        allocator_no: int,
        new_batch: Callable[[str | None], OutgoingBatch],
        settling_actors: Mapping[str, int] | None = None,
    ) -> None:
        """`new_batch` takes the codec that a kind names, None for that of the settings.

        `settling_actors` are, by topic, the actors of the claims that are settled by topic.
        """
        self._allocator_no = allocator_no
        self._new_batch = new_batch
        self._writer = RecordWriter()
        self._settling_actors: Mapping[str, int] = (
            {} if settling_actors is None else settling_actors
        )

    async def build(
        self,
        rows: ClaimedRows,
        flows: Mapping[int, DueFlow],
        partitions: Mapping[str, int],
        draw_fences: DrawFences,
    ) -> list[ClaimBatch]:
        """Split rows into claims; each is full, or the last of its partition.

        Fences are drawn with the rows, or after the rows were locked, so that an item's fences only
        grow. A fence drawn before the lock could be lower than one that another allocator has
        given the item since.
        """
        flow_headers = self._writer.flow_headers(flows)
        groups = _group_by_partition(rows, flow_headers, partitions)
        expected = sum(map(_claims_expected, groups))
        fences = [fence for fence in map(_FENCE, rows) if fence is not None]
        if len(fences) < expected:
            fences = await draw_fences(expected + _SPARE_FENCES)
        fences.sort(reverse=True)
        batches: list[ClaimBatch] = []
        last: dict[tuple[str, int], OutgoingBatch] = {}
        for group in groups:
            start = 0
            while start < len(group.rows):
                if not fences:
                    fences = (await draw_fences(len(groups) + _SPARE_FENCES))[::-1]
                claim_id = new_claim_id(fences.pop(), rows.claimed_at)
                batch, start = self._fill(
                    group,
                    start,
                    claim_id,
                    flow_headers,
                    last,
                    available_since=rows.available_since,
                )
                batches.append(batch)
                if len(rows) > _YIELD_ROWS:
                    await asyncio.sleep(0)  # a small claim need not wait for a large one
        return batches

    def write(self, rows: ClaimedRows, flows: Mapping[int, DueFlow]) -> list[ClaimBatch]:
        """Write the records of claims that are recorded, each of which fits into a batch."""
        flow_headers = self._writer.flow_headers(flows)
        batches: list[ClaimBatch] = []
        last: dict[tuple[str, int], OutgoingBatch] = {}
        for fence, together in groupby(rows, _FENCE):
            recorded = list(together)
            flow_no, partition, token = _RECORDED_FOR(recorded[0])
            claim_rows = [row[: len(CLAIMED_COLUMNS)] for row in recorded]
            headers = flow_headers[flow_no]
            group = _PartitionRows(
                headers.topic, partition, None, None, headers.deadlines,
                claim_rows, _keys(claim_rows),
            )  # fmt: skip
            claim_id = ClaimId(fence, rows.claimed_at, token)
            batch, _ = self._fill(group, 0, claim_id, flow_headers, last, available_since={})
            batches.append(batch)
        return batches

    def _fill(
        self,
        group: _PartitionRows,
        start: int,
        claim_id: ClaimId,
        flow_headers: Mapping[int, FlowHeaders],
        last: dict[tuple[str, int], OutgoingBatch],
        *,
        available_since: Mapping[int, datetime],
    ) -> tuple[ClaimBatch, int]:
        """Write the rows from `start` on to their partition's last batch, or to a new one.

        Returns the claim and the next `start`.
        """
        end = len(group.rows) if group.batch_max is None else start + group.batch_max
        rows, keys = group.rows[start:end], group.keys[start:end]
        topic_partition = (group.topic, group.partition)
        records = last.get(topic_partition)
        written: list[bytes] = []
        first = 0
        if records is not None:
            first = records.record_count()
            written = self._writer.write(
                rows, keys, claim_id, flow_headers, records.bytes_left, first=first
            )
        if records is None or not written:
            compression = flow_headers[_FLOW_NO(rows[0])].flow.compression
            records, first = self._new_batch(compression), 0
            last[topic_partition] = records
            written = self._writer.write(rows, keys, claim_id, flow_headers, records.bytes_left)
        records.add(written)
        count = len(written)
        rows = group.rows[start : start + count]
        settled_by_topic = flow_headers[_FLOW_NO(rows[0])].flow.settled_by_topic
        flow_nos = list(set(map(_FLOW_NO, rows)))
        lag_flow_no = _first_late(flow_nos, available_since, flow_headers)
        claim = Claim(
            id=claim_id,
            allocator_no=self._allocator_no,
            topic=group.topic,
            partition=group.partition,
            item_nos=list(map(_ITEM_NO, rows)),
            effective_dates=list(map(_EFFECTIVE_DATE, rows)),
            attempts=_one_more(map(_ATTEMPT, rows)),
            starts=_one_more(map(_STARTS, rows)),
            batch_max=group.batch_max,
            flow_no=group.flow_no,
            flow_nos=flow_nos,
            lag_flow_no=lag_flow_no,
            available_since=None if lag_flow_no is None else available_since[lag_flow_no],
            topic_actor_no=self._settling_actors.get(group.topic) if settled_by_topic else None,
            **group.deadlines._asdict(),
        )
        return ClaimBatch(claim, records, first), start + count


def _keys(rows: Iterable[RowValues]) -> list[bytes]:
    return [
        business_key if own_key is None else own_key for business_key, own_key in map(_KEYS, rows)
    ]


def _one_more(counts: Iterable[int]) -> list[int]:
    """Return each count and one. Nearly always all are equal."""
    counts = list(counts)
    if len(set(counts)) == 1:
        return [counts[0] + 1] * len(counts)
    return [count + 1 for count in counts]


def _first_late(
    flow_nos: Sequence[int],
    available_since: Mapping[int, datetime],
    flow_headers: Mapping[int, FlowHeaders],
) -> int | None:
    """Return the flow whose lag target is missed first if the claim is not started."""
    if not available_since:
        return None
    late_ats = {
        flow_no: available_since[flow_no] + timedelta(seconds=target)
        for flow_no in flow_nos
        if flow_no in available_since
        and (target := flow_headers[flow_no].flow.lag_target_seconds) is not None
    }
    return min(late_ats, key=late_ats.__getitem__, default=None)


def _claims_expected(group: _PartitionRows) -> int:
    return 1 if group.batch_max is None else -(-len(group.rows) // group.batch_max)


def _group_by_partition(
    rows: Sequence[RowValues],
    flow_headers: Mapping[int, FlowHeaders],
    partitions: Mapping[str, int],
) -> list[_PartitionRows]:
    by_topic: dict[str, list[RowValues]] = {}
    topics = {flow_no: flow_headers[flow_no].topic for flow_no in set(map(_FLOW_NO, rows))}
    if len(set(topics.values())) == 1:
        by_topic[next(iter(topics.values()))] = [*rows]
    else:
        for row in rows:
            by_topic.setdefault(topics[_FLOW_NO(row)], []).append(row)
    groups: dict[tuple[str, int, int | None, int | None, ClaimDeadlines], _PartitionRows] = {}
    for topic, topic_rows in by_topic.items():
        keys = _keys(topic_rows)
        row_partitions = partitions_of(keys, partitions[topic])
        alike = _alike(topic_rows, flow_headers)
        if alike is not None:
            for partition, group_rows, group_keys in _split(topic_rows, keys, row_partitions):
                shared = (topic, partition, *alike)
                groups[shared] = _PartitionRows(*shared, group_rows, group_keys)
            continue
        known: dict[tuple[int, int, int | None], _PartitionRows] = {}
        for row, (flow_no, batch_max), key, partition in zip(
            topic_rows, map(_GROUPED, topic_rows), keys, row_partitions, strict=True
        ):
            group = known.get((flow_no, partition, batch_max))
            if group is None:
                headers = flow_headers[flow_no]
                shared = (topic, partition, batch_max, headers.counted_flow_no, headers.deadlines)
                group = groups.setdefault(shared, _PartitionRows(*shared))
                known[flow_no, partition, batch_max] = group
            group.rows.append(row)
            group.keys.append(key)
    return list(groups.values())


def _alike(
    rows: Sequence[RowValues], flow_headers: Mapping[int, FlowHeaders]
) -> tuple[int | None, int | None, ClaimDeadlines] | None:
    """Return what all rows of a topic share beside their partition, or None if they differ."""
    headers = [flow_headers[flow_no] for flow_no in set(map(_FLOW_NO, rows))]
    shared = {
        (batch_max, each.counted_flow_no, each.deadlines)
        for batch_max in set(map(_BATCH_MAX, rows))
        for each in headers
    }
    return shared.pop() if len(shared) == 1 else None


def _split(
    rows: Sequence[RowValues], keys: Sequence[bytes], partitions: Sequence[int]
) -> Iterator[tuple[int, list[RowValues], list[bytes]]]:
    """Return the rows of each partition, with their keys, in their order."""
    found: dict[int, tuple[list[RowValues], list[bytes]]] = {
        partition: ([], []) for partition in dict.fromkeys(partitions)
    }
    for row, key, partition in zip(rows, keys, partitions, strict=True):
        group_rows, group_keys = found[partition]
        group_rows.append(row)
        group_keys.append(key)
    for partition, together in found.items():
        yield partition, *together
