"""Items: emission, revision, withdrawal, and reads of items and their transitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.quoted_values import QuotedValues
from dueledger.ledger.rules.redaction import redact_row
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement

T = TypeVar("T")
TIMELINE_ROWS: Final = 1_000


class StepPlace(NamedTuple):
    """The place of a step in an item's history: when it was, and its number among those of then."""

    at: datetime
    number: int


@dataclass(frozen=True, slots=True)
class EmittedItem:
    """The result of one emission. `created` is False if the item existed before."""

    draft: ItemDraft
    created: bool

    @property
    def id(self) -> UUID:
        """Return the item's id."""
        return self.draft.id


class RequestResult(StrEnum):
    """The result of a request about an item."""

    DONE = "done"
    REQUESTED = "requested"
    FINISHED = "finished"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"


class RevisionResult(StrEnum):
    """The result of revising an existing item."""

    REVISED = "revised"
    SAME = "same"
    NEXT = "next"
    SKIPPED = "skipped"
    BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class ItemRequestResult:
    """The result for one item of a request.

    `state` and `available_at` are what an item had that is changed; None where the request does not
    say it.
    """

    id: UUID
    result: RequestResult
    state: State | None = field(default=None, compare=False)
    available_at: datetime | None = field(default=None, compare=False)

    @property
    def is_accepted(self) -> bool:
        """Return whether the item is changed, or will be."""
        return self.result in {RequestResult.DONE, RequestResult.REQUESTED}


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item that has not ended."""

    id: UUID
    effective_date: date
    business_key: str
    cycle: str
    due_at: datetime
    emitted_at: datetime


@dataclass(frozen=True, slots=True)
class Accounting:
    """One kind's identity: items = pending + handed out + running + reviews + terminal."""

    tenant: str
    kind: str
    items: int
    pending: int
    handed_out: int
    running: int
    reviews: int
    completed: int
    cancelled: int
    superseded: int
    skipped: int
    written_off: int

    @property
    def open(self) -> int:
        """Count the items that have not ended."""
        return self.pending + self.handed_out + self.running + self.reviews

    @property
    def difference(self) -> int:
        """Return items minus the sum of all states; anything but 0 is UNBALANCED."""
        ended = self.completed + self.cancelled + self.superseded + self.skipped + self.written_off
        return self.items - self.open - ended


async def emit_items(
    connection: Connection,
    drafts: Sequence[ItemDraft],
    *,
    actor_no: int,
    definition_no: int | None = None,
    definition_nos: Sequence[int | None] | None = None,
    event_nos: Sequence[int | None] | None = None,
    skip_reasons: Sequence[str | None] | None = None,
) -> list[EmittedItem]:
    """Emit a batch of items; return results in input order. Repeating it changes nothing.

    An item with a skip reason is recorded as Skipped: its row and its terminal transition at once.
    Raises InvalidItem with the field, and then emits nothing.
    """
    return await _emit(
        connection,
        drafts,
        actor_no=actor_no,
        reasons=skip_reasons,
        definition_nos=definition_nos or _every(definition_no, drafts),
        event_nos=event_nos,
    )


async def skip_items(
    connection: Connection,
    drafts: Sequence[ItemDraft],
    reasons: Sequence[str],
    *,
    actor_no: int,
    definition_no: int | None = None,
    definition_nos: Sequence[int | None] | None = None,
) -> list[EmittedItem]:
    """Record occurrences as Skipped items: the row and the terminal transition at once."""
    return await _emit(
        connection,
        drafts,
        actor_no=actor_no,
        reasons=reasons,
        definition_nos=definition_nos or _every(definition_no, drafts),
    )


async def revise_items(
    connection: Connection,
    drafts: Sequence[ItemDraft],
    *,
    definition_nos: Sequence[int],
    since: Sequence[datetime],
    reason: str,
    actor_no: int,
    skip_reasons: Sequence[str | None] | None = None,
) -> list[RevisionResult | None]:
    """Change pending items to the terms of a newer version; return results in input order.

    The result is None if the item does not exist. Scheduled stays Scheduled, or becomes Skipped if
    a reason is given; the journal records the earlier terms. An item is `revised` only if it was
    never handed out, is due at `since` or later, and belongs to an older version of the same
    definition. `same`: it belongs to this version. `next`: the occurrence is another issue, since
    this one was withdrawn, was skipped by older terms, or is an occurrence of the same nominal time
    at another instant. `skipped`: both versions skip it. Every other item is `begun` and does not
    change. Repeating it changes nothing.
    """
    if not drafts:
        return []
    with mapped_errors():
        rows = await connection.fetch(
            statement("revise_items"),
            *_identity_columns(drafts),
            actor_no,
            since,
            definition_nos,
            reason,
            *_optional_columns(drafts),
            *_schedule_columns(drafts),
            skip_reasons,
            *_overlap_columns(drafts),
        )
    return _revision_results(rows, len(drafts))


