"""What drafts say, as rows of what is expected."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dueledger.ledger.rules.drafts import ItemDraft, RuleEffect
from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.ledger.store import Record
from dueledger.reconciler.compared_items import ActualItem, KindKey, expected_row
from dueledger.reconciler.expect.events import NEVER, order_of
from dueledger.reconciler.expect.item_terms import terms_digest

DEFINITIONS: Final = 0
EVENTS: Final = 1
FIRST_POPULATION: Final = 2
"""Sources, by index."""


def occurrence_row(
    definition_no: int, draft: ItemDraft, reason: str | None, *, is_live: bool
) -> tuple[Any, ...]:
    """Return the row of an occurrence of a schedule, which it skips for a reason."""
    return _row_of_draft(
        draft,
        source=DEFINITIONS,
        definition_no=definition_no,
        is_live=is_live,
        skipped_for=reason and reason.partition(" ")[0],
    )


def agreed_row(item: ActualItem, key: KindKey) -> tuple[Any, ...]:
    """Return what is expected of an item of a kind that says what its one source does."""
    return expected_row(
        id=item.id,
        tenant=key[0],
        kind=key[1],
        business_key=item.business_key,
        cycle=item.cycle,
        day=item.effective_date.toordinal(),
        due_microseconds=microseconds_of(item.due_at),
        source=DEFINITIONS if item.event_no is None else EVENTS,
        definition_no=item.definition_no,
        reference=item.event_no,
        moment=None if item.event_no is None else NEVER,
        terms_digest=item.terms_digest,
    )


def event_rows(event: Record, effects: Sequence[RuleEffect]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each item that an event owes."""
    order, received_at = order_of(event), event["received_at"]
    for definition_no, _, draft, reinstates in effects:
        if draft is None:
            continue
        yield _row_of_draft(
            draft,
            source=EVENTS,
            definition_no=definition_no,
            reference=event["event_no"],
            moment=order,
            received=microseconds_of(received_at),
            is_missed=draft.is_too_late(received_at),
            reinstates=reinstates,
        )


def _row_of_draft(draft: ItemDraft, **facts: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any type
    """Return the row of an item as its draft has it, with what its source says beside."""
    return expected_row(
        id=draft.id.bytes,
        tenant=draft.tenant,
        kind=draft.kind,
        business_key=draft.business_key,
        cycle=draft.cycle,
        day=draft.effective_date.toordinal(),
        due_microseconds=microseconds_of(draft.due_at),
        terms_digest=terms_digest(draft),
        **facts,
    )
