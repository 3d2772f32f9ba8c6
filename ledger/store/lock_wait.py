"""How long a transaction waits for a lock, and what is said when that was too long."""

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def limit_lock_wait(connection: Connection, seconds: float) -> None:
    """Let the transaction wait so long for each lock; `waiting_for` says what was in vain."""
    await connection.execute(statement("limit_lock_wait"), seconds)


@contextmanager
def conflict_on_lock_timeout(what: str) -> Generator[None]:
    """Raise Conflict where somebody else holds `what` for longer than this transaction waits."""
    try:
        yield
    except asyncpg.LockNotAvailableError:
        message = f"Somebody else defines {what}, and takes long. Nothing was changed: repeat it."
        raise Conflict(message) from None
