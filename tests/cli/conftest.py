"""The real command line, as a child process."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
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


@pytest.fixture
def dueledger(tmp_path: Path) -> Command:
    """Run `dueledger` without servers."""
    return _command(tmp_path, {})


@pytest.fixture
def dueledger_on(tmp_path: Path, database: str, stack: Endpoints) -> Command:
    """Run `dueledger` on a migrated database of the test's own, and Kafka."""
    servers = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    return _command(tmp_path, servers)


@pytest.fixture
async def dueledger_unmigrated(tmp_path: Path, stack: Endpoints) -> AsyncGenerator[Command]:
    """Run `dueledger` on an empty database that was never migrated, and Kafka."""
    name = f"empty_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name}")
    dsn = urlunsplit(urlsplit(stack.dsn)._replace(path=f"/{name}"))
    servers = {"DUELEDGER_DSN": dsn, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    yield _command(tmp_path, servers)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


def _command(folder: Path, servers: dict[str, str]) -> Command:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("DUELEDGER_")}

    def run(*arguments: str, **variables: str) -> Ran:
        ended = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "dueledger", *arguments],
            cwd=folder,
            env={**clean, **servers, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return run
