"""The terms of a missing item, kept as JSON until a repair emits it."""

from datetime import UTC, date, datetime
from typing import Any, Final

import orjson

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.reconciler.compared_items import ExpectedItem

_NOTHING: Final = "{}"
_BESIDE_THE_DRAFT: Final = frozenset({"definition_no", "event_no", "skip_reason"})


def instant_of(microseconds: int) -> datetime:
    """Return the instant that many microseconds after the epoch, exactly."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def terms_of_draft(
    draft: ItemDraft,
    definition_no: int | None,
    event_no: int | None,
    *,
    skip_reason: str | None = None,
) -> str:
    """Return a draft as terms; with a skip reason the repair records it as skipped."""
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
            "definition_no": definition_no,
            "event_no": event_no,
            "skip_reason": skip_reason,
        }
    ).decode()


def terms_of_population(expected: ExpectedItem) -> str:
    """Return the terms of an item that a population names."""
    draft = ItemDraft(
        tenant=expected.tenant,
        kind=expected.kind,
        business_key=expected.business_key,
        cycle=expected.cycle,
        effective_date=date.fromordinal(expected.day),
        due_at=instant_of(expected.due_microseconds),
        payload=expected.payload or _NOTHING,
        partition_key=expected.partition_key,
    )
    return terms_of_draft(draft, None, None)


def draft_of_terms(terms: dict[str, Any]) -> ItemDraft:
    """Return the draft that the terms describe."""
    instants = ("due_at", "start_by", "complete_by")
    values = {name: value for name, value in terms.items() if name not in _BESIDE_THE_DRAFT}
    for name in instants:
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    values["effective_date"] = date.fromisoformat(values["effective_date"])
    return ItemDraft(**values)
