"""What the ledger knows of an item's work before a repair has it worked again."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Final
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.items import ItemRequestResult, request_results_of
from dueledger.ledger.store.statements import statement

CLAIMS_A_PAGE: Final = 2_000

Orphans = Mapping[tuple[date, str | None], bool]
"""Effective dates and topics of items that were handed out and are gone: whether one is in flight.

The topic is None where it says nothing of the kind.
"""


async def list_prior_work(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Record]:
    """Return items by id, with their names outside the ledger and whether they were handed out."""
    rows = await connection.fetch(statement("list_prior_work"), ids)
    return {row["id"]: row for row in rows}


async def list_handed_out_orphans(connection: Connection, dates: Iterable[date]) -> Orphans:
    """Return which of these dates have items that claims or runs have and the ledger lacks.

    All claims are read, by page: an item that was expedited has one long before it is due. The
    journal is read a month of effective dates at a time.
    """
    found: dict[tuple[date, str | None], bool] = {}
    days = sorted(dates)
    after: int | None = 0 if days else None
    while after is not None:
        rows = await connection.fetch(
            statement("list_handed_out_orphans"), days, after, CLAIMS_A_PAGE
        )
        after = rows[0]["reached"]
        for row in rows:
            if row["effective_date"] is not None:
                place = row["effective_date"], row["topic"]
                found[place] = found.get(place, False) or row["in_flight"]
    for _, month in groupby(days, key=lambda day: day.replace(day=1)):
        for row in await connection.fetch(statement("list_worked_orphans"), list(month)):
            found.setdefault((row["effective_date"], row["topic"]), False)
    return found


async def complete_items(
    connection: Connection, details: Mapping[UUID, str], *, actor_no: int
) -> list[ItemRequestResult]:
    """Complete items that wait or are parked, and are due; `details` are the journal's JSON texts.

    `illegal`: it is handed out, has ended or is not due; the refusal is recorded.
    """
    rows = await connection.fetch(
        statement("complete_items"), list(details), list(details.values()), actor_no
    )
    return request_results_of(rows)
