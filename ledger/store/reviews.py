"""Manual review: who takes parked items and findings, what becomes of items, and rejected writes.

Taking moves nothing and hinders nobody who decides: others see who has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.rules.quoted_values import QuotedValues
from dueledger.ledger.rules.redaction import redact_row
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.items import ItemRequestResult, request_results_of
from dueledger.ledger.store.statements import statement

NOBODY: Final = 0
"""In place of the number of an actor who took something."""
EXAMINED_MAX: Final = 20_000
"""Parked items of the flows of a filter that are examined to find those that match."""


class ReviewPlace(NamedTuple):
    """The last row of the page before, in the order of the list."""

    parked_at: datetime
    item_no: int


@dataclass(frozen=True, slots=True)
class ParkedFilter:
    """Which parked items of a tenant are meant; None means all. An empty lane is the default one.

    `parked_reason`: parked for exactly this reason. `error`: class of the last error of an attempt.
    """

    tenant: str
    kind: str | None = None
    lane: str | None = None
    parked_reason: str | None = None
    error: str | None = None


class TakeResult(StrEnum):
    """The result of taking or returning an item or a finding: `taken` if somebody else has it.

    `illegal`: the item is not parked, or the finding not open.
    """

    DONE = "done"
    TAKEN = "taken"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TakenReview:
    """The result for one item or finding, and who has it now, since when; None: nobody.

    `was_taken_by` is who had it before.
    """

    id: UUID
    result: TakeResult
    taken_by: str | None = None
    taken_at: datetime | None = None
    is_changed: bool = False
    was_taken_by: str | None = field(default=None, compare=False)


async def list_reviews(
    connection: Connection,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    after: ReviewPlace | None = None,
    newest_first: bool = False,
    taken_by: int | None = None,
) -> list[dict[str, Any]]:
    """List parked items with their payloads, oldest first or newest; of these tenants alone.

    With `taken_by`, those that this actor has taken, or `NOBODY`. `redacted_fields` are those that
    a payload has.
    """
    values = limit, tenants, tenant, kind, *(after or (None, None)), newest_first, taken_by
    rows = await connection.fetch(statement("list_reviews"), *values)
    return [
        QuotedValues.of(row["payload"], row["redacted_fields"]).hide_in(redact_row(row))
        for row in rows
    ]


async def group_reviews(
    connection: Connection,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    examined_max: int = 1_000,
    limit: int = 100,
    taken_by: int | None = None,
) -> list[dict[str, Any]]:
    """Group parked items by flow, reason and class of the last error, the largest groups first.

    The `examined_max` items parked first are grouped; if there are more, `items_capped` is true of
    each group. `taken` counts those that somebody has taken, `taken_by` names three of these. Of a
    kind that redacts fields `message`, which may quote any of its items, is None. `taken_by` is as
    in `list_reviews`.
    """
    rows = await connection.fetch(
        statement("group_reviews"), tenants, tenant, kind, examined_max, limit, taken_by
    )
    return [dict(row) for row in rows]


async def find_parked_items(
    connection: Connection, wanted: ParkedFilter, limit: int
) -> tuple[list[UUID], bool]:
    """Find parked items of a filter, the first by number, and whether there may be more."""
    row = await connection.fetchrow(
        statement("find_parked_items"),
        *(wanted.tenant, wanted.kind, wanted.lane, wanted.parked_reason, wanted.error),
        *(EXAMINED_MAX, limit),
    )
    return row["ids"], row["is_capped"]


async def take_reviews(
    connection: Connection, ids: Sequence[UUID], *, actor_no: int, instead_of: str | None = None
) -> list[TakenReview]:
    """Take parked items that nobody has, or that the actor `instead_of` has; keep the order.

    What the actor has already stays as it is.
    """
    rows = await connection.fetch(statement("take_reviews"), ids, instead_of, actor_no)
    return _taken(rows)


async def return_reviews(
    connection: Connection, ids: Sequence[UUID], *, actor_no: int
) -> list[TakenReview]:
    """Return parked items that the actor has taken; keep the order."""
    return _taken(await connection.fetch(statement("return_reviews"), ids, actor_no))


async def take_findings(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    actor_no: int,
    instead_of: str | None = None,
    tenants: Sequence[str] | None = None,
) -> list[TakenReview]:
    """Take open findings as `take_reviews` takes items; those of others than `tenants` are unknown.

    Who decides about a finding decides about its repair, so that neither is taken by itself.
    """
    values = ids, instead_of, actor_no, tenants
    return _taken(await connection.fetch(statement("take_findings"), *values))


async def return_findings(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> list[TakenReview]:
    """Return open findings that the actor has taken; keep the order."""
    return _taken(await connection.fetch(statement("return_findings"), ids, actor_no, tenants))


def _taken(rows: Iterable[Mapping[str, Any]]) -> list[TakenReview]:
    return [TakenReview(**{**row, "result": TakeResult(row["result"])}) for row in rows]


async def park_items(
    connection: Connection, ids: Sequence[UUID], *, reason: str, actor_no: int
) -> list[ItemRequestResult]:
    """Park items that wait for a retry; others get `illegal`, and the attempt is recorded."""
    return request_results_of(
        await connection.fetch(statement("park_items"), ids, reason, actor_no)
    )


async def redrive_items(
    connection: Connection, ids: Sequence[UUID], *, reason: str, actor_no: int
) -> list[ItemRequestResult]:
    """Make parked items pending again, with attempts counted anew."""
    return request_results_of(
        await connection.fetch(statement("redrive_items"), ids, reason, actor_no)
    )


async def write_off_items(
    connection: Connection, ids: Sequence[UUID], *, reason: str, actor_no: int
) -> list[ItemRequestResult]:
    """End parked items without working them, in a person's name."""
    return request_results_of(
        await connection.fetch(statement("write_off_items"), ids, reason, actor_no)
    )


async def list_rejected_writes(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """List rejected writes, stale and illegal ones, newest first."""
    return [dict(row) for row in await connection.fetch(statement("list_rejected_writes"), limit)]


async def prune_rejected_writes(connection: Connection, keep_days: int, limit: int) -> int:
    """Delete the oldest rejected writes that are that old; return how many."""
    return await connection.fetchval(statement("prune_rejected_writes"), keep_days, limit)
