"""Reads of runs that a reconciliation holds against the journal."""

from collections.abc import Sequence
from datetime import datetime

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


async def count_run_items(
    connection: Connection, after_run_no: int, closed_until: datetime, limit: int
) -> Record:
    """Return how many items the next runs ended, as arrays in binary form.

    Of open runs, and of those closed up to an instant, which have ended all of theirs.
    """
    row = await connection.fetchrow(statement("count_run_items"), after_run_no, closed_until, limit)
    assert row is not None  # noqa: S101 - an aggregate gives one row
    return row


async def list_unrecorded_endings(
    connection: Connection,
    run_nos: Sequence[int],
    started: tuple[datetime, datetime],
    row_max: int,
) -> list[Record]:
    """List items that runs ended, and of which the journal has no such ending, or more than one.

    `started`: the first and the last of the times at which most of these runs were started.
    """
    return await connection.fetch(statement("list_unrecorded_endings"), run_nos, *started, row_max)
