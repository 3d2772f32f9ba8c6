"""The presence of a process in the ledger: its row, renewed while it lives, and its lock.

Both are on a connection of the process's own, so that the lock ends when the process does.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Final, final

from dueledger.ledger.runtime.service import Stop, run_service
from dueledger.ledger.store import (
    CONNECTION_ERRORS,
    Connection,
    OwnConnection,
    connect,
    is_lost,
    mapped_loss,
)
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.processes import (
    ProcessLock,
    ProcessRole,
    end_process,
    register_process,
    renew_process,
)

CHECK_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
"""Time for the server's answer; then the connection is closed and another one opened."""
END_SECONDS: Final = 1.0

_ACTOR_KINDS: Final = {
    ProcessRole.ALLOCATOR: ActorKind.ALLOCATOR,
    ProcessRole.WORKER: ActorKind.WORKER,
    ProcessRole.DIRECT_WORKER: ActorKind.WORKER,
    ProcessRole.OUTCOME_INTAKE: ActorKind.WORKER,
    ProcessRole.INTAKE: ActorKind.INTAKE,
    ProcessRole.MATERIALISER: ActorKind.MATERIALISER,
    ProcessRole.RECONCILER: ActorKind.RECONCILER,
}


@final
class Presence:
    """Keeps the row and the lock of a process. `process_no` is its actor number.

    After a lost connection it opens another one and takes the lock again within a second, if
    Postgres can be reached.
    """

    def __init__(self, dsn: str, name: str, role: ProcessRole) -> None:
        self.process_no = 0
        self._dsn = dsn
        self._name = name
        self._role = role
        self._connection: OwnConnection | None = None
        self._lock = ProcessLock(is_direct=True, is_locked=False)

    async def open(self) -> None:
        """Register the process. Raises Unavailable without Postgres."""
        self._connection = connection = await self._connect()
        with mapped_loss(connection):
            self.process_no = await register_actor(connection, self._name, _ACTOR_KINDS[self._role])
            await self._register(connection)

    async def tick(self) -> dict[str, int]:
        """Renew the row, and take the lock if the process lacks it."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._renew()
        except BaseException:
            self._disconnect()
            raise
        return {}

    async def close(self) -> None:
        """Record the end of the process and release its lock."""
        connection, self._connection = self._connection, None
        if connection is None or is_lost(connection):
            return
        with suppress(TimeoutError, *CONNECTION_ERRORS):
            async with asyncio.timeout(END_SECONDS):
                await end_process(connection, self.process_no)
                await connection.close()
        connection.terminate()

    async def _renew(self) -> None:
        connection = self._connection
        if connection is None or is_lost(connection):
            self._connection = connection = await self._connect()
            with mapped_loss(connection):
                await self._register(connection)
            return
        with mapped_loss(connection):
            if self._lock.is_direct and not self._lock.is_locked:
                await self._register(connection)
            else:
                await renew_process(connection, self.process_no)

    async def _register(self, connection: Connection) -> None:
        self._lock = await register_process(
            connection,
            self.process_no,
            self._role,
            host=socket.gethostname(),
            version=version("dueledger"),
        )

    async def _connect(self) -> OwnConnection:
        return await connect(self._dsn, application_name=self._name, is_durable=False)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


@asynccontextmanager
async def open_presence(dsn: str, name: str, role: ProcessRole) -> AsyncGenerator[Presence]:
    """Register a process under its actor name, and keep its row and its lock for the block.

    Raises Unavailable if Postgres cannot be reached.
    """
    presence, stop = Presence(dsn, name, role), Stop()
    try:
        await presence.open()
        keeping = asyncio.create_task(
            run_service("presence", presence.tick, stop=stop, idle_seconds=CHECK_SECONDS)
        )
        try:
            yield presence
        finally:
            stop.request()
            await asyncio.wait({keeping}, timeout=END_SECONDS)
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
    finally:
        await presence.close()
