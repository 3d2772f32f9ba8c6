"""Live counts of items, for people."""

from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class KindCounts:
    """The open items of one kind at `now`, on the business clock.

    `not_due` and `due` are pending, and the oldest of the due ones was due at `oldest_due_at`;
    `handed_out` are claimed and not started, `in_kafka` those of them that Kafka acknowledged;
    `past_sla` are past their SLA; `open_before` were due before the given instant.
    """

    tenant: str
    kind: str
    now: datetime
    not_due: int
    due: int
    oldest_due_at: datetime | None
    handed_out: int
    in_kafka: int
    running: int
    reviews: int
    past_sla: int
    open_before: int


async def read_progress(
    connection: Connection, *, before: datetime | None = None
) -> list[KindCounts]:
    """Count the open items of each kind that has any. Reads all open items: call it rarely."""
    return [KindCounts(**row) for row in await connection.fetch(statement("read_progress"), before)]
