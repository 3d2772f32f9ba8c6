"""The terms of a missing item, kept as JSON until a repair emits it."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.reconciler.columns.terms import (
    ABSENT,
    NO_INSTANT,
    NO_SMEAR,
    SEPARATOR,
    double_bits,
    mixed,
    payload_digest,
)
from dueledger.reconciler.compared_items import NOT_SAID, ExpectedItem, OutsideTerms
from dueledger.reconciler.sources import PopulationRow

_NOTHING: Final = "{}"
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BESIDE_THE_DRAFT: Final = frozenset({"definition_no", "event_no", "skip_reason", "says_payload"})


def instant_of(microseconds: int) -> datetime:
    """Return the instant that many microseconds after the epoch, exactly."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def terms_digest(draft: ItemDraft) -> int:
    """Return a digest of what an item says beside its date and its due time.

    Those are the SLA's times, smear, business key, cycle, partition key, labels, nominal time,
    zone, decision, lane, overlap and payload. The statements `copy_item_columns` and
    `list_outcomes_of_items` give the same of a row.
    """
    texts = (
        draft.business_key,
        draft.cycle,
        draft.partition_key or ABSENT,
        stored_labels(draft.labels) if draft.labels else ABSENT,
        draft.nominal or ABSENT,
        draft.zone or ABSENT,
        draft.decision or ABSENT,
        *flow_texts(draft.lane, draft.overlap),
        draft.payload,
    )
    smear = NO_SMEAR if draft.smear_seconds is None else draft.smear_seconds
    return mixed(
        hash(SEPARATOR.join(texts).encode()),
        postgres_microseconds(draft.start_by),
        postgres_microseconds(draft.complete_by),
        double_bits(smear),
    )


def flow_texts(lane: str, overlap: Overlap | None) -> tuple[str, str]:
    """Return what a digest has of an item's lane and overlap."""
    return lane, str(stored_overlap(overlap) or ABSENT)


def stored_overlap(overlap: Overlap | None) -> int | None:
    """Return an overlap; None where the item waits, as it does if its kind is ordered."""
    return None if overlap in (None, Overlap.WAIT) else int(overlap)


def postgres_microseconds(instant: datetime | None) -> int:
    """Return an instant as PostgreSQL stores it; what `-infinity` is where there is none."""
    if instant is None:
        return NO_INSTANT
    since = instant - _POSTGRES_EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_of_postgres(microseconds: int) -> datetime | None:
    """Return an instant as PostgreSQL stores it; None where there is none, or it is not said."""
    if microseconds in {NO_INSTANT, NOT_SAID}:
        return None
    return instant_at(microseconds)


def instant_at(microseconds: int) -> datetime:
    """Return the instant so many microseconds after 2000."""
    return _POSTGRES_EPOCH + timedelta(microseconds=microseconds)


def outside_terms(row: PopulationRow) -> OutsideTerms:
    """Return what a row of a population says of the terms of its item."""
    return (
        NOT_SAID if row.payload is None else payload_digest(row.payload.encode()),
        postgres_microseconds(row.start_by) if "start_by" in row.says else NOT_SAID,
        postgres_microseconds(row.complete_by) if "complete_by" in row.says else NOT_SAID,
    )


@lru_cache(maxsize=4_096)
def stored_labels(labels: str) -> str:
    """Return labels, an object of texts, as PostgreSQL prints them: the shortest names first."""
    named = sorted(
        (len(name.encode()), name.encode(), name, text)
        for name, text in orjson.loads(labels).items()
    )
    pairs = (
        f"{orjson.dumps(name).decode()}: {orjson.dumps(text).decode()}"
        for _, _, name, text in named
    )
    return f"{{{', '.join(pairs)}}}"


def terms_of_draft(
    draft: ItemDraft,
    definition_no: int | None,
    event_no: int | None,
    *,
    skip_reason: str | None = None,
    says_payload: bool = True,
) -> str:
    """Return a draft as terms; with a skip reason the repair records it as skipped.

    `says_payload`: its source says its payload.
    """
    return orjson.dumps(
        {
            "tenant": draft.tenant,
            "kind": draft.kind,
            "lane": draft.lane,
            "business_key": draft.business_key,
            "cycle": draft.cycle,
            "effective_date": draft.effective_date,
            "due_at": draft.due_at,
            "start_by": draft.start_by,
            "complete_by": draft.complete_by,
            "payload": draft.payload,
            "partition_key": draft.partition_key,
            "labels": draft.labels,
            "nominal": draft.nominal,
            "zone": draft.zone,
            "decision": draft.decision,
            "tzdata": draft.tzdata,
            "traceparent": draft.traceparent,
            "smear_seconds": draft.smear_seconds,
            "overlap": draft.overlap,
            "overlap_key": draft.overlap_key,
            "definition_no": definition_no,
            "event_no": event_no,
            "skip_reason": skip_reason,
            "says_payload": says_payload,
        }
    ).decode()


def terms_of_population(expected: ExpectedItem) -> str:
    """Return the terms of an item that a population names."""
    _, start_by, complete_by = expected.outside_terms
    draft = ItemDraft(
        tenant=expected.tenant,
        kind=expected.kind,
        business_key=expected.business_key,
        cycle=expected.cycle,
        effective_date=date.fromordinal(expected.day),
        due_at=instant_of(expected.due_microseconds),
        payload=expected.payload or _NOTHING,
        partition_key=expected.partition_key,
        start_by=instant_of_postgres(start_by),
        complete_by=instant_of_postgres(complete_by),
    )
    return terms_of_draft(draft, None, None, says_payload=expected.payload is not None)


def draft_of_terms(terms: dict[str, Any]) -> ItemDraft:
    """Return the draft that the terms describe."""
    instants = ("due_at", "start_by", "complete_by")
    values = {name: value for name, value in terms.items() if name not in _BESIDE_THE_DRAFT}
    for name in instants:
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    values["effective_date"] = date.fromisoformat(values["effective_date"])
    if values.get("overlap") is not None:
        values["overlap"] = Overlap(values["overlap"])
    return ItemDraft(**values)