async def revise_event_items(
    connection: Connection,
    drafts: Sequence[ItemDraft],
    *,
    definition_nos: Sequence[int],
    event_nos: Sequence[int],
    replaced_event_nos: Sequence[int],
    actor_no: int,
) -> list[RevisionResult | None]:
    """Change pending items to the terms of an event that happened before the one that gave theirs.

    Returns results in input order. Scheduled stays Scheduled; the journal records the earlier
    terms. An item is `revised` only if it was never handed out and one of `replaced_event_nos` gave
    its terms. Repeating it changes nothing.
    """
    if not drafts:
        return []
    with mapped_errors():
        rows = await connection.fetch(
            statement("revise_event_items"),
            *_identity_columns(drafts),
            actor_no,
            definition_nos,
            *_optional_columns(drafts),
            *_schedule_columns(drafts),
            *_overlap_columns(drafts),
            event_nos,
            replaced_event_nos,
            _column_or_null([draft.traceparent for draft in drafts]),
        )
    return _revision_results(rows, len(drafts))


def _revision_results(rows: Sequence[Record], count: int) -> list[RevisionResult | None]:
    results: list[RevisionResult | None] = [None] * count
    for row in rows:
        results[row["ord"] - 1] = RevisionResult(row["result"])
    return results


def _every(definition_no: int | None, drafts: Sequence[ItemDraft]) -> Sequence[int | None] | None:
    return None if definition_no is None else [definition_no] * len(drafts)


async def _emit(
    connection: Connection,
    drafts: Sequence[ItemDraft],
    *,
    actor_no: int,
    reasons: Sequence[str | None] | None = None,
    definition_nos: Sequence[int | None] | None = None,
    event_nos: Sequence[int | None] | None = None,
) -> list[EmittedItem]:
    if not drafts:
        return []
    with mapped_errors():
        rows = await connection.fetch(
            statement("emit_items"),
            *_identity_columns(drafts),
            actor_no,
            *_optional_columns(drafts),
            definition_nos,
            event_nos,
            *_schedule_columns(drafts),
            _column_or_null([draft.traceparent for draft in drafts]),
            None if reasons is None else _column_or_null(list(reasons)),
            *_overlap_columns(drafts),
        )
    known = {row["ord"] - 1 for row in rows}
    return [EmittedItem(draft, index not in known) for index, draft in enumerate(drafts)]


def _identity_columns(drafts: Sequence[ItemDraft]) -> list[object]:
    """Return tenants, kinds and lanes of the distinct flows, each draft's index in them, and more.

    After these come business keys, cycles, effective dates, times and payloads.
    """
    flows: dict[tuple[str, str, str], int] = {}
    flow_of = [
        flows.setdefault((draft.tenant, draft.kind, draft.lane), len(flows) + 1) for draft in drafts
    ]
    return [
        *zip(*flows, strict=True),
        flow_of,
        [draft.business_key for draft in drafts],
        [draft.cycle for draft in drafts],
        [draft.effective_date for draft in drafts],
        [draft.due_at for draft in drafts],
        [draft.payload for draft in drafts],
    ]


def _optional_columns(drafts: Sequence[ItemDraft]) -> list[object]:
    return [
        _column_or_null([draft.partition_key for draft in drafts]),
        _column_or_null([draft.labels for draft in drafts]),
        _column_or_null([draft.start_by for draft in drafts]),
        _column_or_null([draft.complete_by for draft in drafts]),
    ]


def _schedule_columns(drafts: Sequence[ItemDraft]) -> list[object]:
    return [
        drafts[0].tzdata,
        _column_or_null([draft.nominal for draft in drafts]),
        _column_or_null([draft.zone for draft in drafts]),
        _column_or_null([draft.decision for draft in drafts]),
        _column_or_null([draft.smear_seconds for draft in drafts]),
    ]


