"""Turning claimed rows into record batches: one claim, one topic-partition, one batch.

The loop over items is the hottest of the allocator. No call into the database, no task and no
decoding in it: the payload passes as text, headers that repeat are one tuple each.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final, TypeVar, final

from allocator.publisher import RecordBatch
from ledger import envelope
from ledger.murmur2 import partitions_of
from ledger.store import Record
from ledger.store.claims import Claim, DueFlow

K = TypeVar("K")
V = TypeVar("V")
Header = tuple[str, bytes]
DrawFences = Callable[[int], Awaitable[list[int]]]

_SPARE_FENCES: Final = 4
_SPECVERSION: Final[Header] = (envelope.SPECVERSION_HEADER, envelope.SPECVERSION_BYTES)
_ALONE: Final[Header] = (envelope.ALONE, b"1")
_CONTENT_TYPE: Final[Header] = (envelope.CONTENT_TYPE, envelope.CONTENT_TYPE_JSON)


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """A claim and the records that will be its batch."""

    claim: Claim
    records: RecordBatch

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
class _Lane:
    """Rows bound for one topic-partition, with their keys, in the order claimed."""

    topic: str
    partition: int
    batch_max: int | None
    rows: list[Record] = field(default_factory=list[Record])
    keys: list[bytes] = field(default_factory=list[bytes])


@final
class _Wording:
    """What every record of a flow says alike."""

    __slots__ = ("headers", "queue_seconds", "topic")

    def __init__(self, flow: DueFlow) -> None:
        self.topic = flow.topic
        self.queue_seconds = flow.queue_seconds
        self.headers: tuple[Header, Header, Header] = (
            (envelope.SOURCE, (envelope.SOURCE_PREFIX + flow.tenant).encode()),
            (envelope.TYPE, flow.kind.encode()),
            (envelope.TENANT, flow.tenant.encode()),
        )


@final
class BatchMaker:
    """Makes claims from rows for one allocator."""

    def __init__(self, allocator_no: int, new_batch: Callable[[], RecordBatch]) -> None:
        self._allocator_no = allocator_no
        self._new_batch = new_batch

    async def make(
        self,
        rows: Sequence[Record],
        flows: Mapping[int, DueFlow],
        partitions: Mapping[str, int],
        draw_fences: DrawFences,
    ) -> list[ClaimBatch]:
        """Split `rows` (columns of claim_items) into claims, each full or the last of its lane.

        Fences are drawn after the rows were locked, so that an item's fences only grow; a stock
        drawn earlier could go to an item that another allocator has had since.
        """
        wordings = {flow_no: _Wording(flow) for flow_no, flow in flows.items()}
        lanes = _lanes(rows, wordings, partitions)
        fences = await draw_fences(sum(map(_claims_expected, lanes)) + _SPARE_FENCES)
        fences.reverse()
        made: list[ClaimBatch] = []
        for lane in lanes:
            start = 0
            while start < len(lane.rows):
                if not fences:
                    fences = (await draw_fences(len(lanes) + _SPARE_FENCES))[::-1]
                batch, start = self._fill(lane, start, fences.pop(), wordings)
                made.append(batch)
        return made

    def _fill(
        self, lane: _Lane, start: int, fence: int, wordings: Mapping[int, _Wording]
    ) -> tuple[ClaimBatch, int]:
        """Append rows from `start` on until the batch is full; return it and the next start."""
        records = self._new_batch()
        stop = len(lane.rows) if lane.batch_max is None else start + lane.batch_max
        end = _append(records, lane.rows[start:stop], lane.keys[start:stop], fence, wordings)
        rows = lane.rows[start : start + end]
        claim = Claim(
            fence=fence,
            allocator_no=self._allocator_no,
            topic=lane.topic,
            partition=lane.partition,
            item_nos=[row[0] for row in rows],
            effective_dates=[row[2] for row in rows],
            attempts=[row[10] + 1 for row in rows],
            starts=[row[11] + 1 for row in rows],
            queue_seconds=max(
                wordings[flow_no].queue_seconds for flow_no in {row[3] for row in rows}
            ),
            batch_max=lane.batch_max,
        )
        return ClaimBatch(claim, records), start + end


def _claims_expected(lane: _Lane) -> int:
    return 1 if lane.batch_max is None else -(-len(lane.rows) // lane.batch_max)


def _lanes(
    rows: Sequence[Record], wordings: Mapping[int, _Wording], partitions: Mapping[str, int]
) -> list[_Lane]:
    by_topic: dict[str, list[Record]] = {}
    for row in rows:
        by_topic.setdefault(wordings[row[3]].topic, []).append(row)
    lanes: dict[tuple[str, int, int | None], _Lane] = {}
    for topic, members in by_topic.items():
        keys = [(row[4] if row[5] is None else row[5]).encode() for row in members]
        for row, key, partition in zip(
            members, keys, partitions_of(keys, partitions[topic]), strict=True
        ):
            at = (topic, partition, row[12])
            lane = lanes.get(at)
            if lane is None:
                lane = lanes[at] = _Lane(*at)
            lane.rows.append(row)
            lane.keys.append(key)
    return list(lanes.values())


def _append(
    records: RecordBatch,
    rows: Sequence[Record],
    keys: Sequence[bytes],
    fence: int,
    wordings: Mapping[int, _Wording],
) -> int:
    """Append rows until the batch is full; return how many went in, at least one."""
    append = records.append
    fence_text = b"%d" % fence
    fence_header = (envelope.FENCE, fence_text)
    cycle_headers = _Known(_cycle_header)
    effective_headers = _Known(_effective_header)
    attempt_headers = _Known(_attempt_header)
    due_before: datetime | None = None
    time = due = _SPECVERSION
    position = 0
    for row, key in zip(rows, keys, strict=True):
        _, item, effective, flow_no, business_key, partition_key, cycle, due_at, *rest = row
        payload, traceparent, attempt, _, batch_max = rest
        if due_at != due_before:
            due_before = due_at
            instant = envelope.format_instant(due_at)
            time, due = (envelope.TIME, instant), (envelope.DUE_AT, instant)
        position += 1
        item_text = str(item).encode()
        source, kind, tenant = wordings[flow_no].headers
        headers = [
            fence_header,
            (envelope.POSITION, b"%d" % position),
            _SPECVERSION,
            (envelope.ID, b"%b:%b" % (item_text, fence_text)),
            source,
            kind,
            (envelope.SUBJECT, key if partition_key is None else business_key.encode()),
            time,
            _CONTENT_TYPE,
            tenant,
            cycle_headers[cycle],
            effective_headers[effective],
            due,
            (envelope.ITEM, item_text),
            attempt_headers[attempt + 1],
        ]
        if traceparent is not None:
            headers.append((envelope.TRACEPARENT, traceparent.encode()))
        if batch_max == 1:
            headers.append(_ALONE)
        if append(timestamp=None, key=key, value=payload.encode(), headers=headers) is None:
            return position - 1
    return position


class _Known(dict[K, V]):
    """What was made before for the same value; a claim's items share most of their headers."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: K) -> V:
        made = self[value] = self._make(value)
        return made


def _cycle_header(cycle: str) -> Header:
    return envelope.CYCLE, cycle.encode()


def _effective_header(effective_date: date) -> Header:
    return envelope.EFFECTIVE, effective_date.isoformat().encode()


def _attempt_header(attempt: int) -> Header:
    return envelope.ATTEMPT, b"%d" % attempt
