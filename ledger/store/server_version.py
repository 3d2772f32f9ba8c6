"""The version of the server, and the oldest one that works."""

from typing import Final, NamedTuple

from dueledger.ledger.errors import UnsupportedServer
from dueledger.ledger.store.connection import Connection

OLDEST: Final = 160_000
SUPPORTED: Final = "PostgreSQL 16, 17 or 18"


class ServerVersion(NamedTuple):
    """The version of a server, as a number and as text."""

    number: int
    text: str

    @property
    def is_supported(self) -> bool:
        """Whether the statements of this release run on it."""
        return self.number >= OLDEST


async def read_server_version(connection: Connection) -> ServerVersion:
    """Read the version of the server."""
    number = await connection.fetchval("select current_setting('server_version_num')::int")
    return ServerVersion(number, await connection.fetchval("show server_version"))


async def require_supported_server(connection: Connection) -> None:
    """Raise UnsupportedServer if the server is too old."""
    version = await read_server_version(connection)
    if not version.is_supported:
        message = f"this server is PostgreSQL {version.text}; use {SUPPORTED}"
        raise UnsupportedServer(message, version=version.text)
