"""Findings about claims and their records in Kafka: one a claim, or one for successive records."""

from datetime import date
from uuid import UUID

from dueledger.ledger.finding_types import WHOLE_LEDGER, FindingType
from dueledger.reconciler.compare.published_claims import MissingRecords, Orphan, OrphanReason
from dueledger.reconciler.find.findings import (
    EvidenceFields,
    Finding,
    FindingSubject,
)
from dueledger.reconciler.read.published_records import PublishedSlice


def orphan_record(orphan: Orphan) -> Finding:
    """Return the finding that no claim describes records."""
    records, claim = orphan.records, orphan.claim
    item = None if records.claim_id is None else UUID(bytes=records.first_item)
    last = records.offset + records.size - 1
    where = f"{records.topic}/{records.partition}/{records.offset}"
    what = f"The record at {where}" if records.size == 1 else f"The records from {where} to {last}"
    fence = records.claim_id.fence if records.claim_id else None
    expected: EvidenceFields = {"fence": None if claim is None else claim.fence}
    if claim is not None:
        expected |= {
            "topic": claim.topic,
            "partition": claim.partition,
            "base_offset": claim.base_offset,
            "records": claim.size,
        }
    actual: EvidenceFields = {
        "topic": records.topic,
        "partition": records.partition,
        "first_offset": records.offset,
        "last_offset": last,
        "records": records.size,
        "fence": fence,
        "position": records.position or None,
        "item_id": None if item is None else str(item),
    }
    of_claim = "" if fence is None else f" of claim {fence}"
    return Finding(
        FindingType.ORPHAN_RECORD,
        FindingSubject(
            WHOLE_LEDGER,
            WHOLE_LEDGER,
            f"record:{where}",
            item_id=item,
        ),
        f"{what}{of_claim} {_REASONS[orphan.reason]}.",
        expected=expected,
        actual=actual,
    )


_REASONS = {
    OrphanReason.UNREADABLE: "cannot be read as work",
    OrphanReason.NO_CLAIM: "cannot be explained: the ledger has no such claim",
    OrphanReason.OTHER_PLACE: "cannot be explained: the claim was published at another place",
    OrphanReason.OTHER_POSITION: "cannot be explained: the claim has no such position",
    OrphanReason.OTHER_ITEM: "cannot be explained: the claim has another item at its position",
    OrphanReason.OTHER_TOKEN: "cannot be explained: the claim has another token",
    OrphanReason.NO_ITEM: "cannot be explained: the ledger does not have its item",
}


def record_without_item(
    records: PublishedSlice, offset: int, item: bytes, item_no: int, day: date
) -> Finding:
    """Return the finding that the item of a published record does not exist any more."""
    where = f"{records.topic}/{records.partition}/{offset}"
    fence = records.claim_id.fence if records.claim_id else None
    identity = UUID(bytes=item)
    return Finding(
        FindingType.ORPHAN_RECORD,
        FindingSubject(
            WHOLE_LEDGER, WHOLE_LEDGER, f"item:{identity}", item_id=identity, effective_date=day
        ),
        f"The item {identity} was published at {where} by claim {fence}, and the ledger does not "
        "have it.",
        expected={"item_id": None, "item_no": item_no},
        actual={
            "topic": records.topic,
            "partition": records.partition,
            "offset": offset,
            "fence": fence,
            "item_id": str(identity),
        },
    )


def record_missing(missing: MissingRecords) -> Finding:
    """Return the finding that a claim's records are not where it was marked as published."""
    claim, found, elsewhere = missing.claim, missing.found, missing.elsewhere
    base_offset = claim.base_offset or 0
    where = f"{claim.topic}/{claim.partition}/{missing.offset}"
    there = "no record is there"
    if found is not None:
        fence = found.claim_id.fence if found.claim_id else None
        there = "another record is there" if fence is None else f"a record of claim {fence} is"
    if elsewhere is not None:
        there = (
            f"its records are from {elsewhere.topic}/{elsewhere.partition}/{elsewhere.offset} on"
        )
    sentence = (
        f"Claim {claim.fence} was marked as published, and its record at {where} is missing: "
        f"{there}."
    )
    if claim.base_offset is None:
        sentence = (
            f"Items of claim {claim.fence} were started, and it has no record on "
            f"{claim.topic}/{claim.partition}, of which all were read that can be its own."
        )
    return Finding(
        FindingType.RECORD_MISSING,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"records:{claim.fence}"),
        sentence,
        expected={
            "fence": claim.fence,
            "topic": claim.topic,
            "partition": claim.partition,
            "base_offset": claim.base_offset,
            "last_offset": None if claim.base_offset is None else base_offset + claim.size - 1,
            "published_at": claim.published_at.isoformat() if claim.published_at else None,
        },
        actual={
            "missing_from": missing.offset,
            "fence_there": found.claim_id.fence if found and found.claim_id else None,
            "topic": elsewhere.topic if elsewhere else None,
            "partition": elsewhere.partition if elsewhere else None,
            "base_offset": elsewhere.base_offset if elsewhere else None,
        },
    )
