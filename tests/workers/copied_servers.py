"""Postgres servers of a test's own that go back to an earlier state, as after a disaster."""

import asyncio
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from dueledger.ledger.store import Connection, connect
from dueledger.stack.postgres import Postgres, find_binaries
from dueledger.stack.start_progress import StartProgress

Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[object]]

_ALL_IS_REPLAYED = """
select count(*) > 0 and bool_and(replay_lsn = pg_current_wal_lsn()) from pg_stat_replication
"""


def _server(directory: Path) -> Postgres:
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)  # as root, the server runs as another user
    return Postgres(directory, durable=False, steps=StartProgress(None))


@asynccontextmanager
async def _connected(server: Postgres) -> AsyncGenerator[Connection]:
    connection = await connect(server.dsn, application_name="test")
    try:
        yield connection
    finally:
        await connection.close()


async def _run(*command: str | Path) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True)


class CopiedServer(ABC):
    """A Postgres, and a copy of it that takes its place."""

    def __init__(self, directory: Path, eventually: Eventually) -> None:
        directory.chmod(0o711)
        self.directory = directory
        self.eventually = eventually
        self.postgres = _server(directory / "first")

    @abstractmethod
    async def copy(self) -> None:
        """Keep the present state; later commits will be lost."""

    @abstractmethod
    async def restore(self) -> None:
        """Let the copy take the server's place."""

    async def stop(self) -> None:
        await asyncio.to_thread(self.postgres.stop, "immediate")


class ColdCopy(CopiedServer):
    """A copy of the files of the stopped server."""

    async def copy(self) -> None:
        await asyncio.to_thread(self.postgres.stop)
        await _run("cp", "-a", self._cluster, self._kept)
        await asyncio.to_thread(self.postgres.start)

    async def restore(self) -> None:
        await asyncio.to_thread(self.postgres.stop)
        await _run("rm", "-r", self._cluster)
        await _run("mv", self._kept, self._cluster)
        await asyncio.to_thread(self.postgres.start)

    @property
    def _cluster(self) -> Path:
        return self.directory / "first" / "postgres"

    @property
    def _kept(self) -> Path:
        return self.directory / "copy"


class PromotedStandby(CopiedServer):
    """An asynchronous standby, promoted without the last commits of its primary."""

    def __init__(self, directory: Path, eventually: Eventually) -> None:
        super().__init__(directory, eventually)
        self._standby = _server(directory / "standby")

    async def copy(self) -> None:
        await self._make_standby()
        async with _connected(self.postgres) as primary, _connected(self._standby) as standby:

            async def is_level() -> bool:
                return await primary.fetchval(_ALL_IS_REPLAYED)

            async def is_alone() -> bool:
                return not await primary.fetchval("select count(*) from pg_stat_replication")

            await self.eventually(is_level)
            await standby.execute("alter system set primary_conninfo = ''")
            await standby.execute("select pg_reload_conf()")
            await self.eventually(is_alone)

    async def stop(self) -> None:
        await asyncio.to_thread(self._standby.stop, "immediate")
        await super().stop()

    async def restore(self) -> None:
        await asyncio.to_thread(self.postgres.stop, "immediate")
        async with _connected(self._standby) as standby:
            await standby.execute("select pg_promote()")
        self.postgres, self._standby = self._standby, self.postgres

    async def _make_standby(self) -> None:
        first, second = (self.directory / name for name in ("first", "standby"))
        await _run(
            find_binaries() / "pg_basebackup",
            f"--dbname={self.postgres.dsn}",
            f"--pgdata={second / 'postgres'}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        )
        await _run("chown", "-R", f"--reference={first / 'postgres'}", second / "postgres")
        await _run("cp", first / "postgres.password", second)
        await asyncio.to_thread(self._standby.start)


@asynccontextmanager
async def open_copied_server(
    how: type[CopiedServer], eventually: Eventually
) -> AsyncGenerator[CopiedServer]:
    directory = Path(tempfile.mkdtemp(prefix="dueledger-restored-"))
    server = how(directory, eventually)
    try:
        await asyncio.to_thread(server.postgres.start)
        yield server
    finally:
        await server.stop()
        await asyncio.to_thread(shutil.rmtree, directory)
