"""A reader of the bytes that were fetched of one partition. Pure.

It checks and decompresses one batch at each call, and skips transaction markers and the batches of
aborted transactions.
"""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Final, final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.kafka.decompression import DecompressionFailed, decompress
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
    from collections.abc import Iterable

_ABORT_MARKER: Final = b"\0\0\0\0"  # version and type


@final
class PartitionReader:
    """Iterates once over the batches of one response. `position` is the offset after the last one.

    `aborted` are the producer and the first offset of each transaction that was aborted.
    """

    def __init__(
        self, fetched: bytes, position: int, aborted: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.position = position
        self._fetched = fetched
        self._at = 0
        self._aborted = sorted(aborted, key=itemgetter(1), reverse=True)
        self._aborted_producers: set[int] = set()

    def next(self) -> FetchedBatch | None:
        """Return the next batch, or None after the last complete one: the rest is cut off.

        Raises CorruptRecordException if the next batch is damaged, or if not even the first one is
        complete.
        """
        while (end := batch_end(self._fetched, self._at)) is not None:
            batch = memoryview(self._fetched)[self._at : end]
            header = _read_header(batch)
            if header.magic == MAGIC and calc_crc32c(batch[CHECKED_OFFSET:]) != header.crc:
                raise CorruptRecordException(f"the CRC of the batch at {self.position} is wrong")
            self._at = end
            first_offset, self.position = self.position, header.next_offset
            if header.records > 0 and not self._is_hidden(header, batch):
                return FetchedBatch(header, _decoded(header, batch), first_offset)
        if self._fetched and self._at == 0:
            raise CorruptRecordException(f"the batch at {self.position} is incomplete")
        return None

    def _is_hidden(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether a batch is a transaction marker or was written by an aborted one."""
        while self._aborted and self._aborted[-1][1] <= header.base_offset:
            self._aborted_producers.add(self._aborted.pop()[0])
        if header.attributes & CONTROL_BIT:
            marker = RecordReader(FetchedBatch(header, _decoded(header, batch), 0)).next()
            if marker is not None and marker.key == _ABORT_MARKER:
                self._aborted_producers.discard(header.producer_id)
            return True
        is_transactional = bool(header.attributes & TRANSACTIONAL_BIT)
        return is_transactional and header.producer_id in self._aborted_producers


def _read_header(batch: memoryview) -> BatchHeader:
    is_short = len(batch) <= MAGIC_OFFSET
    if is_short or (batch[MAGIC_OFFSET] == MAGIC and len(batch) < BATCH_HEADER_BYTES):
        raise CorruptRecordException("a batch is shorter than its header")
    if batch[MAGIC_OFFSET] == MAGIC:
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
