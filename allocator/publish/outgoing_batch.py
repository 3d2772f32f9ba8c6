"""The record batch of one or more claims, encoded when aiokafka's producer asks for its bytes.

It replaces aiokafka's ``BatchBuilder``, which would decode and encode each record again. The second
half of the class is the interface that the producer needs.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from time import time  # noqa: TID251 - a record's time of creation; no decision depends on it
from typing import Final, final

from aiokafka.codec import gzip_encode, lz4_encode
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.kafka.record_format import BATCH_HEADER_BYTES, write_checked, write_front

# Headers repeat so much that higher levels gain a tenth and cost six times as much.
_LEVEL: Final = 1
_NO_PRODUCER: Final = (-1, -1, -1)


class Compression(StrEnum):
    """How record batches are compressed. Kafka's own clients read each; some others lack lz4."""

    NONE = "none"
    GZIP = "gzip"
    LZ4 = "lz4"


_CODECS: Final = {Compression.NONE: 0, Compression.GZIP: 1, Compression.LZ4: 3}
_ENCODERS: Final[dict[Compression, Callable[[bytes], bytes]]] = {
    Compression.GZIP: partial(gzip_encode, compresslevel=_LEVEL),
    Compression.LZ4: partial(lz4_encode, level=_LEVEL),
}


@final
class OutgoingBatch:
    """Records for one partition. `was_sent`: the producer has taken the bytes."""

    def __init__(self, bytes_max: int, compression: Compression) -> None:
        self.bytes_left = bytes_max - BATCH_HEADER_BYTES
        self.was_sent = False
        self._compression = compression
        self._records: list[bytes] = []
        self._count = 0
        self._producer = _NO_PRODUCER
        self._sealed = b""

    def add(self, records: Sequence[bytes]) -> None:
        """Add the records of a claim, in the order of their positions."""
        self._records += records
        self._count += len(records)
        self.bytes_left -= sum(map(len, records))

    # The producer calls these.

    def close(self) -> None:
        """Do nothing: the batch is complete."""

    def closed(self) -> bool:
        """Return True: nothing is added, so the producer does not linger."""
        return True

    def record_count(self) -> int:
        """Return the number of records: each takes a sequence number."""
        return self._count

    def size(self) -> int:
        """Return its size in bytes: compressed if it is encoded, else uncompressed."""
        if self._sealed:
            return len(self._sealed)
        return BATCH_HEADER_BYTES + sum(map(len, self._records))

    def _set_producer_state(  # pyright: ignore[reportUnusedFunction]
        self, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None:
        self._producer = (producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:  # pyright: ignore[reportUnusedFunction]
        # The producer calls this when it makes the produce request, not before.
        self.was_sent = True
        if not self._sealed:
            self._sealed = self._seal()
            self._records.clear()
        return self._sealed

    def _seal(self) -> bytes:
        records = b"".join(self._records)
        compression = self._compression
        if (encode := _ENCODERS.get(compression)) is not None:
            compressed = encode(records)
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
