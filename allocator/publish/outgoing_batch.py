"""The record batch of a claim, or of several, sealed when aiokafka's producer asks for its bytes.

Stands in for aiokafka's ``BatchBuilder``, whose records it would have to take apart and make again:
what the producer asks of one is the second half of the class.
"""

from collections.abc import Sequence
from enum import StrEnum
from time import time  # noqa: TID251 - a record's time of creation; nothing is decided by it
from typing import Final, final

from aiokafka.codec import lz4_encode
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.kafka.record_format import BATCH_HEADER_BYTES, write_checked, write_front

# Headers repeat so much that higher levels gain a tenth and cost six times as much.
_LZ4_LEVEL: Final = 1
_NO_PRODUCER: Final = (-1, -1, -1)


class Compression(StrEnum):
    """How record batches are compressed. Kafka's own clients read both; some others no lz4."""

    NONE = "none"
    LZ4 = "lz4"


_CODECS: Final = {Compression.NONE: 0, Compression.LZ4: 3}


@final
class OutgoingBatch:
    """Records for one partition; knows whether it was ever handed to a connection."""

    def __init__(self, bytes_max: int, compression: Compression) -> None:
        self.bytes_left = bytes_max - BATCH_HEADER_BYTES
        self.was_sent = False
        self._compression = compression
        self._records: list[bytes] = []
        self._count = 0
        self._producer = _NO_PRODUCER
        self._sealed = b""

    def add(self, records: Sequence[bytes]) -> None:
        """Take the records of a claim, in the order of their positions."""
        self._records += records
        self._count += len(records)
        self.bytes_left -= sum(map(len, records))

    # What the producer calls.

    def close(self) -> None:
        """Do nothing: it is complete."""

    def closed(self) -> bool:
        """Tell that nothing is added: what is full does not linger."""
        return True

    def record_count(self) -> int:
        """Count the records: each takes a sequence number."""
        return self._count

    def size(self) -> int:
        """Return its bytes, not compressed while it is not sealed."""
        if self._sealed:
            return len(self._sealed)
        return BATCH_HEADER_BYTES + sum(map(len, self._records))

    def _set_producer_state(  # pyright: ignore[reportUnusedFunction]
        self, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None:
        self._producer = (producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:  # pyright: ignore[reportUnusedFunction]
        # The producer asks when it makes the produce request, and not before.
        self.was_sent = True
        if not self._sealed:
            self._sealed = self._seal()
            self._records.clear()
        return self._sealed

    def _seal(self) -> bytes:
        records = b"".join(self._records)
        compression = self._compression
        if compression is Compression.LZ4:
            compressed = lz4_encode(records, level=_LZ4_LEVEL)
            if len(compressed) < len(records):
                records = compressed
            else:
                compression = Compression.NONE
        checked = write_checked(
            codec=_CODECS[compression],
            count=self._count,
            timestamp_milliseconds=int(time() * 1000),
            producer=self._producer,
        )
        crc = calc_crc32c(checked + records)
        return b"".join([write_front(len(checked) + len(records), crc), checked, records])
