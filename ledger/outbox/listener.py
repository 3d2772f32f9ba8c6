"""The connection on which a relay registers its sleep with the outbox, and is notified of rows."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.store import (
    ANSWER_SECONDS,
    CONNECTION_ERRORS,
    OwnConnection,
    answered_in_time,
    connect,
    is_lost,
)
from dueledger.ledger.store.outbox import end_relay_sleep, register_relay_sleep
from dueledger.ledger.store.processes import is_seen_by_all

CHANNEL: Final = "due_outbox"


@final
class OutboxListener:
    """A connection of its own on which the relay is notified while it sleeps.

    `session_no` is None after it was lost; `open` makes another one. `woken` is set by each
    notification, and by a loss, because then nobody notifies.
    """

    def __init__(self, dsn: str, name: str) -> None:
        self.woken = asyncio.Event()
        self._dsn = dsn
        self._name = name
        self._connection: OwnConnection | None = None
        self._session_no = 0

    @property
    def session_no(self) -> int | None:
        """Number of the session that listens; None without one."""
        return None if self._usable() is None else self._session_no

    async def open(self) -> None:
        """Listen, if it does not yet. Raises Unavailable without Postgres."""
        if self._usable() is not None:
            return
        self._connection = connection = await connect(
            self._dsn,
            application_name=self._name,
            is_durable=False,
            connect_seconds=ANSWER_SECONDS,
        )
        async with answered_in_time(connection):
            await connection.add_listener(CHANNEL, self._wake)
        connection.add_termination_listener(self._wake)
        self._session_no += 1

    async def register_sleep(self, seconds: float, kinds: Sequence[str] | None) -> int | None:
        """Register a sleep; return the number of its transaction, or None without a session."""
        del kinds
        if (connection := self._usable()) is None:
            return None
        async with answered_in_time(connection):
            return await register_relay_sleep(connection, self._name, seconds)

    async def is_seen_by_all(self, transaction_no: int) -> bool:
        """Return whether all who write see what that transaction did; False if unknown."""
        if (connection := self._usable()) is None:
            return False
        async with answered_in_time(connection):
            return await is_seen_by_all(connection, transaction_no)

    async def end_sleep(self) -> None:
        """Register that the relay is awake."""
        if (connection := self._usable()) is not None:
            async with answered_in_time(connection):
                await end_relay_sleep(connection, self._name)

    async def close(self) -> None:
        """End the sleep and the session."""
        with suppress(Unavailable, *CONNECTION_ERRORS):
            await self.end_sleep()
        if self._connection is not None:
            self._connection.terminate()

    def _usable(self) -> "OwnConnection | None":
        connection = self._connection
        return None if connection is None or is_lost(connection) else connection

    def _wake(self, *_: object) -> None:
        self.woken.set()
