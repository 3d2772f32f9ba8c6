"""A wire between a client and a server: it can go dead, as when a cable is pulled: no reset."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, final
from urllib.parse import urlsplit, urlunsplit

LOOPBACK: Final = "127.0.0.1"

Forward = Callable[[bytes], Awaitable[bytes]]
"""What the client gets of bytes that the server sent; raises ConnectionError to end both ends."""


async def _unchanged(answer: bytes) -> bytes:
    return answer


@final
class Wire:
    """Forwards bytes to a server until it is cut; then no byte and no reset is forwarded."""

    def __init__(self, host: str, port: int, forward: Forward = _unchanged) -> None:
        self._server, self._forward = (host, port), forward
        self._alive = asyncio.Event()
        self._alive.set()
        self._carrying: set[asyncio.Task[None]] = set()

    def is_used(self) -> bool:
        """Return whether a client is connected, or tries to be."""
        return bool(self._carrying)

    def cut(self) -> None:
        self._alive.clear()

    def mend(self) -> None:
        self._alive.set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._join(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # if cancelled unbegun

    async def close(self) -> None:
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._alive.wait()
            from_server, to_server = await asyncio.open_connection(*self._server)
            ends.append(to_server)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, to_server, _unchanged))
                both.create_task(self._carry(from_server, writer, self._forward))
        except* OSError:
            pass  # an end is gone, and so is the other
        finally:
            for end in ends:
                end.transport.abort()
            for end in ends:
                with suppress(OSError):
                    await end.wait_closed()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forward: Forward
    ) -> None:
        while carried := await reader.read(65_536):
            await self._alive.wait()
            writer.write(await forward(carried))
            await writer.drain()
        writer.close()


def hold_port() -> socket.socket:
    """Bind a port at which nothing listens yet, or a connection of another test might take it."""
    held = socket.socket()
    held.bind((LOOPBACK, 0))
    return held


def port_of(held: socket.socket) -> int:
    """Return the number of a port."""
    port: int = held.getsockname()[1]
    return port


@asynccontextmanager
async def wire_to(
    dsn: str, *, held: socket.socket | None = None, forward: Forward = _unchanged
) -> AsyncGenerator[tuple[Wire, str]]:
    """Lay a wire to the server of a DSN, from a port that is held or another.

    Gives the wire and the DSN at its near end.
    """
    parts = urlsplit(dsn)
    wire = Wire(parts.hostname or LOOPBACK, parts.port or 5432, forward)
    if held is None:
        server = await asyncio.start_server(wire.accept, LOOPBACK, 0)
    else:
        server = await asyncio.start_server(wire.accept, sock=held)
    user, at, _ = parts.netloc.rpartition("@")
    near = f"{user}{at}{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire, urlunsplit(parts._replace(netloc=near))
    finally:
        server.close()
        await wire.close()
