"""The console of `dueledger dev` and of the demo: a process, and a link by which it opens."""

import asyncio
import socket
from datetime import timedelta
from importlib.util import find_spec
from typing import Final, NamedTuple

from dueledger.api_keys import end_key, make_key
from dueledger.dev.supervisor import ChildSpec
from dueledger.ledger.errors import MissingExtra
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.clock import read_machine_now

USUAL_PORT: Final = 8480
_HOST: Final = "127.0.0.1"
_KEY_LIFE: Final = timedelta(days=7)
"""Of a key that a killed process left."""
_NAME: Final = "console"
_TRIES: Final = 300
_TRY_SECONDS: Final = 0.1


class ConsoleAccess(NamedTuple):
    """The process that serves the console, its port, and the link that signs in.

    The key is after #: a browser keeps that to itself. It is valid while the process runs.
    """

    service: ChildSpec
    port: int
    link: str
    prefix: str


def has_console() -> bool:
    """Return whether what `dueledger serve` needs is installed."""
    return find_spec("fastapi") is not None and find_spec("uvicorn") is not None


def require_console() -> None:
    """Raise MissingExtra unless what `dueledger serve` needs is installed."""
    if not has_console():
        message = "The console needs more libraries. Install dueledger[serve]."
        raise MissingExtra(message, extra="serve")


async def make_access(connection: Connection) -> ConsoleAccess:
    """Make a key with every right, and choose a free port."""
    actor_no = await register_actor(connection, "dueledger dev", ActorKind.SERVICE)
    now = await read_machine_now(connection)
    key = await make_key(
        connection,
        _NAME,
        scopes=[scope.value for scope in Scope],
        tenants=None,
        expires_at=now + _KEY_LIFE,
        actor_no=actor_no,
    )
    port = _free_port()
    service = ChildSpec("service", ("serve", "--host", _HOST, "--port", str(port)))
    link = f"http://{_HOST}:{port}/console/sign-in#{key.text}"
    return ConsoleAccess(service, port, link, key.prefix)


async def wait_until_open(access: ConsoleAccess) -> None:
    """Wait until the console answers, or for half a minute: its process may be in trouble."""
    for _ in range(_TRIES):
        if await _is_open(access.port):
            return
        await asyncio.sleep(_TRY_SECONDS)


async def _is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def end_access(connection: Connection, access: ConsoleAccess) -> None:
    """Revoke the key, and with it every session that it opened."""
    actor_no = await register_actor(connection, "dueledger dev", ActorKind.SERVICE)
    await end_key(connection, access.prefix, actor_no=actor_no)


def _free_port() -> int:
    """Return the usual port, or any free one if somebody listens there."""
    try:
        listener = socket.create_server((_HOST, USUAL_PORT))
    except OSError:
        listener = socket.create_server((_HOST, 0))
    with listener:
        return listener.getsockname()[1]
