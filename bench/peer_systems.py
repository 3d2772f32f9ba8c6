"""Other job systems, measured beside ours: installed at run time, in versions that are pinned.

Their programs are in ``bench/peers`` of the source checkout. They are copied to the user's cache
and installed there by the package managers of their languages; none is a dependency.
"""

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from bench.processes import Process, log_path, log_tail, stop
from bench.rig import Rig
from bench.usage import Usage
from bench.workload import PAYLOAD
from dueledger.ledger.errors import DueledgerError
from dueledger.stack import kafka_jars

SOURCES: Final = Path(__file__).resolve().parent / "peers"
INSTALL_SECONDS: Final = 900.0
PHASE_SECONDS: Final = 900.0
_INSTALLED: Final = "installed"


class PeerUnavailable(DueledgerError):
    """A peer cannot be installed or run here; the message says why."""

    code = "PEER_UNAVAILABLE"


@final
@dataclass(frozen=True, slots=True)
class Peer:
    """One job system. Commands run in its folder of the cache, where `needs` are on the path."""

    name: str
    folder: str
    needs: tuple[str, ...]
    install: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class PeerRound:
    """The measurements of one round of a peer."""

    items: int
    seconds: float
    load_seconds: float
    usage: Usage

    @property
    def items_per_second(self) -> int:
        """The rate from the last job of the warm-up to the last completion."""
        return round(self.items / self.seconds)


_NPM: Final = (("npm", "install", "--no-audit", "--no-fund", "--no-package-lock"),)
_NODE: Final = ("node_modules/.bin/node", "peer.mjs")

PEERS: Final = (
    Peer("graphile-worker", "graphile-worker", ("npm", "node"), _NPM, _NODE),
    Peer("pg-boss", "pg-boss", ("npm", "node"), _NPM, _NODE),
    Peer(
        "river",
        "river",
        ("go",),
        (("go", "mod", "tidy"), ("go", "build", "-o", "peer", ".")),
        ("./peer",),
    ),
    Peer(
        "pgqueuer",
        "pgqueuer",
        (),
        (
            (sys.executable, "-m", "venv", "venv"),
            ("venv/bin/python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt"),
        ),
        ("venv/bin/python", "peer.py"),
    ),
)


async def install(peer: Peer, rig: Rig) -> Path:
    """Install a peer; return its folder in the cache. Raises PeerUnavailable."""
    source = SOURCES / peer.folder
    if not source.is_dir():
        raise PeerUnavailable("its program is in the source checkout, and this is none")
    for tool in peer.needs:
        if shutil.which(tool) is None:
            raise PeerUnavailable(f"{tool} is not on the path")
    folder = kafka_jars.cache_dir().parent / "bench-peers" / f"{peer.folder}-{_digest(source)}"
    if (folder / _INSTALLED).exists():
        return folder
    rig.say(f"installing {peer.name}")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
    except OSError as error:
        raise PeerUnavailable(f"it cannot be stored in {folder}: {error}") from error
    for command in peer.install:
        async with _started(f"{peer.name}-install", command, folder, rig) as process:
            await _end(process, command[0], f"{peer.name}-install", rig, seconds=INSTALL_SECONDS)
    (folder / _INSTALLED).touch()
    return folder


async def work(peer: Peer, folder: Path, rig: Rig, *, items: int, warm_up: int) -> PeerRound:
    """Load a separate database and complete its jobs. Raises PeerUnavailable."""
    async with rig.database() as dsn:
        total = str(items + warm_up)
        rig.say(f"{peer.name}: loading {items:,} jobs")
        loaded, _usage = await _run(peer, folder, rig, ("load", total), dsn=dsn)
        await rig.rest(dsn)
        rig.say(f"{peer.name}: measuring")
        finished, usage = await _run(peer, folder, rig, ("work", str(items), str(warm_up)), dsn=dsn)
    return PeerRound(items, finished["seconds"], loaded["seconds"], usage)


def _digest(source: Path) -> str:
    """Return the name of an installation, by its files and its machine."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


async def _run(
    peer: Peer, folder: Path, rig: Rig, arguments: Sequence[str], *, dsn: str
) -> tuple[dict[str, Any], Usage]:
    """Run one phase; return its last event, and what was used since it said `measuring`."""
    command = (*peer.command, *arguments)
    environment = {"DUELEDGER_PEER_DSN": dsn, "DUELEDGER_PEER_PAYLOAD": PAYLOAD}
    event: dict[str, Any] = {}
    async with _started(peer.name, command, folder, rig, environment) as process:
        with rig.watching(peer.name, process.pid):
            meter = rig.meter()
            usage = meter.read()
            async with asyncio.timeout(PHASE_SECONDS):
                assert process.stdout is not None  # noqa: S101 - spawned with a pipe
                async for line in process.stdout:
                    event = json.loads(line)
                    if event["event"] == "measuring":
                        meter = rig.meter()
                    usage = meter.read()
            await _end(process, command[0], peer.name, rig, seconds=PHASE_SECONDS)
    return event, usage


@asynccontextmanager
async def _started(
    name: str,
    command: Sequence[str],
    folder: Path,
    rig: Rig,
    environment: dict[str, str] | None = None,
) -> AsyncGenerator[Process]:
    """Run a command in its folder; its standard error goes to its log."""
    installing = environment is None
    with log_path(rig.log_dir, name).open("wb") as log:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if installing else asyncio.subprocess.PIPE,
                stderr=log,
            )
        except OSError as error:
            raise PeerUnavailable(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        yield process
    finally:
        await stop(process)


async def _end(process: Process, program: str, name: str, rig: Rig, *, seconds: float) -> None:
    try:
        code = await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        raise PeerUnavailable(f"{program} did not end within {seconds:.0f} s") from None
    if code != 0:
        tail = "\n".join(log_tail(rig.log_dir, name))
        raise PeerUnavailable(f"{program} ended with {code}:\n{tail}")
