"""How long a program holds its snapshots: polled from a thread, because its loop may be busy."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from bench.measurements import read_snapshot_age
from dueledger.ledger.store import connect

POLL_SECONDS: Final = 0.1


@dataclass(slots=True)
class LongestSnapshot:
    """The age of the oldest snapshot that was seen, in seconds."""

    seconds: float = 0.0


@contextmanager
def watching_snapshots(dsn: str, application: str) -> Generator[LongestSnapshot]:
    """Poll the snapshots of an application for the length of the block."""
    longest, stop = LongestSnapshot(), Event()

    async def poll() -> None:
        connection = await connect(dsn, application_name="dueledger-bench-snapshots")
        try:
            while not stop.wait(POLL_SECONDS):
                age = await read_snapshot_age(connection, application)
                longest.seconds = max(longest.seconds, age)
        finally:
            await connection.close()

    thread = Thread(target=lambda: asyncio.run(poll()))
    thread.start()
    try:
        yield longest
    finally:
        stop.set()
        thread.join()
