"""Programs of tests as processes of their own, forked from one that has no imports left to do."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

FORK_SERVER: Final = Path(__file__).with_name("fork_server.py")


@dataclass
class ForkedProcess:
    """A running program, with the part of asyncio's `Process` that tests use."""

    pid: int
    piped: asyncio.StreamReader | None
    """The text of its output that was piped."""
    returncode: int | None = None
    _watching: "asyncio.Task[None] | None" = field(default=None, repr=False)

    def watch(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the exit code when it comes."""
        self._watching = asyncio.create_task(self._watch(answers, writer))

    async def _watch(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.returncode = int(await answers.readline())
        writer.close()

    async def wait(self) -> int:
        """Wait for its end; return its exit code, as `subprocess` has it."""
        assert self._watching is not None
        await asyncio.shield(self._watching)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def communicate(self) -> bytes:
        """Read what is left of its piped output, and wait for its end."""
        assert self.piped is not None
        text = await self.piped.read()
        await self.wait()
        return text

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class ForkServer:
    """Starts programs by `command`, the arguments of `python`."""

    address: str

    async def start(
        self,
        *command: str,
        env: Mapping[str, str],
        cwd: Path | None = None,
        output: int | None = None,
        pipe: Literal["stdout", "stderr", "both"] | None = None,
        ahead_bytes: int = 1 << 16,
    ) -> ForkedProcess:
        """Start a program; it writes to the descriptor `output`, but for the output to `pipe`.

        Twice `ahead_bytes` are read from the pipe before anybody asks.
        """
        outputs = [1, 2] if output is None else [output, output]
        piped, far = None, None
        if pipe is not None:
            piped = asyncio.StreamReader(ahead_bytes)
            near, far = os.pipe()
            await _read_pipe(piped, near)
            outputs = [
                far if pipe in {name, "both"} else descriptor
                for name, descriptor in zip(("stdout", "stderr"), outputs, strict=True)
            ]
        wire = self._request(command, env, cwd, outputs)
        if far is not None:
            os.close(far)
        answers, writer = await asyncio.open_unix_connection(sock=wire)
        process = ForkedProcess(int(await answers.readline()), piped)
        process.watch(answers, writer)
        return process

    def run(self, *command: str, env: Mapping[str, str], cwd: Path, out: Path, err: Path) -> int:
        """Run a program to its end, with its output in files; return its exit code."""
        with out.open("wb") as output, err.open("wb") as errors:
            wire = self._request(command, env, cwd, [output.fileno(), errors.fileno()])
        with wire, wire.makefile() as answers:
            _, code = answers
        return int(code)

    def _request(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        outputs: Sequence[int],
    ) -> socket.socket:
        request = {
            "command": command,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(env),
        }
        text = json.dumps(request).encode()
        wire = socket.socket(socket.AF_UNIX)
        wire.connect(self.address)
        socket.send_fds(wire, [len(text).to_bytes(4, "big")], outputs)
        wire.sendall(text)
        return wire


async def _read_pipe(reader: asyncio.StreamReader, descriptor: int) -> None:
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )


@contextmanager
def open_fork_server(folder: Path) -> Generator[ForkServer]:
    """Run a server for the length of the block; its programs end with it."""
    address = str(folder / "forks")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        with subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, str(FORK_SERVER), str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={name: text for name, text in os.environ.items() if "DUELEDGER_" not in name},
        ):
            listener.close()  # it alone listens: where it cannot start, a request is refused
            yield ForkServer(address)