def _overlap_columns(drafts: Sequence[ItemDraft]) -> list[object]:
    return [
        _column_or_null([draft.overlap for draft in drafts]),
        _column_or_null([draft.overlap_key for draft in drafts]),
    ]


def _column_or_null(column: list[T]) -> list[T] | None:
    """Return None for a column of nulls: the server then has nothing to unnest."""
    return None if column.count(cast("T", None)) == len(column) else column


async def withdraw_items(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    event: TransitionEvent,
    reason: str,
    actor_no: int,
    replacements: Sequence[UUID | None] | None = None,
) -> list[ItemRequestResult]:
    """Cancel or supersede items; return results in input order.

    `done`: the item ended now. `requested`: it is handed out and ends at its next start, unless it
    completes first. `finished`: it had ended before and does not change.
    """
    if event not in (TransitionEvent.CANCELLED, TransitionEvent.SUPERSEDED):
        message = f"an item is withdrawn as cancelled or superseded, not as {event.label}"
        raise ValueError(message)
    rows = await connection.fetch(
        statement("withdraw_items"), ids, event.value, reason, actor_no, replacements
    )
    return former_results_of(rows)


async def find_open_items(
    connection: Connection, tenant: str, kind: str, business_keys: Sequence[str]
) -> list[OpenItem]:
    """Find the items of these business keys that have not ended."""
    rows = await connection.fetch(statement("find_open_items"), tenant, kind, business_keys)
    return [OpenItem(**row) for row in rows]


async def show_item(
    connection: Connection, item: UUID, tenants: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Read one item and its state; None if the id is unknown, or is none of the tenants given.

    `redacted_fields` are those that its payload has.
    """
    row = await connection.fetchrow(statement("show_item"), item, tenants)
    if row is None:
        return None
    return QuotedValues.of(row["payload"], row["redacted_fields"]).hide_in(redact_row(row))


async def item_timeline(
    connection: Connection,
    item: UUID,
    tenants: Sequence[str] | None = None,
    *,
    after: StepPlace | None = None,
    limit: int = TIMELINE_ROWS,
) -> list[dict[str, Any]]:
    """List a page of an item's history in order: emitted, claimed, started, and each outcome.

    It is empty if the id is unknown, or is none of the tenants given.
    """
    values = item, tenants, *(after or (None, None)), limit
    steps = await connection.fetch(statement("item_timeline"), *values)
    quoted = QuotedValues()
    if steps and (fields := steps[0]["redacted_fields"]):
        shown = await connection.fetchrow(statement("show_item"), item, tenants)
        quoted = QuotedValues(None) if shown is None else QuotedValues.of(shown["payload"], fields)
    return [
        redact_row(row) if row["event"] == "claimed" else quoted.hide_in(redact_row(row))
        for row in steps
    ]


async def read_accounting(
    connection: Connection,
    tenant: str | None = None,
    *,
    from_date: date = date.min,
    to_date: date = date.max,
) -> list[Accounting]:
    """Read the accounting identity by tenant and kind, in one snapshot.

    Of a half-open range of effective dates: it holds of each by itself.
    """
    rows = await connection.fetch(statement("read_accounting"), tenant, from_date, to_date)
    return [Accounting(**row) for row in rows]


async def count_open_items(connection: Connection) -> list[Record]:
    """Count open items by tenant and kind: pending, handed_out, running, reviews."""
    return await connection.fetch(statement("count_open_items"))


def request_results_of(rows: Sequence[Record]) -> list[ItemRequestResult]:
    """Return the results for rows of id and result."""
    return [ItemRequestResult(row["id"], RequestResult(row["result"])) for row in rows]


async def find_known_ids(connection: Connection, ids: Sequence[UUID]) -> set[bytes]:
    """Find which ids the ledger has, or had before their partition was dropped."""
    return {row["id"] for row in await connection.fetch(statement("find_known_ids"), ids)}


async def find_misdated_ids(connection: Connection, ids: Sequence[UUID]) -> set[bytes]:
    """Find which ids rows under another effective date have. It searches all months."""
    return {row["id"] for row in await connection.fetch(statement("find_misdated_ids"), ids)}


def former_results_of(rows: Sequence[Record]) -> list[ItemRequestResult]:
    """Return the results for rows that have what the items were, too."""
    return [
        ItemRequestResult(
            row["id"],
            RequestResult(row["result"]),
            None if row["state"] is None else State(row["state"]),
            row.get("available_at"),
        )
        for row in rows
    ]
