"""The real command line, as a child process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
