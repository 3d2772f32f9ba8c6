"""Reads of fixed-delay schedules, of which each item leads to the next."""

from collections.abc import Mapping, Sequence
from datetime import date

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


async def list_unfit_chains(
    connection: Connection, delays: Mapping[int, float], row_max: int
) -> list[Record]:
    """List what leads to a next item and is no open item of its definition, or at another delay.

    `delays` are seconds, by number of the version.
    """
    return await connection.fetch(
        statement("list_unfit_chains"), list(delays), list(delays.values()), row_max
    )


async def list_loose_links(connection: Connection, places: Sequence[tuple[date, int]]) -> set[int]:
    """Return the numbers of items, given by date and number, that are open and lead to none."""
    rows = await connection.fetch(
        statement("list_loose_links"), *map(list, zip(*places, strict=True))
    )
    return {row["item_no"] for row in rows}
