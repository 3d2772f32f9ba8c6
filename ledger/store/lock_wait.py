"""The limit of a transaction's lock waits, and the error when it is exceeded."""

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def limit_lock_wait(connection: Connection, seconds: float) -> None:
    """Limit each lock wait of the transaction; use `conflict_on_lock_timeout` around the locks."""
    await connection.execute(statement("limit_lock_wait"), seconds)


@contextmanager
def conflict_on_lock_timeout(what: str) -> Generator[None]:
    """Raise Conflict if another transaction locks `what` for longer than the limit."""
    try:
        yield
    except asyncpg.LockNotAvailableError:
        message = f"Another process is busy with {what}. Nothing was changed: try again."
        raise Conflict(message) from None
