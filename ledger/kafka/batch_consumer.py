"""A Kafka consumer that gives record batches as they were fetched, not a record at a time.

aiokafka 0.14 has no such way, so its own code is bound to two classes of ours in place of its own:
what fetches, and what takes a fetched partition apart. Everything else is aiokafka's: the group,
positions, time limits, errors. Only this module looks inside its consumer; it fails at import where
the insides are others than it was written for.
"""

# ruff: noqa: SLF001 - see above
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast, final

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, PartitionRecords
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX, DecompressionFailed, decompress
from dueledger.ledger.kafka.record_batches import FetchedBatch, RecordReader
from dueledger.ledger.kafka.record_format import (
    BATCH_HEADER_BYTES,
    CHECKED_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_BIT,
    BatchHeader,
    batch_end,
    read_batch_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiokafka import TopicPartition

BATCHES_MAX: Final = 64
TOGETHER_BYTES_MAX: Final = DECODED_BYTES_MAX
"""What is fetched together has so many bytes once it is decompressed, its last batch aside."""


@final
class _FetchBudget:
    """How many bytes more what is fetched together may have."""

    def __init__(self) -> None:
        self.bytes_left = TOGETHER_BYTES_MAX


@final
class _FetchedPartition:
    """The bytes fetched of one partition; stands in for aiokafka's ``MemoryRecords``."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def has_next(self) -> bool:
        """Tell whether there is a whole batch: the last one may be cut off."""
        return batch_end(self.data, 0) is not None

    def size_in_bytes(self) -> int:
        """Return the size of what was fetched."""
        return len(self.data)


@final
class _PartitionBatches(PartitionRecords):
    """Iterates over what was fetched of one partition, by the batch, while there is room.

    What there is no room for is dropped as it came, and fetched again.
    """

    def __init__(self, *given: Any, room: _FetchBudget, **named: Any) -> None:  # noqa: ANN401 - as aiokafka's
        super().__init__(*given, **named)
        self._room = room

    def _unpack_records(self) -> Iterator[FetchedBatch]:
        data = cast("_FetchedPartition", self._records).data
        view = memoryview(data)
        start = 0
        while self._room.bytes_left > 0 and (end := batch_end(data, start)) is not None:
            batch = view[start:end]
            start = end
            header = _read_header(batch)
            if (
                header.magic == MAGIC
                and self._check_crcs
                and calc_crc32c(batch[CHECKED_OFFSET:]) != header.crc
            ):
                # Nothing after it is looked at: all that is fetched again.
                raise CorruptRecordException(f"Invalid CRC - {self._tp}")
            first_offset, self.next_fetch_offset = self.next_fetch_offset, header.next_offset
            if header.records > 0 and not self._is_hidden(header, batch):
                body = _decoded(header, batch)
                self._room.bytes_left -= len(body)
                yield FetchedBatch(header, body, first_offset)

    def _is_hidden(self, header: BatchHeader, batch: memoryview) -> bool:
        """Tell whether it holds a transaction's marker or what an aborted one wrote."""
        is_control = bool(header.attributes & CONTROL_BIT)
        if self._isolation_level != READ_COMMITTED:
            return is_control
        self._consume_aborted_up_to(header.base_offset)
        if is_control:
            marker = RecordReader(FetchedBatch(header, _decoded(header, batch), 0)).next()
            if marker is not None and ControlRecord.parse(marker.key or b"") == ABORT_MARKER:
                self._aborted_producers.discard(header.producer_id)
            return True
        is_transactional = bool(header.attributes & TRANSACTIONAL_BIT)
        return is_transactional and header.producer_id in self._aborted_producers


def _read_header(batch: memoryview) -> BatchHeader:
    if batch[MAGIC_OFFSET] == MAGIC:
        if len(batch) < BATCH_HEADER_BYTES:
            raise CorruptRecordException("A batch is shorter than its header")
        return read_batch_header(batch)
    # Formats that have no headers hold no work. They begin with their offset, too.
    offset = int.from_bytes(batch[:8])
    return BatchHeader(offset, 0, 0, batch[MAGIC_OFFSET], 0, 0, 0, 0, 0, -1, -1, -1, 1)


def _decoded(header: BatchHeader, batch: memoryview) -> bytes:
    """Return the records, decompressed; as they are where that is not possible: none is read."""
    records = batch[BATCH_HEADER_BYTES:]
    if header.magic == MAGIC:
        with suppress(DecompressionFailed):
            return decompress(header.attributes & CODEC_MASK, records)
    return b"\xff" + records  # a length without an end


def _bound(function: Callable[..., Any], **names: object) -> Any:  # noqa: ANN401 - as given
    """Return aiokafka's `function` with other classes under the names that it looks up."""
    code = function.__code__
    unknown = names.keys() - set(code.co_names)
    if unknown or function.__closure__:
        raise ImportError(
            f"{function.__qualname__} of this aiokafka does not use {', '.join(sorted(unknown))}: "
            "ledger.fetching was written for aiokafka 0.14"
        )
    bound = FunctionType(
        code, {**function.__globals__, **names}, function.__name__, function.__defaults__
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound


class _BatchFetcher(Fetcher):
    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as aiokafka's
        self.room = _FetchBudget()
        batches = partial(_PartitionBatches, room=self.room)
        proceed = _bound(
            Fetcher._proc_fetch_request, MemoryRecords=_FetchedPartition, PartitionRecords=batches
        )
        self._proc_fetch_request = MethodType(proceed, self)
        super().__init__(*given, **named)  # which begins to fetch


class BatchConsumer(AIOKafkaConsumer):
    """aiokafka's consumer, of which `getbatches` is asked instead of `getmany`."""

    start = _bound(AIOKafkaConsumer.start, Fetcher=_BatchFetcher)

    async def getbatches(
        self, *partitions: TopicPartition, timeout_ms: int, records_max: int
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return batches, until their records are `records_max` or nothing more was fetched.

        Or until they are larger than `TOGETHER_BYTES_MAX`.
        """
        found: dict[TopicPartition, list[FetchedBatch]] = {}
        size = taken = 0
        room = cast("_BatchFetcher", self._fetcher).room
        room.bytes_left = TOGETHER_BYTES_MAX
        # What was taken must be returned: its partitions have moved on. So once there is something,
        # nothing is waited for, and an error is left for the next call to meet.
        while (
            size < records_max
            and room.bytes_left > 0
            and not (found and self._subscription.reassignment_in_progress)
        ):
            likely = (records_max - size) * taken // max(1, size)  # to hold what is left
            try:
                fetched = await self.getmany(
                    *partitions,
                    timeout_ms=0 if found else timeout_ms,
                    max_records=min(BATCHES_MAX, max(1, likely)),
                )
            except KafkaError:
                if not found:
                    raise
                break
            if not fetched:
                break
            for partition, records in fetched.items():
                batches = cast("list[FetchedBatch]", records)
                found.setdefault(partition, []).extend(batches)
                taken += len(batches)
                size += sum(batch.size for batch in batches)
        return found
