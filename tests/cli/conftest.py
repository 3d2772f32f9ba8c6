"""The real command line, as a child process."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from dueledger.stack import Endpoints


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Ran]
Run = Callable[[Path, Mapping[str, str], tuple[str, ...]], Ran]
WARM = Path(__file__).with_name("warm.py")


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("DUELEDGER_")}


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Run]:
    """Run commands as processes that have no imports left to do."""
    out, err = (tmp_path_factory.mktemp("ran") / name for name in ("out", "err"))
    with subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, str(WARM)],
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        requests, answers = _piped(process.stdin), _piped(process.stdout)

        def run(folder: Path, variables: Mapping[str, str], arguments: tuple[str, ...]) -> Ran:
            request = {
                "arguments": arguments,
                "folder": str(folder),
                "environment": {**_environment(), **variables},
                "out": str(out),
                "err": str(err),
            }
            requests.write(f"{json.dumps(request)}\n")
            requests.flush()
            return Ran(int(answers.readline()), out.read_text(), err.read_text())

        yield run


def _piped(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture
def dueledger(tmp_path: Path, warm: Run) -> Command:
    """Run `dueledger` without servers."""
    return _command(tmp_path, {}, warm)


@pytest.fixture
def dueledger_on(tmp_path: Path, database: str, stack: Endpoints, warm: Run) -> Command:
    """Run `dueledger` on a migrated database of the test's own, and Kafka."""
    servers = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    return _command(tmp_path, servers, warm)


@pytest.fixture
async def dueledger_unmigrated(
    tmp_path: Path, stack: Endpoints, warm: Run
) -> AsyncGenerator[Command]:
    """Run `dueledger` on an empty database that was never migrated, and Kafka."""
    name = f"empty_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name}")
    dsn = urlunsplit(urlsplit(stack.dsn)._replace(path=f"/{name}"))
    servers = {"DUELEDGER_DSN": dsn, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    yield _command(tmp_path, servers, warm)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


def _command(folder: Path, servers: dict[str, str], warm: Run) -> Command:
    def run(*arguments: str, **variables: str) -> Ran:
        return warm(folder, servers | variables, arguments)

    return run
