"""The cell of a ledger: which stripe of numbers its sequences give."""

from typing import Final

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

_LIFTED: Final = ("fence", "run_run_no_seq")


async def assign_cell(connection: Connection, cell_no: int | None) -> None:
    """Keep each sequence in the stripe of the ledger's cell; None keeps the cell, at first 0.

    Raises Conflict if the ledger has another cell.
    """
    kept = await connection.fetchval("select ledger.assign_cell($1)", cell_no)
    if cell_no not in {None, kept}:
        message = (
            f"this ledger is cell {kept} and cannot become cell {cell_no}: its numbers are in its"
            f" records; leave --cell out, or make another database for cell {cell_no}"
        )
        raise Conflict(message, cell=kept)


async def lift_sequences(connection: Connection) -> None:
    """Lift fences and run numbers to the clock, before a new connection takes the first one.

    A restored copy or a promoted standby then gives no number that was given before it. Each
    sequence in a transaction of its own: it is locked until the end.
    """
    for name in _LIFTED:
        await connection.execute(statement("lift_sequence"), name)


async def list_sequences(connection: Connection) -> list[Record]:
    """List each sequence: name, used (part of its stripe, 0 to 1), seconds_ahead of the clock."""
    return await connection.fetch(statement("list_sequences"))


async def read_cell(connection: Connection) -> int:
    """Return which cell this ledger is."""
    return await connection.fetchval(statement("read_cell"))
