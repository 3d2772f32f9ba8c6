"""Writes the records of a claim as the bytes that Kafka stores.

The loop over items is the hottest of the allocator: each record is one join of bytes. Kafka's
client would first make a tuple for each header, which costs more than twice as much (see
docs/measured-rates.md).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple, TypeVar, final

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_format import VARINTS, header, header_name
from dueledger.ledger.kafka.work_record_prefix import (
    POSITION_HEADERS,
    RECORD_PREFIXES,
    claim_headers,
    kind_and_attempt,
)
from dueledger.ledger.store.claimed_rows import RowValues, read_instant
from dueledger.ledger.store.claims import DueFlow

K = TypeVar("K")
V = TypeVar("V")

_CACHED_MAX: Final = 10_000
_UUID_CHARACTERS: Final = 36
_HEADERS: Final = len(envelope.WORK_HEADERS)
_ID: Final = header_name(envelope.ID)
_ITEM: Final = header_name(envelope.ITEM) + VARINTS[_UUID_CHARACTERS]
_SUBJECT: Final = header_name(envelope.SUBJECT)
_TRACEPARENT: Final = header_name(envelope.TRACEPARENT)


class _EncodedCache(dict[K, V]):
    """Encoded headers by value; items share most of their values."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: K) -> V:
        if len(self) >= _CACHED_MAX:
            self.clear()
        encoded = self[value] = self._make(value)
        return encoded


class ClaimDeadlines(NamedTuple):
    """How long the steps of a claim may take. Flows that differ in one of them share no claim."""

    dispatch_seconds: int
    queue_seconds: int
    run_seconds: float | None
    lease_seconds: int


@final
class FlowHeaders:
    """A flow and the headers that all its records share, by attempt."""

    __slots__ = ("counted_flow_no", "deadlines", "flow", "headers_by_attempt", "topic")

    def __init__(self, flow: DueFlow) -> None:
        self.flow = flow
        self.topic = flow.topic
        self.counted_flow_no = flow.flow_no if flow.is_counted else None
        self.deadlines = ClaimDeadlines(
            flow.dispatch_seconds, flow.queue_seconds, flow.run_seconds, flow.lease_seconds
        )
        common_headers = b"".join(
            [
                header(envelope.SPECVERSION_HEADER, envelope.SPECVERSION_BYTES),
                header(envelope.SOURCE, (envelope.SOURCE_PREFIX + flow.tenant).encode()),
                header(envelope.CONTENT_TYPE, envelope.CONTENT_TYPE_JSON),
                header(envelope.TENANT, flow.tenant.encode()),
            ]
        )
        self.headers_by_attempt = _EncodedCache[int, bytes](
            lambda attempt: kind_and_attempt(flow.kind, attempt) + common_headers
        )


@final
class RecordWriter:
    """Writes records, with their headers in the order of ``envelope.WORK_HEADERS``."""

    def __init__(self) -> None:
        self._flow_headers: dict[int, FlowHeaders] = {}
        self._cycles = _EncodedCache(_cycle_header)
        self._dates = _EncodedCache(_effective_header)

    def flow_headers(self, flows: Mapping[int, DueFlow]) -> Mapping[int, FlowHeaders]:
        """Return the headers of each flow, from the cache if the flow has not changed."""
        if len(self._flow_headers) > _CACHED_MAX:
            self._flow_headers.clear()
        cached = self._flow_headers
        for flow_no, flow in flows.items():
            if flow_no not in cached or cached[flow_no].flow is not flow:
                cached[flow_no] = FlowHeaders(flow)
        return cached

    def write(
        self,
        rows: Sequence[RowValues],
        keys: Sequence[bytes],
        claim_id: ClaimId,
        flow_headers: Mapping[int, FlowHeaders],
        bytes_max: int,
        *,
        first: int = 0,
    ) -> list[bytes]:
        """Return the records of the first rows: as many as fit, at least one in an empty batch.

        `first` is the number of records of other claims before them in the batch.
        """
        records: list[bytes] = []
        bytes_left = bytes_max
        fence_text = b"%d" % claim_id.fence
        claim = claim_headers(claim_id)
        header_starts = [VARINTS[_HEADERS + more] + claim for more in range(3)]
        before_id = _ID + VARINTS[_UUID_CHARACTERS + 1 + len(fence_text)]
        after_id = b":%b%b" % (fence_text, _ITEM)
        cycles, dates, join = self._cycles, self._dates, b"".join
        due_before = b""
        due = b""
        flow_before = attempt_before = -1
        kind_headers = b""
        date_before: date | None = None
        effective = b""
        count = len(rows)
        for row, key, prefix, position in zip(
            rows,
            keys,
            RECORD_PREFIXES.slice_from(first, count),
            POSITION_HEADERS.slice_from(0, count),
            strict=False,
        ):
            (
                _, item, effective_date, flow_no, business_key, _, cycle, due_at, payload,
                traceparent, attempt, _, batch_max, _,
            ) = row  # fmt: skip
            if due_at != due_before:
                due_before = due_at
                due = _due_headers(due_at) + before_id
            header_start, last_headers = header_starts[0], b""
            if traceparent is not None:
                header_start, last_headers = header_starts[1], _traceparent_header(traceparent)
            if batch_max is not None:
                header_start = header_starts[1 + (traceparent is not None)]
                last_headers += header(envelope.SUSPECT, b"%d" % batch_max)
            if flow_no != flow_before or attempt != attempt_before:
                flow_before, attempt_before = flow_no, attempt
                kind_headers = flow_headers[flow_no].headers_by_attempt[attempt + 1]
            if effective_date is not date_before:
                date_before = effective_date
                effective = dates[effective_date]
            item_text = str(item).encode()
            record = join(
                (
                    prefix,
                    VARINTS[len(key)],
                    key,
                    VARINTS[len(payload)],
                    payload,
                    header_start,
                    position,
                    kind_headers,
                    cycles[cycle],
                    effective,
                    due,
                    item_text,
                    after_id,
                    item_text,
                    _SUBJECT,
                    VARINTS[len(business_key)],
                    business_key,
                    last_headers,
                )
            )
            record = VARINTS[len(record)] + record
            bytes_left -= len(record)
            if bytes_left < 0 and (records or first):
                break
            records.append(record)
        return records


def _traceparent_header(traceparent: str) -> bytes:
    value = traceparent.encode()
    return _TRACEPARENT + VARINTS[len(value)] + value


def _cycle_header(cycle: str) -> bytes:
    return header(envelope.CYCLE, cycle.encode())


def _effective_header(effective_date: date) -> bytes:
    return header(envelope.EFFECTIVE, effective_date.isoformat().encode())


def _due_headers(due_at: bytes) -> bytes:
    instant = envelope.format_instant(read_instant(due_at))
    return header(envelope.TIME, instant) + header(envelope.DUE_AT, instant)
