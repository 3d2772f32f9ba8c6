"""Manual review: parking, redriving and writing off items, and the list of rejected writes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.items import ItemRequestResult, request_results_of
from dueledger.ledger.store.statements import statement


class ReviewPlace(NamedTuple):
    """The last row of the page before, in the order of the list."""

    parked_at: datetime
    item_no: int


async def list_reviews(
    connection: Connection,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    after: ReviewPlace | None = None,
) -> list[dict[str, Any]]:
    """List parked items with their payloads, oldest first; of these tenants alone."""
    rows = await connection.fetch(
        statement("list_reviews"), limit, tenants, tenant, kind, *(after or (None, None))
    )
    return [dict(row) for row in rows]


async def group_reviews(
    connection: Connection,
    *,
    tenants: Sequence[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    examined_max: int = 1_000,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Group parked items by flow, reason and class of the last error, the largest groups first.

    The `examined_max` items parked first are grouped; if there are more, `items_capped` is true of
    each group.
    """
    rows = await connection.fetch(
        statement("group_reviews"), tenants, tenant, kind, examined_max, limit
    )
    return [dict(row) for row in rows]


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
