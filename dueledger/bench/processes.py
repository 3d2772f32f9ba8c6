"""Processes under measurement: started as an operator would, and their CPU read from outside."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from ledger.errors import DueledgerError


class ProcessDied(DueledgerError):
    """A measured process ended before the measurement did."""

    code = "PROCESS_DIED"


@asynccontextmanager
async def running(
    name: str, *arguments: str, environment: Mapping[str, str], log_dir: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run ``dueledger ARGUMENTS`` for the length of the block; SIGTERM drains it at the end."""
    with (log_dir / f"{name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dueledger",
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                process.kill()
                await process.wait()


def require_alive(processes: Mapping[str, asyncio.subprocess.Process], log_dir: Path) -> None:
    """Raise ProcessDied, with the end of its log, where one has ended."""
    for name, process in processes.items():
        if process.returncode is not None:
            tail = (log_dir / f"{name}.log").read_text(errors="replace").splitlines()[-20:]
            message = f"{name} ended with {process.returncode}:\n" + "\n".join(tail)
            raise ProcessDied(message, process=name)


def cpu_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Return user and system seconds by name: of each process and all below it, ended or not."""
    return {name: _tree_seconds(psutil.Process(pid)) for name, pid in roots.items()}


def _tree_seconds(root: psutil.Process) -> float:
    seconds = _own_seconds([root], reaped=True)
    return seconds + _own_seconds(root.children(recursive=True), reaped=False)


def _own_seconds(processes: Iterable[psutil.Process], *, reaped: bool) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        if reaped:
            total += times.children_user + times.children_system
    return total
