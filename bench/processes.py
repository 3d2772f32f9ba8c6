"""Processes under measurement: started as an operator would, and watched while they run."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from dueledger.dev.supervisor import SUPERVISED
from dueledger.ledger.errors import DueledgerError

STOP_SECONDS: Final = 30.0
TAIL_LINES: Final = 20

Process = asyncio.subprocess.Process


class ProcessDied(DueledgerError):
    """A measured process ended before the measurement did."""

    code = "PROCESS_DIED"


@asynccontextmanager
async def running(
    name: str, *arguments: str, environment: Mapping[str, str], log_dir: Path
) -> AsyncGenerator[Process]:
    """Run ``dueledger ARGUMENTS`` for the length of the block; SIGTERM drains it at the end.

    It ends by itself when this process is killed.
    """
    with log_path(log_dir, name).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dueledger",
            *arguments,
            env={**environment, SUPERVISED: "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the benchmark, which stops in order
        )
    try:
        yield process
    finally:
        await stop(process)


async def stop(process: Process) -> None:
    """End a process in order, or with SIGKILL if it takes too long; idempotent."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextmanager
def suspended(processes: Iterable[Process]) -> Generator[None]:
    """Stop processes from running at all for the length of the block, as SIGSTOP does."""
    held = [process for process in processes if process.returncode is None]
    for process in held:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in held:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)


def require_alive(processes: Mapping[str, Process], log_dir: Path) -> None:
    """Raise ProcessDied, with the end of its log, if one has ended."""
    for name, process in processes.items():
        if process.returncode is not None:
            tail = "\n".join(log_tail(log_dir, name))
            raise ProcessDied(f"{name} ended with {process.returncode}:\n{tail}", process=name)


def log_path(log_dir: Path, name: str) -> Path:
    """Return the file that a process writes both its outputs to."""
    return log_dir / f"{name}.log"


def log_tail(log_dir: Path, name: str) -> list[str]:
    """Return the last lines of a process's log."""
    return log_path(log_dir, name).read_text(errors="replace").splitlines()[-TAIL_LINES:]
