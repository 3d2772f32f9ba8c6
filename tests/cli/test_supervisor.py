"""Children of a supervisor: restarted with their last words, stopped in order, never orphaned."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from dueledger.dev.supervisor import SUPERVISED, ChildSpec, Supervisor
from dueledger.stack import Endpoints

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]

DIES = "print('one'); print('two'); raise SystemExit(3)"
STAYS = "import sys; print('up', flush=True); sys.stdin.read()"
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); sys.stdin.read(); signal.pause()"
)


class Heard:
    """What a supervisor passed on."""

    def __init__(self) -> None:
        self.output: list[str] = []
        self.remarks: list[str] = []


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def supervisor(heard: Heard) -> AsyncGenerator[Supervisor]:
    supervisor = Supervisor(
        lambda _, line: heard.output.append(line),
        lambda _, line: heard.remarks.append(line),
        environment=dict(os.environ),
    )
    yield supervisor
    await supervisor.stop_all(grace_seconds=0)


def python(text: str) -> ChildSpec:
    return ChildSpec("child", ("-c", text), command=(sys.executable,))


async def test_a_child_that_dies_leaves_its_last_lines_and_is_started_again(
    supervisor: Supervisor, heard: Heard, eventually: Eventually
) -> None:
    await supervisor.start(python(DIES))

    async def began_twice() -> bool:
        return heard.output.count("one") >= 2

    await eventually(began_twice)
    assert heard.remarks[0] == "ended by itself (exit code 3); its last 2 lines:"
    assert heard.remarks[1:4] == ["  one", "  two", "restarts in 0.5 s"]


async def test_a_child_that_was_killed_on_purpose_stays_dead(
    supervisor: Supervisor, heard: Heard, eventually: Eventually
) -> None:
    await supervisor.start(python(STAYS))

    async def up() -> bool:
        return "up" in heard.output

    await eventually(up)
    await supervisor.kill("child")
    assert supervisor.running() == []
    assert heard.remarks == []


async def test_a_child_that_does_not_end_is_killed_and_named(
    supervisor: Supervisor, heard: Heard, eventually: Eventually
) -> None:
    await supervisor.start(python(STUBBORN))

    async def up() -> bool:
        return "up" in heard.output

    await eventually(up)
    assert await supervisor.stop("child", grace_seconds=0.1) == ["child"]
    assert supervisor.running() == []


def test_a_process_ends_with_the_supervisor_that_started_it(
    database: str, stack: Endpoints
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "dueledger", "allocate"],
        env={
            **os.environ,
            SUPERVISED: "1",
            "DUELEDGER_DSN": database,
            "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers,
        },
        input="",  # a pipe that is closed, as the kernel closes a dead supervisor's
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert "process.stopped" in ended.stderr
