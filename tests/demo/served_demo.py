"""A small demo that leaves its console open, by the real command line."""

import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from dueledger.dev.console_access import USUAL_PORT
from dueledger.stack import DSN_VARIABLE

_COMMAND = [sys.executable, "-m", "dueledger", "demo", "--json", "--serve"]
_SMALL = ["--policies", "600", "--periodics", "150", "--day-seconds", "20"]


@dataclass
class ServedDemo:
    """A demo whose day is over. `link` signs in to its console; `ended` is how it ended."""

    link: str
    dsn: str
    ended: subprocess.CompletedProcess[str] | None = None


@contextmanager
def serve_demo(folder: Path) -> Generator[ServedDemo]:
    """Run a small demo in a folder, and stop it at the end of the block."""
    said: list[str] = []
    with (
        _usual_port_taken(),
        subprocess.Popen(  # noqa: S603 - our own command
            [*_COMMAND, *_SMALL],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        served: ServedDemo | None = None
        try:
            for line in process.stderr:
                said.append(line)
                if "console: http" in line:
                    served = ServedDemo(line.split()[-1], _find_dsn(process.pid))
                    break
            assert served, "".join(said)
            yield served
        finally:  # it serves until it is stopped
            process.send_signal(signal.SIGTERM)
            document, rest = process.communicate()
        served.ended = subprocess.CompletedProcess(
            process.args, process.returncode, document, "".join(said) + rest
        )


def _find_dsn(pid: int) -> str:
    """Return the address of the demo's ledger, that its processes are given."""
    processes = psutil.Process(pid).children()
    [allocator] = [each for each in processes if "allocate" in each.cmdline()]
    return allocator.environ()[DSN_VARIABLE]


@contextmanager
def _usual_port_taken() -> Generator[None]:
    """Take the console's usual port: another test may start a service there at the same time."""
    try:
        taken = socket.create_server(("127.0.0.1", USUAL_PORT))
    except OSError:
        yield
        return
    with taken:
        yield
