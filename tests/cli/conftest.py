"""The real command line, as a child process."""

import json
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from dueledger.stack import Endpoints
from tests.forks import ForkServer


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and which tables it changed if somebody asked."""

    code: int
    out: str
    err: str
    cpu_seconds: float = 0.0
    changed: Sequence[str] = ()

    @property
    def document(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Given:
    """A command's arguments, its variables beside the common ones, and its folder."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    folder: Path


Command = Callable[..., Ran]
RunAll = Callable[..., list[Ran]]
Run = Callable[[Path, Mapping[str, str], tuple[str, ...]], Ran]


_DIGESTS: Final = """
select 'select json_object_agg(x.name, x.digest) from (values ' || string_agg(format(
  '(%1$L, (select md5(string_agg(t::text, '' '' order by t::text)) from ledger.%1$I t))', relname
), ', ') || ') x (name, digest)'
from pg_class
where relnamespace = 'ledger'::regnamespace and relkind in ('r', 'p') and not relispartition
"""
"""Makes a statement that returns a digest of the rows of each table."""


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("DUELEDGER_")}


_SERVE: Final = """
import asyncio, asyncpg, json, os, socket, sys, time, traceback
from dueledger.cli import main

async def read_tables(dsn, digests):
    connection = await asyncpg.connect(dsn)
    found = json.loads(await connection.fetchval(await connection.fetchval(digests)))
    await connection.close()
    return found

wire = socket.socket(socket.AF_UNIX)
wire.connect(sys.argv[1])
for line in wire.makefile():
    arguments, environment, folder, watched, *outputs = json.loads(line)
    for descriptor, name in enumerate(outputs, 1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    began = time.process_time()
    try:
        code = main(arguments) if arguments is not None else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    seconds = time.process_time() - began
    tables = asyncio.run(read_tables(*watched)) if watched else {}
    wire.sendall(b"%s\\n" % json.dumps((code, seconds, tables)).encode())
"""

_ALONE: Final = frozenset(
    {"alert", "allocate", "bench", "demo", "dev", "intake", "relay", "serve", "work"}
)
"""Commands that are processes of their own: they load handlers, and end by signals."""


@dataclass(frozen=True, slots=True)
class CommandProcess:
    """A process that runs commands one after another, as `python -m dueledger` does.

    Tests that run commands take half of the time that they take with a process for each.
    """

    wire: socket.socket
    lock: Lock = field(default_factory=Lock)

    def run(
        self,
        folder: Path,
        variables: Mapping[str, str],
        arguments: Sequence[str] | None,
        outputs: Sequence[Path],
        *,
        watched_dsn: str = "",
    ) -> tuple[int, float, dict[str, str]]:
        """Run a command; return its exit code, its processor time, and digests of the tables."""
        watched = (watched_dsn, _DIGESTS) if watched_dsn else ()
        environment = {**_environment(), **variables}
        files = (str(output) for output in outputs)
        with self.lock, self.wire.makefile("rw") as wire:
            wire.write(f"{json.dumps((arguments, environment, str(folder), watched, *files))}\n")
            wire.flush()
            code, cpu_seconds, tables = json.loads(wire.readline())
            return code, cpu_seconds, tables


@pytest.fixture(scope="module")
async def command_process(
    fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[CommandProcess]:
    folder = tmp_path_factory.mktemp("commands")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "wire"))
        listener.listen(1)
        serving = await fork_server.start(
            *("-c", _SERVE, str(folder / "wire")), env=_environment(), cwd=folder
        )
        wire, _ = listener.accept()
    with wire:
        yield CommandProcess(wire)
    await serving.wait()


@pytest.fixture
def run_command(
    fork_server: ForkServer,
    command_process: CommandProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Run commands; those that are processes, or have a Python path of their own, by themselves."""
    out, err = (tmp_path_factory.mktemp("ran") / name for name in ("out", "err"))

    def run(folder: Path, variables: Mapping[str, str], arguments: tuple[str, ...]) -> Ran:
        if _ALONE.intersection(arguments[:1]) or not all(
            name.startswith("DUELEDGER_") for name in variables
        ):
            code = fork_server.run(
                *("-m", "dueledger", *arguments),
                env={**_environment(), **variables},
                cwd=folder,
                out=out,
                err=err,
            )
        else:
            code, _, _ = command_process.run(folder, variables, arguments, (out, err))
        return Ran(code, out.read_text(), err.read_text())

    return run


@pytest.fixture
def run_all(command_process: CommandProcess, tmp_path_factory: pytest.TempPathFactory) -> RunAll:
    """Run commands; with the address of a ledger, each has the tables that it changed."""
    out, err = outputs = [tmp_path_factory.mktemp("ran_all") / name for name in ("out", "err")]

    def run(given: Sequence[Given], watched_dsn: str = "") -> list[Ran]:
        ran: list[Ran] = []
        _, _, before = command_process.run(out.parent, {}, None, outputs, watched_dsn=watched_dsn)
        for one in given:
            code, cpu_seconds, after = command_process.run(
                one.folder, one.variables, one.arguments, outputs, watched_dsn=watched_dsn
            )
            changed = [name for name in after if after[name] != before[name]]
            ran.append(Ran(code, out.read_text(), err.read_text(), cpu_seconds, changed))
            before = after
        return ran

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
