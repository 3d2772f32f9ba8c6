"""What the ledger knows of an item's work before a repair has it worked again."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.items import ItemRequestResult, request_results_of
from dueledger.ledger.store.statements import statement


class Orphans(NamedTuple):
    """How many items of a date were handed out whose rows are gone, and how many are in flight."""

    items: int
    in_flight: int


async def list_prior_work(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Record]:
    """Return items by id, with their names outside the ledger and whether they were handed out."""
    rows = await connection.fetch(statement("list_prior_work"), ids)
    return {row["id"]: row for row in rows}


async def list_handed_out_orphans(
    connection: Connection, dates: Sequence[date], claimed_since: datetime
) -> dict[tuple[date, str | None], Orphans]:
    """Return, by effective date and topic, the items that claims or runs have and the ledger lacks.

    The topic is None where it says nothing of the kind.
    """
    rows = await connection.fetch(statement("list_handed_out_orphans"), dates, claimed_since)
    return {
        (row["effective_date"], row["topic"]): Orphans(row["items"], row["in_flight"])
        for row in rows
    }


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
