"""Work records as slices: consecutive records of one claim with ascending positions. Pure.

A slice keeps of each record the item's id only. So a log of millions of records is compared with
its claims in little memory.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord, RecordReader
from dueledger.ledger.kafka.work_record_prefix import POSITIONS_MAX

ID_BYTES: Final = 16
_UNREADABLE_ID: Final = bytes(ID_BYTES)
_FENCE_MAX: Final = 2**63 - 1


class RecordSlice(NamedTuple):
    """Records at successive offsets with successive positions of a claim; `ids` has 16 bytes each.

    `claim_id` is None for one record that is no work record: its id is zero.
    """

    claim_id: ClaimId | None
    position: int
    offset: int
    ids: bytes

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self.ids) // ID_BYTES


def slice_records(batch: FetchedBatch) -> Iterator[RecordSlice]:
    """Yield the slices of a batch, by ascending offset, each record once."""
    reader = RecordReader(batch)
    pending: RecordSlice | None = None
    while (record := reader.next()) is not None:
        found = _read(record)
        if found.claim_id is not None:
            items = reader.next_items_of_claim(found.claim_id, found.position + 1)
            found = found._replace(ids=found.ids + _ids_of(items))
        if pending is not None and _continues(pending, found):
            pending = pending._replace(ids=pending.ids + found.ids)
            continue
        if pending is not None:
            yield pending
        pending = found
    if pending is not None:
        yield pending


def _continues(earlier: RecordSlice, later: RecordSlice) -> bool:
    return (
        earlier.claim_id is not None
        and earlier.claim_id == later.claim_id
        and earlier.position + earlier.size == later.position
        and earlier.offset + earlier.size == later.offset
    )


def _read(record: KafkaRecord) -> RecordSlice:
    try:
        headers = record.work_headers()
    except InvalidHeader:
        return RecordSlice(None, 0, record.offset, _UNREADABLE_ID)
    if not (0 < headers.position <= POSITIONS_MAX and headers.fence <= _FENCE_MAX):
        return RecordSlice(None, 0, record.offset, _UNREADABLE_ID)
    return RecordSlice(headers.claim_id, headers.position, record.offset, headers.item.bytes)


def _ids_of(items: list[bytes]) -> bytes:
    """Return the ids of items given as text, all at once where each is well formed."""
    text = b"".join(items).replace(b"-", b"")
    if len(text) == 2 * ID_BYTES * len(items):
        try:
            ids = bytes.fromhex(text.decode())
        except ValueError:
            ids = b""
        if len(ids) == ID_BYTES * len(items):
            return ids
    return b"".join(map(_id_of, items))


def _id_of(item: bytes) -> bytes:
    try:
        return UUID(item.decode()).bytes
    except ValueError:
        return _UNREADABLE_ID
