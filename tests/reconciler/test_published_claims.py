"""Claims matched with slices of records: what Kafka deletes or gets meanwhile is no difference."""

from datetime import timedelta

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka.record_slices import RecordSlice
from dueledger.ledger.store.published_claims import PublishedClaim
from dueledger.reconciler.compare.published_claims import ClaimComparison, OrphanReason
from dueledger.reconciler.read.published_records import PartitionRecords, PublishedRecords

from .conftest import NOON

PLACE = ("due.Test", 0)
CLAIM = PublishedClaim(7, NOON, *PLACE, size=2, base_offset=10, published_at=NOON)


def _records(*slices: RecordSlice, end: int = 12) -> PublishedRecords:
    part = PartitionRecords(*PLACE, first=10, end=end)
    for each in slices:
        part.add(each)
    return PublishedRecords({PLACE: part})


def _slice(offset: int = 10) -> RecordSlice:
    return RecordSlice(ClaimId(7, NOON, "00" * 8), 1, offset, bytes(32))


def test_a_claim_of_another_time_has_no_records_under_the_same_fence() -> None:
    comparison = ClaimComparison(_records(_slice()))
    other = CLAIM._replace(claimed_at=NOON + timedelta(seconds=1))

    assert comparison.add([other]) == []

    assert comparison.missing.keys() == {7}
    [(records, place)] = comparison.unmatched()
    assert comparison.judge(records, place, other) == []
    assert [each.reason for each in comparison.orphans] == [OrphanReason.NO_CLAIM]


def test_records_that_kafka_deleted_since_they_were_read_are_not_missing() -> None:
    comparison = ClaimComparison(_records())
    comparison.add([CLAIM])
    assert comparison.missing.keys() == {7}

    comparison.read_again({PLACE: 12}, {PLACE: 12})

    assert comparison.missing == {}
    assert comparison.left_out.total() == 1


def test_claims_before_what_was_read_are_deleted_only_where_kafka_does_not_retain_them() -> None:
    for retained, reason in (
        (10, "claims of which Kafka has deleted the records"),
        (9, "claims of which no record was read"),
    ):
        records = _records()
        records.partitions[PLACE].retained = retained
        comparison = ClaimComparison(records)
        assert comparison.add([CLAIM._replace(base_offset=8)]) == []
        assert comparison.left_out == {reason: 1}


def test_records_published_since_the_end_was_read_are_not_missing() -> None:
    for log_end, missing in ((12, set[int]()), (11, {7})):
        comparison = ClaimComparison(_records(end=10))
        comparison.add([CLAIM])
        assert comparison.missing == {}

        comparison.read_again({PLACE: 10}, {PLACE: log_end})

        assert comparison.missing.keys() == missing
