"""Runs processes as children: prefixed output, restart with backoff, orderly end.

A child ends when the pipe on its standard input closes (`DUELEDGER_SUPERVISED`), so nothing
outlives a supervisor that was killed.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SUPERVISED: Final = "DUELEDGER_SUPERVISED"

_TAIL_LINES: Final = 20
_BACKOFF_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
_STEADY_SECONDS: Final = 30.0
_BLOCK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run: `arguments` are those of the `dueledger` command, or a whole command line."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    command: Sequence[str] = (sys.executable, "-m", "dueledger")
    restarts: bool = True


@dataclass(slots=True)
class _SupervisedProcess:
    spec: ChildSpec
    tail: deque[str]
    process: asyncio.subprocess.Process | None = None
    watcher: asyncio.Task[None] | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    crashes: int = 0


OutputCallback = Callable[[str, str], object]
"""Takes the name of a child and a line about it."""


class Supervisor:
    """Children by name. Not for use from several tasks at once."""

    def __init__(
        self, output: OutputCallback, remark: OutputCallback, *, environment: Mapping[str, str]
    ) -> None:
        """Send children's lines to `output` and events about them to `remark`; start nothing.

        `environment` is the complete environment of every child.
        """
        self._output = output
        self._report = remark
        self._environment = dict(environment)
        self._children: dict[str, _SupervisedProcess] = {}

    def pid(self, name: str) -> int | None:
        """Return the process id of a running child."""
        process = self._children[name].process
        return process.pid if process is not None and process.returncode is None else None

    def running(self) -> list[str]:
        """Return the names of the children that run now."""
        return [name for name in self._children if self.pid(name) is not None]

    async def start(self, spec: ChildSpec) -> None:
        """Start a child and keep it running until it is stopped."""
        child = _SupervisedProcess(spec, deque(maxlen=_TAIL_LINES))
        self._children[spec.name] = child
        await self._spawn(child)
        child.watcher = asyncio.create_task(self._watch(child), name=f"child.{spec.name}")

    async def stop(self, *names: str, grace_seconds: float = 20.0) -> list[str]:
        """Send SIGTERM, wait, kill the rest; return the names of the killed ones."""
        children = [self._children[name] for name in names if name in self._children]
        for child in children:
            child.stopping.set()
            self._signal(child, signal.SIGTERM)
        watchers = [child.watcher for child in children if child.watcher is not None]
        if watchers:
            await asyncio.wait(watchers, timeout=grace_seconds)
        killed = [child.spec.name for child in children if self._signal(child, signal.SIGKILL)]
        if watchers:
            await asyncio.wait(watchers)
        for child in children:
            del self._children[child.spec.name]
        return killed

    async def stop_all(self, *, grace_seconds: float = 20.0) -> list[str]:
        """Stop every child, all at once."""
        return await self.stop(*self._children, grace_seconds=grace_seconds)

    async def kill(self, name: str) -> None:
        """End a child with SIGKILL, like a machine that crashes, and do not restart it."""
        child = self._children[name]
        child.stopping.set()
        self._signal(child, signal.SIGKILL)
        if child.watcher is not None:
            await asyncio.wait([child.watcher])
        del self._children[name]

    def freeze(self, name: str) -> None:
        """Stop a child in the middle of what it does (SIGSTOP), like a machine that hangs."""
        self._signal(self._children[name], signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen child go on (SIGCONT)."""
        self._signal(self._children[name], signal.SIGCONT)

    async def _spawn(self, child: _SupervisedProcess) -> None:
        child.process = await asyncio.create_subprocess_exec(
            *child.spec.command,
            *child.spec.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={
                **self._environment,
                "PYTHONUNBUFFERED": "1",
                **child.spec.environment,
                SUPERVISED: "1",
            },
            start_new_session=True,  # Ctrl-C goes to the supervisor, which stops children in order
        )

    async def _watch(self, child: _SupervisedProcess) -> None:
        """Forward a child's output; restart it if it ends without a request."""
        while True:
            began = time.monotonic()
            code = await self._read_to_end(child)
            if child.stopping.is_set():
                return
            if time.monotonic() - began > _STEADY_SECONDS:
                child.crashes = 0
            self._report_crash(child, code)
            if not child.spec.restarts:
                return
            pause = _BACKOFF_SECONDS[min(child.crashes, len(_BACKOFF_SECONDS) - 1)]
            child.crashes += 1
            self._report(child.spec.name, f"restarts in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.stopping.wait(), pause)
            if child.stopping.is_set():
                return
            await self._spawn(child)

    async def _read_to_end(self, child: _SupervisedProcess) -> int:
        process = child.process
        assert process is not None and process.stdout is not None  # noqa: S101, PT018 - spawned with pipes
        rest = b""
        while block := await process.stdout.read(_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            self._take(child, lines)
        self._take(child, [rest] if rest else [])
        return await process.wait()

    def _take(self, child: _SupervisedProcess, lines: Sequence[bytes]) -> None:
        for raw in lines:
            line = raw.decode(errors="replace").rstrip()
            child.tail.append(line)
            self._output(child.spec.name, line)

    def _report_crash(self, child: _SupervisedProcess, code: int) -> None:
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._report(
            child.spec.name, f"ended by itself ({reason}); its last {len(child.tail)} lines:"
        )
        for line in child.tail:
            self._report(child.spec.name, f"  {line}")
        child.tail.clear()

    def _signal(self, child: _SupervisedProcess, number: signal.Signals) -> bool:
        process = child.process
        if process is None or process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
            return True
        return False
