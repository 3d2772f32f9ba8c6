"""Numbers of pending items by the minute of their next attempt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class CountedSchedule:
    """A definition whose occurrences in a window, before smear, are counted from its schedule."""

    tenant: str
    name: str
    from_at: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True)
class PendingLoad:
    """How many items have their next attempt in one minute. `minute` None: due before the window.

    `definition` is the name of their definition; None if a service emitted them itself, or if
    `minute` is None.
    """

    minute: datetime | None
    tenant: str
    kind: str
    definition: str | None
    items: int


async def list_put_off_occurrences(
    connection: Connection, from_at: datetime, until_at: datetime, *, limit: int
) -> list[tuple[str, str, str]]:
    """List occurrences in a window, before smear, whose items wait because a person snoozed them.

    By tenant, definition and cycle. Those that were started before are left out. Reads all snoozed
    items.
    """
    rows = await connection.fetch(statement("list_put_off_occurrences"), from_at, until_at, limit)
    return [(row["tenant"], row["definition"], row["cycle"]) for row in rows]


async def count_pending_load(
    connection: Connection,
    from_at: datetime,
    until_at: datetime,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    service: str | None = None,
    counted: Sequence[CountedSchedule] = (),
    limit: int,
) -> list[PendingLoad]:
    """Count the items with their next attempt before `until_at`, in time order.

    First attempts of `counted` occurrences are left out. `service` is a label of the items. Reads
    all pending items.
    """
    rows = await connection.fetch(
        statement("count_pending_load"),
        from_at,
        until_at,
        tenant,
        kind,
        service,
        [each.tenant for each in counted],
        [each.name for each in counted],
        [each.from_at for each in counted],
        [each.until_at for each in counted],
        limit,
    )
    return [PendingLoad(**row) for row in rows]
