"""A Kafka consumer that returns record batches as fetched, not single records.

aiokafka 0.14 has no API for this. Here its own functions run with two replaced classes: the
fetcher, and the iterator over a fetched partition. The group, positions, time limits and errors
stay aiokafka's. Only this module uses its internals; the import fails if they have changed.
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
"""Decompressed bytes that one call may return, not counting its last batch."""


@final
class _FetchBudget:
    """How many more decompressed bytes one call may return."""

    def __init__(self) -> None:
        self.bytes_left = TOGETHER_BYTES_MAX


@final
class _FetchedPartition:
    """The bytes fetched of one partition. Replaces aiokafka's ``MemoryRecords``."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def has_next(self) -> bool:
        """Return whether a complete batch is left. The last batch may be cut off."""
        return batch_end(self.data, 0) is not None

    def size_in_bytes(self) -> int:
        """Return the size of what was fetched."""
        return len(self.data)


@final
class _PartitionBatches(PartitionRecords):
    """Iterates over the batches fetched of one partition, within a budget of bytes.

    Batches beyond the budget are dropped, still compressed, and fetched again later.
    """

    def __init__(self, *args: Any, budget: _FetchBudget, **kwargs: Any) -> None:  # noqa: ANN401 - as aiokafka's
        super().__init__(*args, **kwargs)
        self._budget = budget

    def _unpack_records(self) -> Iterator[FetchedBatch]:
        data = cast("_FetchedPartition", self._records).data
        view = memoryview(data)
        start = 0
        while self._budget.bytes_left > 0 and (end := batch_end(data, start)) is not None:
            batch = view[start:end]
            start = end
            header = _read_header(batch)
            if (
                header.magic == MAGIC
                and self._check_crcs
                and calc_crc32c(batch[CHECKED_OFFSET:]) != header.crc
            ):
                # The batches after it are not read; they are fetched again.
                raise CorruptRecordException(f"Invalid CRC - {self._tp}")
            first_offset, self.next_fetch_offset = self.next_fetch_offset, header.next_offset
            if header.records > 0 and not self._is_hidden(header, batch):
                body = _decoded(header, batch)
                self._budget.bytes_left -= len(body)
                yield FetchedBatch(header, body, first_offset)

    def _is_hidden(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether a batch is a transaction marker or was written by an aborted one."""
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
    # Older formats have no record headers, so no work records. They also begin with their offset.
    offset = int.from_bytes(batch[:8])
    return BatchHeader(offset, 0, 0, batch[MAGIC_OFFSET], 0, 0, 0, 0, 0, -1, -1, -1, 1)


def _decoded(header: BatchHeader, batch: memoryview) -> bytes:
    """Return the decompressed records; if that fails, bytes of which no record can be read."""
    records = batch[BATCH_HEADER_BYTES:]
    if header.magic == MAGIC:
        with suppress(DecompressionFailed):
            return decompress(header.attributes & CODEC_MASK, records)
    return b"\xff" + records  # a varint that does not end


def _bound(function: Callable[..., Any], **names: object) -> Any:  # noqa: ANN401 - as the function's
    """Return aiokafka's `function` with the globals `names` replaced."""
    code = function.__code__
    unknown = names.keys() - set(code.co_names)
    if unknown or function.__closure__:
        raise ImportError(
            f"{function.__qualname__} of this aiokafka does not use {', '.join(sorted(unknown))}: "
            "ledger.kafka.batch_consumer was written for aiokafka 0.14"
        )
    bound = FunctionType(
        code, {**function.__globals__, **names}, function.__name__, function.__defaults__
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound


class _BatchFetcher(Fetcher):
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as aiokafka's
        self.budget = _FetchBudget()
        batches = partial(_PartitionBatches, budget=self.budget)
        fetch = _bound(
            Fetcher._proc_fetch_request, MemoryRecords=_FetchedPartition, PartitionRecords=batches
        )
        self._proc_fetch_request = MethodType(fetch, self)
        super().__init__(*args, **kwargs)  # starts fetching


class BatchConsumer(AIOKafkaConsumer):
    """aiokafka's consumer with `getbatches`, which replaces `getmany`."""

    start = _bound(AIOKafkaConsumer.start, Fetcher=_BatchFetcher)

    async def getbatches(
        self, *partitions: TopicPartition, timeout_ms: int, records_max: int
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return fetched batches, with at least one if any arrives within `timeout_ms`.

        Stops at `records_max` records, at `TOGETHER_BYTES_MAX` decompressed bytes, or when nothing
        more is fetched. The last batch may exceed both limits.
        """
        found: dict[TopicPartition, list[FetchedBatch]] = {}
        size = batches_read = 0
        budget = cast("_BatchFetcher", self._fetcher).budget
        budget.bytes_left = TOGETHER_BYTES_MAX
        # Batches that were read must be returned: the positions have moved past them. So once there
        # is one, the loop does not wait, and an error is left for the next call.
        while (
            size < records_max
            and budget.bytes_left > 0
            and not (found and self._subscription.reassignment_in_progress)
        ):
            # Batches that probably contain the records still missing.
            likely = (records_max - size) * batches_read // max(1, size)
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
                batches_read += len(batches)
                size += sum(batch.size for batch in batches)
        return found
