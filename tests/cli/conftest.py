"""The real command line, as a child process."""

import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from dueledger.stack import Endpoints
from tests.forks import ForkServer


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


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("DUELEDGER_")}


@pytest.fixture
def run_command(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run commands as processes that have no imports left to do."""
    out, err = (tmp_path_factory.mktemp("ran") / name for name in ("out", "err"))

    def run(folder: Path, variables: Mapping[str, str], arguments: tuple[str, ...]) -> Ran:
        code = fork_server.run(
            *("-m", "dueledger", *arguments),
            env={**_environment(), **variables},
            cwd=folder,
            out=out,
            err=err,
        )
        return Ran(code, out.read_text(), err.read_text())

    return run


@pytest.fixture
def dueledger(tmp_path: Path, run_command: Run) -> Command:
    """Run `dueledger` without servers."""
    return _command(tmp_path, {}, run_command)


@pytest.fixture
def dueledger_on(tmp_path: Path, database: str, stack: Endpoints, run_command: Run) -> Command:
    """Run `dueledger` on a migrated database of the test's own, and Kafka."""
    servers = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    return _command(tmp_path, servers, run_command)


@pytest.fixture
async def dueledger_unmigrated(
    tmp_path: Path, stack: Endpoints, run_command: Run
) -> AsyncGenerator[Command]:
    """Run `dueledger` on an empty database that was never migrated, and Kafka."""
    name = f"empty_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name}")
    dsn = urlunsplit(urlsplit(stack.dsn)._replace(path=f"/{name}"))
    servers = {"DUELEDGER_DSN": dsn, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    yield _command(tmp_path, servers, run_command)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


def _command(folder: Path, servers: dict[str, str], run_command: Run) -> Command:
    def run(*arguments: str, **variables: str) -> Ran:
        return run_command(folder, servers | variables, arguments)

    return run
