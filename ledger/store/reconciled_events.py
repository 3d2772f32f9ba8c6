"""Reads of received events: their results, and whether the inbox has them as they came."""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

KEYS_PAGE: Final = 50_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def list_unmatched_events(
    connection: Connection,
    spans: Sequence[tuple[str, str, datetime | None, datetime | None]],
    row_max: int,
) -> list[Record]:
    """Count the events that no rule read, by tenant and type, with the newest of each.

    `spans` are tenant and type of events that were read, from and until; None is no bound.
    """
    tenants, types, from_ats, until_ats = zip(*spans, strict=True) if spans else ((), (), (), ())
    return await connection.fetch(
        statement("list_unmatched_events"), tenants, types, from_ats, until_ats, row_max
    )


async def list_late_arrivals(connection: Connection, event_max: int, row_max: int) -> list[Record]:
    """List items that were due before the watermark of their kind when their event was received.

    Of the newest `event_max` events that were received since the watermarks.
    """
    return await connection.fetch(statement("list_late_arrivals"), event_max, row_max)


async def list_altered_events(connection: Connection, row_max: int) -> AsyncGenerator[list[Record]]:
    """Yield, by page of what was received, the events that the inbox does not have as they came.

    Of a page, `row_max` at most.

    `fault`: removed, changed, or unkeyed if none was received under its number. Of events whose
    keys are forgotten nothing is known.
    """
    after: datetime | None = _EPOCH
    after_no: int | None = None
    while after is not None:
        rows = await connection.fetch(
            statement("list_altered_events"), after, after_no, KEYS_PAGE, row_max
        )
        yield [row for row in rows if row["event_no"] is not None]
        after, after_no = rows[0]["reached"], rows[0]["last_no"]
