"""Supervisors of processes: one that ends is started again, and its slot can be broken."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dueledger.ledger.runtime.log import LogEvent

from .programs import moment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from .programs import Program

RESTART_SECONDS: Final = 0.3
SAID_LINES: Final = 30  # of what a process said before it ended unasked
UNAVAILABLE: Final = 3  # how the consumer in another language ends that finds no server


@dataclass
class Slot:
    """A supervisor of one process: when it ends, the next is started."""

    start: Callable[[], Awaitable[Program]]
    is_closed: bool = False
    """Whether nothing is started any more."""
    program: Program | None = None
    surprises: list[str] = field(default_factory=list[str])
    _expected: set[int] = field(default_factory=set[int])

    @property
    def running(self) -> bool:
        return self.program is not None and self.program.running

    @property
    def ready(self) -> bool:
        """Whether the process runs and has begun, so that it handles signals."""
        program = self.program
        return (
            program is not None
            and program.running
            and (program.role == "foreign" or bool(program.logged(LogEvent.PROCESS_STARTED)))
        )

    async def keep(self) -> None:
        while not self.is_closed:
            self._expected = set()
            self.program = program = await self.start()
            if program.role == "foreign":
                self._expected.add(UNAVAILABLE)
            code = await program.process.wait()
            if code not in self._expected:
                said = program.log.read_text(errors="replace").splitlines()[-SAID_LINES:]
                ended = "\n".join((f"{program.log.name} ended by itself with {code}:", *said))
                self.surprises.append(ended)
            await moment(RESTART_SECONDS)

    async def kill(self, _: float) -> None:
        await self._end(signal.SIGKILL, {-signal.SIGKILL})

    async def terminate(self, _: float) -> None:
        await self._end(signal.SIGTERM, {0, -signal.SIGTERM})  # that early it has no handler yet

    async def freeze(self, seconds: float) -> None:
        if self.program is not None and self.running:
            program = self.program
            program.send(signal.SIGSTOP)
            await moment(seconds)
            program.thaw()

    async def _end(self, number: signal.Signals, codes: set[int]) -> None:
        if self.program is not None and self.running:
            self._expected |= codes
            self.program.send(number)
            await self.program.process.wait()


@asynccontextmanager
async def supervised(slots: Iterable[Slot]) -> AsyncGenerator[None]:
    """Keep a process running in each slot for the length of the block."""
    keepers = [asyncio.create_task(slot.keep()) for slot in slots]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
