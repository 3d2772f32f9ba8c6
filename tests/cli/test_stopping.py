"""SIGTERM ends every process, even if Postgres accepts connections and does not respond."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from dueledger.cli.reconciliation import NICENESS
from dueledger.stack import Endpoints
from tests.forks import ForkedProcess, ForkServer
from tests.wire import Wire, wire_to

pytestmark = pytest.mark.long

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
Start = Callable[..., Awaitable[ForkedProcess]]

HANDLERS = """
from dueledger import Completed, Handlers
handlers = Handlers()
@handlers.on("ReminderDue")
async def remind(item):
    return Completed()
@handlers.on_transaction("LetterDue")
async def write(item, connection):
    return Completed()
"""
PROCESSES = [
    ("allocate",),
    ("work", "mine:handlers"),
    ("work", "--direct", "mine:handlers"),
    ("work", "--outcomes"),
    ("intake",),
    ("materialise",),
]
ENDED_SECONDS = 45.0  # a statement alone waits a minute for its result


@pytest.fixture
async def wire(database: str) -> AsyncGenerator[tuple[Wire, str]]:
    async with wire_to(database) as laid:
        yield laid


@pytest.fixture
async def start(
    wire: tuple[Wire, str], stack: Endpoints, tmp_path: Path, fork_server: ForkServer
) -> AsyncGenerator[Start]:
    """Start `dueledger` at the far end of the wire from Postgres."""
    (tmp_path / "mine.py").write_text(HANDLERS)
    started: list[ForkedProcess] = []

    async def begin(*arguments: str) -> ForkedProcess:
        process = await fork_server.start(
            *("-m", "dueledger", *arguments),
            cwd=tmp_path,
            env={
                **os.environ,
                "DUELEDGER_DSN": wire[1],
                "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers,
                "DUELEDGER_ALLOCATOR_DRAIN_SECONDS": "1",
                "DUELEDGER_WORKER_DRAIN_SECONDS": "1",
            },
            pipe="stderr",
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ended(process: ForkedProcess) -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(ENDED_SECONDS):
        assert process.piped is not None
        output = await process.piped.read()
        return await process.wait(), output.decode()


@pytest.mark.parametrize("arguments", PROCESSES, ids=" ".join)
async def test_g5_a_process_whose_postgres_hangs_ends_after_sigterm(
    arguments: tuple[str, ...], start: Start, wire: tuple[Wire, str]
) -> None:
    process = await start(*arguments)
    assert process.piped is not None
    while b"process.started" not in (line := await process.piped.readline()):
        assert line, "it ended before it began"
    wire[0].cut()
    code, output = await _ended(process)
    assert code == 0
    assert "Traceback" not in output


async def test_a_reconciler_takes_the_cpu_that_others_leave(start: Start) -> None:
    process = await start("reconcile")
    assert process.piped is not None
    while b"process.started" not in (line := await process.piped.readline()):
        assert line, "it ended before it began"
    assert psutil.Process(process.pid).nice() == psutil.Process().nice() + NICENESS
    assert (await _ended(process))[0] == 0


@pytest.mark.parametrize("arguments", PROCESSES, ids=" ".join)
async def test_a_process_that_still_connects_ends_after_sigterm(
    arguments: tuple[str, ...], start: Start, wire: tuple[Wire, str], eventually: Eventually
) -> None:
    wire[0].cut()
    process = await start(*arguments)

    async def connects() -> bool:
        return wire[0].is_used()

    await eventually(connects)
    code, output = await _ended(process)
    assert code == 0
    assert "Traceback" not in output
