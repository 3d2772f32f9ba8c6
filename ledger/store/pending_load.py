"""What waits, counted by when it is tried next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class CountedSchedule:
    """A definition whose rounds of a span, before any smear, are counted from its schedule."""

    tenant: str
    name: str
    from_at: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True)
class PendingLoad:
    """How many items are tried next in one minute; `minute` None: their time has come before.

    `definition` is the name of what owes them; None where a service emitted them itself, and of
    those whose time has come.
    """

    minute: datetime | None
    tenant: str
    kind: str
    definition: str | None
    items: int


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
    """Count what waits for an attempt before `until_at`, in order of time.

    First attempts of rounds that are `counted` are left out; `service` is the items' label. Reads
    all that waits.
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
