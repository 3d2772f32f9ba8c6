"""The worker's side of the process in which it isolates suspects."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

from dueledger.workers.run.isolated_messages import LENGTH, Program, Reply, Request, framed

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncGenerator

MODULE: Final = "dueledger.workers.run.isolated_worker"
# `-m` would look for every module in the working directory first. The last argument is where this
# package was found, perhaps only there.
BOOT: Final = (
    "import runpy, sys; sys.path.append(sys.argv.pop()); "
    f"runpy.run_module({MODULE!r}, run_name='__main__', alter_sys=True)"
)
BUFFERED_SECONDS: Final = 1.0  # for replies that were sent before the end


@final
class IsolatedProcess:
    """A process that has loaded the worker's handlers. `items_begun` counts what it was sent."""

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.items_begun = 0

    @classmethod
    async def start(cls, program: Program) -> IsolatedProcess:
        """Start a process that loads the program. Its first reply is Ready."""
        own, other = socket.socketpair()
        with other:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-c",
                    BOOT,
                    str(other.fileno()),
                    str(os.getpid()),
                    str(Path(sys.modules[MODULE.partition(".")[0]].__path__[0]).parent),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[other.fileno()],
                )
            except BaseException:
                own.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=own)
        writer.write(framed(program))
        return cls(process, reader, writer)

    def send(self, request: Request) -> None:
        """Send a request. After the end of the process it has no effect."""
        message = framed(request)
        with suppress(RuntimeError):  # uvloop raises it once a write has failed
            self._writer.write(message)

    def kill(self) -> None:
        """End the process at once."""
        # Process.kill() first looks whether it has ended, and if so its exit code is lost.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def replies(self) -> AsyncGenerator[Reply]:
        """Return the replies until the process has ended, all that it sent among them."""
        closing = asyncio.create_task(self._close_after_end())
        try:
            while (reply := await self._read()) is not None:
                yield reply
        finally:
            self.kill()  # or it has closed its socket and goes on
            await self._process.wait()
            closing.cancel()
            self._writer.close()

    async def _close_after_end(self) -> None:
        """Close the socket: a program that the handler started may have it open for longer."""
        await self._process.wait()
        await asyncio.sleep(BUFFERED_SECONDS)
        self._writer.close()

    async def _read(self) -> Reply | None:
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return cast("Reply", pickle.loads(body))  # noqa: S301  # from a process of its own

    def describe_end(self) -> str:
        """Return how the process ended."""
        code = self._process.returncode
        if code is None:
            return "did not end"
        if code >= 0:
            return f"ended with code {code}"
        with suppress(ValueError):
            return f"died by signal {-code} ({signal.Signals(-code).name})"
        return f"died by signal {-code}"
