"""Processes that start while Postgres and Kafka are away wait for them."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from dueledger.stack import Endpoints
from tests.forks import ForkedProcess, ForkServer
from tests.wire import hold_port, port_of, wire_to

from .test_stopping import HANDLERS, PROCESSES

WAITED_SECONDS = 60.0


async def until_logged(process: ForkedProcess, *texts: bytes) -> bytes:
    """Read the log up to a line with all of the texts."""
    assert process.piped is not None
    async with asyncio.timeout(WAITED_SECONDS):
        while line := await process.piped.readline():
            if all(text in line for text in texts):
                return line
    raise AssertionError("it ended")


async def test_processes_that_start_before_postgres_and_kafka_wait_for_both(
    database: str, stack: Endpoints, tmp_path: Path, fork_server: ForkServer
) -> None:
    (tmp_path / "mine.py").write_text(HANDLERS)
    address = urlsplit(database)
    user, at, _ = address.netloc.rpartition("@")
    async with AsyncExitStack() as running:
        postgres, kafka = (running.enter_context(hold_port()) for _ in range(2))
        near = f"{user}{at}127.0.0.1:{port_of(postgres)}"
        environment = {
            **os.environ,
            "DUELEDGER_DSN": urlunsplit(address._replace(netloc=near)),
            "DUELEDGER_BOOTSTRAP_SERVERS": f"127.0.0.1:{port_of(kafka)}",
        }
        processes: dict[tuple[str, ...], ForkedProcess] = {}
        for arguments in PROCESSES:
            process = await fork_server.start(
                *("-m", "dueledger", *arguments), cwd=tmp_path, env=environment, pipe="stderr"
            )
            running.callback(process.kill)
            processes[arguments] = process
        for process in processes.values():
            line = await until_logged(process, b"service.awaited", b"Postgres cannot be used")
            assert b'"failures": 1' in line
        await running.enter_async_context(wire_to(database, held=postgres))
        await until_logged(processes["work", "mine:handlers"], b"service.awaited", b"Kafka")
        broker = f"kafka://{stack.bootstrap_servers}"
        await running.enter_async_context(wire_to(broker, held=kafka))
        for arguments, process in processes.items():
            if arguments != ("work", "mine:handlers"):  # it has started, and waits for Kafka alone
                await until_logged(process, b"process.started")
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for process in processes.values():
            assert process.piped is not None
            await process.piped.read()
            assert await process.wait() == 0
