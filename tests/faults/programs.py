"""Processes of the product that may be stopped and killed, and how a test waits for them."""

import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import asyncpg

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import Stop
from tests.forks import ForkedProcess

T = TypeVar("T")

EVENTUALLY_SECONDS: Final = 180.0
POLL_SECONDS: Final = 0.05
POLL_SECONDS_MAX: Final = 0.25
POLL_SHARE: Final = 0.1  # of the time that was waited so far
SERVER_DOWN: Final = (
    Unavailable,
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.InterfaceError,
)
"""Of connections of the tests' own, which no pool of the product opened."""


async def moment(seconds: float) -> None:
    """Wait for what happens elsewhere and cannot be awaited."""
    await Stop().wait(seconds)


async def eventually(
    question: Callable[[], Awaitable[T]], *, seconds: float = EVENTUALLY_SECONDS
) -> T:
    """Poll until the result is true; a server that is down meanwhile gives no result."""
    began = monotonic()
    answer: object = None
    while (waited := monotonic() - began) < seconds:
        with suppress(*SERVER_DOWN):
            if answer := await question():
                return answer
        pause = max(waited * POLL_SHARE, POLL_SECONDS)
        await moment(min(pause, POLL_SECONDS_MAX))
    raise AssertionError(f"it never happened: last answer {answer!r}")


@dataclass
class Program:
    """One process of the product, and the log it writes."""

    role: str
    process: ForkedProcess
    log: Path

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def freeze(self) -> None:
        """Stop the process; return when each of its threads has stopped."""
        self.send(signal.SIGSTOP)

        async def stopped() -> bool:
            return _is_stopped(self.process.pid)

        await eventually(stopped)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    async def kill(self) -> int:
        self.send(signal.SIGKILL)
        return await self.process.wait()

    async def end(self) -> int:
        self.send(signal.SIGTERM)
        return await self.process.wait()

    def logged(self, *events: LogEvent) -> list[dict[str, Any]]:
        """Return the lines of these events that it logged, without those of libraries."""
        return [line for line in read_log(self.log) if line.get("event") in events]


def _is_stopped(pid: int) -> bool:
    stats = [thread.read_text() for thread in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(") ")[2].startswith("T") for stat in stats)


def read_log(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text("utf-8", errors="replace").splitlines():
        with suppress(json.JSONDecodeError):
            yield json.loads(line)
